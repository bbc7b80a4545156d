"""Serving with hypercorn, which speaks HTTP/2."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from typing import Any

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol import h2, h11
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Request
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api.endpoint import DISCONNECT, HAS_QUERY
from emulator.server.connections import Certificate, ConnectionLimits, IdleConnections
from emulator.server.exchanges import GRACE_S

# Bytes of a request's head over HTTP/1.1. A destination's address and what is forwarded to it
# stand in the head, and uvicorn has no limit.
_MAX_HEAD = 1024 * 1024
_NOSNIFF = (b"x-content-type-options", b"nosniff")


class _Config(Config):
    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """The headers of every answer, also of those to what is no HTTP, which the application never sees (D-270)."""
        return [*super().response_headers(protocol), _NOSNIFF]


class _Connection(TCPServer):
    """A connection that is known while it waits for a request (D-278)."""

    def __init__(self, idle: IdleConnections, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._idle = idle

    async def run(self) -> None:
        self._idle.begin(self, self.writer.close)
        try:
            await super().run()
        finally:
            self._idle.end(self)

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            if event.idle:
                self._idle.begin(self, self.writer.close)
            else:
                self._idle.end(self)
        await super().protocol_send(event)


class _ExactTargetStream(HTTPStream):
    """A request whose target ends in a question mark says so in its scope; hypercorn itself drops that."""

    async def handle(self, event: StreamEvent) -> None:
        if isinstance(event, Request) and event.raw_path.endswith(b"?"):
            # It becomes a part of the scope. The requests of a connection share it.
            event = replace(event, state=ConnectionState({**event.state, HAS_QUERY: True}))
        await super().handle(event)


# The protocols take no other class of streams as an argument.
for _protocol in (h11, h2):
    setattr(_protocol, HTTPStream.__name__, _ExactTargetStream)


def _leaving_out_nosniff(app: ASGIApp) -> ASGIApp:
    """The application without the header that the server adds by itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [header for header in message["headers"] if header != _NOSNIFF]
            await send(message)

        await app(scope, receive, send_without)

    return answer


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    certificate: Certificate | None,
    limits: ConnectionLimits,
) -> None:
    """Serve until `stop` is set."""
    config = _config(certificate, limits)
    context, idle = WorkerContext(None), IdleConnections(limits.most_idle)
    loop = asyncio.get_running_loop()
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)

        async def app_here(scope: Scope, *exchange: Any) -> None:
            scope[DISCONNECT] = writer.transport.abort
            scope[HAS_QUERY] = HAS_QUERY in scope["state"]
            await app(scope, *exchange)

        # Its own ASGI types.
        wrapped = wrap_app(_leaving_out_nosniff(app_here), config.wsgi_max_body_size, "asgi")  # type: ignore[arg-type]
        await _Connection(idle, wrapped, loop, config, context, {}, reader, writer)

    server = await asyncio.start_server(
        connected, sock=listener, backlog=config.backlog, ssl=config.create_ssl_context() if certificate else None
    )
    try:
        await stop.wait()
    finally:
        # From Python 3.12 on, waiting for a closed server waits for its connections, endless streams included.
        server.close()
        await context.terminated.set()
        if connections:
            await asyncio.wait(connections, timeout=GRACE_S)
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)


def _config(certificate: Certificate | None, limits: ConnectionLimits) -> Config:
    config = _Config()
    if certificate is not None:
        config.certfile, config.keyfile = str(certificate.cert), str(certificate.key)
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = limits.head_s
    # The default closes a connection after 1,000 requests, over HTTP/2 with others still under way on it.
    config.keep_alive_max_requests = sys.maxsize
    config.h11_max_incomplete_size = _MAX_HEAD
    # With a bounded queue, an application that stops reading would block the whole connection.
    config.max_app_queue_size = 0
    return config
