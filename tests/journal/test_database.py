"""Connections, made when they are needed, few threads for all (D-301); tables, declared once."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest

from emulator.core.checkpoint import capture
from emulator.journal import schema
from emulator.journal.database import Database, Pool
from emulator.journal.rows import WRITES, Rows
from tests.harness.loops import on_loop
from tests.harness.simulations import World, make_account

FEW = 3
CHECKPOINT = capture(World(make_account())._state)


async def database_of(pool: Pool, meta: dict[str, bytes] | None = None) -> Database:
    database = Database(pool=pool)
    await database.begin(CHECKPOINT, meta or {})
    return database


@asynccontextmanager
async def open_database(meta: dict[str, bytes] | None = None) -> AsyncIterator[Database]:
    database = await database_of(Pool(), meta)
    yield database
    await database.close()


def insert(number: int, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO facts VALUES (?, 1, x'')", (number,))


async def numbers_in(database: Database, *, is_little: bool = False) -> list[int]:
    def read(connection: sqlite3.Connection) -> list[int]:
        return [number for (number,) in connection.execute("SELECT last_seq FROM facts ORDER BY last_seq")]

    return await database.run(read, is_little=is_little)


@on_loop
async def test_database_that_nobody_uses_is_not_made_and_has_no_thread() -> None:
    before = threading.active_count()
    databases = [await database_of(Pool()) for _ in range(100)]

    # Threads of earlier tests may end meanwhile.
    assert threading.active_count() <= before
    assert all(database._connection is None for database in databases)
    for database in databases:
        await database.close()


@on_loop
async def test_little_is_done_without_a_thread_and_there_with_one() -> None:
    before = threading.active_count()
    async with open_database() as database:
        await database.transaction(partial(insert, 1), log_bytes=100)

        assert await numbers_in(database, is_little=True) == [1]
        assert threading.active_count() <= before
        assert await numbers_in(database) == [1]
        # What begins again holds nothing of before.
        await database.begin_again(CHECKPOINT, {})
        assert await numbers_in(database) == []


@pytest.mark.parametrize("size", [1, 10_000_000])
@on_loop
async def test_what_a_database_held_is_freed_with_it(size: int) -> None:
    database = await database_of(Pool())
    await database.run(lambda connection: connection.execute("INSERT INTO meta VALUES ('a', zeroblob(?))", (size,)))
    connection = database._connection
    assert connection is not None
    await database.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@on_loop
async def test_a_hundred_databases_share_a_few_threads_and_keep_what_they_hold() -> None:
    before = set(threading.enumerate())
    pool = Pool(FEW)
    databases = [await database_of(pool) for _ in range(100)]

    async def work(number: int) -> None:
        for each in (number, number + 1):
            await databases[number].transaction(partial(insert, each))

    await asyncio.gather(*map(work, range(100)))
    found = await asyncio.gather(*map(numbers_in, databases))

    assert found == [[number, number + 1] for number in range(100)]
    # Threads of others may end meanwhile.
    started = [each for each in threading.enumerate() if each not in before and each.name.startswith("database ")]
    assert 0 < len(started) <= FEW
    for database in databases:
        await database.close()


@on_loop
async def test_jobs_of_one_database_run_one_at_a_time_and_whole() -> None:
    running: list[int] = []

    def job(number: int, connection: sqlite3.Connection) -> None:
        running.append(number)
        connection.execute("SELECT 1")
        assert running == [number]
        running.pop()

    async with open_database() as database:
        await asyncio.gather(*(database.run(partial(job, n), is_little=n % 2 == 0) for n in range(20)))


@on_loop
async def test_transaction_that_fails_leaves_nothing() -> None:
    def fail(connection: sqlite3.Connection) -> None:
        insert(1, connection)
        raise KeyError("a fault of ours")

    async with open_database() as database:
        for log_bytes in (1, 10**9):
            with pytest.raises(KeyError):
                await database.transaction(fail, log_bytes)
            assert await numbers_in(database) == []


@on_loop
async def test_database_that_could_not_be_filled_is_made_again_by_the_next_user() -> None:
    wrong = {"name": "not bytes", "other": None}
    async with open_database(wrong) as database:  # type: ignore[arg-type]  # what SQLite refuses
        with pytest.raises(sqlite3.IntegrityError):
            await numbers_in(database)
        wrong["other"] = "not bytes"
        assert await numbers_in(database) == []


@pytest.mark.parametrize("is_made", [False, True])
@on_loop
async def test_closed_database_cannot_be_used(is_made: bool) -> None:
    database = await database_of(Pool())
    if is_made:
        await numbers_in(database)
    await database.close()
    with pytest.raises(ValueError, match="closed"):
        await numbers_in(database)


@on_loop
async def test_opening_that_is_cancelled_leaves_the_file_unlocked(tmp_path: Path) -> None:
    path = str(tmp_path / "w.db")
    database = Database(path)
    await database.begin(CHECKPOINT, {})
    await database.close()

    opening = asyncio.get_running_loop().create_task(Database(path).open_file())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    again = Database(path)
    assert await again.open_file()
    await again.close()


# -- tables are declared once: every statement that goes through all of them follows from the declarations ---


@pytest.fixture
def created() -> Iterator[sqlite3.Connection]:
    """A new database in memory, with all tables."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(schema.CREATE)
        yield connection


