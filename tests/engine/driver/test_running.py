"""A running world: the clock moves by itself, and no destination waits for another."""

from __future__ import annotations

import pytest

from emulator.core import message_facts
from emulator.core.errors import Conflict
from emulator.core.model.messages import Attempt, AttemptOutcome
from emulator.core.model.options import FlowControl
from emulator.core.record import FlowKey
from tests.harness.engines import Engine, Gate
from tests.harness.loops import cancelled, on_loop, spawn, turns
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, MINUTE, SECOND, answered

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


@on_loop
async def test_catching_up_does_each_due_instant_at_its_own_time() -> None:
    engine = Engine(is_frozen=False)
    await engine.schedule("* * * * *", A)
    await engine.publish(B, delay_ms=90 * SECOND)

    engine.clock.pass_to(3 * MINUTE + 1)
    await engine.driver.catch_up()
    await engine.driver.settle()

    assert engine.started() == [(A, MINUTE), (B, 90 * SECOND), (A, 2 * MINUTE), (A, 3 * MINUTE)]
    assert engine.now_ms == 3 * MINUTE + 1


@on_loop
async def test_command_finds_the_world_as_it_is_now() -> None:
    engine = Engine(is_frozen=False)

    engine.clock.pass_to(1234)
    await engine.publish(A, delay_ms=SECOND)

    (created,) = engine.all(message_facts.MessageCreated)
    assert created.message.created_ms == EPOCH_MS + 1234


@on_loop
async def test_publish_does_not_wait_for_its_delivery() -> None:
    engine = Engine(is_frozen=False)
    gate = engine.transport.handlers[A] = Gate()

    await engine.publish(A)

    assert engine.driver.outbox.in_flight == 1
    gate.opened.set()
    await engine.driver.settle()
    assert engine.finished() == [(A, 0)]


@on_loop
async def test_destination_gets_as_many_attempts_at_once_as_its_concurrency() -> None:
    engine = Engine(is_frozen=False, concurrency=2)
    gate = engine.transport.handlers[A] = Gate()
    for _ in range(5):
        await engine.publish(A)
    await turns()
    await engine.publish(B)
    await turns()

    assert engine.transport.sent == [A, A, B]
    # A slow destination holds up no other.
    assert engine.finished() == [(B, 0)]
    gate.opened.set()
    await engine.driver.settle()
    assert engine.finished() == [(B, 0), *[(A, 0)] * 5]


@on_loop
async def test_outcome_is_applied_at_the_instant_at_which_it_came() -> None:
    engine = Engine(is_frozen=False)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()

    engine.clock.pass_to(700)
    gate.opened.set()
    await engine.driver.settle()

    assert engine.finished() == [(A, 700)]


@on_loop
async def test_advance_of_a_running_clock_goes_on_from_its_target() -> None:
    engine = Engine(is_frozen=False)
    await engine.publish(A, delay_ms=MINUTE)
    engine.clock.pass_to(SECOND)

    report = await engine.driver.advance.by(HOUR)

    assert (report.from_ms, report.to_ms) == (EPOCH_MS + SECOND, EPOCH_MS + SECOND + HOUR)
    assert engine.finished() == [(A, MINUTE)]
    assert engine.clock.rebased == [HOUR + SECOND]


@on_loop
async def test_advance_by_nothing_is_possible_while_the_clock_runs() -> None:
    engine = Engine(is_frozen=False)
    before = engine.driver.state.now_ms
    # The clock has gone on between the call and its turn.
    engine.clock.pass_to(5)

    report = await engine.driver.advance.by(0)

    assert report.from_ms == report.to_ms == before + 5


@on_loop
async def test_refused_advance_does_not_cost_the_clock_any_time() -> None:
    engine = Engine(is_frozen=False, patience_s=0.01)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()

    with pytest.raises(Conflict):
        await engine.driver.advance.by(HOUR)

    assert engine.clock.rebased == []
    gate.opened.set()
    await engine.driver.settle()


@on_loop
async def test_work_that_comes_during_an_advance_leaves_after_it_in_real_time_again() -> None:
    engine = Engine(is_frozen=False)

    async def receive(_: Attempt) -> AttemptOutcome:
        await engine.publish(B, delay_ms=2 * HOUR)
        return answered()

    engine.transport.handlers[A] = receive
    await engine.publish(A, delay_ms=MINUTE)
    await engine.driver.advance.by(HOUR)

    engine.clock.pass_to(3 * HOUR)
    await engine.driver.catch_up()
    await engine.driver.settle()

    assert engine.finished() == [(A, MINUTE), (B, 3 * HOUR)]
    assert engine.started() == [(A, MINUTE), (B, MINUTE + 2 * HOUR)]


@on_loop
async def test_world_that_is_closed_while_it_catches_up_leaves_the_clock_alone() -> None:
    engine = Engine(is_frozen=False, rate=2)
    engine.clock.wall_step_ms = 1000
    await engine.schedule("* * * * *", A)
    engine.clock.pass_to(200 * MINUTE)
    engine.journal.gate.clear()
    catching_up = spawn(engine.driver.catch_up())
    await turns()

    await engine.driver.close(grace_s=0)
    engine.journal.gate.set()
    with pytest.raises(Conflict):
        await catching_up

    assert engine.clock.rebased == []


