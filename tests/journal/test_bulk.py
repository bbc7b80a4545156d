"""Many rows by one statement write what as many statements would."""

from __future__ import annotations

import aiosqlite
import pytest

from emulator.journal import bulk
from tests.harness.loops import on_loop

PLAIN = "INSERT INTO t VALUES (?, ?)"
ADDING = "INSERT INTO t VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET b = b + excluded.b"
COMPUTED = "INSERT INTO t (a, b) VALUES (?1, abs(?2))"


@pytest.mark.parametrize("count", [1, 499, 500, 501, 1000, 1203])
@pytest.mark.parametrize("statement", [PLAIN, ADDING, COMPUTED])
def test_every_row_is_written_once_and_in_order(statement: str, count: int) -> None:
    @on_loop
    async def test() -> None:
        # With `ADDING`, every key comes three times.
        rows = [(number // 3 if statement is ADDING else number, number) for number in range(count)]
        async with aiosqlite.connect(":memory:") as many, aiosqlite.connect(":memory:") as single:
            for connection in (many, single):
                await connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
            await bulk.insert(many, statement, rows)
            await single.executemany(statement, rows)

            found, expected = [await each.execute_fetchall("SELECT * FROM t") for each in (many, single)]
        assert list(found) == list(expected)
        assert sum(b for _, b in found) == sum(range(count))

    test()


@on_loop
async def test_rows_are_written_in_few_statements() -> None:
    async with aiosqlite.connect(":memory:") as connection:
        statements: list[str] = []
        await connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
        await connection.set_trace_callback(statements.append)
        await bulk.insert(connection, PLAIN, [(number, number) for number in range(2000)])

    assert len([each for each in statements if each.startswith("INSERT")]) == 4
