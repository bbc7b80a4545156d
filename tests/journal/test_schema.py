"""Tables are declared once: every statement that goes through all of them follows from the declarations."""

from __future__ import annotations

import contextlib
import json
import sqlite3

from emulator.journal import checksums, schema, tables
from emulator.journal.rows import WRITES, Rows


def created() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    checksums.register(connection)
    connection.executescript(schema.CREATE)
    return connection


def test_every_table_of_the_database_is_declared() -> None:
    names = [name for kind, name, *_ in created().execute(schema.SELECT_SCHEMA) if kind == "table"]
    assert names == sorted(table.name for table in tables.TABLES)


def test_every_table_is_copied_and_is_part_of_the_checksum_and_history_is_emptied_by_a_reset() -> None:
    for table in tables.TABLES:
        assert f"DELETE FROM main.{table.name}" in schema.TAKE_COPY
        assert f"INSERT INTO main.{table.name} SELECT * FROM copy.{table.name}" in schema.TAKE_COPY
        assert any(statement.startswith(f"SELECT * FROM {table.name} ") for statement in schema.SELECT_EVERYTHING)
        # What the world is stays; its checkpoint is overwritten.
        assert (table.empty in schema.RESET) == (table not in (tables.META, tables.CHECKPOINT))


def test_every_history_table_is_written_from_rows_of_its_name() -> None:
    assert {table.name for table in tables.HISTORY} <= set(WRITES) == set(Rows.__slots__)


def test_statements_of_a_table_name_every_column() -> None:
    connection = created()
    for table in tables.TABLES:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")]
        assert columns == [*table.columns, "checksum"]
        row = [1 if "INTEGER" in definition else b"x" for definition in table.columns.values()]
        connection.execute(table.insert, row)
        assert [tuple(row)] == [found[:-1] for found in connection.execute(table.contents)]


def test_every_change_of_a_value_of_a_row_is_noticed() -> None:
    for table in tables.TABLES:
        # SQLite may number the rows itself.
        free = {"id"} if table.is_numbered else set()
        for name in table.columns.keys() - free:
            connection = created()
            row = [7 if "INTEGER" in definition else b"x" for definition in table.columns.values()]
            if table is tables.CHECKPOINT:
                row[0] = schema.THE_CHECKPOINT
            connection.execute(table.insert, row)
            assert connection.execute(table.count_damaged).fetchone() == (0, 1)
            with contextlib.suppress(sqlite3.IntegrityError):
                connection.execute(f"UPDATE {table.name} SET {name} = ?", (9,))
                assert connection.execute(table.count_damaged).fetchone() == (1, 1), (table.name, name)


# The last two differ behind the characters that are in the index.
IDS = {1: "msg_7YoJxAAAAAAx", 16_383: "msg_7YoJxBBBBBBx", 16_384: "msg_7YoJxCCCCCCx"}
IDS |= {70_000: "msg_7YoJxDDDDDDx", 70_001: "msg_7YoJxDDDDDDy"}


def test_a_message_is_found_by_its_id_in_whatever_part_it_is() -> None:
    """D-402."""
    connection = created()
    for number, message_id in IDS.items():
        connection.execute(tables.MESSAGES.insert, (number, message_id, *[b""] * (len(tables.MESSAGES.columns) - 2)))

    def numbers(*ids: str) -> set[int]:
        return {number for (number,) in connection.execute(schema.NUMBERS_OF, (json.dumps(ids),))}

    for number, message_id in IDS.items():
        assert numbers(message_id) == {number}
    assert numbers(*IDS.values()) == set(IDS)
    assert numbers("msg_7YoJxAAAAAA", "msg_7YoJxDDDDDDz", "other", "") == set()


def test_ids_are_looked_up_in_their_indexes() -> None:
    """D-402."""
    connection = created()
    for statement, index in (
        (schema.NUMBERS_OF, "messages_by_id"),
        (f"SELECT * FROM annotations WHERE {schema.ANNOTATIONS_OF} ORDER BY id", "annotations_of_message"),
    ):
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("[]",))]
        assert any("USING INDEX" in step and index in step for step in plan), plan
