"""A world's clock and its watchers."""

from __future__ import annotations

import asyncio

import pytest

from emulator.core.errors import Conflict
from emulator.engine.limits import Limits
from emulator.worlds.watch import ClockMove, Watch
from emulator.worlds.world_clock import UndoableAdvances
from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator
from tests.harness.loops import on_loop, turns

# -- the clock of a world as its user sees it ------------------------------------------------------


HOOK = "https://receiver.example.com/hook"


@with_emulator(limits=Limits(slip_after_ms=0))
async def test_clock_that_slips_says_so_in_its_answer_and_once_in_the_log(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "* * * * *"}, b"tick")
    status = (await emulator.control("PUT", "/clock", {"rate": 1_000_000})).json
    assert status["slipped_ms"] == 0

    slips: list[int] = []
    while len(slips) < 3:
        await turns(1)
        slipped_ms = (await emulator.control("GET", "/clock")).json["slipped_ms"]
        if slipped_ms not in (0, *slips):
            slips.append(slipped_ms)

    assert slips == sorted(slips)
    (told,) = (text for text in caplog.messages if "slips" in text)
    assert told.startswith("the clock of the world default slips: at rate 1e+06 more comes due than can be delivered; ")
    # The count is that of one rate.
    assert (await emulator.control("PUT", "/clock", {"rate": 0})).json["slipped_ms"] == 0


@with_emulator()
async def test_the_latest_advances_can_be_taken_back_and_no_more(emulator: InProcess) -> None:
    advances = UndoableAdvances(None, most=3)
    names = [await advances.keep(emulator.world._store) for _ in range(5)]
    assert [each.name for each in await advances.snapshots.all()] == names[2:]
    for name in names[:1:-1]:
        assert advances.last == name
        await advances.forget(name)
    with pytest.raises(Conflict):
        _ = advances.last
    await advances.close()

    for by, status in (("1h", 200), ("9999999d", 400), ("2h", 200)):
        moved = await emulator.control("POST", "/clock/advance", {"by": by, "undoable": True})
        assert moved.status == status
    undone = [await emulator.control("POST", "/clock/undo") for _ in range(3)]
    assert [answer.status for answer in undone] == [200, 200, 409]
    assert (await emulator.world.clock.status()).now_ms == EPOCH_MS


# -- a watch: when it wakes, and what it reports of the clock --------------------------------------


NOW = 1_767_225_600_000


def test_a_move_is_reported_from_where_it_began_until_it_is_asked_for() -> None:
    watch = Watch()
    assert watch.start(NOW, 0) == ClockMove(from_ms=None, now_ms=NOW, rate=0)
    # However many steps it took.
    for step in (0, 5, 10):
        watch.notice(NOW + step, is_moving=True)
    assert watch.take_move(NOW + 10, 0) == ClockMove(from_ms=NOW, now_ms=NOW + 10, rate=0)
    assert watch.take_move(NOW + 10, 0) is None
    # It continues.
    watch.notice(NOW + 15, is_moving=True)
    assert watch.take_move(NOW + 15, 0) == ClockMove(from_ms=NOW + 10, now_ms=NOW + 15, rate=0)
    # Work at one instant is none.
    watch.notice(NOW + 15, is_moving=True)
    assert watch.take_move(NOW + 15, 0) is None
    # Another rate is reported once.
    assert watch.take_move(NOW + 15, 60) == ClockMove(from_ms=None, now_ms=NOW + 15, rate=60)
    assert watch.take_move(NOW + 15, 60) is None
    # A new start forgets the move before it.
    watch.notice(NOW + 20, is_moving=True)
    watch.start(NOW - 5, 0)
    assert watch.take_move(NOW - 5, 0) is None


def test_time_that_passes_by_itself_is_no_move_but_where_the_next_one_begins() -> None:
    watch = Watch()
    watch.start(NOW, 1)
    watch.notice(NOW + 7, is_moving=False)
    assert watch.take_move(NOW + 8, 1) is None
    watch.notice(NOW + 100, is_moving=True)

    assert watch.take_move(NOW + 101, 1) == ClockMove(from_ms=NOW + 7, now_ms=NOW + 101, rate=1)


@on_loop
async def test_it_wakes_once_for_all_that_has_happened_before_it_was_asked() -> None:
    watch = Watch()
    watch.wake()
    watch.wake()
    assert await watch.wait(20)
    assert not await watch.wait(0)

    waiting = asyncio.get_running_loop().create_task(watch.wait(20))
    await asyncio.sleep(0)
    watch.wake()
    assert await waiting
