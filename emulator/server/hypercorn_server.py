"""Serving with hypercorn, which speaks HTTP/2."""

from __future__ import annotations

import asyncio
import socket
import sys

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.server.certificates import Certificate
from emulator.server.exchanges import GRACE_S, KEEP_ALIVE_S

# Bytes of a request's head over HTTP/1.1. A destination's address and what is forwarded to it
# stand in the head, and uvicorn has no limit.
_MAX_HEAD = 1024 * 1024


_NOSNIFF = (b"x-content-type-options", b"nosniff")


class _Config(Config):
    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """The headers of every answer, also of those to what is no HTTP, which the application never sees (D-270)."""
        return [*super().response_headers(protocol), _NOSNIFF]


def _leaving_out_nosniff(app: ASGIApp) -> ASGIApp:
    """The application without the header that the server adds by itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [header for header in message["headers"] if header != _NOSNIFF]
            await send(message)

        await app(scope, receive, send_without)

    return answer


async def serve(app: ASGIApp, listener: socket.socket, stop: asyncio.Event, certificate: Certificate | None) -> None:
    """Serve until `stop` is set."""
    config = _Config()
    config.bind = [f"fd://{listener.detach()}"]  # It closes what it is given.
    if certificate is not None:
        config.certfile, config.keyfile = str(certificate.cert), str(certificate.key)
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = GRACE_S
    config.shutdown_timeout = GRACE_S
    config.include_server_header = False
    config.keep_alive_timeout = KEEP_ALIVE_S
    # The default closes a connection after 1,000 requests, over HTTP/2 with others still under way on it.
    config.keep_alive_max_requests = sys.maxsize
    config.h11_max_incomplete_size = _MAX_HEAD
    # With a bounded queue, an application that stops reading would block the whole connection.
    config.max_app_queue_size = 0
    serving = asyncio.get_running_loop().create_task(
        hypercorn_serve(_leaving_out_nosniff(app), config, shutdown_trigger=stop.wait)  # type: ignore[arg-type]  # its own ASGI types
    )
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        # From Python 3.12 on, closing a listener waits for its connections, endless streams included.
        await asyncio.wait((serving,), timeout=2 * GRACE_S)
    finally:
        for task in (serving, stopping):
            task.cancel()
        await asyncio.wait((serving, stopping))
    if not serving.cancelled():
        serving.result()
