"""Rows that are not what their table declares: found by one statement a table, and said where they are read."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.journal import schema
from emulator.journal.damage import find_any_damage, find_damage
from emulator.journal.files import examine
from tests.harness.emulators import InProcess, in_process
from tests.harness.loops import on_loop
from tests.harness.snapshots import export, much_of_everything, save
from tests.harness.streams import streaming
from tests.harness.workflow_runs import Flow


async def something_in_every_table(emulator: InProcess) -> None:
    await much_of_everything(emulator)
    for run_id in ("wfr_one", "wfr_two"):
        flow = Flow(emulator, run_id)
        await flow.start(Svc_Label="run")
        await flow.step(1, "first")
        await flow.wait(2, "payment", "paid", 60)
    await flow.finish()


@pytest.fixture(scope="module")
def good() -> bytes:
    """The file of a world with rows in every table but that of facts."""
    files: list[bytes] = []

    @on_loop
    async def make() -> None:
        async with in_process() as emulator:
            await something_in_every_table(emulator)
            await save(emulator)
            files.append(await export(emulator))

    make()
    return files[0]


@contextlib.contextmanager
def opened(path: Path, content: bytes) -> Iterator[sqlite3.Connection]:
    path.write_bytes(content)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection


def test_nothing_is_wrong_with_what_the_emulator_writes(tmp_path: Path, good: bytes) -> None:
    """D-793."""
    with opened(tmp_path / "w.db", good) as connection:
        counts = {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone() for table in schema.TABLES
        }
        assert [name for name, (count,) in counts.items() if not count] == ["facts"]
        assert find_damage(connection, 10) == []


@on_loop
async def test_history_that_was_dropped_is_no_damage(tmp_path: Path) -> None:
    """D-793: what is kept is kept by whole messages."""
    path = tmp_path / "w.db"
    async with in_process(db=str(path), keep_history="20") as emulator:
        await something_in_every_table(emulator)
        await emulator.rule("https://twice.test/", respond={"status": 200}, duplicate="3m")
        for _ in range(20):
            await emulator.publish("https://twice.test/")
            await emulator.advance("1m")
        assert (await emulator.control("GET", "/deliveries")).json["dropped"]["entries"] > 20
    assert examine(path).damage == ()


# What SQLite takes in any column, by the kind of the column; nothing of it belongs there.
WRONG: dict[str, tuple[object, ...]] = {
    "INTEGER": (-1, 2**63 - 1, 2**60, 1.5, b"", b"\xff", "text"),
    "TEXT": (b"text",),
    "BLOB": ("text", 7),
}


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table in schema.TABLES for column in table.columns if table is not schema.FACTS],
    ids=lambda value: value.name if isinstance(value, schema.Table) else value,
)
def test_a_value_of_another_kind_is_found_in_every_column(
    tmp_path: Path, good: bytes, table: schema.Table, column: str
) -> None:
    """D-793: what is looked for follows from the declaration."""
    definition = table.columns[column]
    is_rowid = definition.startswith("INTEGER PRIMARY KEY")
    with opened(tmp_path / "w.db", good) as connection:
        for value in WRONG[definition.partition(" ")[0]]:
            connection.execute("BEGIN")
            connection.execute(f"CREATE TEMP TABLE original AS SELECT * FROM {table.name} LIMIT 1")
            connection.execute(f"DELETE FROM main.{table.name}")
            names = ", ".join("?" if name == column else name for name in table.columns)
            try:
                connection.execute(f"INSERT INTO main.{table.name} SELECT {names} FROM temp.original", (value,))
            except sqlite3.Error:
                # SQLite keeps the kind of the key of a row, and nothing else.
                assert is_rowid, f"{value!r} cannot even be written"
                connection.execute("ROLLBACK")
                continue
            ((kept,),) = connection.execute(f"SELECT typeof({column}) FROM {table.name}")
            line = next((each for each in find_damage(connection, 40) if each.startswith(f"table {table.name}, ")), "")
            # A number is written into a column of texts as a text.
            assert line or kept == definition.partition(" ")[0].lower(), f"{value!r} is not found"
            connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        (
            "UPDATE events SET at_ms = 9223372036854775807 WHERE seq = 2",
            "events, row 2, column at_ms: expected an instant",
        ),
        (
            "UPDATE events SET state = 'LOST' WHERE seq = 1",
            "events, row 1, column state: expected one of CREATED, ACTIVE",
        ),
        ("UPDATE attempts SET outcome = x'00'", "attempts, row 4, column outcome: expected the bytes of: outcome"),
        ("UPDATE messages SET labels = '[1]' WHERE number = 1", "messages, row 1, column labels: expected a JSON list"),
        ("UPDATE messages SET url = CAST(x'61ff' AS TEXT) WHERE number = 1", "messages, row 1, a text in no UTF-8"),
        ("UPDATE events SET number = 2 WHERE seq = 1", "events, message "),
        ("UPDATE dead_letters SET attempt_seq = 99999", "dead_letters, row "),
        ("UPDATE workflow_runs SET definition = x'90' WHERE run_number = 1", "workflow_runs, row 1, column definition"),
        (
            "UPDATE messages SET definition = (SELECT definition FROM messages WHERE number = 2) WHERE number = 1",
            "messages, row 1, column definition: expected the bytes of: message",
        ),
    ],
)
def test_the_row_and_the_column_are_named(tmp_path: Path, good: bytes, statement: str, line: str) -> None:
    """D-793."""
    path = tmp_path / "w.db"
    with opened(path, good) as connection:
        connection.execute(statement)
    first, *others = examine(path).damage
    assert first.startswith(f"table {line}")
    assert len(others) < 10


READERS = ("/deliveries", "/messages", "/trace", "/upcoming")


@pytest.mark.parametrize(
    ("statement", "place", "damaged"),
    [
        (
            "UPDATE events SET at_ms = 9223372036854775807",
            "table events, row 1, column at_ms",
            {"/messages", "/upcoming"},
        ),
        (
            "UPDATE attempts SET outcome = 'text'",
            "table attempts, row 4, column outcome",
            set(READERS),
        ),
        ("UPDATE messages SET definition = x''", "table messages, row 1, column definition", {*READERS}),
    ],
)
@on_loop
async def test_what_a_start_does_not_look_at_is_one_line_where_it_is_read(
    tmp_path: Path, good: bytes, caplog: pytest.LogCaptureFixture, statement: str, place: str, damaged: set[str]
) -> None:
    """D-793: a start takes no longer for what it does not load, so the readers say it."""
    path = tmp_path / "w.db"
    with opened(path, good) as connection:
        connection.execute(statement)
    async with in_process(db=str(path)) as emulator:
        await emulator.control("POST", "/worlds", {"id": "other"})
        answers = {reader: await emulator.control("GET", reader) for reader in READERS}
        for answer in answers.values():
            if answer.status != 200:
                assert answer.status == 500
                assert answer.json["error"].startswith(f"damaged: {place}: expected ")
                assert answer.json["error"].endswith(f"(in {path})")
                assert answer.json["next"].startswith("restore a snapshot that is whole, or reset the world; ")
        assert {reader for reader, answer in answers.items() if answer.status == 500} == damaged
        lines = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(lines) == len(damaged)
        assert all(record.exc_info is None and "\n" not in record.getMessage() for record in lines)
        # The world works, and so do others.
        assert (await emulator.control("GET", "/deliveries?world=other")).status == 200
        assert await emulator.publish("https://app.test/")
        assert (await emulator.control("POST", "/reset")).status == 200
        assert (await emulator.control("GET", "/trace")).status == 200


def test_an_index_that_is_part_of_another_table_is_found_once_a_reader_failed(tmp_path: Path, good: bytes) -> None:
    """D-793: each row is right, and SQLite finds others by the index than there are."""
    with opened(tmp_path / "w.db", good) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = ?) WHERE name = ?",
            ("workflow_runs_by_id", "events_of_message"),
        )
    with contextlib.closing(sqlite3.connect(tmp_path / "w.db")) as connection:
        assert find_damage(connection, 10) == []
        assert "2nd reference to page" in find_any_damage(connection)[0]


@on_loop
async def test_a_stream_ends_with_the_row_that_it_cannot_read(tmp_path: Path, good: bytes) -> None:
    """D-793."""
    path = tmp_path / "w.db"
    with opened(path, good) as connection:
        connection.execute("UPDATE events SET state = 'LOST'")
    async with in_process(db=str(path)) as emulator:
        async with asyncio.timeout(5), streaming(emulator, "last=100") as stream:
            end = (await stream.rest())[-1]
        data: Any = end.data
        assert (end.kind, data["reason"]) == ("end", "broken")
        assert data["error"].startswith("damaged: table events, row 1, column state: expected one of CREATED, ")
