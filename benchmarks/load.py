"""A small HTTP/1.1 load generator: a number of connections, each with one request in flight."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import cast


class _Connection(asyncio.Protocol):
    """Sends the same request again and again, each when the answer to the one before is complete."""

    def __init__(self, request: bytes, remaining: list[int], done: asyncio.Future[None]) -> None:
        self._request = request
        self._remaining = remaining
        self._done = done
        self._buffer = b""
        self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def _next(self) -> None:
        if self._remaining[0] <= 0:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._remaining[0] -= 1
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lower = head.lower()
        start = lower.find(b"content-length:")
        length = int(lower[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
        if len(body) < length:
            return
        self.failures += not head.startswith(b"HTTP/1.1 200")
        self._buffer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("closed by the server"))


def _same(connection: _Connection) -> _Connection:
    return connection


def run(host: str, port: int, request: bytes, *, connections: int, requests: int) -> float:
    """Send `requests` over `connections`; how many a second. Raises RuntimeError if one was not answered 200."""
    return asyncio.run(_run(host, port, request, connections, requests))


async def _run(host: str, port: int, request: bytes, connections: int, requests: int) -> float:
    loop = asyncio.get_running_loop()
    remaining = [requests]
    made: list[_Connection] = []
    waiting: list[asyncio.Future[None]] = []
    began = time.perf_counter()
    for _ in range(connections):
        done: asyncio.Future[None] = loop.create_future()
        connection = _Connection(request, remaining, done)
        waiting.append(done)
        made.append(connection)
        await loop.create_connection(partial(_same, connection), host, port)
    await asyncio.gather(*waiting)
    took = time.perf_counter() - began
    failures = sum(each.failures for each in made)
    if failures:
        raise RuntimeError(f"{failures} requests were not answered 200")
    return requests / took


def post(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