# -- a clock that outruns the machine (D-300) --------------------------------------------------


@on_loop
async def test_clock_that_outruns_the_machine_slips_instead_of_falling_ever_further_behind() -> None:
    engine = Engine(is_frozen=False, rate=2)
    await engine.schedule("* * * * *", A)
    engine.clock.wall_step_ms = 250
    engine.clock.pass_to(10 * DAY)

    await engine.driver.catch_up()

    [slipped] = engine.clock.rebased
    assert 0 < slipped < 10 * DAY
    assert engine.now_ms == slipped


@on_loop
async def test_clock_in_real_time_never_slips() -> None:
    engine = Engine(is_frozen=False)
    await engine.schedule("* * * * *", A)
    engine.clock.wall_step_ms = 250
    engine.clock.pass_to(4 * HOUR)

    await engine.driver.catch_up()

    assert engine.now_ms >= 4 * HOUR
    assert engine.clock.rebased == []


@on_loop
async def test_fast_clock_waits_for_deliveries_when_too_much_is_due() -> None:
    engine = Engine(is_frozen=False, rate=1_000_000, most_due=20)
    gate = engine.transport.handlers[A] = Gate()
    for _ in range(5):
        await engine.schedule("* * * * *", A)
    engine.clock.pass_to(DAY)

    await engine.driver.catch_up()
    assert len(engine.driver.state.messages) == 20
    assert engine.now_ms == 4 * MINUTE
    assert engine.clock.rebased == []

    # The time that it falls behind is lost.
    engine.clock.pass_to(1_000 * DAY)
    await engine.driver.catch_up()
    assert engine.clock.rebased == [4 * MINUTE]
    assert engine.clock.slipped_ms == 1_000 * DAY - 4 * MINUTE

    gate.opened.set()
    await engine.driver.settle()
    engine.clock.pass_to(4 * MINUTE + HOUR)
    await engine.driver.catch_up()
    await engine.driver.settle()
    assert engine.now_ms > 4 * MINUTE


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 1_000_000])
@on_loop
async def test_what_is_due_at_once_stays_bounded_while_a_clock_catches_up(rate: float) -> None:
    engine = Engine(is_frozen=False, rate=rate, most_due=20)
    for _ in range(5):
        await engine.schedule("* * * * *", A)
    engine.clock.pass_to(10_000 * SECOND)
    keeping = spawn(engine.driver.keep_time())

    while engine.now_ms < 10_000 * SECOND:
        await turns(1)
        # A breath of 50 instants, and what was due before it.
        assert len(engine.driver.state.messages) <= 20 + 50 * 5

    await cancelled(keeping)
    await engine.driver.settle()
    assert len(engine.finished()) == 166 * 5


@on_loop
async def test_receivers_that_never_answer_do_not_stop_a_fast_clock_for_good() -> None:
    engine = Engine(is_frozen=False, rate=1_000_000, most_due=5, crowded_s=0.001, slip_after_ms=DAY)
    engine.transport.handlers[A] = Gate()
    for _ in range(5):
        await engine.schedule("* * * * *", A)
    engine.clock.pass_to(HOUR)
    keeping = spawn(engine.driver.keep_time())

    while engine.now_ms < 5 * MINUTE:
        await turns(1)

    await cancelled(keeping)


@on_loop
async def test_messages_that_wait_for_a_rate_or_a_pause_hold_no_clock_up() -> None:
    engine = Engine(is_frozen=False, rate=60, most_due=5)
    engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    for _ in range(9):
        await engine.publish(B, flow_control=FlowControl(key=FlowKey("slow"), parallelism=None, rate=1, period_ms=DAY))

    engine.clock.pass_to(3 * DAY)
    await engine.driver.catch_up()

    assert engine.now_ms == 3 * DAY
    assert engine.clock.slipped_ms == 0


@on_loop
async def test_outcome_that_comes_back_while_the_clock_catches_up_is_recorded_at_once() -> None:
    engine = Engine(is_frozen=False)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()
    await engine.schedule("* * * * *", B)
    engine.clock.pass_to(DAY)
    engine.journal.gate.clear()
    catching_up = spawn(engine.driver.catch_up())
    await turns()

    gate.opened.set()
    await turns()

    assert engine.finished() == [(A, 50 * MINUTE)]
    engine.journal.gate.set()
    await catching_up


@on_loop
async def test_capture_in_a_running_world_answers_at_the_instant_at_which_the_attempt_started() -> None:
    engine = Engine(is_frozen=False, rate=60)
    engine.transport.inside[A] = answered()
    await engine.schedule("* * * * *", A)

    engine.clock.pass_to(3 * MINUTE + 1)
    await engine.driver.catch_up()

    assert engine.finished() == [(A, MINUTE), (A, 2 * MINUTE), (A, 3 * MINUTE)]
