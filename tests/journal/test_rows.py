"""Rows of history: many by one statement, the oldest dropped (D-281), the newest in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from emulator.core.world_setup import Keep
from emulator.journal.message_logs import MessageLogs
from emulator.journal.rows import Latest, Rows, insert_many
from emulator.journal.writer import Thresholds
from emulator.queries.history import Dropped
from tests.harness.loops import on_loop
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, by_url, unreachable
from tests.harness.stores import KeptWorld, kept

URL = "https://a.example.com/"
DOWN = "https://down.example.com/"

PLAIN = "INSERT INTO t VALUES (?, ?)"
ADDING = "INSERT INTO t VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET b = b + excluded.b"
COMPUTED = "INSERT INTO t (a, b) VALUES (?, abs(?))"


def made() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
    return connection


@pytest.mark.parametrize("count", [1, 499, 500, 501, 1000, 1203])
@pytest.mark.parametrize("statement", [PLAIN, ADDING, COMPUTED])
def test_every_row_is_written_once_and_in_order(statement: str, count: int) -> None:
    # With `ADDING`, every key comes three times.
    rows = [(number // 3 if statement is ADDING else number, number) for number in range(count)]
    with closing(made()) as many, closing(made()) as single:
        insert_many(many, statement, rows)
        single.executemany(statement, rows)

        found, expected = [each.execute("SELECT * FROM t").fetchall() for each in (many, single)]
        assert found == expected
        assert sum(b for _, b in found) == sum(range(count))


@pytest.mark.parametrize("count", [1, 499, 500, 1203])
@pytest.mark.parametrize("row", [(None, None, None), (1, None, None), (None, b"\0\xff", ""), (1, b"", "text")])
def test_missing_values_and_bytes_are_written_as_they_are(row: tuple[object, ...], count: int) -> None:
    # One of them differs, at the beginning, in the middle, at the end, or nowhere.
    for at in {0, count // 2, count - 1, count}:
        rows = [(2, b"other", None) if number == at else row for number in range(count)]
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t (a, b, c)")
            insert_many(connection, "INSERT INTO t VALUES (?, ?, ?)", rows)

            assert connection.execute("SELECT * FROM t").fetchall() == rows
            kinds = connection.execute("SELECT typeof(a), typeof(b), typeof(c) FROM t").fetchall()
            assert kinds[at:][:1] in ([("integer", "blob", "null")], [])


def test_rows_are_written_in_few_statements() -> None:
    with closing(made()) as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        insert_many(connection, PLAIN, [(number, number) for number in range(2000)])

        assert len([each for each in statements if each.startswith("INSERT")]) == 4


# -- dropping -----------------------------------------------------------------------------------


async def sizes(world: KeptWorld) -> dict[str, int]:
    found = {}
    for table in ("messages", "events", "attempts", "annotations"):
        ((found[table],),) = await world.store.rows(f"SELECT count(*) FROM {table}", ())
    return found


@on_loop
async def test_history_does_not_grow_beyond_what_is_kept_and_a_group() -> None:
    async with kept(keep=Keep(entries=400)) as world:
        largest = 0
        for number in range(500):
            world.publish(f"{URL}{number}")
            await world.store.writer.flush_history()
            largest = max(largest, sum((await sizes(world)).values()))

        # A message has three events and an attempt, and its row.
        assert 400 <= largest <= 1.25 * (500 + 10)
        assert world.history.dropped.seq == 1600
        trace = await world.trace()
        assert [entry.seq for entry in trace] == list(range(1601, 2001))
        assert (await world.events())[0].seq == 1601


@pytest.mark.parametrize("thresholds", [Thresholds(project_at=1), Thresholds()], ids=["at once", "late"])
@on_loop
async def test_same_history_is_cut_in_the_same_place_whenever_it_is_written(thresholds: Thresholds) -> None:
    async with kept(keep=Keep(entries=400), thresholds=thresholds) as world:
        for number in range(333):
            world.publish(f"{URL}{number}")
            if thresholds.project_at == 1:
                await world.store.writer.flush_history()
        await world.store.writer.flush_history()
        assert world.history.dropped == Dropped(seq=900, at_ms=EPOCH_MS)
        assert (await world.trace())[0].seq == 901


@on_loop
async def test_live_messages_and_dead_letters_stay_whole() -> None:
    async with kept(keep=Keep(entries=40), answering=by_url({DOWN: unreachable()})) as world:
        failed = world.publish(DOWN, max_retries=0)
        waiting = world.publish(URL, delay_ms=HOUR)
        ended = world.publish(URL)
        for _ in range(50):
            world.publish(URL)
        await world.store.writer.flush_history()

        logs = MessageLogs(world.store)
        assert world.history.dropped.seq > 100
        assert await logs.find(ended) is None
        found = [await logs.find(each) for each in (failed, waiting)]
        assert [[type(entry).__name__ for entry in log.entries] for log in found if log is not None] == [
            ["LoggedEvent", "LoggedEvent", "RecordedAttempt", "LoggedEvent", "LoggedEvent", "Annotation"],
            ["LoggedEvent"],
        ]
        world.run_for(HOUR)
        assert await logs.find(waiting) is not None


@pytest.mark.parametrize(("keep_entries", "messages", "group"), [(1_000, 100, 250), (None, 3_500, 12_500)])
@on_loop
async def test_what_is_older_than_an_age_is_dropped(keep_entries: int | None, messages: int, group: int) -> None:
    """What is just as old is kept."""
    async with kept(keep=Keep(entries=keep_entries, age_ms=DAY)) as world:
        for _ in range(messages):
            world.publish(URL)
        dropped = []
        for later_ms in (DAY, 1):
            world.run_for(later_ms)
            world.publish(URL)
            await world.store.writer.flush_history()
            dropped.append((world.history.dropped.seq, (await world.history.since(0, 1))[0].seq))
        assert dropped == [(0, 1), (group, group + 1)]


@on_loop
async def test_what_was_dropped_is_known_after_a_restart(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db", keep=Keep(entries=40)) as world:
        for _ in range(50):
            world.publish(URL)
        await world.store.writer.flush_history()
        dropped, trace = world.history.dropped, await world.trace()
    async with kept(tmp_path / "w.db") as again:
        assert again.history.dropped == dropped
        assert await again.trace() == trace
        again.publish(URL)
        assert (await again.trace())[-1].seq == 204


# -- following ----------------------------------------------------------------------------------


def group(first: int, *, body: bytes = b"m") -> Rows:
    """A message that is made, attempted without success, and the event of that."""
    number = first
    return Rows(
        messages=[(number, f"msg_{number}", body)],
        events=[(first, number, 10, "CREATED", None, None), (first + 2, number, 12, "ERROR", first + 1, 99)],
        attempts=[(first + 1, number, 1, 11, 12, 0, 500, b"outcome", b"rule")],
    )


def numbers(latest: Latest, seq: int, count: int = 10) -> list[int] | None:
    found = latest.since(seq, count)
    return None if found is None else [row[0] for row in found.rows]


def test_nothing_is_kept_before_somebody_asks() -> None:
    latest = Latest()
    latest.take(group(1))
    assert numbers(latest, 3) is None
    latest.take(group(4))
    assert numbers(latest, 3) == [4, 5, 6]


def test_entries_are_as_the_database_gives_them() -> None:
    latest = Latest()
    latest.since(0, 1)
    latest.take(group(1))
    found = latest.since(0, 10)
    assert found is not None
    assert found.rows == [
        (1, 1, 10, None, None, "CREATED", None, None, None),
        (2, 1, 11, 12, 1, None, None, b"outcome", b"rule"),
        (3, 1, 12, None, None, "ERROR", 99, b"outcome", None),
    ]
    assert found.definitions == {1: b"m"}


@pytest.mark.parametrize(
    ("groups", "seq", "count", "expected"),
    [
        # A page may span groups and end anywhere.
        ((1, 4, 7), 0, 4, [1, 2, 3, 4]),
        ((1, 4, 7), 4, 4, [5, 6, 7, 8]),
        ((1, 4, 7), 8, 4, [9]),
        ((1, 4, 7), 9, 4, []),
        # Older entries and later ones are in the database alone.
        ((4,), 2, 10, None),
        ((4,), 7, 10, None),
        # Nobody has asked for long.
        (range(1, 61, 3), 57, 10, None),
    ],
)
def test_what_is_kept_is_found_from_any_entry_on(
    groups: Sequence[int], seq: int, count: int, expected: list[int] | None
) -> None:
    latest = Latest()
    latest.since(0, 1)
    for first in groups:
        latest.take(group(first))
    assert numbers(latest, seq, count) == expected


def test_large_bodies_are_kept_for_a_group_alone() -> None:
    latest = Latest()
    latest.since(0, 1)
    latest.take(group(1, body=b"x" * 5_000_000))
    assert numbers(latest, 0, 1) == [1]
    latest.take(group(4))
    assert numbers(latest, 0, 1) is None
    assert numbers(latest, 3, 1) == [4]
