"""Moving the clock: every firing at its own instant, nothing in flight when it moves, one advance at a time."""

from __future__ import annotations

import asyncio

import pytest

from emulator.core import message_facts, resource_facts
from emulator.core.errors import Conflict
from emulator.core.model.messages import Attempt, AttemptOutcome
from tests.harness.engines import Engine, Gate, Handler
from tests.harness.loops import cancelled, on_loop, spawn, turns
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, MINUTE, SECOND, answered, unreachable

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


def failing() -> Handler:
    async def fail(_: Attempt) -> AttemptOutcome:
        return unreachable()

    return fail


@on_loop
async def test_jump_over_a_day_fires_each_instant_once_in_order() -> None:
    """D-033."""
    engine = Engine()
    await engine.schedule("*/15 * * * *", A)

    report = await engine.driver.advance.by(DAY)

    assert engine.started() == [(A, firing * 15 * MINUTE) for firing in range(1, 97)]
    assert (report.schedules_fired, report.messages_created, report.deliveries) == (96, 96, 96)
    assert (report.succeeded, report.failed) == (96, 0)
    assert (report.from_ms, report.to_ms, engine.now_ms) == (EPOCH_MS, EPOCH_MS + DAY, DAY)
    assert engine.transport.was_durable == [True] * 96


@on_loop
async def test_delays_retries_and_schedules_are_done_in_the_order_of_their_instants() -> None:
    engine = Engine()
    engine.transport.handlers[B] = failing()
    await engine.schedule("*/1 * * * *", A)
    await engine.publish(B, delay_ms=30 * SECOND, max_retries=2, retry_delay="45000")
    await engine.publish(C, delay_ms=MINUTE)

    report = await engine.driver.advance.by(2 * MINUTE)

    assert engine.started() == [
        (B, 30 * SECOND),
        # Within an instant, what was set for it first: a firing's message is made only then.
        (C, 60 * SECOND),
        (A, 60 * SECOND),
        (B, 75 * SECOND),
        (B, 120 * SECOND),
        (A, 120 * SECOND),
    ]
    assert (report.succeeded, report.failed) == (3, 3)


@on_loop
async def test_advance_by_nothing_waits_for_what_is_due_now() -> None:
    engine = Engine(settle_s=0.001)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    advance = spawn(engine.driver.advance.by(0))

    await turns()
    assert not advance.done()
    gate.opened.set()
    report = await advance

    assert engine.finished() == [(A, 0)]
    assert (report.from_ms, report.to_ms) == (EPOCH_MS, EPOCH_MS)


@on_loop
async def test_clock_moves_only_when_nothing_is_in_flight() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A, delay_ms=SECOND)
    await engine.publish(B, delay_ms=2 * SECOND)
    advance = spawn(engine.driver.advance.by(MINUTE))
    await gate.entered.wait()

    await turns()
    assert engine.now_ms == SECOND
    gate.opened.set()
    await advance

    assert engine.finished() == [(A, SECOND), (B, 2 * SECOND)]


@on_loop
async def test_publish_from_inside_a_receiver_is_delivered_at_the_same_instant() -> None:
    engine = Engine()

    async def receive(_: Attempt) -> AttemptOutcome:
        await engine.publish(B)
        return answered()

    engine.transport.handlers[A] = receive
    await engine.publish(A, delay_ms=SECOND)
    await engine.publish(C, delay_ms=2 * SECOND)

    report = await engine.driver.advance.by(MINUTE)

    assert engine.started() == [(A, SECOND), (B, SECOND), (C, 2 * SECOND)]
    assert (report.messages_created, report.deliveries) == (1, 3)
    assert engine.transport.most_under_way == 1


@pytest.mark.slow
@on_loop
async def test_answers_from_inside_need_no_commit_of_their_own() -> None:
    engine = Engine()
    engine.transport.inside[A] = answered()
    await engine.schedule("* * * * *", A)
    before = engine.journal.commits

    report = await engine.driver.advance.by(DAY)

    assert report.deliveries == 1440
    assert engine.journal.commits == before + 1
    assert engine.journal.durable == len(engine.journal.facts)


# -- concurrency ------------------------------------------------------------------------------


@on_loop
async def test_outcomes_are_applied_in_start_order_however_they_come_back() -> None:
    engine = Engine(concurrency=3)
    gates = {url: Gate() for url in (A, B, C)}
    engine.transport.handlers.update(gates)
    for url in (A, B, C):
        await engine.publish(url, delay_ms=SECOND)
    advance = spawn(engine.driver.advance.by(SECOND))
    await asyncio.gather(*(gate.entered.wait() for gate in gates.values()))

    for url in (C, B):
        gates[url].opened.set()
        await turns()
        assert engine.finished() == []
    gates[A].opened.set()
    await advance

    assert engine.finished() == [(A, SECOND), (B, SECOND), (C, SECOND)]


