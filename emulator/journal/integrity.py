"""Finding damage: in a database as a whole, and in what a start reads of it.

A start checks the schema, the write-ahead log, the state, the facts after it and that history ends
where it should, in time proportional to what is live. Each row of history is checked when it is
read. `find_damage` reads everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from emulator.journal import checksums, codec, migrations, schema
from emulator.journal.migrations import Rules
from emulator.journal.tables import Table

# In the header of a SQLite file: how it is written, and that it is with a log.
_WRITE_VERSION = 18
_WITH_LOG = 2


def schema_damage(number: int, digest: str) -> str | None:
    """What is wrong with a schema, which is given by its digest."""
    if digest != migrations.rules_of(number).tables:
        # Triggers and views are part of it: they would run whatever they hold.
        return f"its tables are not those of format {number}"
    return None


def find_damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Everything that is wrong with a database of any format, each thing in one line.

    Raises sqlite3.Error where so much is wrong that nothing more can be read.
    """
    checksums.register(connection)
    number = migrations.format_of(connection)
    # First: the check of the pages evaluates expressions of the schema, which could be anything.
    damage = schema_damage(number, migrations.schema_digest(connection))
    if damage is not None:
        yield damage
        return
    verdicts = [" ".join(verdict.split()) for (verdict,) in connection.execute(schema.CHECK_INTEGRITY)]
    if verdicts != ["ok"]:
        yield from verdicts
    rules = migrations.rules_of(number)
    meta: dict[str, bytes] = dict(connection.execute(schema.SELECT_UNCHECKED_META))
    # History is read from one number to the next, and would be read for ever across a large gap.
    dropped = codec.decode_dropped(meta.get(schema.DROPPED)).seq
    ((count,),) = connection.execute(schema.COUNT_ENTRIES, (dropped,))
    ((last_seq,),) = connection.execute(schema.SELECT_LAST_SEQ)
    if not count == last_seq - dropped == int(meta.get(schema.HISTORY_SEQ, b"0")) - dropped:
        yield "its history has a gap"
    # A world's own database has no checksum: it goes on changing.
    checksum = meta.get(rules.checksum)
    if checksum is not None and checksum != digest_of(connection, rules):
        yield "its content is not what was saved"
    yield from _damaged_rows(connection, rules.rows)


def damage_in_snapshot(path: Path) -> str | None:
    """What is wrong with an exported snapshot, which is about to become the database of a world.

    None for the database of a world. Nothing in the file changes.
    """
    with path.open("rb") as file:
        header = file.read(_WRITE_VERSION + 1)
    if header[_WRITE_VERSION] == _WITH_LOG:
        return None
    with contextlib.closing(read_only(path)) as connection:
        try:
            meta: dict[str, bytes] = dict(connection.execute(schema.SELECT_UNCHECKED_META))
            is_snapshot = any(migrations.rules_of(number).checksum in meta for number in migrations.NUMBERS)
            return next(find_damage(connection), None) if is_snapshot else None
        except sqlite3.Error:
            # It has no tables yet, or is so damaged that opening it says so.
            return None


def read_only(path: Path) -> sqlite3.Connection:
    """A connection to a database without a log that nobody writes. It leaves no trace."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)


def _damaged_rows(connection: sqlite3.Connection, tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        ((damaged, count),) = connection.execute(table.count_damaged)
        if damaged:
            yield f"{table.name}: {damaged} of {count} rows are not what was written"


def digest_of(connection: sqlite3.Connection, rules: Rules) -> bytes:
    """The checksum of all content but itself."""
    return _digest(connection, rules.contents)


def _digest(connection: sqlite3.Connection, contents: Sequence[str]) -> bytes:
    digest = hashlib.sha256()
    for statement in contents:
        for row in connection.execute(statement):
            digest.update(codec.encode_row(row))
    return digest.digest()
