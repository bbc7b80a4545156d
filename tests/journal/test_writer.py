"""The writer: groups, checkpoints while facts keep coming, failures, and reading meanwhile."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from emulator.core import message_facts
from emulator.core.errors import WorldBroken
from emulator.core.model.messages import EventState, Response
from emulator.core.record import MessageId
from emulator.journal import schema
from emulator.journal.database import MEMORY
from emulator.journal.writer import Thresholds
from tests.harness.loops import PATIENCE_S, on_loop
from tests.harness.simulations import SECOND, answered, by_url, dump
from tests.harness.stores import KeptWorld, connection_of, crash, kept, watch_statements

DOWN = "https://down.example.com/"


# More than is written without the connection's thread.
_MANY = 100


def _publish_many(world: KeptWorld, url: str, **options: Any) -> None:
    for _ in range(_MANY):
        world.publish(url, **options)


# -- groups -----------------------------------------------------------------------------------


@on_loop
async def test_commits_that_wait_together_share_a_write(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:

        async def publish(number: int) -> None:
            world.publish(f"https://a.example.com/{number}")
            await world.store.writer.commit()

        await asyncio.gather(*(publish(number) for number in range(200)))
        counted = "SELECT count(*), sum(count) FROM facts"
        ((written, facts),) = await world.store.rows(counted, ())
        # The first write may start with the first of them; all others are in the second.
        assert written <= 2
        assert facts == len(world.facts)

        # A commit without anything new writes nothing, and a checkpoint drops what it covers.
        await world.store.writer.commit()
        assert await world.store.rows(counted, ()) == [(written, facts)]
        await world.store.writer.checkpoint()
        assert await world.store.rows(counted, ()) == [(0, None)]


@pytest.mark.parametrize(
    ("first", "messages", "is_shared"),
    [
        pytest.param(1, 1, False, id="alone"),
        pytest.param(2, 1, True, id="together"),
        pytest.param(2, 100, False, id="many-facts"),
    ],
)
@on_loop
async def test_commits_that_follow_turn_by_turn_join_a_small_group(
    tmp_path: Path, first: int, messages: int, is_shared: bool
) -> None:
    """Of six, so many are there from the first turn, with so many messages each. One that is alone does not wait."""
    async with kept(tmp_path / "w.db") as world:

        async def publish(number: int) -> None:
            for _ in range(number - first + 1):
                await asyncio.sleep(0)
            for _ in range(messages if number < first else 1):
                world.publish(f"https://a.example.com/{number}")
            await world.store.writer.commit()

        await asyncio.gather(*(publish(number) for number in range(6)))
        ((writes,),) = await world.store.rows("SELECT count(*) FROM facts", ())
        assert (writes == 1) is is_shared


@on_loop
async def test_waiter_that_goes_away_takes_nobody_with_it(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:
        world.publish("https://a.example.com/")
        gone = asyncio.get_running_loop().create_task(world.store.writer.commit())
        stays = asyncio.get_running_loop().create_task(world.store.writer.commit())
        await asyncio.sleep(0)
        gone.cancel()
        await stays
        copy = crash(tmp_path / "w.db", tmp_path / "copy")

    async with kept(copy) as again:
        assert again.simulation.state.counters.messages == 1


@pytest.mark.parametrize("place", ["w.db", MEMORY])
@on_loop
async def test_reader_that_goes_away_leaves_when_its_statement_has_ended(tmp_path: Path, place: str) -> None:
    """Little is written by another thread than its, and two at once in SQLite could wait for each other for ever."""
    began, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        may_end.wait(PATIENCE_S)

    async with kept(place if place == MEMORY else tmp_path / place) as world:
        for _ in range(1_001):
            world.publish("https://a.example.com/", delay_ms=SECOND)
        await world.store.writer.flush_history()
        (await connection_of(world.store)).create_function("wait", 0, wait)
        reader = asyncio.get_running_loop().create_task(world.store.rows("SELECT wait()", ()))
        await asyncio.to_thread(began.wait, PATIENCE_S)
        world.publish("https://a.example.com/")
        flush = asyncio.get_running_loop().create_task(world.store.writer.flush_history())
        for _ in range(3):
            reader.cancel()
            await asyncio.sleep(0)
        assert not reader.done()
        assert not flush.done()

        may_end.set()
        await flush
        with pytest.raises(asyncio.CancelledError):
            await reader


@on_loop
async def test_waiting_commit_is_answered_when_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        world.publish("https://a.example.com/")
        waiting = asyncio.get_running_loop().create_task(world.store.writer.commit())
        reading = asyncio.get_running_loop().create_task(world.store.writer.flush_history())
        await asyncio.sleep(0)
        await world.store.close()
        await waiting
        await reading

    async with kept(path) as again:
        assert again.simulation.state.counters.messages == 1


# -- checkpoints ------------------------------------------------------------------------------


@on_loop
async def test_log_stays_short_however_often_history_is_read(tmp_path: Path) -> None:
    log = tmp_path / "w.db-wal"
    async with kept(tmp_path / "w.db") as world:
        longest = 0
        for number in range(300):
            world.publish(f"https://a.example.com/{number}", body=b"x" * 20_000)
            await world.store.writer.flush_history()
            longest = max(longest, log.stat().st_size)

    # Each round writes the body twice, 12 MB in all.
    assert longest < 8_000_000


@pytest.mark.slow
@on_loop
async def test_checkpoints_while_facts_keep_coming_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.db"

    acknowledged: list[MessageId] = []
    copies: list[tuple[Path, list[MessageId]]] = []
    async with kept(path, thresholds=Thresholds(checkpoint_at=20, project_at=7)) as world:

        async def publish(publisher: int) -> None:
            for number in range(30):
                message_id = world.publish(f"https://a.example.com/{publisher}/{number}", delay_ms=number * SECOND)
                await world.store.writer.commit()
                acknowledged.append(message_id)
                if publisher == 0:
                    copies.append((crash(path, tmp_path / f"copy{number}"), list(acknowledged)))
                    world.run_for(SECOND)

        await asyncio.gather(*(publish(publisher) for publisher in range(5)))
        expected = await world.trace()
        reference = dump(world._state)

    async with kept(path) as again:
        assert dump(again._state) == reference
        assert await again.trace() == expected
    for copy, known in copies:
        async with kept(copy) as again:
            created = {e.message.message_id for e in await again.events() if e.state is EventState.CREATED}
            assert created >= set(known)
            live = set(again._state.messages)
            ended = {
                event.message.message_id
                for event in await again.events()
                if event.state in (EventState.DELIVERED, EventState.FAILED)
            }
            assert live | ended == created
            assert live & ended == set()


# -- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("disk full"), KeyError("a fault of ours")], ids=["disk", "fault"]
)
@on_loop
async def test_writer_that_fails_fails_everybody_and_stays_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_file: bool, error: Exception
) -> None:
    caplog.set_level(logging.CRITICAL, logger="emulator.journal")

    def fail(statement: str) -> None:
        if statement.startswith("INSERT"):
            raise error

    async with kept(tmp_path / "w.db" if is_file else MEMORY) as world:
        _publish_many(world, "https://a.example.com/")
        await watch_statements(world.store, fail)
        readers = [asyncio.get_running_loop().create_task(world.store.writer.flush_history()) for _ in range(3)]
        results = await asyncio.gather(*readers, return_exceptions=True)

        assert [type(result) for result in results] == [WorldBroken] * 3
        with pytest.raises(WorldBroken):
            await world.store.writer.commit()
        with pytest.raises(WorldBroken):
            await world.events()


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
@on_loop
async def test_little_that_cannot_be_written_stops_the_store_as_well(tmp_path: Path, is_file: bool) -> None:
    async with kept(tmp_path / "w.db" if is_file else MEMORY) as world:
        (await connection_of(world.store)).execute("DROP TABLE usage_minutes")
        world.publish("https://a.example.com/")
        with pytest.raises(WorldBroken, match="no such table"):
            await world.store.writer.flush_history()
        connection = await connection_of(world.store)
        # What was written before it in the same transaction is undone.
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(0,)]


# -- reading while writing --------------------------------------------------------------------


@on_loop
async def test_reader_sees_everything_that_happened_before_and_nothing_by_halves() -> None:
    async with kept(answering=by_url({DOWN: answered(500, body=b"no")})) as world:

        async def act() -> None:
            for _ in range(12):
                for _ in range(5):
                    world.publish(DOWN, max_retries=0)
                await world.store.writer.flush_history()

        async def read() -> None:
            for _ in range(12):
                happened = len([fact for fact in world.facts if isinstance(fact, message_facts.AttemptFinished)])
                events = await world.events()
                errors = [event for event in events if event.state is EventState.ERROR]
                assert len(errors) >= happened
                assert all(event.response == Response(status=500, headers=(), body=b"no") for event in errors)
                assert len([event for event in events if event.state is EventState.FAILED]) == len(errors)
                # The other task runs in between.
                await asyncio.sleep(0)

        await asyncio.gather(act(), read(), read())


@on_loop
async def test_reader_waits_for_the_end_of_a_transaction() -> None:
    async with kept(answering=by_url({DOWN: answered(500)})) as world:
        half_way, may_end = threading.Event(), threading.Event()

        def pause_half_way(statement: str) -> None:
            if statement.startswith(f"INSERT INTO {schema.ATTEMPTS.name} "):
                half_way.set()
                may_end.wait(PATIENCE_S)

        await watch_statements(world.store, pause_half_way)
        _publish_many(world, DOWN, max_retries=0)
        first = asyncio.get_running_loop().create_task(world.events())
        await asyncio.to_thread(half_way.wait, PATIENCE_S)

        # A reader that needs nothing of what is being written.
        second = asyncio.get_running_loop().create_task(world.store.meta())
        done, _ = await asyncio.wait((second,), timeout=0.02)
        assert done == set()
        may_end.set()

        assert schema.BASE_CHECKPOINT in await second
        assert len(await first) == 4 * _MANY
