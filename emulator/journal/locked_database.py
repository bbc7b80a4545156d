"""The database of one world under its lock: one user at a time, whole transactions, and a log that stays short."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import aiosqlite

from emulator.core.checkpoint import Checkpoint
from emulator.core.facts import Fact
from emulator.journal import beginnings, codec, connections, files, schema
from emulator.journal.database import MEMORY, Database, InMemory
from emulator.journal.statements import Statements

# A write to the log takes whole pages.
PAGE_BYTES = 4096
_MOVE_LOG_AT_BYTES = 4 * 1024 * 1024
# So much is written in less time than the way to another thread takes, or little more.
_LITTLE_BYTES = 128 * 1024
_INSERT_FACTS = schema.FACTS.insert


def _whatever_has_happened() -> None:
    """The check of those who may use a database whose store is closed."""


class LockedDatabase:
    """What a store, and the ones that follow it, have of a database at `path`, which may be `MEMORY`."""

    def __init__(self, database: Database, path: str) -> None:
        self.path = path
        self.is_file = path != MEMORY
        self._database = database
        # Of the file that is written to, whatever has its name by now.
        self._identity = files.identity(path) if self.is_file else None
        # A reader must not see half of a transaction.
        self._lock = asyncio.Lock()
        # About how much was written to the log since it was last moved into the file.
        self._log_bytes = 0

    # -- what it holds ----------------------------------------------------------------------

    async def begin(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
        """Fill a new database with what a world starts from. Raises UnusableDatabase.

        A file is written under another name, and gets its own when it is whole (D-280): killed at any
        moment, it is there or it is not. In memory whoever first needs the database makes it (D-301).
        """
        assert isinstance(self._database, InMemory)
        await self._database.begin(partial(beginnings.fill, checkpoint=checkpoint, meta=meta))
        if self.is_file:
            try:
                await self._move_to_file(self._database)
            except (OSError, sqlite3.Error) as error:
                raise files.unusable(self.path, error) from error

    async def _move_to_file(self, made: InMemory) -> None:
        """Go on in a file with what was made in memory. Raises OSError, sqlite3.Error, UnusableDatabase."""
        path = Path(self.path)
        fresh = files.hidden_beside(path)
        try:
            async with made.use() as connection:
                await connection.execute(schema.COPY_INTO, (str(fresh),))
            files.put_in_place(fresh, path)
        finally:
            files.remove(fresh)
        await made.close()
        self._database = file = await connections.connected(self.path)
        await file.connection.executescript(schema.RUN_FILE)
        self._identity = files.identity(self.path)

    async def begin_again(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
        """As after `begin`, in place of all there is. Raises sqlite3.Error, UnusableDatabase."""
        if isinstance(self._database, InMemory):
            async with self._lock:
                await self._database.begin(partial(beginnings.fill, checkpoint=checkpoint, meta=meta))
            return
        async with self.transaction() as connection:
            for statement in schema.RESET:
                await connection.execute(statement)
            await beginnings.write_beginning(connection, checkpoint, meta)

    async def begin_as_copy(self, source: aiosqlite.Connection, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Fill a new database in memory with what another one holds at this moment, but for what is the world's own."""
        assert isinstance(self._database, InMemory)
        await self._database.begin(beginnings.fill_with_nothing)
        async with self._database.use() as connection:
            await beginnings.copy_whole(connection, source, base, meta)

    async def take_copy(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Hold what the copy at `path` holds, whole or not at all, with these checkpoints and entries of `meta`.

        Raises sqlite3.Error, UnusableDatabase.
        """
        async with self.exclusive() as connection:
            await connection.execute(schema.ATTACH_COPY, (path,))
        try:
            async with self.transaction() as connection:
                for statement in schema.TAKE_COPY:
                    await connection.execute(statement)
                await connection.execute(schema.REPLACE_STATE, (codec.encode_checkpoint(checkpoint),))
                changed = [*meta.items(), (schema.BASE_CHECKPOINT, codec.encode_checkpoint(base))]
                await connection.executemany(schema.WRITE_META, changed)
        finally:
            async with self.exclusive() as connection:
                await connection.execute(schema.DETACH_COPY)

    async def copy_to(self, path: str) -> None:
        """Write all it holds to a new file. Raises UnusableDatabase, which says nothing of this database."""
        try:
            async with self.exclusive() as connection:
                await connection.execute(schema.COPY_INTO, (path,))
        except sqlite3.Error as error:
            raise files.unusable(path, error) from error

    # -- using it ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def exclusive(
        self, check: Callable[[], None] = _whatever_has_happened
    ) -> AsyncIterator[aiosqlite.Connection]:
        """The connection, while nobody else has it. `check` may refuse after the wait for it, before anything is read.

        Do not use one within another.
        """
        async with self._lock:
            check()
            async with self._database.use() as connection:
                yield connection

    @contextlib.asynccontextmanager
    async def statements(
        self, check: Callable[[], None] = _whatever_has_happened, *, is_little: bool
    ) -> AsyncIterator[Statements]:
        """As `exclusive`, but little work is done without the connection's thread."""
        async with self._lock:
            check()
            if is_little:
                yield await self._database.immediate()
            else:
                async with self._database.use() as connection:
                    yield connection

    @contextlib.asynccontextmanager
    async def transaction(self, log_bytes: int = _MOVE_LOG_AT_BYTES) -> AsyncIterator[Statements]:
        """Write all or nothing. `log_bytes` is about what that adds to the log; much, unless it is known.

        Raises UnusableDatabase if the file is gone.
        """
        async with self.statements(is_little=log_bytes <= _LITTLE_BYTES) as connection:
            await connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                await connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    await connection.execute("ROLLBACK")
                raise
        if self.is_file:
            self._log_bytes += log_bytes
            await self.keep_log_short()
        self.check_file()

    async def write_facts(self, last_seq: int, facts: Sequence[Fact]) -> None:
        """Write a group of facts to the file, durable on return. Raises sqlite3.Error."""
        encoded = codec.encode_facts(facts)
        values = (last_seq, len(facts), encoded)
        async with self.statements(is_little=len(encoded) <= _LITTLE_BYTES) as connection:
            await connection.execute(_INSERT_FACTS, values)
        self._log_bytes += len(encoded) + PAGE_BYTES

    async def keep_log_short(self) -> None:
        """Move what the log holds into the file if that is much. Raises sqlite3.Error."""
        if self._log_bytes >= _MOVE_LOG_AT_BYTES:
            async with self.exclusive() as connection:
                await connection.execute_fetchall(schema.MOVE_LOG)
            self._log_bytes = 0

    async def meta(self, check: Callable[[], None] = _whatever_has_happened) -> dict[str, bytes]:
        """What the database says of its world. Raises ValueError if that is damaged, and what `check` raises."""
        async with self.exclusive(check) as connection:
            return codec.whole_meta(await connection.execute_fetchall(schema.SELECT_META))

    def check_file(self) -> None:
        """Raises UnusableDatabase if the file is gone: the system would go on taking writes, and lose them (D-283)."""
        if self._identity is not None and files.identity(self.path) != self._identity:
            raise files.UnusableDatabase(
                f"{self.path} was deleted or replaced while the server uses it, and what happens now would be lost; "
                "put the file back, or stop the server"
            )

    async def close(self) -> None:
        """Let go of the file, or of what is in memory."""
        async with self._lock:
            with contextlib.suppress(sqlite3.Error, ValueError):
                await self._database.close()
