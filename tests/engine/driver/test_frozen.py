"""A frozen world: what is due is delivered in start order, and callers get their answer in time."""

from __future__ import annotations

import logging

import pytest

from emulator.core import commands, message_facts
from emulator.core.errors import Conflict
from emulator.core.model.messages import Attempt, AttemptOutcome
from emulator.core.model.resources import DestinationRule
from emulator.core.record import RuleId
from tests.harness.engines import Engine, Gate, publish
from tests.harness.loops import cancelled, on_loop, spawn, turns
from tests.harness.simulations import EPOCH_MS, SECOND, answered, callback

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


@on_loop
async def test_publish_returns_after_its_callback_came_back_too() -> None:
    engine = Engine()

    await engine.publish(A, callback=callback(B))

    assert engine.finished() == [(A, 0), (B, 0)]
    assert engine.driver.outbox.in_flight == 0


@on_loop
async def test_publish_does_not_wait_for_a_receiver_that_cannot_answer_before() -> None:
    engine = Engine(settle_s=0.01)
    gate = engine.transport.handlers[A] = Gate()

    await engine.publish(A)

    assert gate.entered.is_set()
    assert engine.driver.outbox.in_flight == 1
    gate.opened.set()
    await engine.driver.settle()
    assert engine.finished() == [(A, 0)]


@on_loop
async def test_calls_that_wait_are_released_also_while_the_time_of_one_is_over() -> None:
    """Once the server ends (D-291). Whatever the turn in which that happens."""
    engine = Engine(settle_s=0.01)
    gate = engine.transport.handlers[A] = Gate()
    waiting = spawn(engine.publish(A))
    await gate.entered.wait()

    while not waiting.done():
        engine.driver.outbox.release_waiting_calls()
        await turns(1)

    gate.opened.set()
    await engine.driver.settle()


@on_loop
async def test_publish_from_inside_a_receiver_is_accepted_at_once_and_delivered_after() -> None:
    engine = Engine()
    seen: list[str] = []

    async def receive(_: Attempt) -> AttemptOutcome:
        await engine.publish(B)
        seen.append(f"published while {engine.driver.outbox.in_flight} are in flight")
        return answered()

    engine.transport.handlers[A] = receive

    await engine.publish(A)

    assert seen == ["published while 2 are in flight"]
    assert engine.finished() == [(A, 0), (B, 0)]
    assert engine.transport.most_under_way == 1


@on_loop
async def test_what_is_due_leaves_at_once_and_is_recorded_in_start_order() -> None:
    """D-538."""
    engine = Engine(settle_s=0.01)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)

    await engine.publish(B)
    await engine.publish(C)
    await turns()
    assert engine.transport.sent == [A, B, C]
    assert engine.finished() == []
    gate.opened.set()
    await engine.driver.settle()

    assert engine.finished() == [(A, 0), (B, 0), (C, 0)]


@pytest.mark.parametrize(("concurrency", "most"), [(None, 64), (3, 3)])
@on_loop
async def test_as_many_are_under_way_as_in_real_time(concurrency: int | None, most: int) -> None:
    """D-538."""
    engine = Engine(settle_s=0.001, concurrency=concurrency)
    gate = engine.transport.handlers[A] = Gate()
    for _ in range(70):
        await engine.driver.submit(publish(A))
    await turns()

    outbox = engine.driver.outbox
    assert (engine.transport.under_way, outbox.departed, outbox.in_flight) == (most, most, 70)
    assert len(list(outbox.waiting_to_leave())) == 70 - most
    gate.opened.set()
    await engine.driver.settle()
    assert (len(engine.finished()), engine.driver.outbox.departed) == (70, 0)


@on_loop
async def test_mounted_applications_take_turns() -> None:
    """D-538."""
    engine = Engine(settle_s=0.01)
    gate = engine.transport.handlers[A] = Gate()
    engine.transport.mounted = {A, B}
    await engine.publish(A)

    await engine.publish(B)
    await engine.publish(C)
    await turns()
    assert engine.transport.sent == [A]
    gate.opened.set()
    await engine.driver.settle()

    assert engine.transport.sent == [A, B, C]


@on_loop
async def test_an_advance_sends_one_after_the_other_and_counts_those_that_have_left() -> None:
    """D-537."""
    engine = Engine()
    for url in (A, B, C):
        await engine.publish(url, delay_ms=SECOND)
    counts: list[tuple[int, int]] = []

    async def receive(_: Attempt) -> AttemptOutcome:
        counts.append((engine.driver.outbox.departed, len(list(engine.driver.outbox.waiting_to_leave()))))
        return answered()

    engine.transport.handlers.update(dict.fromkeys((A, B, C), receive))
    await engine.driver.advance.by(SECOND)

    assert counts == [(1, 2), (1, 1), (1, 0)]


