"""Connections: how long and how many without a request (D-278), and how answers are written to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of connections on which no request is under way.

    `head_s` is how long the head of the next request may take to be whole. It is longer than clients
    keep idle connections: a client that closes first never sends into a closed one. Of more than
    `most_idle` the one that has waited longest is closed.
    """

    head_s: float = 75
    most_idle: int = 1000


class IdleConnections:
    """The connections that wait for a request, the one that has waited longest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._closing: dict[object, Callable[[], None]] = {}

    def begin(self, connection: object, close: Callable[[], None]) -> None:
        """A connection waits from now on; `close` ends it if there are too many."""
        self._closing.pop(connection, None)
        self._closing[connection] = close
        if len(self._closing) > self._most:
            oldest = next(iter(self._closing))
            self._closing.pop(oldest)()

    def end(self, connection: object) -> None:
        """A connection has a request, or has gone."""
        self._closing.pop(connection, None)


class JoiningTransport(asyncio.Transport):
    """Sends what is written without a pause, as the head and body of an answer are, with one call of the system."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""
        # The protocol asks them of the transport, some for each request.
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]

    def write(self, data: bytes) -> None:  # type: ignore[override]
        held = self._held
        if held:
            self._held = b""
            self._transport.writelines((held, data))
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def close(self) -> None:
        self._flush()
        self._transport.close()
