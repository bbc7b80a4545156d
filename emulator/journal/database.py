"""The database of one world, and the connection that leads to it: one of its own, or one that comes and goes.

aiosqlite gives every connection a thread. A file keeps its connection. A database in memory is made when it
is first used, and only a few of all those in memory have a connection at a time (D-301).
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import aiosqlite

from emulator.journal import connections
from emulator.journal.statements import Immediate

# The path of a database in memory.
MEMORY = ":memory:"
_THREADS = 16

Fill = Callable[[aiosqlite.Connection], Awaitable[None]]


class Database(Protocol):
    """What the store of a world needs of its database."""

    def use(self) -> AbstractAsyncContextManager[aiosqlite.Connection]:
        """The connection, for a statement or a transaction. Do not use one within another."""
        ...

    def immediate(self) -> Immediate | None:
        """The connection without its thread, for little at a time; None before the database is made."""
        ...

    async def close(self) -> None: ...


class InMemory:
    """A database in memory, made by whoever first uses it; it holds then what `begin` was given to fill it with."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._fill: Fill | None = None
        self._content: _Content | None = None
        self._connection: aiosqlite.Connection | None = None
        # Held while the connection is made, or ended.
        self._lock = asyncio.Lock()
        self.users = 0

    async def begin(self, fill: Fill) -> None:
        """Throw away what there is. Whoever next uses the database makes it anew."""
        await self.close()
        self._fill = fill

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[aiosqlite.Connection]:
        """See `Database`. Raises ValueError once it is closed."""
        async with self._threads.lent_to(self):
            if self._connection is None:
                async with self._lock:
                    await self._connect()
            connection = self._connection
            assert connection is not None
            async with connections.whole_use(connection):
                yield connection

    def immediate(self) -> Immediate | None:
        """See `Database`."""
        return None if self._content is None else Immediate(self._content)

    async def _connect(self) -> None:
        if self._connection is not None:
            return
        if self._content is not None:
            self._connection = await _connection_to(self._content)
            return
        if self._fill is None:
            raise ValueError("the database is closed")
        content = sqlite3.connect(
            MEMORY, isolation_level=None, cached_statements=64, check_same_thread=False, factory=_Content
        )
        connection = await _connection_to(content)
        try:
            await connections.prepare_memory(connection)
            await self._fill(connection)
        except BaseException:
            content.is_kept = False
            await connection.close()
            raise
        self._fill, self._content, self._connection = None, content, connection

    async def disconnect(self) -> None:
        """Let the thread go. The content stays."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def close(self) -> None:
        self._fill = None
        self._threads.forget(self)
        await self.disconnect()
        content, self._content = self._content, None
        if content is not None:
            content.is_kept = False
            # It may be large, and freeing it takes a while then.
            await asyncio.to_thread(content.close)


class Threads:
    """Lets no more than so many databases in memory have a connection, and so a thread, at a time.

    The one that nobody has used for longest loses its own when another needs one.
    """

    def __init__(self, count: int = _THREADS) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)
        # In the order of their last use.
        self._connected: dict[InMemory, None] = {}

    @contextlib.asynccontextmanager
    async def lent_to(self, database: InMemory) -> AsyncIterator[None]:
        """Have a thread for a database meanwhile."""
        async with self._free:
            database.users += 1
            try:
                self.forget(database)
                self._connected[database] = None
                if len(self._connected) > self._count:
                    # One is idle at least: no more are in use than there are threads.
                    idle = next(each for each in self._connected if not each.users)
                    self.forget(idle)
                    await idle.disconnect()
                yield
            finally:
                database.users -= 1

    def forget(self, database: InMemory) -> None:
        self._connected.pop(database, None)


class _Content(sqlite3.Connection):
    """What a database in memory holds. It outlives the connections of aiosqlite, which close it in the end."""

    is_kept = True

    def close(self) -> None:
        if not self.is_kept:
            super().close()


async def _connection_to(content: _Content) -> aiosqlite.Connection:
    # One thread after another uses it, never two at once.
    return await aiosqlite.Connection(lambda: content, iter_chunk_size=64)
