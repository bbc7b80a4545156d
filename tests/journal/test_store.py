"""The store: restarts, crashes at any moment, starting over, forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.core.errors import Conflict
from emulator.core.model.messages import EventState
from emulator.core.model.resources import ScriptedResponse
from emulator.core.state import Fact
from emulator.journal.database import MEMORY
from emulator.journal.store import open_store
from emulator.queries.history import RecordedDelivery
from tests.harness.loops import on_loop
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
from tests.harness.stores import KeptWorld, crash, kept

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


# -- restarts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closed", "killed"])
@on_loop
async def test_restart_goes_on_exactly(tmp_path: Path, how: str) -> None:
    """The state, the facts, and history without a seam."""
    path = tmp_path / "w.db"
    async with kept(answering=ANSWERS) as reference:
        first_day(reference)
        image, count = reference.snapshot(), len(reference.facts)
        second_day(reference)
        expected = await reference.trace()
    async with kept(path, ANSWERS) as world:
        first_day(world)
        await world.store.writer.commit()
        if how == "killed":
            path = crash(path, tmp_path / "copy")

    async with kept(path, ANSWERS) as again:
        assert dump(again._state) == image
        # The same retries need the same originals, which history would give.
        again.messages.update(world.messages)
        again.facts[:] = world.facts
        second_day(again)

        assert again.facts[count:] == reference.facts[count:]
        assert dump(again._state) == reference.snapshot()
        assert await again.trace() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "habit", ["commit", "read", "commit, read", "read, commit", "checkpoint", "commit, checkpoint"]
)
@on_loop
async def test_crash_at_any_moment_leaves_a_state_and_a_history_that_agree(tmp_path: Path, habit: str) -> None:
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


def _count_of(recorded: list[Fact], image: Any) -> int:
    """How many of the facts, from the beginning, lead to this image."""
    fresh = World()
    for count in range(len(recorded) + 1):
        if dump(fresh._state)[0] == image:
            return count
        fresh._state.apply(recorded[count])
    raise AssertionError("no such moment")


@on_loop
async def test_history_that_was_read_agrees_with_the_state_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        message_id = world.publish("https://a.example.com/first", delay_ms=SECOND)
        # Nobody waits for a commit, but somebody reads.
        await world.events()
        copy = crash(path, tmp_path / "copy")

    async with kept(copy) as again:
        assert [event.message.message_id for event in await again.events()] == [message_id]
        assert again.simulation.state.counters.messages == 1
        again.messages.update(world.messages)
        second = again.publish("https://a.example.com/second", delay_ms=HOUR)
        again.run_for(SECOND)
        assert [(event.message.message_id, event.state) for event in await again.events()] == [
            (message_id, EventState.CREATED),
            (second, EventState.CREATED),
            (message_id, EventState.ACTIVE),
            (message_id, EventState.DELIVERED),
        ]


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


@on_loop
async def test_restart_reads_only_what_the_checkpoint_does_not_cover(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        for _ in range(100):
            world.publish("https://a.example.com/")
    async with kept(path) as again:
        rows = list(await again.store.rows("SELECT covers, length(state) FROM checkpoint", ()))
        ((facts_left,),) = await again.store.rows("SELECT count(*) FROM facts", ())

    assert facts_left == 0
    assert rows[0][0] == len(world.facts)
    # What has ended is not in the image.
    assert rows[0][1] < 5_000


# -- starting over ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "memory"])
@on_loop
async def test_starting_over_leaves_the_first_state_and_no_history(tmp_path: Path, is_file: bool) -> None:
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
        for use in (world.store.writer.commit, world.events, lambda: world.store.start_over({})):
            with pytest.raises(Conflict):
                await use()
        world.store = store
        await store.close()


# -- forks ------------------------------------------------------------------------------------


@on_loop
async def test_fork_goes_on_with_what_history_remembers() -> None:
    """D-434: a duplicate that is due in both worlds is part of the history of both."""
    store, _ = await open_store(MEMORY)
    try:
        async with kept() as world:
            world.add_rule("https://a.example.com/", duplicate_ms=HOUR)
            world.publish("https://a.example.com/")
            await world.events()
            _, state = await world.store.fork_to(store, lambda state: None, {})
            fork = KeptWorld(store, state, world.answering)
            fork.messages.update(world.messages)
            await fork.history.load()

            for each in (world, fork):
                each.run_for(HOUR)
            expected = await world.trace()
            assert len([entry for entry in expected if isinstance(entry, RecordedDelivery)]) == 2
            assert await fork.trace() == expected
    finally:
        await store.close()
