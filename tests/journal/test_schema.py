"""Tables are declared once: every statement that goes through all of them follows from the declarations."""

from __future__ import annotations

import sqlite3

from emulator.journal import schema
from emulator.journal.projection import WRITES, Rows


def created() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(schema.CREATE)
    return connection


def test_every_table_of_the_database_is_declared() -> None:
    names = [name for kind, name, *_ in created().execute(schema.SELECT_SCHEMA) if kind == "table"]
    assert names == sorted(table.name for table in schema.TABLES)


def test_every_table_is_copied_and_is_part_of_the_checksum_and_history_is_emptied_by_a_reset() -> None:
    for table in schema.TABLES:
        assert f"DELETE FROM main.{table.name}" in schema.TAKE_COPY
        assert f"INSERT INTO main.{table.name} SELECT * FROM copy.{table.name}" in schema.TAKE_COPY
        assert any(statement.startswith(f"SELECT * FROM {table.name} ") for statement in schema.SELECT_EVERYTHING)
        # What the world is stays; its checkpoint is overwritten.
        assert (table.empty in schema.RESET) == (table not in (schema.META, schema.CHECKPOINT))


def test_every_history_table_is_written_from_rows_of_its_name() -> None:
    assert {table.name for table in schema.HISTORY} <= set(WRITES) == set(Rows.__slots__)


def test_statements_of_a_table_name_every_column() -> None:
    connection = created()
    for table in schema.TABLES:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")]
        assert columns == list(table.columns)
        row = [1 if "INTEGER" in definition else b"x" for definition in table.columns.values()]
        connection.execute(table.insert, row)
        assert [tuple(row)] == connection.execute(table.contents).fetchall()


def test_counts_are_added_to_those_of_the_same_key() -> None:
    connection = created()
    for account, count in (("a", 2), ("a", 3), ("b", 1)):
        row = [account, 7, *[count] * (len(schema.USAGE_DAYS.columns) - 2)]
        connection.execute(schema.USAGE_DAYS.add, row)
    assert [row[:4] for row in connection.execute(schema.USAGE_DAYS.contents)] == [("a", 7, 5, 5), ("b", 7, 1, 1)]
