"""When state and journal could differ, the world stops, and says why to everybody who calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import pytest
from msgspec.structs import replace

from emulator.core import message_facts
from emulator.core.commands import PublishItem
from emulator.core.errors import WorldBroken
from emulator.core.record import world_key
from emulator.core.state import Fact, State
from tests.harness.engines import Engine, Gate, publish
from tests.harness.loops import on_loop, spawn, turns
from tests.harness.simulations import EPOCH_MS, HOUR, SECOND, answered, make_account

A, B = "http://a.test/hook", "http://b.test/hook"


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    logging.getLogger("emulator.engine.driver").disabled = True
    yield
    logging.getLogger("emulator.engine.driver").disabled = False


CALLS: dict[str, Callable[[Engine], Awaitable[object]]] = {
    "publish": lambda engine: engine.publish(A),
    "advance": lambda engine: engine.driver.advance.by(HOUR),
    "next": lambda engine: engine.driver.advance.to_next(),
    "drain": lambda engine: engine.driver.advance.until_idle(HOUR),
    "catch up": lambda engine: engine.driver.catch_up(),
    "flush": lambda engine: engine.driver.commit(),
}


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@on_loop
async def test_after_a_failed_write_every_call_says_so(
    call: Callable[[Engine], Awaitable[object]], is_frozen: bool
) -> None:
    engine = Engine(is_frozen=is_frozen)
    await engine.publish(B, delay_ms=SECOND)
    engine.journal.failing = True
    with pytest.raises(WorldBroken, match="the disk is full"):
        await engine.publish(A)
    # Even if the disk has room again: what failed is lost to the journal, not to the state.
    engine.journal.failing = False

    with pytest.raises(WorldBroken, match="the disk is full"):
        await call(engine)

    assert engine.transport.sent == []


@on_loop
async def test_write_that_fails_during_an_advance_stops_the_world() -> None:
    engine = Engine()
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A, delay_ms=SECOND)
    advance = spawn(engine.driver.advance.by(HOUR))
    await gate.entered.wait()
    engine.journal.failing = True
    gate.opened.set()

    with pytest.raises(WorldBroken):
        await advance
    with pytest.raises(WorldBroken):
        await engine.publish(B)


@on_loop
async def test_write_that_fails_in_the_background_stops_the_world() -> None:
    engine = Engine(is_frozen=False)
    gate = engine.transport.handlers[A] = Gate()
    await engine.publish(A)
    await gate.entered.wait()
    engine.journal.failing = True
    gate.opened.set()
    await turns()

    with pytest.raises(WorldBroken, match="the disk is full"):
        await engine.publish(B)
    with pytest.raises(WorldBroken):
        await engine.driver.catch_up()


@on_loop
async def test_settle_does_not_wait_for_ever_in_a_world_that_stops() -> None:
    engine = Engine(concurrency=1)
    gate = engine.transport.handlers[A] = Gate()
    caller = spawn(engine.publish(A))
    await gate.entered.wait()
    await engine.publish(B)
    settling = spawn(engine.driver.settle())
    await turns()
    engine.journal.failing = True
    gate.opened.set()

    with pytest.raises(WorldBroken):
        await settling
    await caller


class FailingState(State):
    """A state that cannot apply one kind of fact."""

    def __init__(self, kind: type[Fact]) -> None:
        super().__init__(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account()])
        self._kind = kind

    def apply(self, fact: Fact) -> None:
        if isinstance(fact, self._kind):
            raise ZeroDivisionError
        super().apply(fact)


@on_loop
async def test_rule_that_fails_after_a_fact_stops_the_world() -> None:
    engine = Engine(state=FailingState(message_facts.MessageDelivered))

    await engine.publish(A)

    with pytest.raises(WorldBroken, match="ZeroDivisionError"):
        await engine.publish(B)
    # What happened before is in the journal, what failed half-way is not.
    assert engine.all(message_facts.AttemptFinished) == []


@on_loop
async def test_rule_that_fails_when_a_timer_fires_stops_the_world() -> None:
    engine = Engine(is_frozen=False, state=FailingState(message_facts.AttemptStarted))
    await engine.publish(A, delay_ms=SECOND)
    engine.clock.pass_to(SECOND)

    for _ in range(2):
        with pytest.raises(WorldBroken, match="ZeroDivisionError"):
            await engine.driver.catch_up()


@on_loop
async def test_rule_that_fails_before_its_first_fact_stops_nothing() -> None:
    engine = Engine()
    engine.transport.inside[B] = answered()
    with pytest.raises(AttributeError):
        await engine.driver.submit(replace(publish(A), item=cast(PublishItem, None)))

    await engine.publish(B)

    assert engine.finished() == [(B, 0)]
