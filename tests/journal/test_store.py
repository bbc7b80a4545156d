"""The store: groups, restarts, crashes at any moment, checkpoints."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from emulator.core import facts
from emulator.core.errors import Conflict, WorldBroken
from emulator.core.model.answers import Response, ScriptedResponse
from emulator.core.model.messages import EventState
from emulator.core.model.names import MessageId
from emulator.journal import schema
from emulator.journal.database import MEMORY
from emulator.journal.writer import Thresholds
from tests.harness.loops import PATIENCE_S, on_loop
from tests.harness.simulations import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    World,
    answered,
    by_url,
    callback,
    dump,
    flow,
    unreachable,
)
from tests.harness.stores import KeptWorld, connection_of, crash, kept

DOWN = "https://down.example.com/"
BUSY = "https://busy.example.com/"

ANSWERS = by_url({DOWN: unreachable(), BUSY: [answered(503), answered(503), answered(200)]})


def first_day(world: World) -> None:
    """Something of everything."""
    world.publish("https://a.example.com/one", body=b"\x00\xff", labels=("x", "y"))
    world.publish("https://a.example.com/two", delay_ms=HOUR, callback=callback("https://back.example.com/"))
    world.publish(DOWN, max_retries=1, retry_delay="60000", failure_callback=callback("https://back.example.com/"))
    world.publish(DOWN, max_retries=0)
    world.publish(BUSY, deduplication_id="once")
    world.publish(BUSY, deduplication_id="once")
    world.make_group("g", "https://a.example.com/g1", "https://a.example.com/g2")
    world.publish_to_group("g")
    world.write_queue("q", parallelism=1)
    for number in range(3):
        world.enqueue("q", f"https://a.example.com/q{number}")
        world.publish("https://a.example.com/f", flow_control=flow("k", rate=1, period_ms=MINUTE))
    world.write_schedule("0 * * * *", "https://a.example.com/cron", schedule_id="hourly")
    world.pause_schedule(world.write_schedule("0 0 * * *", "https://a.example.com/never"))
    world.run_for(30 * SECOND)


def second_day(world: World) -> None:
    world.add_rule("https://a.example.com/slow", responses=(ScriptedResponse(latency_ms=MINUTE),), times=2)
    world.publish("https://a.example.com/slow")
    world.run_for(HOUR)
    world.write_queue("q", paused=True)
    world.enqueue("q", "https://a.example.com/held")
    world.cancel(world.publish("https://a.example.com/no", delay_ms=DAY))
    world.delete_dead_letters(world.dead_letter_ids()[0])
    world.retry_dead_letters(world.dead_letter_ids()[0])
    world.run_for(2 * HOUR)
    world.publish("https://a.example.com/slow")
    world.publish("https://a.example.com/last", delay_ms=MINUTE)


async def history_of(world: KeptWorld) -> list[Any]:
    return await world.trace()


# -- groups -----------------------------------------------------------------------------------


@on_loop
async def test_commits_that_wait_together_share_a_write(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:

        async def publish(number: int) -> None:
            world.publish(f"https://a.example.com/{number}")
            await world.store.writer.commit()

        await asyncio.gather(*(publish(number) for number in range(200)))
        (row,) = await world.store.rows("SELECT count(*), sum(count) FROM facts", ())

    # The first write may start with the first of them; all others are in the second.
    assert row[0] <= 2
    assert row[1] == len(world.facts)


@on_loop
async def test_commit_without_anything_new_writes_nothing(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:
        world.publish("https://a.example.com/")
        await world.store.writer.commit()
        await world.store.writer.commit()

        (row,) = await world.store.rows("SELECT count(*) FROM facts", ())

    assert row[0] == 1


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
def test_reader_that_goes_away_leaves_when_its_statement_has_ended(tmp_path: Path, place: str) -> None:
    """Little is written by another thread than its, and two at once in SQLite could wait for each other for ever."""
    began, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        may_end.wait(PATIENCE_S)

    @on_loop
    async def test() -> None:
        async with kept(place if place == MEMORY else tmp_path / place) as world:
            for _ in range(1_001):
                world.publish("https://a.example.com/", delay_ms=SECOND)
            await world.store.writer.flush_history()
            await (await connection_of(world.store)).create_function("wait", 0, wait)
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

    test()


# -- restarts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_restart_goes_on_exactly(tmp_path: Path, how: str) -> None:
    @on_loop
    async def test() -> None:
        path = tmp_path / "w.db"
        reference = World(answering=ANSWERS)
        first_day(reference)
        async with kept(path, ANSWERS) as world:
            first_day(world)
            await world.store.writer.commit()
            if how == "killed":
                path = crash(path, tmp_path / "copy")
        count = len(reference.facts)

        async with kept(path, ANSWERS) as again:
            assert dump(again._state) == reference.snapshot()
            # The same retries need the same originals, which history would give.
            again.messages.update(world.messages)
            again.facts[:] = world.facts
            second_day(again)
            second_day(reference)

            assert again.facts[count:] == reference.facts[count:]
            assert dump(again._state) == reference.snapshot()

    test()


@on_loop
async def test_history_goes_on_over_restarts_without_a_seam(tmp_path: Path) -> None:
    async with kept(answering=ANSWERS) as reference:
        first_day(reference)
        second_day(reference)
        expected = await history_of(reference)

    async with kept(tmp_path / "w.db", ANSWERS) as world:
        first_day(world)
    async with kept(tmp_path / "w.db", ANSWERS) as again:
        again.messages.update(world.messages)
        again.facts[:] = world.facts
        second_day(again)
        found = await history_of(again)

    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "habit", ["commit", "read", "commit, read", "read, commit", "checkpoint", "commit, checkpoint"]
)
def test_crash_at_any_moment_leaves_a_state_and_a_history_that_agree(tmp_path: Path, habit: str) -> None:
    @on_loop
    async def test() -> None:
        path = tmp_path / "w.db"
        copies: list[tuple[Path, int]] = []
        async with kept(path, ANSWERS) as world:

            async def after_each_step(number: int) -> None:
                # Now and then, so that the three are at different facts.
                for step, wait in zip(habit.split(", "), (3, 5), strict=False):
                    if number % wait == 0:
                        await {
                            "commit": world.store.writer.commit,
                            "read": world.events,
                            "checkpoint": world.store.writer.checkpoint,
                        }[step]()
                copies.append((crash(path, tmp_path / f"copy{number}"), len(world.facts)))

            for number in range(16):
                world.publish(DOWN, max_retries=1, retry_delay="20000")
                world.publish(f"https://a.example.com/{number}", delay_ms=25 * SECOND)
                world.run_for(10 * SECOND)
                if number % 4 == 3:
                    world.delete_dead_letters(world.dead_letter_ids()[0])
                await after_each_step(number)
            recorded = list(world.facts)

        for copy, happened in copies:
            async with kept(copy, ANSWERS) as again:
                image, _ = dump(again._state)
                # Some number of the facts is there, whole, and no others.
                survived = _count_of(recorded[:happened], image)
                async with kept(answering=ANSWERS) as reference:
                    for fact in recorded[:survived]:
                        reference._state.apply(fact)
                    reference.messages.update(world.messages)
                    reference.store.writer.append(recorded[:survived])
                    assert await again.trace() == await reference.trace()
                    for each in (again, reference):
                        each.run_for(MINUTE)
                        each.publish(DOWN, max_retries=0)
                    assert await again.trace() == await reference.trace()
                    assert dump(again._state) == dump(reference._state)

    test()


def _count_of(recorded: list[facts.Fact], image: Any) -> int:
    """How many of the facts, from the beginning, lead to this image."""
    fresh = World()
    for count in range(len(recorded) + 1):
        if dump(fresh._state)[0] == image:
            return count
        fresh._state.apply(recorded[count])
    raise AssertionError("no such moment")


@on_loop
async def test_committed_facts_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        for number in range(5):
            world.publish("https://a.example.com/")
            await world.store.writer.commit()
            copy = crash(path, tmp_path / f"copy{number}")
            async with kept(copy) as again:
                assert again.simulation.state.counters.messages == number + 1


@on_loop
async def test_message_whose_creation_history_knew_goes_on_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        message_id = world.publish("https://a.example.com/", delay_ms=SECOND)
        await world.events()
        copy = crash(path, tmp_path / "copy")

    async with kept(copy) as again:
        again.messages.update(world.messages)
        again.run_for(SECOND)
        states = [event.state for event in await again.events() if event.message.message_id == message_id]

    assert states == [EventState.CREATED, EventState.ACTIVE, EventState.DELIVERED]


@on_loop
async def test_history_never_tells_of_what_a_crash_undoes(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        world.publish("https://a.example.com/first")
        # Nobody waits for a commit, but somebody reads.
        await world.events()
        copy = crash(path, tmp_path / "copy")

    async with kept(copy) as again:
        told = {event.message.message_id for event in await again.events()}
        assert len(told) == again.simulation.state.counters.messages
        again.publish("https://a.example.com/second")
        assert len({event.message.message_id for event in await again.events()}) == len(told) + 1


@on_loop
async def test_deleted_dead_letter_does_not_return(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path, ANSWERS) as world:
        world.publish(DOWN, max_retries=0)
        world.publish(DOWN, max_retries=0)
        deleted, remaining = world.dead_letter_ids()
        await world.events()
        world.delete_dead_letters(deleted)
        await world.store.writer.commit()
        copy = crash(path, tmp_path / "copy")

    for each in (path, copy):
        async with kept(each, ANSWERS) as again:
            assert again.dead_letter_ids() == [remaining]
            rows = await again.store.rows("SELECT dead_letter_id FROM dead_letters", ())
            assert [row[0] for row in rows] == [remaining]


# -- checkpoints ------------------------------------------------------------------------------


@on_loop
async def test_checkpoint_drops_the_facts_it_covers(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:
        world.publish("https://a.example.com/")
        await world.store.writer.commit()
        await world.store.writer.checkpoint()

        (row,) = await world.store.rows("SELECT count(*) FROM facts", ())

    assert row[0] == 0


@on_loop
async def test_log_stays_short_however_often_history_is_read(tmp_path: Path) -> None:
    log = tmp_path / "w.db-wal"
    async with kept(tmp_path / "w.db") as world:
        longest = 0
        for number in range(300):
            world.publish(f"https://a.example.com/{number}", body=b"x" * 20_000)
            await world.store.writer.flush_history()
            longest = max(longest, len(log.read_bytes()))

    # Each round writes the body twice, 12 MB in all.
    assert longest < 8_000_000


@pytest.mark.slow
def test_checkpoints_while_facts_keep_coming_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        acknowledged: list[MessageId] = []
        copies: list[tuple[Path, list[MessageId]]] = []
        async with kept(path, ANSWERS, thresholds=Thresholds(checkpoint_at=20, project_at=7)) as world:

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

    test()


@on_loop
async def test_restart_reads_only_what_the_checkpoint_does_not_cover(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        for _ in range(100):
            world.publish("https://a.example.com/")
    async with kept(path) as again:
        rows = list(await again.store.rows("SELECT covers, length(state) FROM checkpoint", ()))
        (facts_left,) = await again.store.rows("SELECT count(*) FROM facts", ())

    assert facts_left[0] == 0
    assert rows[0][0] == len(world.facts)
    # What has ended is not in the image.
    assert rows[0][1] < 5_000


# -- starting over ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
def test_starting_over_leaves_the_first_state_and_no_history(tmp_path: Path, is_file: bool) -> None:
    @on_loop
    async def test() -> None:
        path: Any = tmp_path / "w.db" if is_file else ":memory:"
        async with kept(path, ANSWERS) as world:
            first = dump(world._state)
            first_day(world)
            await world.history.clear_deliveries()

            store, state = await world.store.start_over({})
            fresh = KeptWorld(store, state, ANSWERS)
            await fresh.history.load()

            assert dump(state) == first
            assert await fresh.trace() == []
            first_day(fresh)
            assert fresh.facts == world.facts
            assert len(await fresh.trace()) > 0
            with pytest.raises(Conflict):
                await world.store.writer.commit()
            with pytest.raises(Conflict):
                await world.events()
            with pytest.raises(Conflict):
                await world.store.start_over({})
            world.store = store
            await store.close()

    test()


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


# More than is written without the connection's thread.
_MANY = 100


def _publish_many(world: KeptWorld, url: str, **options: Any) -> None:
    for _ in range(_MANY):
        world.publish(url, **options)


# -- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("disk full"), KeyError("a fault of ours")], ids=["disk", "fault"]
)
def test_writer_that_fails_fails_everybody_and_stays_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_file: bool, error: Exception
) -> None:
    caplog.set_level(logging.CRITICAL, logger="emulator.journal")

    async def fail(*_: object) -> None:
        raise error

    @on_loop
    async def test() -> None:
        async with kept(tmp_path / "w.db" if is_file else MEMORY) as world:
            _publish_many(world, "https://a.example.com/")
            connection = await connection_of(world.store)
            connection.executemany = fail  # type: ignore[method-assign, assignment]  # of this store
            readers = [asyncio.get_running_loop().create_task(world.store.writer.flush_history()) for _ in range(3)]
            results = await asyncio.gather(*readers, return_exceptions=True)

            assert [type(result) for result in results] == [WorldBroken] * 3
            with pytest.raises(WorldBroken):
                await world.store.writer.commit()
            with pytest.raises(WorldBroken):
                await world.events()

    test()


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
def test_little_that_cannot_be_written_stops_the_store_as_well(tmp_path: Path, is_file: bool) -> None:
    @on_loop
    async def test() -> None:
        async with kept(tmp_path / "w.db" if is_file else MEMORY) as world:
            await (await connection_of(world.store)).execute("DROP TABLE usage_minutes")
            world.publish("https://a.example.com/")
            with pytest.raises(WorldBroken, match="no such table"):
                await world.store.writer.flush_history()
            connection = await connection_of(world.store)
            # What was written before it in the same transaction is undone.
            assert [tuple(row) for row in await connection.execute_fetchall("SELECT count(*) FROM messages")] == [(0,)]

    test()


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
                happened = len([fact for fact in world.facts if isinstance(fact, facts.AttemptFinished)])
                events = await world.events()
                errors = [event for event in events if event.state is EventState.ERROR]
                assert len(errors) >= happened
                assert all(event.response == Response(status=500, headers=(), body=b"no") for event in errors)
                assert len([event for event in events if event.state is EventState.FAILED]) == len(errors)
                # The other task goes on in between.
                await asyncio.sleep(0)

        await asyncio.gather(act(), read(), read())


@on_loop
async def test_reader_waits_for_the_end_of_a_transaction() -> None:
    async with kept(answering=by_url({DOWN: answered(500)})) as world:
        half_way, go_on = asyncio.Event(), asyncio.Event()
        connection = await connection_of(world.store)
        executemany = connection.executemany

        async def pause_half_way(statement: str, rows: Any) -> Any:
            if statement == schema.ATTEMPTS.insert_checked:
                half_way.set()
                await go_on.wait()
            return await executemany(statement, rows)

        connection.executemany = pause_half_way  # type: ignore[method-assign, assignment]  # of this store
        _publish_many(world, DOWN, max_retries=0)
        first = asyncio.get_running_loop().create_task(world.events())
        await half_way.wait()

        # A reader that needs nothing of what is being written.
        second = asyncio.get_running_loop().create_task(world.store.meta())
        done, _ = await asyncio.wait((second,), timeout=0.02)
        assert done == set()
        go_on.set()

        assert schema.BASE_CHECKPOINT in await second
        assert len(await first) == 4 * _MANY
