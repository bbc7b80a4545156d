"""Messages that are canceled while their attempt is in flight: none is sent after that (D-780)."""

from __future__ import annotations

import pytest

from emulator.core import commands, message_facts
from emulator.core.model.messages import NOT_SENT, OUTCOME_UNKNOWN, Attempt, AttemptOutcome, Message, MessageFilter
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


# -- redeliveries -------------------------------------------------------------------------------


async def failed(engine: Engine, url: str) -> Message:
    """A message that waits for its retry."""

    async def fail(_: Attempt) -> AttemptOutcome:
        return answered(500)

    engine.transport.handlers[url] = fail
    await engine.publish(url, retry_delay=str(MINUTE))
    await engine.driver.settle()
    (progress,) = engine.driver.state.messages.values()
    return progress.message


def ends_of_redeliveries(engine: Engine) -> list[str | None]:
    return [fact.outcome.error for fact in engine.all(message_facts.DuplicateFinished)]


@pytest.mark.parametrize("is_frozen", [True, False])
@on_loop
async def test_redelivery_that_waits_to_leave_is_not_made_once_its_message_is_canceled(*, is_frozen: bool) -> None:
    engine = Engine(is_frozen=is_frozen, concurrency=1, settle_s=0.001)
    message = await failed(engine, A)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()
    await engine.driver.submit(commands.Redeliver(message=message, number=1))
    await turns()
    await cancel(engine, message.message_id)
    gate.opened.set()
    await engine.driver.settle()

    assert engine.transport.sent == [A, A]
    assert ends_of_redeliveries(engine) == [NOT_SENT]
    await engine.driver.submit(commands.Redeliver(message=message, number=1))
    await engine.driver.settle()
    assert engine.transport.sent == [A, A, A]


@pytest.mark.parametrize("is_canceled_first", [False, True])
@on_loop
async def test_resume_makes_a_redelivery_again_unless_its_message_was_canceled_later(
    *, is_canceled_first: bool
) -> None:
    engine = Engine(settle_s=0.001)
    message = await failed(engine, A)
    engine.transport.handlers[A] = Gate()
    if is_canceled_first:
        await cancel(engine, message.message_id)
    await engine.driver.submit(commands.Redeliver(message=message, number=1))
    await turns()
    if not is_canceled_first:
        await cancel(engine, message.message_id)
    assert engine.transport.sent == [A, A]
    await engine.driver.close(grace_s=0)

    again = Engine(state=engine.world_state)
    again.driver.resume()
    await again.driver.settle()

    assert again.transport.sent == ([A] if is_canceled_first else [])
    assert ends_of_redeliveries(again) == [None if is_canceled_first else OUTCOME_UNKNOWN]