@on_loop
async def test_no_more_attempts_are_under_way_than_the_concurrency_allows() -> None:
    engine = Engine(concurrency=4)

    async def receive(_: Attempt) -> AttemptOutcome:
        await turns(3)
        return answered()

    engine.transport.handlers[A] = receive
    for _ in range(20):
        await engine.publish(A, delay_ms=SECOND)

    await engine.driver.advance.by(SECOND)

    assert engine.transport.most_under_way == 4


# -- next and drain ---------------------------------------------------------------------------


@on_loop
async def test_next_jumps_to_the_next_instant_and_no_further() -> None:
    engine = Engine()
    await engine.publish(A, delay_ms=HOUR)
    await engine.publish(B, delay_ms=HOUR + 1)

    report = await engine.driver.advance.to_next()

    assert engine.finished() == [(A, HOUR)]
    assert (report.to_ms, report.deliveries) == (EPOCH_MS + HOUR, 1)


@on_loop
async def test_with_nothing_due_next_and_drain_stay() -> None:
    engine = Engine()

    report = await engine.driver.advance.to_next()
    assert (report.from_ms, report.to_ms, report.deliveries) == (EPOCH_MS, EPOCH_MS, 0)

    report = await engine.driver.advance.until_idle(DAY)
    assert (report.to_ms, report.idle) == (EPOCH_MS, True)


@on_loop
async def test_drain_ends_when_only_schedules_are_left() -> None:
    engine = Engine()
    engine.transport.handlers[B] = failing()
    await engine.schedule("0 0 * * *", A)
    await engine.publish(B, delay_ms=HOUR, max_retries=1, retry_delay="60000")

    report = await engine.driver.advance.until_idle(30 * DAY)

    assert engine.started() == [(B, HOUR), (B, HOUR + MINUTE)]
    assert report.idle is True
    assert engine.now_ms == HOUR + MINUTE


@on_loop
async def test_drain_stops_at_its_horizon() -> None:
    engine = Engine()
    await engine.publish(A, delay_ms=DAY)
    await engine.publish(B, delay_ms=DAY + 1)

    report = await engine.driver.advance.until_idle(DAY)

    assert engine.finished() == [(A, DAY)]
    assert report.idle is False
    assert engine.now_ms == DAY


# -- limits -----------------------------------------------------------------------------------


@on_loop
async def test_advance_stops_early_at_its_maximum_of_deliveries() -> None:
    engine = Engine()
    await engine.schedule("*/15 * * * *", A)

    report = await engine.driver.advance.by(DAY, max_deliveries=3)

    assert (report.deliveries, report.stopped) == (3, "max_deliveries")
    assert engine.now_ms == 45 * MINUTE

    # One that needs just its maximum reaches its target.
    report = await engine.driver.advance.by(HOUR + MINUTE, max_deliveries=4)
    assert (report.deliveries, report.stopped) == (4, None)
    assert engine.now_ms == 106 * MINUTE
    assert (await engine.driver.advance.by(DAY)).deliveries == 96


@on_loop
async def test_what_is_left_of_an_instant_at_the_maximum_is_due_and_delivered() -> None:
    engine = Engine()
    for url in (A, B, C):
        await engine.publish(url, delay_ms=SECOND)

    report = await engine.driver.advance.by(MINUTE, max_deliveries=2)
    await engine.driver.settle()

    assert (report.deliveries, report.stopped, report.to_ms) == (2, "max_deliveries", EPOCH_MS + SECOND)
    assert engine.finished() == [(A, SECOND), (B, SECOND), (C, SECOND)]


# -- one at a time ----------------------------------------------------------------------------


def moves_the_clock(engine: Engine) -> list[str]:
    """The receiver of A tries to move the clock before it answers; the texts of the refusals."""
    conflicts: list[str] = []

    async def receive(_: Attempt) -> AttemptOutcome:
        with pytest.raises(Conflict) as conflict:
            await engine.driver.advance.by(SECOND)
        conflicts.append(conflict.value.text)
        return answered()

    engine.transport.handlers[A] = receive
    return conflicts


@on_loop
async def test_advance_from_inside_a_receiver_is_refused_at_once_while_a_publish_waits_for_it() -> None:
    """D-293: the publish would wait for the receiver, and the receiver for the advance."""
    engine = Engine(settle_s=1000, patience_s=1000, deadlock_s=0.001)
    conflicts = moves_the_clock(engine)

    await engine.publish(A)

    assert engine.finished() == [(A, 0)]
    assert conflicts == [
        "1 attempt is still under way after 0.001 s, and time moves only when none is; "
        "a receiver cannot move the clock from its handler"
    ]


@on_loop
async def test_an_advance_that_waits_for_the_journal_says_so() -> None:
    engine = Engine(patience_s=0.01)

    async def receive(_: Attempt) -> AttemptOutcome:
        engine.journal.gate.clear()
        return answered()

    engine.transport.handlers[A] = receive
    publishing = asyncio.create_task(engine.publish(A))
    while engine.journal.gate.is_set() or engine.driver.outbox.in_flight:  # noqa: ASYNC110  # nothing signals it
        await asyncio.sleep(0)
    with pytest.raises(Conflict, match=r"all attempts have come back, .* still being written after 0\.01 s"):
        await engine.driver.advance.by(SECOND)
    engine.journal.gate.set()
    await publishing
    await engine.driver.advance.by(SECOND)


