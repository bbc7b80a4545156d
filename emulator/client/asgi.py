"""Calls of ASGI applications in this process: the emulator's own, and those that are mounted.

An application gets what it would get of `httpx.ASGITransport`. The request, the response and the
cookies of an HTTP client would take longer than a call of the emulator does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import anyio
import httpx

from emulator.client.bridges import AsgiApp
from emulator.core.model.names import Headers
from emulator.core.record import Record

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
    )


def raw_headers(headers: Headers | Iterable[tuple[str, str]]) -> RawHeaders:
    """Headers as an application gets them. Values are sent in UTF-8."""
    return [(name.lower().encode("latin-1"), value.encode()) for name, value in headers]


class Exchange:
    """One request, and what has been answered so far: `status` is None until the answer begins."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._pieces: list[bytes] = []
        self._is_over = False
        self._end: anyio.Event | None = None
        self.status: int | None = None
        self.headers: RawHeaders = []

    @property
    def body(self) -> bytes:
        """The body of the answer."""
        return b"".join(self._pieces)

    def final_status(self) -> int:
        """The status of the whole answer. Raises RuntimeError if there is none."""
        if self.status is None or not self._is_over:
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
        }
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Mapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self._is_over:
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
            if self._is_over:
                raise RuntimeError("the application went on with its answer after its end")
            self._pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._is_over = True
                if self._end is not None:
                    self._end.set()
