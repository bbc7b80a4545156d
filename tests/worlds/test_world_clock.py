"""A world's clock and its watchers."""

from __future__ import annotations

import asyncio

import pytest

from emulator.engine.limits import Limits
from emulator.worlds.watch import ClockMove, Watch
from emulator.worlds.world_clock import MOST
from tests.harness.emulators import InProcess, with_emulator
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
    for _ in range(MOST + 2):
        await emulator.control("POST", "/clock/advance", {"by": 1, "undoable": True})
    undone = 0
    while (await emulator.control("POST", "/clock/undo")).status == 200:
        undone += 1
    assert undone == MOST


# -- a watch: when it wakes, and what it reports of the clock --------------------------------------


NOW = 1_767_225_600_000


def started() -> Watch:
    watch = Watch()
    watch.start(NOW, 0)
    return watch


def test_it_starts_with_where_the_clock_stands() -> None:
    assert Watch().start(NOW, 60) == ClockMove(from_ms=None, now_ms=NOW, rate=60)


def test_a_move_is_told_from_where_it_began_however_many_steps_it_took() -> None:
    watch = started()
    for step in (0, 5, 10):
        watch.notice(NOW + step, is_moving=True)

    assert watch.take_move(NOW + 10, 0) == ClockMove(from_ms=NOW, now_ms=NOW + 10, rate=0)
    assert watch.take_move(NOW + 10, 0) is None


def test_a_move_that_is_told_while_it_goes_on_is_told_in_parts() -> None:
    watch = started()
    watch.notice(NOW + 5, is_moving=True)
    watch.take_move(NOW + 5, 0)
    watch.notice(NOW + 10, is_moving=True)

    assert watch.take_move(NOW + 10, 0) == ClockMove(from_ms=NOW + 5, now_ms=NOW + 10, rate=0)


def test_work_at_one_instant_is_no_move() -> None:
    watch = started()
    watch.notice(NOW, is_moving=True)

    assert watch.take_move(NOW, 0) is None


def test_time_that_passes_by_itself_is_no_move_but_where_the_next_one_begins() -> None:
    watch = Watch()
    watch.start(NOW, 1)
    watch.notice(NOW + 7, is_moving=False)
    assert watch.take_move(NOW + 8, 1) is None
    watch.notice(NOW + 100, is_moving=True)

    assert watch.take_move(NOW + 101, 1) == ClockMove(from_ms=NOW + 7, now_ms=NOW + 101, rate=1)


def test_another_pace_is_told_once() -> None:
    watch = started()

    assert watch.take_move(NOW, 60) == ClockMove(from_ms=None, now_ms=NOW, rate=60)
    assert watch.take_move(NOW, 60) is None


def test_a_new_start_forgets_the_move_before_it() -> None:
    watch = started()
    watch.notice(NOW + 5, is_moving=True)
    watch.start(NOW - 5, 0)

    assert watch.take_move(NOW - 5, 0) is None


@on_loop
async def test_it_wakes_once_for_all_that_has_happened_before_it_was_asked() -> None:
    watch = started()
    watch.wake()
    watch.wake()

    assert await watch.wait(20)
    assert not await watch.wait(0)


@on_loop
async def test_it_wakes_who_waits() -> None:
    watch = started()
    waiting = asyncio.get_running_loop().create_task(watch.wait(20))
    await asyncio.sleep(0)
    watch.wake()

    assert await waiting