@on_loop
async def test_advance_from_inside_a_receiver_without_an_advance_conflicts_as_well() -> None:
    engine = Engine(patience_s=0.01)
    conflicts = moves_the_clock(engine)

    await engine.publish(A)
    await engine.driver.settle()

    assert len(conflicts) == 1
    assert "1 attempt is still under way after 0.01 s" in conflicts[0]
    assert engine.now_ms == 0
    assert engine.finished() == [(A, 0)]
    assert (await engine.driver.advance.by(SECOND)).to_ms == EPOCH_MS + SECOND


@on_loop
async def test_second_advance_at_the_same_time_conflicts() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A, delay_ms=SECOND)
    first = spawn(engine.driver.advance.by(MINUTE))
    await gate.entered.wait()

    with pytest.raises(Conflict):
        await engine.driver.advance.by(HOUR)
    with pytest.raises(Conflict):
        await engine.driver.advance.to_next()
    with pytest.raises(Conflict):
        await engine.driver.advance.until_idle(HOUR)
    gate.opened.set()
    await first

    assert engine.now_ms == MINUTE


@on_loop
async def test_advance_takes_over_what_waits_in_the_background() -> None:
    engine = Engine(settle_s=0.001, concurrency=1)
    gate = engine.transport.handlers[A] = Gate()
    for url in (A, B, C):
        await engine.publish(url)
    advance = spawn(engine.driver.advance.by(SECOND))
    await turns()

    gate.opened.set()
    report = await advance

    assert engine.finished() == [(A, 0), (B, 0), (C, 0)]
    assert report.deliveries == 2


@on_loop
async def test_clock_cannot_go_back() -> None:
    engine = Engine()
    await engine.driver.advance.by(HOUR)

    with pytest.raises(Conflict):
        await engine.driver.advance.to(EPOCH_MS)


@on_loop
async def test_clock_of_an_unused_world_can_be_set_back() -> None:
    engine = Engine()

    await engine.driver.advance.set_back(EPOCH_MS - DAY)

    assert engine.now_ms == -DAY
    assert engine.clock.rebased == [-DAY]


# -- callers that go away ---------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3])
@on_loop
async def test_caller_that_goes_away_loses_no_attempt(concurrency: int) -> None:
    engine = Engine(concurrency=concurrency)
    gate = engine.transport.handlers[A] = Gate()
    for url in (A, B):
        await engine.publish(url, delay_ms=SECOND)
    advance = spawn(engine.driver.advance.by(MINUTE))
    await gate.entered.wait()
    await cancelled(advance)

    gate.opened.set()
    await engine.driver.settle()

    # At least once: what was cut off is made again.
    assert engine.finished() == [(A, SECOND), (B, SECOND)]
    assert engine.now_ms == SECOND
    await engine.driver.advance.by(MINUTE)
    assert engine.now_ms == SECOND + MINUTE


@on_loop
async def test_caller_that_goes_away_while_the_advance_waits_for_its_turn_changes_nothing() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    caller = spawn(engine.publish(A))
    await gate.entered.wait()
    advance = spawn(engine.driver.advance.by(MINUTE))
    await turns()
    await cancelled(advance)

    gate.opened.set()
    await caller

    assert engine.finished() == [(A, 0)]
    assert engine.now_ms == 0
    assert len(engine.all(resource_facts.ClockMoved)) == 0


@on_loop
async def test_world_that_is_closed_ends_its_advance() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A, delay_ms=SECOND)
    advance = spawn(engine.driver.advance.by(MINUTE))
    await gate.entered.wait()
    await engine.driver.close(grace_s=0)

    gate.opened.set()
    with pytest.raises(Conflict):
        await advance

    assert engine.finished() == []
    # The clock may be another world's by now.
    assert engine.clock.rebased == []


# -- an instant with very much to do (D-302) ---------------------------------------------------


@pytest.mark.parametrize("is_frozen", [True, False])
@on_loop
async def test_other_calls_have_a_turn_within_an_instant(is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen)
    for _ in range(1_000):
        await engine.publish(A, delay_ms=MINUTE)
    engine.transport.inside[A] = answered()
    turns_had = 0

    async def others() -> None:
        nonlocal turns_had
        while len(engine.all(message_facts.AttemptStarted)) < 1_000:
            turns_had += len(engine.all(message_facts.AttemptStarted)) > 0
            await asyncio.sleep(0)

    other = spawn(others())
    if is_frozen:
        await engine.driver.advance.to(EPOCH_MS + MINUTE)
    else:
        engine.clock.pass_to(MINUTE)
        await engine.driver.catch_up()
    await engine.driver.settle()
    await other

    assert turns_had >= 3
    assert engine.finished() == [(A, MINUTE)] * 1_000
