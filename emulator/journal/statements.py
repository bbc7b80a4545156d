"""Running statements: in the thread of a connection, or without it where there is little to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol

_NONE: tuple[()] = ()


class Statements(Protocol):
    """What a connection of aiosqlite and `Immediate` have in common. Each method raises sqlite3.Error."""

    def execute(self, sql: str, parameters: Iterable[Any] = _NONE, /) -> Awaitable[object]: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Awaitable[object]: ...

    def execute_fetchall(self, sql: str, parameters: Iterable[Any] = _NONE, /) -> Awaitable[Iterable[sqlite3.Row]]: ...


class Immediate:
    """A connection without its thread: what is asked of it is done before anything else happens.

    The way to the thread and back takes several times as long as a small statement. Use it while nobody has the
    connection: two threads in SQLite at once could wait for each other for ever, one for its lock, one for Python's.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def execute(self, sql: str, parameters: Iterable[Any] = _NONE, /) -> None:
        self._connection.execute(sql, tuple(parameters))

    async def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        self._connection.executemany(sql, parameters)

    async def execute_fetchall(self, sql: str, parameters: Iterable[Any] = _NONE, /) -> list[sqlite3.Row]:
        return self._connection.execute(sql, tuple(parameters)).fetchall()
