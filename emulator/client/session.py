"""One world of a server: the calls that the Python API makes about it.

The coroutines run on the server's background loop. `Emulator` and `AsyncEmulator` submit them
there and wait for them, each in its own way.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import httpx
import msgspec

from emulator.client import pages
from emulator.client.arguments import check_names, given
from emulator.client.control import ControlApi, HttpAnswer, RawBody, answer_of, segment
from emulator.client.errors import Mode, Refused, is_emulator_error
from emulator.client.event_loops import Background
from emulator.client.records import (
    Delivery,
    Dialect,
    Journal,
    RunDeadLetter,
    WorkflowRun,
    read_credentials,
    read_deliveries,
    read_env,
    read_run,
)
from emulator.client.resources import DeadLetter, Event, MessageStatus, read
from emulator.client.server import Options, Server
from emulator.queries.reports import ClockStatus, Credentials
from emulator.worlds.setup import DEFAULT

T = TypeVar("T")

__tracebackhide__ = is_emulator_error

_PAGE = "1000"
_LOST = "the server that had it has ended or was started again, and the world is lost: run the test again"
_PIECE_BYTES = 1024 * 1024


class Session:
    """One world on a server. Made by `open_session`.

    Every call raises Refused with what the emulator says, and Unreachable if it does not answer.
    """

    def __init__(self, server: Server, world: str, token: str | None = None) -> None:
        """`token` is the world's, if its maker chose it."""
        self.server = server
        self.errors = server.errors_of(world)
        self.api = ControlApi(url=server.url, world=world, token=server.control_token, world_token=token)
        self._answer: Mapping[str, Any] = {}
        # The ids of the destination rules that were made here.
        self.rules: set[str] = set()
        # As of the last refresh: the credentials, and the names on the server's wire.
        self.credentials: Credentials
        self.dialect: Dialect

    @property
    def world(self) -> str:
        """The world's id."""
        return self.api.world

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the dialect's clients read."""
        return read_env(self._answer, self.server.url)

    async def refresh(self) -> Credentials:
        """Read tokens and keys again, which may have changed; the new ones."""
        return self._take(await self.control("GET", "credentials"))

    def _take(self, answer: Mapping[str, Any]) -> Credentials:
        self._answer = answer
        self.credentials = read_credentials(answer)
        self.dialect = msgspec.convert(answer["dialect"], Dialect)
        return self.credentials

    async def made(self, path: str, wanted: Mapping[str, Any], token: str | None) -> Session:
        """Make a world of the same server by a control call. `token` is the world's, if it is chosen here."""
        maker = self if path != "worlds" else Session(self.server, self.world, token)
        answer = await maker.control("POST", path, wanted)
        session = Session(self.server, answer["id"], token)
        # The names on the wire are the server's. Another call for what the answer says would cost half of a test.
        session._take({**self._answer, **answer["credentials"]})
        return session

    # -- calls ------------------------------------------------------------------------------

    async def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Any call; see `ControlApi.call`."""
        with self.api.failures():
            answer = await self.server.exchange(
                self.api.call(method, path, body, query=query, content=content, headers=headers)
            )
        await self._check(answer, path)
        return answer

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: RawBody | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Any call as one of httpx, whose content may come in pieces; see `ControlApi.call`."""
        http = self.server.http
        with self.api.failures():
            response = await http.send(self.api.call(method, path, headers=headers).request(http, content=content))
        await self._check(answer_of(response), path)
        return response

    async def _check(self, answer: HttpAnswer, path: str) -> None:
        try:
            self.api.check(answer)
        except Refused as refused:
            if await self._is_lost(path, refused):
                raise Refused(
                    f"world {self.world} not found; {_LOST}", status=refused.status, next=refused.next
                ) from None
            raise

    async def _is_lost(self, path: str, refused: Refused) -> bool:
        """Whether a call was refused because the world, which was made here, is on no server any more."""
        # D-436.
        if self.api.world_token is None or path == "worlds":
            return False
        if refused.status == HTTPStatus.UNAUTHORIZED and path.startswith("/"):
            with self.api.failures():
                asked = self.api.call("GET", f"worlds/{segment(self.world)}")
                return (await self.server.exchange(asked)).status == HTTPStatus.NOT_FOUND
        return refused.status == HTTPStatus.NOT_FOUND and str(refused).startswith(f"world {self.world} not found")

    async def control(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        refresh: bool = False,
    ) -> Any:
        """The JSON of a control call, None without content; `refresh` is for a call that may change credentials."""
        answer = self.api.read(await self.exchange(method, path, body, query=query))
        if refresh:
            await self.refresh()
        return answer

    async def messaging(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of a call of the messaging API with the world's token, None without content.

        A `body` is sent as JSON.
        """
        answer = await self.exchange(
            method, path, body, query=query, content=content, headers=self._with_token(headers)
        )
        return answer.json() if answer.body else None

    async def messaging_response(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        """A call of the messaging API with the world's token, as one of httpx."""
        return await self.request(method, path, content=content, headers=self._with_token(headers))

    def _with_token(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.credentials.token}", **(headers or {})}

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of the world's event stream, from now on."""
        async with self._streamed(self.server.streams, "stream") as response:
            yield response.aiter_lines()

    @asynccontextmanager
    async def _streamed(self, http: httpx.AsyncClient, path: str) -> AsyncIterator[httpx.Response]:
        """The answer to a control call whose body is not read yet."""
        with self.api.failures():
            response = await http.send(self.api.call("GET", path).request(http), stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                    self.api.check(answer_of(response))
                yield response
            finally:
                await response.aclose()

    # -- reading ----------------------------------------------------------------------------

    async def clock(self) -> ClockStatus:
        """Where the clock stands."""
        return msgspec.convert(await self.control("GET", "clock"), ClockStatus)

    async def deliveries(self, **query: str | None) -> list[Delivery]:
        """All attempts that fit the filters of the control API, page after page, the newest last."""
        return (await self.journal(**query)).deliveries

    async def journal(self, **query: str | None) -> Journal:
        """The same, and since when history is kept."""

        async def page(query: pages.Query) -> pages.Answer:
            journal, cursor = read_deliveries((await self.exchange("GET", "deliveries", query=query)).body)
            return {"deliveries": journal.deliveries, "dropped_ms": journal.dropped_ms, "cursor": cursor}

        whole = await pages.read_async(pages.reading("deliveries", given(query)), page)
        return Journal(deliveries=whole["deliveries"], dropped_ms=whole["dropped_ms"])

    async def newest_deliveries(self) -> Journal:
        """The newest attempts, at most a page of them, and how many there are."""
        query = {"order": "latestFirst", "limit": _PAGE, "count": "true"}
        page, _ = read_deliveries((await self.exchange("GET", "deliveries", query=query)).body)
        return replace(page, deliveries=page.deliveries[::-1])

    async def entries(self, path: str, name: str, query: Mapping[str, str], most: int | None = None) -> dict[str, Any]:
        """A list of the control API, whole or its first `most` entries, as one answer; see `pages.reading`."""
        return await pages.read_async(
            pages.reading(name, query, most), lambda page: self.control("GET", path, query=page)
        )

    async def _entries_of_service(self, path: str, name: str, query: Mapping[str, str], largest: int) -> list[Any]:
        """A whole list of the messaging API, whose pages have at most `largest` entries."""
        whole = await pages.read_async(
            pages.reading(name, query, size="count", largest=largest),
            lambda page: self.messaging("GET", path, query=page),
        )
        entries: list[Any] = whole[name]
        return entries

    # The control API has the newest first, Python has them last (D-484).

    async def message_statuses(self, **query: str | None) -> tuple[list[MessageStatus], int | None]:
        """The messages that fit the filters of the control API, the newest last; since when history is kept."""
        whole = await self.entries("messages", "messages", given(query))
        return msgspec.convert(whole["messages"][::-1], list[MessageStatus]), _dropped_ms(whole)

    async def workflow_runs(self, **query: str | None) -> tuple[list[WorkflowRun], int | None]:
        """The same of workflow runs, without their steps."""
        whole = await self.entries("runs", "runs", {**given(query), "redact": "false"})
        return [read_run(each) for each in whole["runs"][::-1]], _dropped_ms(whole)

    async def run_dead_letters(self, **query: str | None) -> list[RunDeadLetter]:
        """The dead letters of workflow runs that fit the filters of the control API, the oldest first."""
        whole = await self.entries("dead-letters", "dead_letters", {**given(query), "kind": "run"})
        return msgspec.convert(whole["dead_letters"][::-1], list[RunDeadLetter])

    async def event_log(self, name: Literal["events", "logs"], query: Mapping[str, str]) -> list[Event]:
        """The entries of the service's log that fit its filters, by one of its names; the newest last."""
        largest = 1_000 if name == "events" else 100
        entries = await self._entries_of_service(f"/v2/{name}", name, {**query, "order": "earliestFirst"}, largest)
        return [read(Event, each) for each in entries]

    async def dead_letters(self, query: Mapping[str, str]) -> list[DeadLetter]:
        """The dead letters that fit the service's filters, the oldest first."""
        entries = await self._entries_of_service("/v2/dlq", "messages", query, largest=100)
        return [read(DeadLetter, each) for each in entries]

    async def explain(self, message_id: str) -> Any:
        """The reason chain of a message."""
        return await self.control("GET", f"messages/{segment(message_id)}/explain")

    # -- snapshots in files -----------------------------------------------------------------

    async def export_snapshot(self, name: str, file: Path) -> None:
        """Write a snapshot to a file, which is there when it is complete. Raises OSError."""
        path = f"snapshots/{segment(name)}/file"
        part = file.with_name(f".{file.name}.part")
        try:
            with await asyncio.to_thread(part.open, "wb") as opened:
                async with self._streamed(self.server.streams, path) as answer:
                    async for piece in answer.aiter_bytes(_PIECE_BYTES):
                        await asyncio.to_thread(opened.write, piece)
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)

    async def import_snapshot(self, name: str, file: Path) -> Any:
        """Take a file in as a snapshot; the snapshot's JSON. Raises OSError."""
        with await asyncio.to_thread(file.open, "rb") as opened:

            async def pieces() -> AsyncIterator[bytes]:
                while piece := await asyncio.to_thread(opened.read, _PIECE_BYTES):
                    yield piece

            answer = await self.request("PUT", f"snapshots/{segment(name)}/file", content=pieces())
            return self.api.read(answer_of(answer))


def _dropped_ms(answer: Mapping[str, Any]) -> int | None:
    """Up to when history is not kept that a list would have."""
    return answer["dropped"]["until_ms"] if "dropped" in answer else None


# -- how a session begins and ends ----------------------------------------------------------------


class Running(Protocol):
    """An `Emulator` or `AsyncEmulator`. `session` raises EmulatorError unless it runs."""

    @property
    def session(self) -> Session: ...


@dataclass(frozen=True, slots=True)
class SessionSource:
    """How a session is opened, and what closing it ends."""

    begin: Callable[[], Future[Session]]
    end: Callable[[Session], Future[None]]


def started(options: Options) -> SessionSource:
    """A server in this process; the session is its default world. Raises TypeError for an unknown option."""
    check_names(options, Options.__annotations__)

    def begin() -> Future[Session]:
        background = Background("emulator")
        return background.submit(_first_session(background, Server.start(background, options), DEFAULT))

    return SessionSource(begin, _end_server)


def connected(url: str, control_token: str | None, world: str, verify: ssl.SSLContext | bool) -> SessionSource:
    """A world of a server that runs elsewhere."""

    def begin() -> Future[Session]:
        background = Background("emulator client")
        server = Server.connect(background, url, control_token, verify)
        return background.submit(_first_session(background, server, world))

    return SessionSource(begin, _end_server)


def new_world(parent: Session, wanted: Mapping[str, Any], mode: Mode | None = None) -> SessionSource:
    """Another world of the server of `parent`, deleted at the end with everything in it.

    `mode` is how errors of its mounted code reach the test, that of `parent` if it is None.
    """

    token = wanted.get("token")
    if token is not None and "id" not in wanted:
        # Behind a load balancer every server would begin to count at the same number (D-436).
        wanted = {**wanted, "id": f"world-{sha256(str(token).encode()).hexdigest()[:16]}"}

    return _deleted_at_the_end(parent, lambda: parent.made("worlds", wanted, token), mode)


def fork(parent: Session, wanted: Mapping[str, Any]) -> SessionSource:
    """A world that continues from where that of `parent` is, deleted at the end with everything in it."""
    path, token = f"worlds/{segment(parent.world)}/fork", wanted.get("token")
    return _deleted_at_the_end(parent, lambda: parent.made(path, wanted, token))


def _deleted_at_the_end(
    parent: Session, make: Callable[[], Coroutine[Any, Any, Session]], mode: Mode | None = None
) -> SessionSource:
    async def begin() -> Session:
        session = await make()
        session.errors.mode = mode or parent.errors.mode
        return session

    async def delete(session: Session) -> None:
        if session.server.is_own:
            await session.server.unmount_all(session.world)
        session.server.forget_errors_of(session.world)
        try:
            await session.control("DELETE", f"worlds/{segment(session.world)}")
        except Refused as refused:
            # Its server has ended, and the world with it.
            if not str(refused).endswith(_LOST):
                raise

    submit = parent.server.background.submit
    return SessionSource(lambda: submit(begin()), lambda session: submit(delete(session)))


def shared(session: Session) -> SessionSource:
    """The session of another emulator object, which ends it."""
    return SessionSource(lambda: _done(session), lambda _: _done(None))


async def open_session(server: Server, world: str) -> Session:
    """The world with this id. Raises Refused for one that does not exist, NotAnEmulator for another program."""
    session = Session(server, world)
    answer = await session.exchange("GET", "health")
    if session.api.read(answer).get("status") not in ("ok", "degraded"):
        raise session.api.not_an_emulator_error(answer)
    await session.refresh()
    return session


async def _first_session(background: Background, opening: Coroutine[Any, Any, Server], world: str) -> Session:
    try:
        server = await opening
        try:
            return await open_session(server, world)
        except BaseException:
            await server.end()
            raise
    except BaseException:
        background.close()
        raise


def _end_server(session: Session) -> Future[None]:
    server = session.server

    async def end() -> None:
        try:
            await server.end()
        finally:
            # Nobody has closed these worlds.
            session.errors.take_over(server.errors_of_others(session.world))

    return server.background.submit(end())


def _done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future
