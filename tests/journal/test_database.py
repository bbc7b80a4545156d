"""Databases in memory: made when they are needed, and few threads for all of them (D-301)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from emulator.journal.database import InMemory, Threads
from emulator.journal.statements import Statements
from tests.harness.loops import on_loop

FEW = 3


async def fill(connection: Statements) -> None:
    await connection.execute("CREATE TABLE t (n INTEGER)")


async def database_of(threads: Threads) -> InMemory:
    database = InMemory(threads)
    await database.begin(fill)
    return database


async def insert(database: InMemory, *numbers: int) -> None:
    async with database.use() as connection:
        await connection.execute("BEGIN IMMEDIATE")
        for number in numbers:
            await connection.execute("INSERT INTO t VALUES (?)", (number,))
        await connection.execute("COMMIT")


async def numbers_in(database: InMemory) -> list[int]:
    async with database.use() as connection:
        return [number for (number,) in await connection.execute_fetchall("SELECT n FROM t ORDER BY rowid")]


@on_loop
async def test_database_that_nobody_uses_is_not_made_and_has_no_thread() -> None:
    before = threading.active_count()
    threads = Threads()
    databases = [await database_of(threads) for _ in range(100)]

    assert threading.active_count() == before
    assert all(database._content is None for database in databases)
    for database in databases:
        await database.close()


@on_loop
async def test_little_is_done_without_a_thread_and_there_for_whoever_has_one() -> None:
    before = threading.active_count()
    database = await database_of(Threads())
    await (await database.immediate()).execute("INSERT INTO t VALUES (?)", (1,))
    await (await database.immediate()).executemany("INSERT INTO t VALUES (?)", [(2,), (3,)])
    (row,) = await (await database.immediate()).execute_fetchall("SELECT count(*) FROM t")

    assert row[0] == 3
    assert threading.active_count() == before
    assert await numbers_in(database) == [1, 2, 3]
    await database.close()
    with pytest.raises(ValueError, match="closed"):
        await database.immediate()


@pytest.mark.parametrize("size", [1, 10_000_000])
def test_what_a_database_held_is_freed_with_it(size: int) -> None:
    @on_loop
    async def test() -> None:
        database = await database_of(Threads())
        await (await database.immediate()).execute("INSERT INTO t VALUES (zeroblob(?))", (size,))
        content = database._content
        assert content is not None
        await database.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            content.execute("SELECT 1")

    test()


@on_loop
async def test_a_hundred_databases_share_a_few_threads_and_keep_what_they_hold() -> None:
    before = threading.active_count()
    threads = Threads(FEW)
    databases = [await database_of(threads) for _ in range(100)]
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        await insert(databases[number], number, number + 1)
        most = max(most, threading.active_count() - before)

    await asyncio.gather(*map(work, range(100)))
    found = await asyncio.gather(*map(numbers_in, databases))

    assert found == [[number, number + 1] for number in range(100)]
    # Besides those in use there may be one that is ending.
    assert 1 <= most <= 2 * FEW
    for database in databases:
        await database.close()
    assert threading.active_count() <= before + 5  # of the loop's own executor, which ends with the loop


@on_loop
async def test_the_database_that_was_used_last_keeps_its_connection() -> None:
    threads = Threads(2)
    often, *others = [await database_of(threads) for _ in range(5)]
    async with often.use() as first:
        pass
    for other in others:
        await insert(other, 1)
        async with often.use() as connection:
            assert connection is first
    for database in (often, *others):
        await database.close()


@on_loop
async def test_first_users_at_once_find_one_database() -> None:
    filled: list[Statements] = []

    async def count(connection: Statements) -> None:
        filled.append(connection)
        await fill(connection)

    database = InMemory(Threads())
    await database.begin(count)

    for found in await asyncio.gather(numbers_in(database), numbers_in(database)):
        assert found == []
    assert len(filled) == 1
    await database.close()


@on_loop
async def test_database_that_could_not_be_filled_is_made_again_by_the_next_user() -> None:
    failures = [sqlite3.OperationalError("no room")]

    async def fill_at_the_second_try(connection: Statements) -> None:
        await fill(connection)
        if failures:
            raise failures.pop()

    database = InMemory(Threads())
    await database.begin(fill_at_the_second_try)
    with pytest.raises(sqlite3.OperationalError, match="no room"):
        await numbers_in(database)

    assert await numbers_in(database) == []
    await database.close()


@on_loop
async def test_database_that_begins_again_holds_nothing_of_before() -> None:
    database = await database_of(Threads())
    await insert(database, 1)
    await database.begin(fill)

    assert await numbers_in(database) == []
    await database.close()


@on_loop
async def test_closed_database_cannot_be_used() -> None:
    for is_made in (False, True):
        database = await database_of(Threads())
        if is_made:
            await insert(database, 1)
        await database.close()
        with pytest.raises(ValueError, match="closed"):
            await numbers_in(database)
