"""An ASGI wrapper for what both HTTP servers lack: requests received whole, and answers that end on time."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# How long running requests may take to end after a signal; what they did is recorded either way.
GRACE_S = 0.2


class WholeExchanges:
    """An application around another one.

    A request is received to its end before its answer ends. An answer may come early (413, 404)
    while its client is still sending; both servers would close the connection on it, and the
    client would lose the answer to the reset. Over HTTP/2 the late bytes would end the connection
    with every other request on it.

    Once `stop` is set, an answer without an end is told that its client has gone. The servers
    themselves only wait for it, and cut it off when their grace is over.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app = app
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_received = False

        async def receive_request() -> Message:
            nonlocal is_received
            message = await receive()
            # The last piece of the body, or a disconnect.
            is_received = not message.get("more_body", False)
            return message

        async def receive_until_stopped() -> Message:
            return await (self._next_or_stop(receive) if is_received else receive_request())

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.body" and not (is_received or message.get("more_body", False)):
                await send({**message, "more_body": True})
                while not is_received:
                    await receive_request()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(_with_path_alone(scope), receive_until_stopped, answer)

    async def _next_or_stop(self, receive: Receive) -> Message:
        loop = asyncio.get_running_loop()
        leaving, stopping = loop.create_task(_next(receive)), loop.create_task(self._stop.wait())
        try:
            await asyncio.wait((leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return leaving.result() if leaving.done() else {"type": "http.disconnect"}
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
