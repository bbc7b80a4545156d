"""Older database formats: what a file of one must look like, and the steps that bring it to the present one.

All steps run in one transaction, so that a file has the format that it had, or the present one: between
two steps, tables that a later step makes anew may be as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from emulator.core.record import Record
from emulator.journal import checksums, files, schema, tables
from emulator.journal.tables import Table

# Every format that there ever was.
NUMBERS = range(1, schema.FORMAT + 1)


class Rules(Record):
    """What the content of a file of some format is checked against.

    `tables` is the digest of its schema, `checksum` the entry of `meta` with the checksum of a snapshot, and
    `contents` selects all that the checksum covers. `rows` are tables whose rows have the checksums of today.
    """

    tables: str
    checksum: str
    contents: tuple[str, ...]
    rows: tuple[Table, ...] = ()


@cache
def rules_of(number: int) -> Rules:
    """Raises KeyError for a format that there never was."""
    if number != schema.FORMAT:
        return _OLD_RULES[number]
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as ours:
        checksums.register(ours)
        ours.executescript(schema.CREATE)
        return Rules(
            tables=schema_digest(ours),
            checksum=schema.CHECKSUM,
            contents=schema.SELECT_EVERYTHING,
            rows=tables.TABLES,
        )


def schema_digest(connection: sqlite3.Connection) -> str:
    """A digest of everything that a schema says, without white space and the quotes of renamed tables."""
    return digest_of_schema(connection.execute(schema.SELECT_SCHEMA))


def digest_of_schema(found: Iterable[tuple[str, str, str, str | None]]) -> str:
    """As `schema_digest`, of the rows of SELECT_SCHEMA."""
    rows = [(*row[:3], _normal(row[3] or "")) for row in found]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _normal(sql: str) -> str:
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(re.sub(r'^CREATE TABLE "(\w+)"', r"CREATE TABLE \1", sql).split()))


def migrate(path: Path) -> None:
    """Bring a database to the present format; one that has it is not touched. Raises UnusableDatabase.

    The checksum of a snapshot is removed: it was that of the old content.
    """
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            checksums.register(connection)
            # Without it, SQLite would put an index of the log beside the file.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            for number in range(format_of(connection), schema.FORMAT):
                _STEPS[number](connection)
            connection.execute(f"PRAGMA user_version = {schema.FORMAT:d}")
            connection.execute("COMMIT")
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{path}: cannot be brought to format {schema.FORMAT}: {error!r}") from error


def format_of(connection: sqlite3.Connection) -> int:
    ((number,),) = connection.execute(schema.SELECT_FORMAT)
    return int(number)


# -- 1 -> 2 -----------------------------------------------------------------------------------

_FORMAT_1_CONTENTS = (
    "SELECT * FROM meta WHERE name != 'seal' ORDER BY name",
    "SELECT * FROM facts ORDER BY last_seq",
    "SELECT * FROM checkpoint ORDER BY id",
    "SELECT * FROM messages ORDER BY number",
    "SELECT * FROM events ORDER BY seq",
    "SELECT * FROM attempts ORDER BY seq",
    "SELECT * FROM remarks ORDER BY id",
    "SELECT * FROM dead_letters ORDER BY dead_letter_id",
    "SELECT * FROM usage_minutes ORDER BY account_id, minute",
    "SELECT * FROM usage_days ORDER BY account_id, day",
)
# All tables have another column. Those with other names: two of them, and an index.
_OLD_NAMES = {"annotations": "remarks"}
_OLD_INDEXES = ("events_of_message", "remarks_of_message", "dead_letters_in_order")
_RENAMED_META = {"origin": "base_checkpoint", "life": "generation"}
_RENAMED_FACTS = {"AnswerPromised": "ResponseDelayed"}
_FACTS = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])


def _to_format_2(connection: sqlite3.Connection) -> None:
    """A checksum in every row, and names in plain words: of tables, entries of `meta`, a fact and a field."""
    for old, new in _RENAMED_META.items():
        connection.execute("UPDATE meta SET name = ? WHERE name = ?", (new, old))
    connection.execute("DELETE FROM meta WHERE name = 'seal'")
    for last_seq, payload in connection.execute("SELECT last_seq, payload FROM facts").fetchall():
        connection.execute("UPDATE facts SET payload = ? WHERE last_seq = ?", (_facts_2(payload), last_seq))
    for covers, image in connection.execute("SELECT covers, image FROM checkpoint").fetchall():
        connection.execute("UPDATE checkpoint SET image = ? WHERE covers = ?", (_checkpoint_2(image), covers))
    ((base,),) = connection.execute("SELECT value FROM meta WHERE name = 'base_checkpoint'").fetchall()
    connection.execute("UPDATE meta SET value = ? WHERE name = 'base_checkpoint'", (_checkpoint_2(base),))
    for index in _OLD_INDEXES:
        connection.execute(f"DROP INDEX {index}")
    connection.execute("ALTER TABLE checkpoint RENAME COLUMN image TO state")
    for table in _FORMAT_2_TABLES:
        connection.execute(f"ALTER TABLE {_OLD_NAMES.get(table.name, table.name)} RENAME TO old")
        _create(connection, table)
        connection.execute(table.fill_from("old"))
        connection.execute("DROP TABLE old")


def _create(connection: sqlite3.Connection, table: Table) -> None:
    for statement in table.create.split(";")[:-1]:
        connection.execute(statement)


def _facts_2(payload: bytes) -> bytes:
    named = [(_RENAMED_FACTS.get(name, name), raw) for name, raw in _FACTS.decode(payload)]
    return msgspec.msgpack.encode(named)


def _checkpoint_2(encoded: bytes) -> bytes:
    checkpoint = msgspec.msgpack.decode(encoded)
    checkpoint["accounts"] = [
        {("queue_loads" if name == "queue_books" else name): value for name, value in account.items()}
        for account in checkpoint["accounts"]
    ]
    return msgspec.msgpack.encode(checkpoint)


# -- 2 -> 3 -----------------------------------------------------------------------------------


def _to_format_3(connection: sqlite3.Connection) -> None:
    """The tables of workflow runs."""
    for table in tables.WORKFLOWS:
        _create(connection, table)
    connection.execute("CREATE TABLE workflow_days (account_id, day, checksum)")


# -- 3 -> 4 -----------------------------------------------------------------------------------


def _to_format_4(connection: sqlite3.Connection) -> None:
    """Counts since the beginning (D-401), indexes of ids that do not get dearer (D-402), messages as lists (D-403)."""
    for table in (tables.META, tables.FACTS, tables.CHECKPOINT, tables.MESSAGES):
        # What is changed gets a right checksum, whatever it had.
        _raise_if_damaged(table.name, connection.execute(table.count_damaged))
    for last_seq, payload in connection.execute("SELECT last_seq, payload FROM facts").fetchall():
        connection.execute("UPDATE facts SET payload = ? WHERE last_seq = ?", (_facts_4(payload), last_seq))
    for (encoded,) in connection.execute("SELECT state FROM checkpoint").fetchall():
        connection.execute("UPDATE checkpoint SET state = ?", (_checkpoint_4(encoded),))
    for (base,) in connection.execute("SELECT value FROM meta WHERE name = 'base_checkpoint'").fetchall():
        connection.execute("UPDATE meta SET value = ? WHERE name = 'base_checkpoint'", (_checkpoint_4(base),))
    for table in (tables.META, tables.FACTS, tables.CHECKPOINT):
        connection.execute(table.renew_checksums)
    for index in ("messages_by_id", "annotations_of_message"):
        connection.execute(f"DROP INDEX IF EXISTS {index}")
    connection.execute("ALTER TABLE messages RENAME TO old")
    _create(connection, tables.MESSAGES)
    rows = connection.execute("SELECT * FROM old ORDER BY number")
    connection.executemany(tables.MESSAGES.insert, ((*row, _message_4(definition)) for *row, definition, _ in rows))
    connection.execute("DROP TABLE old")
    for name, columns in tables.ANNOTATIONS.indexes.items():
        connection.execute(f"CREATE INDEX {name} ON annotations ({columns})")
    for table, days in ((tables.USAGE_MINUTES, "usage_days"), (tables.WORKFLOW_MINUTES, "workflow_days")):
        connection.execute(f"ALTER TABLE {table.name} RENAME TO old")
        _check_counts(connection, table)
        _create(connection, table)
        connection.execute(_so_far(table))
        connection.execute("DROP TABLE old")
        connection.execute(f"DROP TABLE {days}")


def _check_counts(connection: sqlite3.Connection, table: Table) -> None:
    """Raises ValueError for a damaged row: all that are made from the rows after it would be wrong, and look right."""
    if "checksum" not in {row[1] for row in connection.execute("PRAGMA table_info(old)")}:
        return  # As in format 1.
    account, minute, *counts = table.columns
    weighed = " + ".join(f"{name} * {11 + 2 * at}" for at, name in enumerate(counts))
    checksum = f"{weighed} + ({' + '.join(counts)}) * (row_checksum({account}, {minute}) % 997)"
    found = f"SELECT coalesce(sum(checksum != {checksum}), 0), count(*) FROM old"
    _raise_if_damaged(table.name, connection.execute(found))


def _raise_if_damaged(name: str, found: Iterable[tuple[int, int]]) -> None:
    for damaged, count in found:
        if damaged:
            raise ValueError(f"{name}: {damaged} of {count} rows are not what was written")


def _so_far(table: Table) -> str:
    """Fills a table of counts from `old`, whose rows count what passed through in their minute alone."""
    account, minute, *counts = table.columns
    sums = ", ".join(f"sum({name}) OVER so_far AS {name}" for name in counts)
    return f"""
        INSERT INTO {table.name} SELECT *, {table.checksum_of({name: name for name in table.columns})} FROM (
            SELECT {account}, {minute}, {sums} FROM old WINDOW so_far AS (PARTITION BY {account} ORDER BY {minute})
        )"""


# The fields of a message, and of a timer, in format 4. Some may be missing in format 3, as they have their defaults.
_MESSAGE_FIELDS = (
    *("message_id", "number", "account_id", "created_ms", "not_before_ms", "url", "method", "headers", "body"),
    *("max_retries", "timeout_ms", "caller_ip", "created_by", "retry_delay", "callback", "failure_callback"),
    *("url_group", "endpoint_name", "queue", "schedule_id", "labels", "redaction", "flow_control"),
    *("source_message_id", "queue_slot", "api", "from_dead_letter", "not_applied", "run"),
)
_MESSAGE_DEFAULTS: dict[str, object] = {"labels": [], "created_by": "publish", "not_applied": []}
_TIMER_FIELDS = ("due_ms", "sequence", "kind", "subject")


def _message_4(encoded: bytes) -> bytes:
    return msgspec.msgpack.encode(_message_list(msgspec.msgpack.decode(encoded)))


def _message_list(message: dict[str, object]) -> list[object]:
    return [message.get(name, _MESSAGE_DEFAULTS.get(name)) for name in _MESSAGE_FIELDS]


def _with_list(holder: dict[str, Any]) -> dict[str, Any]:
    """What holds a message, with that as a list."""
    return {**holder, "message": _message_list(holder["message"])}


def _facts_4(payload: bytes) -> bytes:
    facts = []
    for name, fact in msgspec.msgpack.decode(payload):
        if name == "MessageCreated":
            fact = _with_list(fact)
        elif name == "DuplicateScheduled":
            fact = {**fact, "duplicate": _with_list(fact["duplicate"])}
        facts.append((name, fact))
    return msgspec.msgpack.encode(facts)


def _checkpoint_4(encoded: bytes) -> bytes:
    checkpoint = msgspec.msgpack.decode(encoded)
    for name in ("messages", "duplicates"):
        if name in checkpoint:
            checkpoint[name] = list(map(_with_list, checkpoint[name]))
    checkpoint["timers"] = [[timer[name] for name in _TIMER_FIELDS] for timer in checkpoint["timers"]]
    return msgspec.msgpack.encode(checkpoint)


# Those that format 4 has like format 2. It makes tables of counts anew.
_FORMAT_2_TABLES = tuple(
    table for table in tables.TABLES if table not in tables.WORKFLOWS and table is not tables.USAGE_MINUTES
)
_FORMAT_2_CONTENTS = (
    "SELECT * FROM meta WHERE name != 'checksum' ORDER BY name",
    "SELECT * FROM facts ORDER BY last_seq",
    "SELECT * FROM checkpoint ORDER BY id",
    "SELECT * FROM messages ORDER BY number",
    "SELECT * FROM events ORDER BY seq",
    "SELECT * FROM attempts ORDER BY seq",
    "SELECT * FROM annotations ORDER BY id",
    "SELECT * FROM dead_letters ORDER BY dead_letter_id",
    "SELECT * FROM usage_minutes ORDER BY account_id, minute",
    "SELECT * FROM usage_days ORDER BY account_id, day",
)
_FORMAT_3_CONTENTS = (
    *_FORMAT_2_CONTENTS,
    "SELECT * FROM workflow_runs ORDER BY run_number",
    "SELECT * FROM workflow_ends ORDER BY run_number",
    "SELECT * FROM workflow_steps ORDER BY id",
    "SELECT * FROM workflow_messages ORDER BY number",
    "SELECT * FROM workflow_waits ORDER BY number",
    "SELECT * FROM workflow_minutes ORDER BY account_id, minute",
    "SELECT * FROM workflow_days ORDER BY account_id, day",
)
_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _to_format_2, 2: _to_format_3, 3: _to_format_4}
_OLD_RULES = {
    1: Rules(
        tables="28bb3e10262f9a92c32eaff1c2490bb48ba32bf57de8fc0187c6111adbfc97b0",
        checksum="seal",
        contents=_FORMAT_1_CONTENTS,
    ),
    2: Rules(
        tables="ba1d7c5a17ecc14ec4d359c11feb102be673f1352ff5c1be0516d800a81ae9e5",
        checksum="checksum",
        contents=_FORMAT_2_CONTENTS,
        rows=_FORMAT_2_TABLES,
    ),
    3: Rules(
        tables="76c58550e93fac22acb4270f8a937a0159f5eeaf022f58c0626bc38d6126be73",
        checksum="checksum",
        contents=_FORMAT_3_CONTENTS,
        rows=_FORMAT_2_TABLES,
    ),
}
