"""Canceled messages whose attempt was in flight when the engine that made it ended: no attempt follows (D-780)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator.core import commands, message_facts
from emulator.core.checkpoint import restore
from emulator.core.model.messages import NOT_SENT, OUTCOME_UNKNOWN, abandoned_attempt
from emulator.core.model.options import CallType
from emulator.core.record import MessageId
from emulator.core.simulation import Simulation
from tests.harness.simulations import DAY, HOUR, SECOND, World, answered, callback, dump, flow, make_account, replay
from tests.harness.workflows import RunWorld, item, part, step

URL = "https://api.example.com/hook"
ENDED = ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "CANCELED"]


def cancel_all(world: RunWorld) -> None:
    assert world.cancel_all() == 1


# How a message, in a queue where that is needed, is canceled.
CANCELLATIONS: dict[str, Callable[[RunWorld], object]] = {
    "single": lambda world: world.cancel(next(iter(world.messages))),
    "bulk": cancel_all,
    "queue": lambda world: world.delete_queue("q"),
}
each_cancellation = pytest.mark.parametrize("how", CANCELLATIONS)


def in_flight(how: str, **options: Any) -> RunWorld:
    """A world with one message, whose attempt is in flight."""
    world = RunWorld()
    world.answering = None
    world.enqueue("q", URL, **options) if how == "queue" else world.publish(URL, **options)
    return world


@each_cancellation
def test_a_message_canceled_in_flight_ends_without_another_attempt(how: str) -> None:
    """D-780."""
    world = in_flight(how, max_retries=3, callback=callback(f"{URL}/back"), failure_callback=callback(f"{URL}/fail"))
    (message_id,) = world.messages
    CANCELLATIONS[how](world)
    world.do(commands.AbandonAttempts())
    world.run_until(DAY)

    assert world.events_of(message_id) == ENDED
    assert world.starts() == [(URL, 1, 0)]
    (finished,) = world.all(message_facts.AttemptFinished)
    assert (finished.number, finished.outcome.error, finished.outcome.abandoned) == (1, OUTCOME_UNKNOWN, True)
    assert list(world.messages) == [message_id]
    assert (world.dead_letter_ids(), world.owner.active, list(world.simulation.state.timers)) == ([], 0, [])
    assert replay(world) == world.snapshot()


@each_cancellation
def test_the_same_from_a_checkpoint(how: str) -> None:
    """What is restored from a checkpoint ends as what was replayed from facts does."""
    world = in_flight(how)
    CANCELLATIONS[how](world)
    state = restore(world.snapshot()[0])
    facts = Simulation(state).handle(commands.AbandonAttempts()).facts
    world.do(commands.AbandonAttempts())
    assert facts == world.facts[-len(facts) :]
    assert dump(state) == world.snapshot()


@pytest.mark.parametrize("end", [RunWorld.cancel_run, RunWorld.succeed])
def test_the_calls_in_flight_of_a_run_that_has_ended_end_too(end: Callable[[RunWorld], None]) -> None:
    """D-780: they publish into no run any more."""
    world = RunWorld()
    world.answering = None
    first = world.begin(max_retries=3)
    # The request of a call step, which goes to a third party.
    third = world.send(item(URL, workflow=part(call_type=CallType.TO_CALLBACK), max_retries=3))
    end(world)
    later = world.begin()  # Another run of that id, which is active.
    world.do(commands.AbandonAttempts())

    assert [world.events_of(each) for each in (first.message_id, third.message_id)] == [ENDED, ENDED]
    assert world.events_of(later.message_id) == ["CREATED", "ACTIVE"]
    assert list(world.simulation.state.messages) == [later.message_id]
    assert list(world.owner.ended_runs) == []
    assert world.owner.active == 1
    assert replay(world) == world.snapshot()


def test_the_call_of_a_failure_function_outlasts_its_run_unless_it_is_canceled() -> None:
    world = RunWorld()
    world.begin(max_retries=0, failure_callback=callback("https://fail.test/"))
    world.answering = None
    world.add(step(1), max_retries=0)
    world.finish(next(reversed(world.messages)), answered(500))
    (call,) = world.sent_to("https://fail.test/")
    world.do(commands.AbandonAttempts())
    assert world.events_of(call.message_id) == ["CREATED", "ACTIVE"]

    world.act(commands.CancelFailureFunction, entry=world.failed_run())
    world.do(commands.AbandonAttempts())
    assert world.events_of(call.message_id) == ENDED


def test_other_attempts_in_flight_are_left_alone() -> None:
    world = World(answering=None)
    kept, canceled = world.publish(URL), world.publish(URL)
    world.cancel(canceled)
    world.do(commands.AbandonAttempts())
    assert list(world.simulation.state.messages) == [kept]
    world.finish(kept)
    assert world.events_of(kept) == ["CREATED", "ACTIVE", "DELIVERED"]


def test_without_canceled_messages_in_flight_nothing_happens() -> None:
    world = World(answering=None)
    world.publish(URL)
    world.publish(URL, delay_ms=HOUR)
    before = world.snapshot()
    world.do(commands.AbandonAttempts())
    assert world.snapshot() == before


def test_what_abandoned_attempts_held_is_given_on_after_the_last_of_them() -> None:
    """None of them starts in the place of another, and those that wait get what they held."""
    world = World(make_account(max_global_parallelism=2), answering=None)
    canceled = [world.publish(f"{URL}/{number}", flow_control=flow("k", parallelism=2)) for number in range(2)]
    world.publish(f"{URL}/by-key", flow_control=flow("k", parallelism=2))
    world.publish(f"{URL}/in-all")
    for message_id in canceled:
        world.cancel(message_id)
    world.do(commands.AbandonAttempts())
    assert world.urls_started() == [f"{URL}/0", f"{URL}/1", f"{URL}/by-key", f"{URL}/in-all"]
    kinds = [type(fact).__name__ for fact in world.facts]
    first = kinds.index("AttemptFinished")
    assert kinds[first : first + 4] == ["AttemptFinished", "MessageCanceled"] * 2
    assert replay(world) == world.snapshot()


def test_an_answer_that_a_rule_holds_back_is_known_and_counts() -> None:
    world = World()
    world.add_rule("*", latency_ms=HOUR)
    message_id = world.publish(URL)
    world.cancel(message_id)
    world.do(commands.AbandonAttempts())
    assert world.events_of(message_id) == ["CREATED", "ACTIVE", "CANCEL_REQUESTED"]
    world.run_until(HOUR)
    assert world.events_of(message_id)[-1] == "DELIVERED"


def test_an_attempt_that_did_not_leave_ends_its_message_at_once() -> None:
    """D-780: also where a rule would hold back the answer."""
    world = World(answering=None)
    world.add_rule("*", latency_ms=HOUR)
    message_id = world.publish(URL)
    world.cancel(message_id)
    world.finish(message_id, abandoned_attempt(NOT_SENT))
    assert world.events_of(message_id) == ENDED
    assert world.simulation.state.messages == {}


def test_an_outcome_that_comes_after_that_changes_nothing() -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    world.cancel(message_id)
    world.do(commands.AbandonAttempts())
    before = world.snapshot()
    world.finish(message_id, answered(200))
    assert world.snapshot() == before


def test_a_message_canceled_in_flight_is_not_delivered_twice_by_a_rule() -> None:
    """D-780: its attempt succeeds and ends it, and no other follows."""
    world = World(answering=None)
    world.add_rule("*", duplicate_ms=HOUR)
    message_id = world.publish(URL)
    world.cancel(message_id)
    world.finish(message_id)
    assert world.events_of(message_id)[-1] == "DELIVERED"
    assert world.simulation.state.duplicates == {}
    assert list(world.simulation.state.timers) == []


# -- redeliveries -------------------------------------------------------------------------------


def redeliver(world: World, message_id: MessageId) -> int:
    return world.do(commands.Redeliver(message=world.messages[message_id], number=1))


def outcomes_of_redeliveries(world: World) -> list[tuple[int, str | None]]:
    return [(each.outcome.redelivery, each.outcome.error) for each in world.all(message_facts.DuplicateFinished)]


@each_cancellation
@pytest.mark.parametrize("is_in_flight", [True, False])
def test_a_redelivery_is_called_off_with_its_live_message(how: str, *, is_in_flight: bool) -> None:
    """D-780: whether the message itself has an attempt in flight or waits for its retry."""
    world = in_flight(how, max_retries=3, retry_delay=str(HOUR), timeout_ms=SECOND)
    (message_id,) = world.messages
    if not is_in_flight:
        world.finish(message_id, answered(500))
    world.add_rule("*", latency_ms=2 * SECOND)
    redeliver(world, message_id)
    CANCELLATIONS[how](world)
    state = restore(world.snapshot()[0])
    facts = Simulation(state).handle(commands.AbandonAttempts()).facts
    world.do(commands.AbandonAttempts())

    assert outcomes_of_redeliveries(world) == [(1, OUTCOME_UNKNOWN)]
    assert world.events_of(message_id)[-1] == "CANCELED"
    assert world.simulation.state.duplicates == {}
    assert facts == world.facts[-len(facts) :]
    assert replay(world) == world.snapshot() == dump(state)


def test_a_redelivery_that_was_asked_for_after_the_cancellation_is_made_again() -> None:
    """D-705: of an ended message, and of one whose attempt is in flight."""
    world = World(answering=None)
    for phase in ("ended", "in flight"):
        message_id = world.publish(f"{URL}/{phase}")
        if phase == "ended":
            world.finish(message_id, answered(500))
        world.cancel(message_id)
        redeliver(world, message_id)
    other = world.publish(URL)
    redeliver(world, other)
    world.do(commands.AbandonAttempts())
    assert outcomes_of_redeliveries(world) == []
    assert [each.is_called_off for each in world.simulation.state.duplicates.values()] == [False] * 3
    assert replay(world) == world.snapshot()


def test_the_redelivery_of_a_call_whose_run_has_ended_ends_with_the_call() -> None:
    """D-780."""
    world = RunWorld()
    world.answering = None
    first = world.begin(max_retries=3)
    redeliver(world, first.message_id)
    world.succeed()
    world.do(commands.AbandonAttempts())
    assert outcomes_of_redeliveries(world) == [(1, OUTCOME_UNKNOWN)]
    assert list(world.owner.ended_runs) == []
    assert replay(world) == world.snapshot()