@on_loop
async def test_what_is_answered_inside_waits_for_its_turn() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    engine.transport.inside[B] = answered()
    first = spawn(engine.publish(A))
    await gate.entered.wait()

    await engine.publish(B)
    assert engine.finished() == []
    gate.opened.set()
    await first

    assert engine.finished() == [(A, 0), (B, 0)]


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@on_loop
async def test_nothing_leaves_before_it_is_durable(is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen)
    engine.journal.gate.clear()
    caller = spawn(engine.publish(A, callback=callback(B)))

    await turns()
    assert engine.transport.sent == []
    engine.journal.gate.set()
    await caller
    await engine.driver.settle()

    assert engine.transport.sent == [A, B]
    assert engine.transport.was_durable == [True, True]


@on_loop
async def test_nobody_hears_of_a_publish_before_it_is_durable() -> None:
    engine = Engine()
    engine.journal.gate.clear()
    caller = spawn(engine.publish(A, delay_ms=SECOND))

    await turns()
    assert not caller.done()
    engine.journal.gate.set()
    await caller

    assert engine.journal.durable == len(engine.journal.facts)


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
def test_transport_that_breaks_is_a_failed_attempt(is_frozen: bool, caplog: pytest.LogCaptureFixture) -> None:
    @on_loop
    async def test() -> None:
        engine = Engine(is_frozen=is_frozen)

        async def break_down(_: Attempt) -> AttemptOutcome:
            raise ZeroDivisionError("no")

        engine.transport.handlers[A] = break_down

        await engine.publish(A, max_retries=0)
        await engine.driver.settle()
        (finished,) = engine.all(message_facts.AttemptFinished)
        await engine.publish(B)
        await engine.driver.settle()

        assert finished.outcome.error == "the emulator failed: ZeroDivisionError"
        assert [url for url, _ in engine.finished()] == [A, B]

    with caplog.at_level(logging.CRITICAL, "emulator.engine.outbox"):
        test()


# -- callers that go away ---------------------------------------------------------------------


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@on_loop
async def test_caller_that_goes_away_while_its_publish_is_written_loses_nothing(is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen)
    engine.journal.gate.clear()
    caller = spawn(engine.publish(A))
    await turns()
    await cancelled(caller)

    engine.journal.gate.set()
    await engine.driver.settle()

    assert engine.finished() == [(A, 0)]
    await engine.publish(B)
    await engine.driver.settle()
    assert engine.finished() == [(A, 0), (B, 0)]


@on_loop
async def test_caller_that_goes_away_while_its_delivery_is_under_way_loses_nothing() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    caller = spawn(engine.publish(A))
    await gate.entered.wait()
    await cancelled(caller)

    gate.opened.set()
    await engine.driver.settle()

    assert engine.transport.sent == [A]
    assert engine.finished() == [(A, 0)]


# -- the end ----------------------------------------------------------------------------------


@on_loop
async def test_close_lets_an_attempt_finish_in_its_grace() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    caller = spawn(engine.publish(A))
    await gate.entered.wait()
    closing = spawn(engine.driver.close(grace_s=10))
    await turns()

    gate.opened.set()
    await closing
    await caller

    assert engine.finished() == [(A, 0)]
    assert engine.journal.durable == len(engine.journal.facts)


@on_loop
async def test_close_leaves_what_does_not_finish_to_the_next_start() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    caller = spawn(engine.publish(A))
    await gate.entered.wait()
    await engine.publish(B)

    await engine.driver.close(grace_s=0)
    await caller
    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert engine.finished() == []
    assert again.transport.sent == [A, B]


@on_loop
async def test_resume_makes_attempts_again_in_the_order_of_their_start() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(B, delay_ms=2 * SECOND)
    await engine.publish(C, delay_ms=SECOND)
    # All three are under way at the end: A since the first instant, C before B.
    engine.driver.handle(publish(A))
    for instant_ms in (SECOND, 2 * SECOND):
        engine.driver.handle(commands.AdvanceClock(to_ms=EPOCH_MS + instant_ms))
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert again.transport.sent == [A, C, B]
    assert not gate.entered.is_set()


@on_loop
async def test_resume_makes_no_attempt_again_whose_answer_waits_for_its_latency() -> None:
    engine = Engine()
    rule = DestinationRule(rule_id=RuleId(""), url=A, method=None, latency_ms=5 * SECOND)
    await engine.driver.submit(commands.AddRule(rule=rule))
    await engine.publish(A)
    await engine.driver.settle()
    assert (engine.transport.sent, engine.finished()) == ([A], [])
    await engine.driver.close()

    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()
    await again.driver.advance.by(5 * SECOND)

    assert again.transport.sent == []
    assert [fact.at_ms - EPOCH_MS for fact in again.all(message_facts.AttemptFinished)] == [5 * SECOND]


@on_loop
async def test_resume_makes_a_duplicate_again_that_was_under_way() -> None:
    engine = Engine()
    rule = DestinationRule(rule_id=RuleId(""), url=A, method=None, duplicate_ms=SECOND)
    await engine.driver.submit(commands.AddRule(rule=rule))
    await engine.publish(A)
    engine.driver.handle(commands.AdvanceClock(to_ms=EPOCH_MS + SECOND))
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert (engine.transport.sent, again.transport.sent) == ([A], [A])


@on_loop
async def test_closed_world_takes_no_more_commands() -> None:
    engine = Engine()
    await engine.driver.close()

    with pytest.raises(Conflict):
        await engine.publish(A)

    assert engine.journal.facts == []
