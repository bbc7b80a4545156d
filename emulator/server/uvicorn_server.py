"""Serving with uvicorn, changed so that the request target arrives as it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from emulator.api.endpoint import DISCONNECT, HAS_QUERY
from emulator.server.connections import Certificate, ConnectionLimits, IdleConnections, JoiningTransport
from emulator.server.exchanges import GRACE_S


class _Server(uvicorn.Server):
    """uvicorn looks ten times a second whether it has to end, and then waits a tenth of a second for nothing.

    A test that has an emulator of its own would wait for both.
    """

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # Signals are the caller's.

    async def main_loop(self) -> None:
        while not self._stop.is_set():
            # Renews the header Date.
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        # Connections that were accepted already become known.
        for _ in range(3):
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
        for each in sockets or ():
            each.close()


class _ExactTargetProtocol(HttpToolsProtocol):
    """uvicorn's own protocol drops the part of a target behind a `#` silently.

    A destination with a fragment would be delivered to something the client did not name. What is
    no HTTP at all is refused in the one error shape (D-231).
    """

    def __init__(self, *arguments: Any, idle: IdleConnections, head_s: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._idle = idle
        self._head_s = head_s
        # The loop's time since which no request is under way, None while one is.
        self._waits_since: float | None = None
        # It is not cancelled for each request, which would cost more than to look again when it fires.
        self._timer: asyncio.TimerHandle | None = None

    def _unsupported_upgrade_warning(self) -> None:
        """Anybody could fill the log with its advice to install a library: no WebSocket is spoken here."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoiningTransport(transport, self.loop))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        has_another = bool(self.pipeline)
        super().on_response_complete()
        if not has_another:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        """No request is under way. uvicorn itself waits for ever once a part of the next one has come (D-278)."""
        if not self.transport.is_closing():
            self._waits_since = self.loop.time()
            self._idle.begin(self, self._close_idle)
            if self._timer is None:
                self._timer = self.loop.call_later(self._head_s, self._close_after_wait)

    def _end_waiting(self) -> None:
        self._waits_since = None
        self._idle.end(self)

    def _close_after_wait(self) -> None:
        self._timer = None
        if self._waits_since is None:
            return
        left_s = self._waits_since + self._head_s - self.loop.time()
        if left_s > 0:
            self._timer = self.loop.call_later(left_s, self._close_after_wait)
        else:
            self._close_idle()

    def _close_idle(self) -> None:
        self._end_waiting()
        self.transport.close()

    def on_headers_complete(self) -> None:
        self._end_waiting()
        self.scope[DISCONNECT] = self.transport.abort  # type: ignore[typeddict-unknown-key]  # ours
        if self.url.endswith(b"?"):
            self.scope[HAS_QUERY] = True  # type: ignore[typeddict-unknown-key]  # ours
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


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    certificate: Certificate | None,
    limits: ConnectionLimits,
) -> None:
    """Serve until `stop` is set."""
    idle = IdleConnections(limits.most_idle)
    config = uvicorn.Config(
        app,
        # A function that makes a protocol does as well as its class.
        http=partial(_ExactTargetProtocol, idle=idle, head_s=limits.head_s),  # type: ignore[arg-type]
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
        timeout_keep_alive=math.ceil(limits.head_s),
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # seconds; a fraction works as well
    )
    await _Server(config, stop).serve(sockets=[listener])
