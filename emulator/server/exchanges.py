"""An ASGI wrapper for what both HTTP servers lack: requests received whole, and answers that end on time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api import ending as ends
from emulator.api.ending import Ending
from emulator.api.endpoint import IS_END_OF_SERVER, Answer

# How long running requests may take to end after a signal; what they did is recorded either way.
GRACE_S = 0.2
# After half of it, calls without an answer are cut off and told why: the servers would answer 500.
_CUT_OFF_AFTER_S = GRACE_S / 2


class WholeExchanges:
    """An application around another one.

    A request is received to its end before its answer ends. An answer may come early (413, 404)
    while its client is still sending; both servers would close the connection on it, and the
    client would lose the answer to the reset. Over HTTP/2 the late bytes would end the connection
    with every other request on it.

    Once `stop` is set, an answer without an end is told that its client has gone. The servers
    themselves only wait for it, and cut it off when their grace is over. A call that has no answer
    a moment later is cut off, and `ending` answers in its place.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event, ending: Ending | None = None) -> None:
        self._app = app
        self._stop = stop
        self._ending = ending
        # The tasks of the exchanges whose answer has not begun, and of those that were cut off.
        self._unanswered: set[asyncio.Task[object]] = set()
        self._cut_off: set[asyncio.Task[object]] = set()

    @contextlib.asynccontextmanager
    async def ended_after_stop(self) -> AsyncIterator[None]:
        """Within it, calls that have no answer soon after `stop` are cut off."""
        ending = asyncio.get_running_loop().create_task(self._end())
        try:
            yield
        finally:
            ending.cancel()

    async def _end(self) -> None:
        await self._stop.wait()
        if self._ending is not None:
            self._ending.begin()
        await asyncio.sleep(_CUT_OFF_AFTER_S)
        for task in self._unanswered:
            self._cut_off.add(task)
            task.cancel()

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
        try:
            await self._app(scope, receive_until_stopped, answer)
        except asyncio.CancelledError:
            if task not in self._cut_off:
                raise
            task.uncancel()
            await self._answer_in_its_place(scope, receive, send)
        finally:
            self._unanswered.discard(task)
            self._cut_off.discard(task)

    async def _answer_in_its_place(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Answer({"error": ends.TEXT}, ends.STATUS) if self._ending is None else self._ending.answer(scope)
        await answer(scope, receive, send)

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
