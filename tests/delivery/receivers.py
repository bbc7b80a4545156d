"""Real receivers on loopback that record the exact bytes of each request, and the client that calls them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum

from emulator.delivery.egress import CheckedResolver, EgressPolicy, Lookup
from emulator.delivery.http import HttpClient
from emulator.delivery.listeners import OF_PROCESS, Listeners

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Then(Enum):
    """What a receiver does after it has written an answer."""

    KEEP = "keep"
    CLOSE = "close"
    WAIT = "wait"  # holds the connection and says nothing more


@dataclass(frozen=True)
class Answer:
    data: bytes = OK
    then: Then = Then.KEEP


@dataclass
class Receiver:
    listener: socket.socket
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def receiver(
    answers: Sequence[Answer] = (Answer(),), *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A server that gives the n-th request the n-th answer; the last answer repeats."""
    listener = socket.create_server(("127.0.0.1", 0))
    state = Receiver(listener)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        try:
            while True:
                state.requests.append(await _read_request(reader))
                state.arrived.set()
                answer = answers[min(len(state.requests), len(answers)) - 1]
                writer.write(answer.data)
                if answer.then is Then.CLOSE:
                    return
                if answer.then is Then.WAIT:
                    await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, sock=listener, ssl=tls, backlog=512)
    try:
        yield state
    finally:
        server.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length: "):
            length = int(line.removeprefix(b"content-length: "))
    return head + await reader.readexactly(length)


async def unused_port() -> int:
    """A port on loopback that nobody listens on."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


@asynccontextmanager
async def client(
    lookup: Lookup | None = None,
    *,
    max_response_bytes: int = 10_000_000,
    max_bodies_bytes: int = 10_000_000,
    max_kept_bytes: int = 10_000_000,
    own_listeners: Listeners = OF_PROCESS,
) -> AsyncIterator[HttpClient]:
    resolver = CheckedResolver(EgressPolicy(), lookup)
    made = HttpClient(
        resolver,
        max_response_bytes=max_response_bytes,
        max_bodies_bytes=max_bodies_bytes,
        max_kept_bytes=max_kept_bytes,
        own_listeners=own_listeners,
    )
    try:
        yield made
    finally:
        await made.close()
