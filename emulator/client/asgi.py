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

from emulator.api.endpoint import HAS_QUERY
from emulator.client.errors import LoopMisuse
from emulator.client.event_loops import TAKES_UNAWAITED, AsgiApp, TakesErrors, protect
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


class _NotSupported(Exception):
    """The application does not implement the lifespan protocol."""


_STARTED, _START_FAILED = "lifespan.startup.complete", "lifespan.startup.failed"
_ENDED, _END_FAILED = "lifespan.shutdown.complete", "lifespan.shutdown.failed"

# Real time in which an application may end after its last answer, before it is cancelled.
_AFTERWARDS_S = 0.1


class Lifespan:
    """One application's lifespan, in its own task. Begin and end it on the same event loop.

    It has no time limits of its own: `begin` and `end` may be cancelled, which ends it. An application that returns
    without an answer, answers as it would a request, or raises before it has received anything, does not implement
    the protocol and is not waited for, as servers do.
    """

    def __init__(self, app: AsgiApp, world: str, broke: Callable[[BaseException], None]) -> None:
        loop = asyncio.get_running_loop()
        self._app = app
        self._state: dict[str, Any] = {}
        self._broke = broke
        self._answers: dict[str, str] = {}
        self._has_received = False
        self._is_given_up = False
        self._error: BaseException | None = None
        # It has answered its start-up, or ended.
        self._started = asyncio.Event()
        # It may be shut down; it was told so; it has answered, or ended.
        self._over = asyncio.Event()
        self._is_told = False
        self._stopped = asyncio.Event()
        # It waits for something that does not come any more.
        self._idle = asyncio.Event()
        context = contextvars.copy_context()
        context.run(TAKES_UNAWAITED.set, TakesErrors(world, broke))
        self._task = loop.create_task(self._run(), name="lifespan of a mounted app", context=context)
        protect(self._task)

    @staticmethod
    async def begin(app: AsgiApp, world: str, broke: Callable[[BaseException], None]) -> Lifespan:
        """Start the application of a world up, if it implements the lifespan protocol.

        Raises whatever its start-up raises, BrokeOut for what is no Exception. What it raises later, or a
        task of it that nothing awaits, is given to `broke`.
        """
        lifespan = Lifespan(app, world, broke)
        try:
            await lifespan._started.wait()
            if _START_FAILED in lifespan._answers:
                await lifespan._settle()
        except asyncio.CancelledError:
            lifespan._give_up()
            raise
        error = lifespan._error
        if _STARTED not in lifespan._answers and error is not None:
            raise error if isinstance(error, Exception) else BrokeOut(error)
        if _START_FAILED in lifespan._answers:
            raise RuntimeError(f"the application did not start: {lifespan._answers[_START_FAILED]}")
        return lifespan

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, whose requests have the state that its start-up made."""
        if self._state:
            scope = {**scope, "state": {**self._state, **scope.get("state", {})}}
        await self._app(scope, receive, send)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._app(scope, self._receive, self._send)
        except BaseException as error:  # An edge: whatever the user's application raises.
            is_closed = isinstance(error, GeneratorExit) and asyncio.current_task() is not self._task
            if is_closed or (self._is_given_up and isinstance(error, asyncio.CancelledError)):
                raise
            if _STARTED in self._answers:
                self._failed(error)
            elif self._is_supported(error):
                self._error = error
        finally:
            self._started.set()
            self._stopped.set()

    def _is_supported(self, error: BaseException) -> bool:
        if isinstance(error, _NotSupported):
            return False
        return self._has_received or not isinstance(error, Exception) or isinstance(error, LoopMisuse)

    def _failed(self, error: BaseException) -> None:
        self._error = error
        logger.error("the lifespan of a mounted application failed", exc_info=error)
        self._broke(error)

    async def _receive(self) -> Mapping[str, Any]:
        if not self._has_received:
            self._has_received = True
            return {"type": "lifespan.startup"}
        if not self._is_told and _START_FAILED not in self._answers:
            await self._over.wait()
            self._is_told = True
            return {"type": "lifespan.shutdown"}
        self._idle.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    async def _send(self, message: Any) -> None:
        kind = message["type"]
        if not self._has_received or not kind.startswith("lifespan."):
            raise _NotSupported(f"the application answered its start-up with {kind}")
        self._answers[kind] = message.get("message", "")
        if kind in (_STARTED, _START_FAILED):
            self._started.set()
        if kind in (_ENDED, _END_FAILED):
            self._stopped.set()

    async def end(self) -> None:
        """Shut it down, and wait for that."""
        self._over.set()
        try:
            await self._stopped.wait()
            await self._settle()
        except asyncio.CancelledError:
            self._give_up()
            raise
        if _END_FAILED in self._answers and self._error is None:
            self._failed(RuntimeError(f"the application did not shut down: {self._answers[_END_FAILED]}"))

    async def _settle(self) -> None:
        """After the last answer, let the application end, which may raise still."""
        idle = asyncio.ensure_future(self._idle.wait())
        await asyncio.wait((self._task, idle), timeout=_AFTERWARDS_S, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        if not self._task.done():
            self._give_up()
            await asyncio.wait((self._task,))

    def _give_up(self) -> None:
        self._is_given_up = True
        self._task.cancel()
