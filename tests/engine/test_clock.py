"""How virtual time passes, how a clock sleeps until something is due, and attempts on their way."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.engines import Engine, FakeClock, Gate
from tests.harness.loops import on_loop, spawn, turns
from tests.harness.simulations import EPOCH_MS, HOUR, MINUTE, SECOND, answered

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


def sleeping(engine: Engine) -> asyncio.Task[None]:
    return spawn(engine.clock.sleep_until(engine.driver.state.timers.next_due_ms()))


@pytest.mark.parametrize(("rate", "passed_ms"), [(1, SECOND), (60, MINUTE), (0.5, 500)])
def test_virtual_time_passes_at_the_rate_of_the_clock(rate: float, passed_ms: int) -> None:
    clock = FakeClock(rate)
    clock.wall_step_ms = SECOND
    assert clock.now_ms() == EPOCH_MS + passed_ms


def test_virtual_time_does_not_go_back_with_the_wall_clock() -> None:
    clock = FakeClock(1)
    clock.pass_to(HOUR)
    assert clock.now_ms() == EPOCH_MS + HOUR
    clock.pass_to(MINUTE)
    assert clock.now_ms() == EPOCH_MS + HOUR


def test_clock_that_slips_counts_the_time_it_lost_until_its_rate_is_set() -> None:
    clock = FakeClock(60)
    clock.pass_to(HOUR)
    clock.slip(EPOCH_MS + 50 * MINUTE)
    assert (clock.now_ms(), clock.slipped_ms) == (EPOCH_MS + 50 * MINUTE, 10 * MINUTE)

    clock.rebase(EPOCH_MS + HOUR)
    assert clock.slipped_ms == 10 * MINUTE
    clock.set_rate(60, EPOCH_MS + HOUR)
    assert clock.slipped_ms == 0


def test_frozen_clock_is_looked_at_once_a_minute() -> None:
    assert FakeClock(0).seconds_to(EPOCH_MS + 1) == 60


def test_running_clock_sleeps_as_long_as_it_takes_at_its_rate_but_at_most_a_minute() -> None:
    clock = FakeClock(60)
    assert clock.seconds_to(EPOCH_MS + MINUTE) == 1
    assert clock.seconds_to(EPOCH_MS + 2 * HOUR) == 60
    clock.pass_to(HOUR)
    assert clock.seconds_to(EPOCH_MS + MINUTE) == 0


@on_loop
async def test_sleep_ends_when_something_is_due() -> None:
    engine = Engine(is_frozen=False)
    await engine.publish(A, delay_ms=SECOND)

    engine.clock.pass_to(SECOND)

    await sleeping(engine)


@on_loop
async def test_sleep_ends_when_something_sooner_comes_up() -> None:
    engine = Engine(is_frozen=False)
    await engine.publish(A, delay_ms=HOUR)
    asleep = sleeping(engine)
    await turns()

    await engine.publish(B, delay_ms=2 * HOUR)
    await turns()
    assert not asleep.done()
    await engine.publish(C, delay_ms=MINUTE)

    await asleep


@on_loop
async def test_sleep_without_anything_due_ends_when_something_comes_up() -> None:
    engine = Engine(is_frozen=False)
    asleep = sleeping(engine)
    await turns()
    assert not asleep.done()

    await engine.publish(A, delay_ms=HOUR)

    await asleep


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@on_loop
async def test_another_rate_ends_a_sleep(is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen)
    asleep = sleeping(engine)
    await turns()

    engine.clock.set_rate(1000, EPOCH_MS)

    await asleep


@on_loop
async def test_clock_that_slept_during_an_advance_finds_what_is_due_after_it() -> None:
    engine = Engine(is_frozen=False)
    await engine.publish(A, delay_ms=HOUR)
    keeping = spawn(engine.driver.keep_time())
    await turns()

    await engine.driver.advance.by(MINUTE)
    engine.clock.pass_to(HOUR)
    engine.clock.wake()
    await turns()

    assert engine.finished() == [(A, HOUR)]
    keeping.cancel()


# -- attempts on their way: each is routed once, and only those to one origin wait for each other ---


@on_loop
async def test_attempts_to_one_origin_share_a_room_that_lasts_as_long_as_it_is_used() -> None:
    engine = Engine(is_frozen=False, concurrency=2)
    gate = engine.transport.handlers[A] = Gate()
    for _ in range(3):
        await engine.publish(A)
    await turns()
    assert (engine.transport.under_way, len(engine.driver.outbox.origin_limits)) == (2, 1)

    gate.opened.set()
    await engine.driver.settle()
    await turns()

    assert not engine.driver.outbox.origin_limits


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@pytest.mark.parametrize("concurrency", [1, 3])
@on_loop
async def test_every_attempt_is_routed_once(is_frozen: bool, concurrency: int) -> None:
    engine = Engine(is_frozen=is_frozen, concurrency=concurrency)
    engine.transport.inside[B] = answered()
    for url in (A, B, A, B):
        await engine.publish(url)
        await engine.publish(url, delay_ms=SECOND)

    await engine.driver.settle()
    await engine.driver.advance.by(SECOND)

    assert len(engine.finished()) == 8
    assert sorted(engine.transport.routed) == [(number, 1) for number in range(1, 9)]
