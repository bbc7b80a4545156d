"""Connections without a request: for how long, and how many (D-278)."""

from __future__ import annotations

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
