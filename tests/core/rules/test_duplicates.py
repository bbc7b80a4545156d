"""Duplicates: when a delivery is made again, and that it changes nothing."""

from __future__ import annotations

from emulator.core import facts
from emulator.core.checkpoint import capture, restore
from emulator.core.model.answers import Disturbance
from emulator.core.model.options import CallbackOptions, MessageOptions
from tests.harness.simulations import HOUR, World, always, answered

URL = "https://api.example.com/hook"


def test_a_delivery_is_made_again_at_once() -> None:
    """D-421."""
    world = World()
    world.add_rule("*", duplicate_ms=0)
    message_id = world.publish(URL)
    (duplicate,) = world.all(facts.DuplicateFinished)
    assert (duplicate.message_id, duplicate.number, duplicate.started_ms) == (message_id, 1, world.began_ms)
    assert len(world.all(facts.MessageDelivered)) == 1


def test_a_delivery_is_made_again_after_a_while() -> None:
    """D-421."""
    world = World()
    world.add_rule("*", duplicate_ms=HOUR)
    world.publish(URL)
    assert world.all(facts.DuplicateStarted) == []
    world.run_for(HOUR)
    (started,) = world.all(facts.DuplicateStarted)
    assert started.at_ms == world.began_ms + HOUR


def test_a_failed_attempt_is_not_made_again() -> None:
    """D-421."""
    world = World(answering=always(answered(500)))
    world.add_rule("*", duplicate_ms=0)
    world.publish(URL, max_retries=0)
    assert world.all(facts.DuplicateScheduled) == []


def test_what_a_duplicate_is_answered_changes_nothing() -> None:
    """D-421."""
    answers = iter((answered(200), answered(500)))
    world = World(answering=lambda message, number: next(answers))
    world.add_rule("https://api.example.com/*", duplicate_ms=0)
    world.publish(URL, max_retries=3)
    (finished,) = world.all(facts.DuplicateFinished)
    assert not finished.outcome.succeeded
    assert world.all(facts.RetryScheduled) == []
    assert world.all(facts.MessageFailed) == []
    assert not world.simulation.state.messages


def test_a_duplicate_causes_no_callback() -> None:
    """D-421."""
    world = World()
    world.add_rule(URL, duplicate_ms=0)
    callback = CallbackOptions(url="https://back.example.com", options=MessageOptions())
    world.publish(URL, callback=callback)
    assert len(world.all(facts.MessageCreated)) == 2
    assert len(world.all(facts.DuplicateFinished)) == 1


def test_a_duplicate_goes_where_its_delivery_went_and_has_none_of_its_own() -> None:
    """D-421."""
    world = World()
    world.add_rule(URL, forward_to="http://127.0.0.1:3000", duplicate_ms=0, latency_ms=10)
    world.publish(URL)
    world.run_for(HOUR)
    (scheduled,) = world.all(facts.DuplicateScheduled)
    answer = scheduled.duplicate.answer
    assert answer is not None
    assert (answer.forward_to, answer.latency_ms, answer.duplicate_ms) == ("http://127.0.0.1:3000", 0, None)
    assert answer.disturbance == Disturbance(is_duplicate=True)


def test_a_pending_duplicate_outlasts_a_restart() -> None:
    """D-421."""
    world = World()
    world.add_rule("*", duplicate_ms=HOUR)
    world.publish(URL)
    state = world.snapshot()[0]
    assert len(state.duplicates) == 1
    assert capture(restore(state)) == state
