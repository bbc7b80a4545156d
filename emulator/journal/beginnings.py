"""What a new database of a world holds: the tables, and the state that the world begins with."""

from __future__ import annotations

import aiosqlite

from emulator.core.checkpoint import Checkpoint
from emulator.journal import codec, schema
from emulator.journal.statements import Statements


async def copy_whole(
    connection: aiosqlite.Connection, source: aiosqlite.Connection, base: Checkpoint, meta: dict[str, bytes]
) -> None:
    """Take over all that another database holds, but for what is the world's own."""
    await source.backup(connection)
    await connection.execute(schema.FORGET_GENERATION)
    changed = [*meta.items(), (schema.BASE_CHECKPOINT, codec.encode_checkpoint(base))]
    await connection.executemany(schema.WRITE_META, changed)


async def fill(connection: Statements, *, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
    """Write what a world begins with into the empty tables of a database in memory."""
    await connection.execute("BEGIN")
    await write_beginning(connection, checkpoint, meta)
    await connection.execute("COMMIT")


async def fill_with_nothing(_: Statements) -> None:
    """Leave the tables empty."""


async def write_beginning(connection: Statements, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
    encoded = codec.encode_checkpoint(checkpoint)
    await connection.executemany(schema.WRITE_META, [*meta.items(), (schema.BASE_CHECKPOINT, encoded)])
    await connection.execute(schema.WRITE_CHECKPOINT, (schema.THE_CHECKPOINT, 0, encoded))
