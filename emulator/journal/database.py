"""The database of one world, and the connection that leads to it: one of its own, or one that comes and goes.

aiosqlite gives every connection a thread. A file keeps its connection. A database in memory is made when it
is first used, and only a few of all those in memory have a connection at a time (D-301); for little at a time
it needs none.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import aiosqlite

from emulator.journal import checksums, connections, schema
from emulator.journal.statements import Immediate, Statements

# The path of a database in memory.
MEMORY = ":memory:"
_THREADS = 16

# A database in memory of so many pages is freed at once.
_SMALL_PAGES = 256

Fill = Callable[[Statements], Awaitable[None]]


class Database(Protocol):
    """What the store of a world needs of its database."""

    def use(self) -> AbstractAsyncContextManager[aiosqlite.Connection]:
        """The connection, for a statement or a transaction. Do not use one within another."""
        ...

    async def immediate(self) -> Immediate:
        """The database without a thread, for little at a time. Raises ValueError once it is closed."""
        ...

    async def close(self) -> None: ...


class InMemory:
    """A database in memory, made by whoever first uses it: the tables, and what `begin` was given to fill them with."""

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

    async def immediate(self) -> Immediate:
        """See `Database`."""
        return Immediate(await self._made())

    async def _connect(self) -> None:
        if self._connection is None:
            content = await self._made()
            # One thread after another uses it, never two at once.
            self._connection = await aiosqlite.Connection(lambda: content, iter_chunk_size=64)

    async def _made(self) -> _Content:
        if self._content is None:
            if self._fill is None:
                raise ValueError("the database is closed")
            content = self._threads.new_content()
            try:
                # At once, so that nobody else makes another meanwhile.
                await self._fill(Immediate(content))
            except BaseException:
                content.end()
                raise
            self._fill, self._content = None, content
        return self._content

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
            ((pages,),) = content.execute("PRAGMA page_count")
            if pages <= _SMALL_PAGES:
                content.end()
            else:
                await asyncio.to_thread(content.end)


class Threads:
    """Lets no more than so many databases in memory have a connection, and so a thread, at a time; makes their content.

    The one that nobody has used for longest loses its own when another needs one.
    """

    def __init__(self, count: int = _THREADS) -> None:
        # The tables without rows: to copy them takes a tenth of the time in which they are made.
        self._empty: sqlite3.Connection | None = None
        self._count = count
        self._free = asyncio.Semaphore(count)
        # In the order of their last use.
        self._connected: dict[InMemory, None] = {}

    def new_content(self) -> _Content:
        """The tables without rows, for one more database."""
        if self._empty is None:
            self._empty = empty = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, empty.close)
            empty.executescript(schema.CREATE)
            empty.execute("COMMIT")
        content = sqlite3.connect(
            MEMORY, isolation_level=None, cached_statements=64, check_same_thread=False, factory=_Content
        )
        checksums.register(content)
        content.executescript(schema.OPEN_MEMORY)
        self._empty.backup(content)
        return content

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

    def close(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Free what it holds."""
        super().close()
