"""Serving with uvicorn, changed so that the request target arrives as it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from emulator.server.certificates import Certificate
from emulator.server.exchanges import GRACE_S, KEEP_ALIVE_S


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # Signals are the caller's.


class _ExactTargetProtocol(HttpToolsProtocol):
    """uvicorn's own protocol drops the part of a target behind a `#` silently.

    A destination with a fragment would be delivered to something the client did not name. What is
    no HTTP at all is refused in the one error shape (D-231).
    """

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if b"#" in self.url:
            raw_path, _, query = self.url.partition(b"?")
            self.scope["raw_path"] = raw_path
            self.scope["query_string"] = query

    def send_400_response(self, msg: str) -> None:
        body = b'{"error":"%s"}' % msg.encode("ascii")
        head = [b"HTTP/1.1 400 Bad Request", *(b"%s: %s" % header for header in self.server_state.default_headers)]
        head += [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close"]
        head.append(b"x-content-type-options: nosniff")
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()


async def serve(app: ASGIApp, listener: socket.socket, stop: asyncio.Event, certificate: Certificate | None) -> None:
    """Serve until `stop` is set."""
    config = uvicorn.Config(
        app,
        http=_ExactTargetProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Which proxies are believed is a setting (D-272); the default would believe every local client.
        proxy_headers=False,
        date_header=True,
        ssl_certfile=None if certificate is None else certificate.cert,
        ssl_keyfile=None if certificate is None else certificate.key,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # seconds; a fraction works as well
    )
    instance = _Server(config)
    watcher = asyncio.get_running_loop().create_task(_end_when_asked(instance, stop))
    try:
        await instance.serve(sockets=[listener])
    finally:
        watcher.cancel()


async def _end_when_asked(instance: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    instance.should_exit = True
