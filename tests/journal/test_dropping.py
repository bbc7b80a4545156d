"""The oldest history is dropped, the same of the same history, and what is still needed stays (D-281)."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.journal.dropping import Keep
from emulator.journal.message_logs import MessageLogs
from emulator.journal.writer import Thresholds
from emulator.queries.history import Dropped
from tests.harness.loops import on_loop
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, by_url, unreachable
from tests.harness.stores import KeptWorld, kept

URL = "https://a.example.com/"
DOWN = "https://down.example.com/"


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
def test_same_history_is_cut_in_the_same_place_whenever_it_is_written(thresholds: Thresholds) -> None:
    @on_loop
    async def test() -> None:
        async with kept(keep=Keep(entries=400), thresholds=thresholds) as world:
            for number in range(333):
                world.publish(f"{URL}{number}")
                if thresholds.project_at == 1:
                    await world.store.writer.flush_history()
            await world.store.writer.flush_history()
            assert world.history.dropped == Dropped(seq=900, at_ms=EPOCH_MS)
            assert (await world.trace())[0].seq == 901

    test()


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


@on_loop
async def test_what_is_older_than_an_age_is_dropped() -> None:
    async with kept(keep=Keep(age_ms=2 * DAY)) as world:
        world.write_schedule("*/1 * * * *", URL)
        world.run_for(6 * DAY)
        await world.store.writer.flush_history()

        oldest = (await world.events())[0].at_ms - EPOCH_MS
        assert 1 * DAY < oldest <= 4 * DAY + HOUR
        assert world.history.dropped.at_ms <= EPOCH_MS + 4 * DAY


def test_what_was_dropped_is_known_after_a_restart(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
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

    test()
