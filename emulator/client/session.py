"""One world on a server, as a test uses it: every operation of the Python API, once.

The coroutines run on the server's background loop; the two faces, `Emulator` and `AsyncEmulator`,
hand them there and wait, each in its own way.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import msgspec

from emulator.client.background import Background
from emulator.client.errors import is_told
from emulator.client.records import Delivery, Dialect, read_delivery
from emulator.client.server import Options, Server, check_options
from emulator.client.values import Duration, Instant, duration, instant
from emulator.client.verify.verifying import timeline_of
from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
from emulator.wire.dialect import Environment
from emulator.worlds.setup import DEFAULT

__tracebackhide__ = is_told

_PAGE = "1000"
_NOTHING: Any = object()


class Session:
    """A world and the way to it. Made by `open_session` and `new_world`.

    Every call raises Refused with what the emulator says, and Unreachable if it does not answer.
    """

    def __init__(self, server: Server, world: str, credentials: Mapping[str, Any]) -> None:
        """`credentials` are as the control API shows them."""
        self.server = server
        self.world = world
        self._take_in(credentials)

    def _take_in(self, credentials: Mapping[str, Any]) -> None:
        self.credentials = _read_credentials(credentials)
        self.environment = msgspec.convert(credentials["environment"], Environment)
        self.dialect = msgspec.convert(credentials["dialect"], Dialect)

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the dialect's clients read."""
        return self.environment.variables(
            url=self.server.url,
            token=self.credentials.token,
            current_signing_key=self.credentials.current_signing_key,
            next_signing_key=self.credentials.next_signing_key,
        )

    async def _refresh(self) -> None:
        """The world may have got other tokens and keys."""
        self._take_in(await self._control("GET", "credentials"))

    # -- calls ------------------------------------------------------------------------------

    async def _control(
        self, method: str, path: str, body: Any = _NOTHING, query: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of a control call in this world, None without any. Raises Refused and Unreachable."""
        content = None if body is _NOTHING else json.dumps(body).encode()
        answer = await self.server.request(
            method, f"/_emulator/{path}", query={"world": self.world, **(query or {})}, content=content
        )
        return answer.json() if answer.content else None

    async def call(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> httpx.Response:
        """A messaging call in this world's name; it may change tokens and keys."""
        bearer = {"Authorization": f"Bearer {self.credentials.token}"}
        answer = await self.server.request(method, path, content=content, headers={**bearer, **headers})
        if method != "GET":
            await self._refresh()
        return answer

    async def publish(self, destination: str, content: bytes | None, headers: Mapping[str, str]) -> list[str]:
        """The ids of the messages that a publish made. Raises Refused."""
        answer = await self.server.request(
            "POST",
            f"/v2/publish/{destination}",
            content=content,
            headers={"Authorization": f"Bearer {self.credentials.token}", **headers},
        )
        made = answer.json()
        return [each["messageId"] for each in (made if isinstance(made, list) else [made])]

    # -- the clock --------------------------------------------------------------------------

    async def clock(self) -> ClockStatus:
        """Where the clock stands."""
        return msgspec.convert(await self._control("GET", "clock"), ClockStatus)

    async def set_clock(self, *, rate: float | None = None, now: Instant | None = None) -> ClockStatus:
        """Change the pace, the instant (which moves forward with all its work), or both."""
        change: dict[str, Any] = {} if rate is None else {"rate": rate}
        if now is not None:
            change["now"] = instant(now)
        return msgspec.convert(await self._control("PUT", "clock", change), ClockStatus)

    async def advance(self, by: Duration | None, to: Instant | None, max_deliveries: int | None) -> AdvanceReport:
        """Move the clock by a duration or to an instant, exactly one of them, doing all due work on the way."""
        wanted: dict[str, Any] = {}
        if by is not None:
            wanted["by"] = duration(by)
        if to is not None:
            wanted["to"] = instant(to)
        if max_deliveries is not None:
            wanted["max_deliveries"] = max_deliveries
        return _report(await self._control("POST", "clock/advance", wanted))

    async def next(self) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it."""
        return _report(await self._control("POST", "clock/next"))

    async def drain(self, horizon: Duration | None) -> AdvanceReport:
        """Run until nothing is due but schedules; None stands for the server's horizon."""
        wanted = {} if horizon is None else {"horizon": duration(horizon)}
        return _report(await self._control("POST", "clock/drain", wanted))

    # -- destinations -----------------------------------------------------------------------

    async def add_rule(self, rule: Mapping[str, Any]) -> str:
        """Append a destination rule; its id."""
        added: str = (await self._control("POST", "destinations", rule))["id"]
        return added

    async def rules(self) -> list[dict[str, Any]]:
        """The destination rules, in the order in which they are asked."""
        listed: list[dict[str, Any]] = (await self._control("GET", "destinations"))["destinations"]
        return listed

    async def remove_rule(self, rule_id: str) -> None:
        """Remove one destination rule."""
        await self._control("DELETE", f"destinations/{quote(rule_id, safe='')}")

    async def remove_rules(self) -> None:
        """Remove all destination rules."""
        await self._control("DELETE", "destinations")

    # -- deliveries -------------------------------------------------------------------------

    async def deliveries(
        self, *, url: str | None = None, message_id: str | None = None, outcome: str | None = None
    ) -> list[Delivery]:
        """All attempts that fit, page after page, the newest last."""
        query = {"url": url, "message_id": message_id, "outcome": outcome}
        given = {name: value for name, value in query.items() if value is not None}
        found: list[Delivery] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self._control(
                "GET", "deliveries", query={**given, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            )
            found += map(read_delivery, page["deliveries"])
            cursor = page["cursor"]
        return found

    async def clear_deliveries(self) -> None:
        """Empty the delivery journal."""
        await self._control("DELETE", "deliveries")

    async def timeline(self) -> str:
        """What was delivered and what is still to come, as text."""
        return await timeline_of(self)

    # -- looking ahead and back -------------------------------------------------------------

    async def upcoming(self, until: Instant | None) -> Any:
        """All due work to come."""
        return await self._control("GET", "upcoming", query={} if until is None else {"until": str(instant(until))})

    async def explain(self, message_id: str) -> Any:
        """The reason chain of a message."""
        return await self._control("GET", f"messages/{quote(message_id, safe='')}/explain")

    async def trace(self) -> str:
        """The canonical trace, as text."""
        return (await self.server.request("GET", "/_emulator/trace", query={"world": self.world})).text

    async def current_credentials(self) -> Credentials:
        """Those that are valid now; signing keys may have been rotated since the session began."""
        return _read_credentials(await self._control("GET", "credentials"))

    # -- accounts ---------------------------------------------------------------------------

    async def accounts(self) -> list[dict[str, Any]]:
        """The queue accounts; the first is the built-in one."""
        listed: list[dict[str, Any]] = (await self._control("GET", "accounts"))["accounts"]
        return listed

    async def change_account(self, account_id: str | None, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change fields of an account, None being the built-in one; the record afterwards."""
        name = quote(account_id or self.credentials.account_id, safe="")
        changed: dict[str, Any] = await self._control("PUT", f"accounts/{name}", changes)
        await self._refresh()
        return changed

    # -- the world --------------------------------------------------------------------------

    async def reset(self, fixtures: Mapping[str, Any] | None) -> None:
        """Make the world as it was created."""
        await self._control("POST", "reset", {} if fixtures is None else {"fixtures": fixtures})
        await self._refresh()

    async def save_snapshot(self, name: str) -> Snapshot:
        """Save the world under a new name."""
        return _snapshot(await self._control("POST", "snapshots", {"name": name}))

    async def snapshots(self) -> list[Snapshot]:
        """The world's snapshots."""
        return [_snapshot(each) for each in (await self._control("GET", "snapshots"))["snapshots"]]

    async def restore_snapshot(self, name: str) -> None:
        """Make the world what it was at a save."""
        await self._control("POST", f"snapshots/{quote(name, safe='')}/restore")
        await self._refresh()

    async def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot."""
        await self._control("DELETE", f"snapshots/{quote(name, safe='')}")

    async def export_snapshot(self, name: str, file: Path) -> None:
        """Write a snapshot to a file. Raises OSError."""
        path = f"/_emulator/snapshots/{quote(name, safe='')}/file"
        answer = await self.server.request("GET", path, query={"world": self.world})
        await asyncio.to_thread(file.write_bytes, answer.content)

    async def import_snapshot(self, name: str, file: Path) -> Snapshot:
        """Take a file in as a snapshot. Raises OSError."""
        path = f"/_emulator/snapshots/{quote(name, safe='')}/file"
        content = await asyncio.to_thread(file.read_bytes)
        return _snapshot((await self.server.request("PUT", path, query={"world": self.world}, content=content)).json())

    async def new_world(self, wanted: Mapping[str, Any]) -> Session:
        """Make another world of the same server."""
        made = (await self.server.request("POST", "/_emulator/worlds", content=json.dumps(wanted).encode())).json()
        return await open_session(self.server, made["id"])

    async def delete_world(self) -> None:
        """Remove the world with everything in it, its mounts first."""
        if self.server.is_own:
            await self.server.unmount_all(self.world)
        await self.server.request("DELETE", f"/_emulator/worlds/{quote(self.world, safe='')}")


# -- how a session begins and ends ----------------------------------------------------------------


class Running(Protocol):
    """A face of the Python API that has begun. Raises EmulatorError if it has not, or has ended."""

    def _here(self) -> Session: ...


class SessionSource(Protocol):
    """How a session comes to be, and what ends with it."""

    def begin(self) -> Future[Session]: ...
    def end(self, session: Session) -> Future[None]: ...


@dataclass(frozen=True, slots=True)
class Started:
    """A server in this process; the session is its default world."""

    options: Options

    def __post_init__(self) -> None:
        check_options(self.options)

    def begin(self) -> Future[Session]:
        background = Background("emulator")
        return background.submit(_opened(background, Server.start(background, self.options), DEFAULT))

    def end(self, session: Session) -> Future[None]:
        return session.server.background.submit(session.server.end())


@dataclass(frozen=True, slots=True)
class Connected:
    """A world of a server that runs elsewhere."""

    url: str
    control_token: str | None
    world: str
    verify: ssl.SSLContext | bool

    def begin(self) -> Future[Session]:
        background = Background("emulator client")
        server = Server.connect(background, self.url, self.control_token, self.verify)
        return background.submit(_opened(background, server, self.world))

    def end(self, session: Session) -> Future[None]:
        return session.server.background.submit(session.server.end())


@dataclass(frozen=True, slots=True)
class NewWorld:
    """A further world of a server that another session uses."""

    parent: Session
    wanted: Mapping[str, Any]

    def begin(self) -> Future[Session]:
        return self.parent.server.background.submit(self.parent.new_world(self.wanted))

    def end(self, session: Session) -> Future[None]:
        return session.server.background.submit(session.delete_world())


@dataclass(frozen=True, slots=True)
class Shared:
    """The session of another face, which is the one to end it."""

    session: Session

    def begin(self) -> Future[Session]:
        found: Future[Session] = Future()
        found.set_result(self.session)
        return found

    def end(self, session: Session) -> Future[None]:
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing


async def _opened(background: Background, opening: Coroutine[Any, Any, Server], world: str) -> Session:
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


async def open_session(server: Server, world: str) -> Session:
    """The world with this id. Raises Refused for one that does not exist."""
    answer = await server.request("GET", "/_emulator/credentials", query={"world": world})
    return Session(server, world, answer.json())


def _snapshot(answer: Mapping[str, Any]) -> Snapshot:
    return msgspec.convert({**answer, "now_ms": answer["created_ms"]}, Snapshot)


def _report(answer: Mapping[str, Any]) -> AdvanceReport:
    return msgspec.convert({"stopped": None, "idle": None, **answer}, AdvanceReport)


def _read_credentials(answer: Mapping[str, Any]) -> Credentials:
    return msgspec.convert(
        {
            **answer["queue"],
            **answer["management"],
            "search_index_ids": answer["search_index_ids"],
            "vector_index_ids": answer["vector_index_ids"],
        },
        Credentials,
    )
