"""Whether rows are what their declarations say: types, ranges, texts and the records in blobs.

SQLite takes any value in any column, and finds nothing wrong with it. One statement for each table, which follows from
its declaration, looks at every value of every row; what only Python can decode is decoded by the functions here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from emulator.core.language.calendar import is_clock_instant
from emulator.core.language.text import excerpt
from emulator.core.model.messages import Message
from emulator.core.model.workflows import WorkflowRun
from emulator.journal import codec, schema
from emulator.journal.schema import Content, Table

# What decoding raises for bytes that are no such record.
_UNDECODABLE = (ValueError, TypeError, KeyError, RecursionError)


def find_damage(connection: sqlite3.Connection, most: int) -> list[str]:
    """A line for each of the first rows that are not what their table declares. Raises sqlite3.Error."""
    for content, check in _CHECKS.items():
        connection.create_function(content.value, -1, check, deterministic=True)
    lines: list[str] = []
    for table in schema.TABLES:
        for key, column in connection.execute(table.select_damage, (most - len(lines),)):
            lines.append(f"table {table.name}, row {_shown(key)}, {_expectation(table, column)}")
        if len(lines) == most:
            return lines
    odd = connection.execute(schema.SELECT_ODD_EVENTS, (most - len(lines),))
    return [
        *lines,
        *(f"table events, message {number}: expected one creation, and one end at most" for (number,) in odd),
    ]


def find_broken_pages(connection: sqlite3.Connection) -> list[str]:
    """What SQLite itself finds wrong with the file. Raises sqlite3.Error."""
    verdicts = [" ".join(verdict.split()) for (verdict,) in connection.execute(schema.CHECK_INTEGRITY)]
    return [] if verdicts == ["ok"] else verdicts


def find_any_damage(connection: sqlite3.Connection) -> list[str]:
    """The first row that is not what its table declares; else what SQLite finds, such as an index of another table."""
    return find_damage(connection, 1) or find_broken_pages(connection)


def _shown(key: bytes | None) -> str:
    return "NULL" if key is None else excerpt(key.decode("utf-8", "replace")).strip("'")


def _expectation(table: Table, column: str) -> str:
    return f"column {column}: expected {table.expected(column)}" if column in table.columns else column


# -- what is in a blob ------------------------------------------------------------------------
# Each function gets the blob and the columns that repeat something of it, and answers 1 for what is right.


def _check(is_right: Callable[..., bool]) -> Callable[..., int]:
    def check(*values: object) -> int:
        try:
            return int(is_right(*values))
        except _UNDECODABLE:
            return 0

    return check


def _is_text(value: bytes) -> bool:
    value.decode()
    return True


def _is_message(encoded: bytes, number: int, message_id: str, account_id: str, url: str) -> bool:
    message: Message = codec.decode_message(encoded)
    repeated = (message.number, message.message_id, message.account_id, message.url)
    return repeated == (number, message_id, account_id, url) and is_clock_instant(message.created_ms)


def _is_run(encoded: bytes, number: int, run_id: str, account_id: str, created_ms: int) -> bool:
    run: WorkflowRun = codec.decode_run(encoded)
    return (run.number, run.run_id, run.account_id, run.created_ms) == (number, run_id, account_id, created_ms)


def _decodes(decode: Callable[[bytes], object]) -> Callable[[bytes], bool]:
    def check(encoded: bytes) -> bool:
        decode(encoded)
        return True

    return check


def _is_meta(value: bytes, name: str) -> bool:
    codec.check_meta(name, value)
    return True


_CHECKS: Final[Mapping[Content, Callable[..., int]]] = {
    Content.TEXT: _check(_is_text),
    Content.MESSAGE: _check(_is_message),
    Content.OUTCOME: _check(_decodes(codec.decode_outcome)),
    Content.RULE: _check(_decodes(codec.decode_rule)),
    Content.RUN: _check(_is_run),
    Content.WAITER: _check(_decodes(codec.decode_waiter)),
    Content.FACTS: _check(_decodes(lambda payload: list(codec.decode_facts(payload)))),
    Content.CHECKPOINT: _check(_decodes(codec.decode_checkpoint)),
    Content.META: _check(_is_meta),
}
