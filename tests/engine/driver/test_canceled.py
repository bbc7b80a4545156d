"""Messages that are canceled while their attempt is in flight: none is sent after that (D-780)."""

from __future__ import annotations

import pytest

from emulator.core import commands, message_facts
from emulator.core.model.messages import NOT_SENT, OUTCOME_UNKNOWN, MessageFilter
from emulator.core.record import MessageId
from tests.harness.engines import Engine, Gate
from tests.harness.loops import cancelled, on_loop, spawn, turns
from tests.harness.simulations import ACCOUNT_ID, MINUTE, SECOND, answered

A, B, C = "http://a.test/hook", "http://b.test/hook", "http://c.test/hook"


async def cancel(engine: Engine, message_id: MessageId) -> None:
    await engine.driver.submit(commands.CancelMessage(account_id=ACCOUNT_ID, message_id=message_id))


def ends(engine: Engine) -> list[str]:
    """How the attempts of the canceled messages ended."""
    canceled = {fact.message_id for fact in engine.all(message_facts.MessageCanceled)}
    finished = engine.all(message_facts.AttemptFinished)
    return [fact.outcome.error for fact in finished if fact.message_id in canceled]


@pytest.mark.parametrize("is_frozen", [True, False])
@on_loop
async def test_resume_makes_no_attempt_of_a_canceled_message(*, is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen, settle_s=0.001)
    for url in (A, B, C):
        engine.transport.handlers[url] = Gate()
    ids = [await engine.publish(url) for url in (A, B, C)]
    await turns()
    await cancel(engine, ids[0])
    of_c = commands.CancelMessages(account_id=ACCOUNT_ID, wanted=MessageFilter(urls=(C,)), count=None)
    assert await engine.driver.submit(of_c) == 1
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state, is_frozen=is_frozen)
    again.driver.resume()
    await again.driver.settle()

    assert sorted(engine.transport.sent) == [A, B, C]
    assert again.transport.sent == [B]
    assert ends(again) == [OUTCOME_UNKNOWN, OUTCOME_UNKNOWN]


@on_loop
async def test_resume_lets_those_start_that_waited_for_a_canceled_message() -> None:
    engine = Engine(settle_s=0.001, account={"max_global_parallelism": 1})
    engine.transport.handlers[A] = Gate()
    canceled = await engine.publish(A)
    await engine.publish(B)
    await cancel(engine, canceled)
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert again.transport.sent == [B]
    assert again.transport.was_durable == [True]


@on_loop
async def test_what_resume_ends_is_durable_by_itself() -> None:
    engine = Engine(settle_s=0.001)
    engine.transport.handlers[A] = Gate()
    await cancel(engine, await engine.publish(A))
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state)
    again.driver.resume()
    keeping = spawn(again.driver.keep_time())
    await turns()
    await cancelled(keeping)

    assert len(again.all(message_facts.MessageCanceled)) == 1
    assert again.journal.durable == len(again.journal.facts)


@pytest.mark.parametrize("concurrency", [1, 3])
@on_loop
async def test_attempt_that_an_advance_cut_off_is_not_made_again(concurrency: int) -> None:
    engine = Engine(concurrency=concurrency)
    gate = engine.transport.handlers[A] = Gate()
    canceled = await engine.publish(A, delay_ms=SECOND)
    await engine.publish(B, delay_ms=SECOND)
    advance = spawn(engine.driver.advance.by(MINUTE))
    await gate.entered.wait()
    await cancel(engine, canceled)
    await cancelled(advance)

    gate.opened.set()
    await engine.driver.settle()

    assert engine.transport.sent.count(A) == 1
    assert ends(engine) == [OUTCOME_UNKNOWN]
    assert B in engine.transport.sent


@pytest.mark.parametrize("is_frozen", [True, False])
@on_loop
async def test_attempt_that_waits_to_leave_is_not_made(*, is_frozen: bool) -> None:
    """The limit of its origin holds it up, or the attempt before it."""
    engine = Engine(is_frozen=is_frozen, concurrency=1, settle_s=0.001)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()
    canceled = await engine.publish(A)
    await turns()
    await cancel(engine, canceled)
    gate.opened.set()
    await engine.driver.settle()

    assert engine.transport.sent == [A]
    assert ends(engine) == [NOT_SENT]


@on_loop
async def test_attempt_that_waits_for_its_commit_is_not_made() -> None:
    engine = Engine(is_frozen=False)
    engine.journal.gate.clear()
    publishing = spawn(engine.publish(A))
    await turns()
    (started,) = engine.all(message_facts.AttemptStarted)
    canceling = spawn(cancel(engine, started.message_id))
    await turns()
    engine.journal.gate.set()
    await publishing
    await canceling
    await engine.driver.settle()

    assert engine.transport.sent == []
    assert ends(engine) == [NOT_SENT]


@on_loop
async def test_attempt_that_needs_no_network_is_not_made_either() -> None:
    engine = Engine(settle_s=0.001, concurrency=1)
    gate = engine.transport.handlers[A] = Gate()
    engine.transport.inside[B] = answered()
    await engine.publish(A)
    await gate.entered.wait()
    canceled = await engine.publish(B)
    await cancel(engine, canceled)
    gate.opened.set()
    await engine.driver.settle()

    assert ends(engine) == [NOT_SENT]
