"""Connections to databases: to files that hold a world, once they are found in order, and how one is used."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite

from emulator.journal import checksums, files, integrity, migrations, schema, write_ahead_log
from emulator.journal.statements import Immediate

_BUSY_S = 0.2


@contextlib.asynccontextmanager
async def whole_use(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """A user that is cancelled leaves when the connection's thread has done its work, however often it is cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        last = asyncio.ensure_future(connection.execute_fetchall("SELECT 1"))
        while not last.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([last])
        raise


class FileConnection:
    """The connection to a file, which lasts until it is closed. See `database.Database`."""

    def __init__(self, connection: aiosqlite.Connection, file: sqlite3.Connection) -> None:
        self.connection = connection
        self._immediate = Immediate(file)

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[aiosqlite.Connection]:
        """See `database.Database`."""
        async with whole_use(self.connection):
            yield self.connection

    async def immediate(self) -> Immediate:
        """See `database.Database`."""
        return self._immediate

    async def close(self) -> None:
        await self.connection.close()


async def connected(path: str) -> FileConnection:
    """A connection to a file that no other process uses meanwhile. Raises UnusableDatabase."""
    opened_files: list[sqlite3.Connection] = []

    def open_file() -> sqlite3.Connection:
        file = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S, check_same_thread=False)
        opened_files.append(file)
        return file

    try:
        connection = await aiosqlite.Connection(open_file, iter_chunk_size=64)
    except sqlite3.Error as error:
        raise files.unusable(path, error) from error
    try:
        await connection.create_function(checksums.NAME, -1, checksums.row_checksum, deterministic=True)
        await connection.executescript(schema.OPEN_FILE)
    except sqlite3.Error as error:
        await connection.close()
        if "locked" in str(error):
            raise files.UnusableDatabase(f"{path}: in use by another process") from error
        raise files.unusable(path, error) from error
    return FileConnection(connection, opened_files[0])


async def opened(path: str) -> FileConnection | None:
    """A connection to a database of the present format; None if it has no tables. An older one is migrated.

    Raises UnusableDatabase, also for damage that can be found without reading history.
    """
    if damage := await asyncio.to_thread(_damage_before_opening, Path(path)):
        raise files.UnusableDatabase(f"{path}: damaged: {damage}")
    file = await connected(path)
    connection, is_ready = file.connection, False
    try:
        tables = [tuple(row) for row in await connection.execute_fetchall(schema.SELECT_SCHEMA)]
        ((number,),) = await connection.execute_fetchall(schema.SELECT_FORMAT)
        if tables and (damage := integrity.schema_damage(number, migrations.digest_of_schema(tables))):
            raise files.UnusableDatabase(f"{path}: damaged: {damage}")
        is_ready = bool(tables) and number == schema.FORMAT
        if is_ready:
            await connection.executescript(schema.RUN_FILE)
            return file
    except sqlite3.Error as error:
        is_ready = False
        raise files.unusable(path, error) from error
    finally:
        if not is_ready:
            await connection.close()
    if not tables:
        return None
    await asyncio.to_thread(migrations.migrate, Path(path))
    return await opened(path)


def _damage_before_opening(path: Path) -> str | None:
    return write_ahead_log.damage_in(path) or integrity.damage_in_snapshot(path)