def test_every_table_is_copied_and_history_is_emptied_by_a_reset() -> None:
    for table in schema.TABLES:
        assert f"DELETE FROM main.{table.name}" in schema.TAKE_COPY
        assert f"INSERT INTO main.{table.name} SELECT * FROM copy.{table.name}" in schema.TAKE_COPY
        # What the world is stays; its checkpoint is overwritten.
        assert (table.empty in schema.RESET) == (table not in (schema.META, schema.CHECKPOINT))


def test_every_history_table_is_written_from_rows_of_its_name() -> None:
    assert {table.name for table in schema.HISTORY} <= set(WRITES) == set(Rows.__slots__)


def test_every_table_is_declared_with_all_its_columns(created: sqlite3.Connection) -> None:
    connection = created
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert sorted(names) == sorted(table.name for table in schema.TABLES)
    for table in schema.TABLES:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")]
        assert columns == list(table.columns)
        row = [1 if "INTEGER" in definition else b"x" for definition in table.columns.values()]
        connection.execute(table.insert, row)
        assert [tuple(row)] == list(connection.execute(f"SELECT * FROM {table.name}"))


def test_definitions_are_those_that_sqlite_stores(created: sqlite3.Connection) -> None:
    """D-551: so a file of another format is found by comparing texts."""
    found = [sql for (sql,) in created.execute(schema.SELECT_DEFINITIONS)]
    assert sorted(found) == sorted(schema.DEFINITIONS)


# The last two differ behind the characters that are in the index.
IDS = {1: "AAAAAAx", 16_383: "BBBBBBx", 16_384: "CCCCCCx", 70_000: "DDDDDDx", 70_001: "DDDDDDy"}


def test_a_message_is_found_by_its_id_in_whatever_part_it_is(created: sqlite3.Connection) -> None:
    """D-402."""
    connection = created
    others = [b""] * (len(schema.MESSAGES.columns) - 2)
    for number, end in IDS.items():
        connection.execute(schema.MESSAGES.insert, (number, f"msg_7YoJx{end}", *others))

    def numbers(*ids: str) -> set[int]:
        wanted = json.dumps([f"msg_7YoJx{end}" for end in ids])
        return {number for (number,) in connection.execute(schema.NUMBERS_OF, (wanted,))}

    for number, end in IDS.items():
        assert numbers(end) == {number}
    assert numbers(*IDS.values()) == set(IDS)
    assert numbers("AAAAAA", "DDDDDDz", "other", "") == set()


def test_ids_are_looked_up_in_their_indexes(created: sqlite3.Connection) -> None:
    """D-402."""
    connection = created
    for statement, index in (
        (schema.NUMBERS_OF, "messages_by_id"),
        (f"SELECT * FROM annotations WHERE {schema.ANNOTATIONS_OF} ORDER BY id", "annotations_of_message"),
    ):
        parameters = ("[]",) * statement.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        assert any("USING INDEX" in step and index in step for step in plan), plan


def test_no_statement_numbers_its_parameters() -> None:
    """Python 3.12.0 to 3.12.3 warn of `?1` with a sequence, and a warning may be an error."""
    package = Path(schema.__file__).parent
    numbered = [
        f"{path.name}: {found}" for path in package.glob("*.py") for found in re.findall(r"\?[0-9]", path.read_text())
    ]
    assert numbered == []
