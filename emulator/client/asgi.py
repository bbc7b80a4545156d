"""ASGI applications in this process: calls of the emulator's own and of mounted ones, and their start-up and shutdown.

An application gets what it would get of `httpx.ASGITransport`. The request, the response and the
cookies of an HTTP client would take longer than a call of the emulator does.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import anyio
import httpx
from asgi_lifespan import LifespanManager, LifespanNotSupported

from emulator.api.endpoint import HAS_QUERY
from emulator.client.event_loops import TAKES_UNAWAITED, AsgiApp
from emulator.core.record import Headers, Record

RawHeaders = list[tuple[bytes, bytes]]

_CLIENT = ("127.0.0.1", 123)


class Target(Record):
    """A URL as an application gets it; `netloc` is what its Host header says."""

    scheme: str
    host: str
    port: int | None
    netloc: bytes
    path: str
    raw_path: bytes
    query: bytes
    has_query: bool


@lru_cache(maxsize=1024)
def target_of(url: str, query: tuple[tuple[str, str], ...] = ()) -> Target:
    """A URL, with another query if one is given. Raises httpx.InvalidURL."""
    read = httpx.URL(url, params=query) if query else httpx.URL(url)
    return Target(
        scheme=read.scheme,
        host=read.host,
        port=read.port,
        netloc=read.netloc,
        path=read.path,
        raw_path=read.raw_path.partition(b"?")[0],
        query=read.query,
        has_query=b"?" in read.raw_path,
    )


def raw_headers(headers: Headers | Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as an application gets them. Values are sent in UTF-8."""
    return [(name.lower().encode("latin-1"), value.encode()) for name, value in headers]


class Exchange:
    """One request, and what has been answered so far: `status` is None until the answer begins."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._pieces: list[bytes] = []
        self.is_over = False
        self._end: anyio.Event | None = None
        self.status: int | None = None
        self.headers: RawHeaders = []

    @property
    def body(self) -> bytes:
        """The body of the answer."""
        return b"".join(self._pieces)

    def final_status(self) -> int:
        """The status of the whole answer. Raises RuntimeError if there is none."""
        if self.status is None or not self.is_over:
            raise RuntimeError("the application ended before its answer did")
        return self.status

    async def run(self, app: AsgiApp, method: str, target: Target, headers: RawHeaders) -> None:
        """Call the application. Raises whatever it raises."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "headers": headers,
            "scheme": target.scheme,
            "path": target.path,
            "raw_path": target.raw_path,
            "query_string": target.query,
            "server": (target.host, target.port),
            "client": _CLIENT,
            "root_path": "",
            HAS_QUERY: target.has_query,
        }
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Mapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.is_over:
            # Most applications never wait for this.
            self._end = self._end or anyio.Event()
            await self._end.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self.status is not None:
                raise RuntimeError("the application began its answer twice")
            self.status = message["status"]
            self.headers = list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            if self.is_over:
                raise RuntimeError("the application continued its answer after its end")
            self._pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                self.is_over = True
                if self._end is not None:
                    self._end.set()


class InProcessTransport(httpx.AsyncBaseTransport):
    """As `httpx.ASGITransport`, which drops the question mark of an empty query."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._plain = httpx.ASGITransport(app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.raw_path.endswith(b"?"):
            return await self._plain.handle_async_request(request)

        async def with_query(scope: Any, receive: Any, send: Any) -> None:
            await self._app({**scope, HAS_QUERY: True}, receive, send)

        return await httpx.ASGITransport(with_query).handle_async_request(request)


logger = logging.getLogger(__name__)


class BrokeOut(Exception):
    """The application raised `error`, which is no Exception: as such it would end the task or the loop it passes."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


def _answering(app: AsgiApp, is_given_up: Callable[[], bool]) -> AsgiApp:
    """The application, for the manager that waits for answers about its lifespan.

    One that returns without an answer, or answers as it would a request, does not implement the protocol,
    and is not waited for. Servers treat it in the same way. `is_given_up` says whether its task is being cancelled
    from here; otherwise the application did that itself.
    """

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        answers = {}

        async def send_own(message: Any) -> None:
            kind = message["type"]
            if not kind.startswith("lifespan."):
                raise LifespanNotSupported(f"the application answered its start-up with {kind}")
            answers[kind] = message
            await send(message)

        try:
            await app(scope, receive, send_own)
        except BaseException as error:
            # The manager cancels what an application does after its last answer.
            is_cancelled = is_given_up() or "lifespan.shutdown.complete" in answers
            if isinstance(error, Exception | GeneratorExit) or is_cancelled:
                raise
            raise BrokeOut(error) from error
        if failed := answers.get("lifespan.startup.failed"):
            raise RuntimeError(f"the application did not start: {failed.get('message', '')}")
        if "lifespan.startup.complete" not in answers:
            raise LifespanNotSupported("the application did not answer its start-up")
        if failed := answers.get("lifespan.shutdown.failed"):
            raise RuntimeError(f"the application did not shut down: {failed.get('message', '')}")
        await send({"type": "lifespan.shutdown.complete"})

    return answering


class Lifespan:
    """One application's lifespan, in its own task. Begin and end it on the same event loop.

    It has no time limits of its own: `begin` and `end` may be cancelled, which ends it.
    """

    def __init__(self, app: AsgiApp, broke: Callable[[BaseException], None]) -> None:
        self.app = app
        self._broke = broke
        self._over = asyncio.Event()
        self._is_given_up = False
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        context = contextvars.copy_context()
        context.run(TAKES_UNAWAITED.set, broke)
        self._task = loop.create_task(self._run(), name="lifespan of a mounted app", context=context)

    @staticmethod
    async def begin(app: AsgiApp, broke: Callable[[BaseException], None]) -> Lifespan:
        """Start the application up, if it implements the lifespan protocol.

        Raises whatever its start-up raises, BrokeOut for what is no Exception. What its shutdown raises, or a
        task of it that nothing awaits, is given to `broke`.
        """
        lifespan = Lifespan(app, broke)
        try:
            await lifespan._started
        except asyncio.CancelledError:
            lifespan._give_up()
            raise
        return lifespan

    async def _run(self) -> None:
        try:
            async with LifespanManager(_answering(self.app, lambda: self._is_given_up), None, None) as manager:
                # This wrapper adds the state of the start-up to every request.
                self.app = manager.app
                self._started.set_result(None)
                await self._over.wait()
        except LifespanNotSupported as unsupported:
            if isinstance(unsupported.__cause__, BrokeOut):
                self._failed(unsupported.__cause__)
            elif not self._started.done():
                self._started.set_result(None)
        except Exception as error:  # An edge: what the user's application raises.
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not self._started.done():
            self._started.set_exception(error)
            return
        raised = error.error if isinstance(error, BrokeOut) else error
        logger.error("the shutdown of a mounted application failed", exc_info=raised)
        self._broke(raised)

    async def end(self) -> None:
        """Shut it down, and wait for that."""
        self._over.set()
        try:
            await asyncio.wait((self._task,))
        except asyncio.CancelledError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._is_given_up = True
        self._task.cancel()
