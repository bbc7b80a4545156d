"""A watch: when it wakes, and what it tells of the clock."""

from __future__ import annotations

import asyncio

from emulator.worlds.watch import ClockMove, Watch
from tests.harness.loops import on_loop

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
