"""Reading a database whole that nobody uses, without changing it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from emulator.core.checkpoint import restore
from emulator.core.record import Record
from emulator.journal import checksums, codec, files, migrations, schema, write_ahead_log
from emulator.journal.integrity import find_damage, read_only


class Examined(Record):
    """What is wrong with a database, each thing in one line, and how much it holds."""

    damage: tuple[str, ...] = ()
    messages: int = 0
    entries: int = 0


def examine(path: Path) -> Examined:
    """Read all of a database. Raises UnusableDatabase for what is none of ours, or in use."""
    # Unlike the method of a path, this takes a name that no file can have.
    if not os.path.exists(path):
        raise files.UnusableDatabase(f"{path}: no such file")
    if not files.check(path):
        return Examined()
    if files.is_in_use(path):
        raise files.UnusableDatabase(f"{path}: in use by another process; stop it, or check a snapshot")
    if damage := write_ahead_log.damage_in(path):
        return Examined(damage=(damage,))
    with _undisturbed(path) as connection:
        try:
            damage_found = (*find_damage(connection), *_damage_of_state(connection))
            if damage_found:
                return Examined(damage=damage_found)
            ((messages, entries),) = connection.execute(schema.COUNT_HISTORY)
        except sqlite3.Error as error:
            return Examined(damage=(str(error),))
    return Examined(messages=messages, entries=entries)


@contextlib.contextmanager
def _undisturbed(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection under which nothing changes in the file."""
    if not files.has_log(path):
        with contextlib.closing(read_only(path)) as connection:
            yield connection
        return
    # A process that was killed has left a log, which SQLite would work into the file.
    with (
        tempfile.TemporaryDirectory(prefix="svc-emulator-") as folder,
        contextlib.closing(sqlite3.connect(files.copy_whole(path, Path(folder)), isolation_level=None)) as copied,
    ):
        yield copied


def _damage_of_state(connection: sqlite3.Connection) -> Iterator[str]:
    """Whether the state can be restored, and the facts after it follow on it."""
    if migrations.format_of(connection) != schema.FORMAT:
        return
    checksums.register(connection)
    try:
        covers, encoded = codec.whole_checkpoint(connection.execute(schema.SELECT_CHECKPOINT))
        state = restore(codec.decode_checkpoint(encoded))
        for last_seq, count, payload, is_whole in connection.execute(schema.SELECT_FACTS, (covers,)):
            if not (is_whole == 1 and last_seq - count == covers):
                raise ValueError(f"what happened after the {covers}th fact is missing or changed")
            for fact in codec.decode_facts(payload):
                state.apply(fact)
            covers = last_seq
    except files.DAMAGE as error:
        yield f"the state of the world: {files.told(error)}"
