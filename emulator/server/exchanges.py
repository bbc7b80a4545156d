"""An ASGI wrapper for what both HTTP servers lack: requests received whole, and answers that end on time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api.callers import known_caller
from emulator.api.endpoint import DISCONNECT, IS_END_OF_SERVER, Answer
from emulator.api.next_steps import with_next_step
from emulator.core.errors import Refused
from emulator.core.world_setup import DEFAULT
from emulator.wire.parts import read_parts
from emulator.wire.times import iso
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

# How long running requests may take to end after a signal; what they did is recorded either way.
GRACE_S = 0.2
# After half of it, calls without an answer are cut off with the reason: the servers would answer 500.
_CUT_OFF_AFTER_S = GRACE_S / 2
_DISCONNECTED_AFTER_S = GRACE_S * 3 / 4


class WholeExchanges:
    """An application around another one.

    A request is received to its end before its answer ends. An answer may come early (413, 404)
    while its client is still sending; both servers would close the connection on it, and the
    client would lose the answer to the reset. Over HTTP/2 the late bytes would end the connection
    with every other request on it.

    Once `stop` is set, an endless answer gets a disconnect of its client. The servers
    themselves only wait for it, and cut it off when their grace is over. A call that has no answer
    a moment later is cut off, and gets `answer_at_the_end`. An answer whose client does not take it
    loses its connection a moment before the grace is over: a server that cancels a task logs a
    traceback for it.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event, worlds: Worlds | None = None) -> None:
        self._app = app
        self._stop = stop
        self._worlds = worlds
        # The tasks of the exchanges whose answer has not begun.
        self._unanswered: set[asyncio.Task[object]] = set()
        # All exchanges that have not ended.
        self._running: dict[asyncio.Task[object], Scope] = {}

    @contextlib.asynccontextmanager
    async def ended_after_stop(self) -> AsyncIterator[None]:
        """Within it, calls that have no answer soon after `stop` are cut off. Returns when all have ended."""
        ending = asyncio.get_running_loop().create_task(self._end())
        try:
            yield
        finally:
            ending.cancel()
            if self._running:
                await asyncio.wait(tuple(self._running), timeout=GRACE_S)

    async def _end(self) -> None:
        await self._stop.wait()
        for world in () if self._worlds is None else self._worlds.all():
            # Calls that only wait for the deliveries they caused answer now.
            world.driver.outbox.release_waiting_calls()
        await asyncio.sleep(_CUT_OFF_AFTER_S)
        for task in self._unanswered:
            task.cancel()
        await asyncio.sleep(_DISCONNECTED_AFTER_S - _CUT_OFF_AFTER_S)
        for scope in tuple(self._running.values()):
            if DISCONNECT in scope:
                scope[DISCONNECT]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_received = False
        task = asyncio.current_task()
        assert task is not None

        async def receive_request() -> Message:
            nonlocal is_received
            message = await receive()
            # The last piece of the body, or a disconnect.
            is_received = not message.get("more_body", False)
            return message

        async def receive_until_stopped() -> Message:
            return await (self._next_or_stop(receive) if is_received else receive_request())

        async def answer(message: Message) -> None:
            self._unanswered.discard(task)
            if message["type"] == "http.response.body" and not (is_received or message.get("more_body", False)):
                await send({**message, "more_body": True})
                while not is_received:
                    await receive_request()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        scope = _with_path_alone(scope)
        self._unanswered.add(task)
        self._running[task] = scope
        try:
            await self._app(scope, receive_until_stopped, answer)
        except asyncio.CancelledError:
            # A call that came late is cut off by the server itself.
            if task not in self._unanswered or not self._stop.is_set():
                raise
            task.uncancel()
            await answer_at_the_end(self._worlds, scope)(scope, receive, send)
        finally:
            self._unanswered.discard(task)
            del self._running[task]

    async def _next_or_stop(self, receive: Receive) -> Message:
        loop = asyncio.get_running_loop()
        leaving, stopping = loop.create_task(_next(receive)), loop.create_task(self._stop.wait())
        try:
            await asyncio.wait((leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return leaving.result() if leaving.done() else {"type": "http.disconnect", IS_END_OF_SERVER: True}
        finally:
            leaving.cancel()
            stopping.cancel()


async def _next(receive: Receive) -> Message:
    return await receive()


def _with_path_alone(scope: Scope) -> Scope:
    """The scope of a request whose target may name scheme and host too (RFC 9112, 3.2.2), which hypercorn leaves in."""
    raw_path: bytes = scope.get("raw_path") or b""
    if not raw_path.startswith((b"http://", b"https://")):
        return scope
    _, _, _, *rest = raw_path.split(b"/", 3)
    path = b"/" + b"".join(rest)
    return {**scope, "raw_path": path, "path": unquote(path.decode("latin-1"))}


def answer_at_the_end(worlds: Worlds | None, scope: Scope) -> Answer:
    """The answer to a call that is cut off as its server ends: where the clock of its world stands (D-291)."""
    world = None if worlds is None else _world_of(worlds, scope)
    where = "" if world is None else f", the clock stands at {iso(world.clock.now_ms)}"
    return Answer(with_next_step({"error": f"the server is stopping{where}"}, scope["path"], 503), 503)


def _world_of(worlds: Worlds, scope: Scope) -> World | None:
    """The world that a call is about, None if it names none."""
    try:
        parts = read_parts(
            method=scope["method"],
            raw_path=scope.get("raw_path") or scope["path"].encode(),
            query_string=scope["query_string"],
            raw_headers=scope["headers"],
            body=b"",
            client_ip="",
        )
        if parts.path.startswith("/_emulator"):
            return worlds.get(dict(parts.query).get("world", DEFAULT))
        caller = known_caller(worlds, parts)
        return None if caller is None else caller.world
    except Refused:
        return None
