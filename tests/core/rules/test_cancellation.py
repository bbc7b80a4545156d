"""Cancelling: at once unless an attempt is under way, one by one or everything that matches."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands
from emulator.core.errors import NotFound
from emulator.core.model.names import MessageId, ScheduleId
from tests.harness.simulations import DAY, HOUR, MINUTE, World, always, answered, by_url, flow, make_account

URL = "https://api.example.com/hook"


# -- one message ------------------------------------------------------------------------------


def test_a_delayed_message_is_canceled_at_once() -> None:
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR)
    world.cancel(message_id)
    assert world.events_of(message_id) == ["CREATED", "CANCEL_REQUESTED", "CANCELED"]
    world.run_until(DAY)
    assert world.starts() == []
    assert world.next_due_ms is None


def test_a_message_between_two_attempts_is_canceled_at_once() -> None:
    world = World(answering=always(answered(500)))
    message_id = world.publish(URL)
    world.cancel(message_id)
    assert world.events_of(message_id)[-2:] == ["CANCEL_REQUESTED", "CANCELED"]
    world.run_until(DAY)
    assert world.start_times(message_id) == [0]


@pytest.mark.parametrize(
    ("status", "events"),
    [
        pytest.param(200, ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "DELIVERED"], id="that-succeeds-is-delivered"),
        pytest.param(500, ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "ERROR", "CANCELED"], id="that-fails-ends"),
    ],
)
def test_an_attempt_under_way_is_not_interrupted(status: int, events: list[str]) -> None:
    """Decision D-018."""
    world = World(answering=None)
    message_id = world.publish(URL)
    world.cancel(message_id)
    world.finish(message_id, answered(status))
    assert world.events_of(message_id) == events


def test_a_canceled_message_is_no_dead_letter_even_after_its_last_attempt() -> None:
    world = World(answering=None)
    message_id = world.publish(URL, max_retries=0)
    world.cancel(message_id)
    world.finish(message_id, answered(500))
    assert world.events_of(message_id)[-1] == "CANCELED"
    assert world.owner.dead_letters == {}


@pytest.mark.parametrize("reason", ["unknown", "delivered", "canceled", "requested"])
def test_what_cannot_be_canceled_is_not_found(reason: str) -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    if reason == "unknown":
        message_id = MessageId("msg_nobody")
    elif reason == "delivered":
        world.finish(message_id)
    else:
        world.cancel(message_id)
        if reason == "canceled":
            world.finish(message_id, answered(500))
    before = world.snapshot()
    with pytest.raises(NotFound) as refusal:
        world.cancel(message_id)
    assert refusal.value.text == f"message {message_id} not found"
    assert world.snapshot() == before


# -- many -------------------------------------------------------------------------------------


def test_two_ids_cancel_exactly_two_and_everything_then_cancels_the_rest() -> None:
    world = World()
    ids = [world.publish(URL, delay_ms=HOUR) for _ in range(3)]
    assert world.cancel_all(message_ids=(ids[0], ids[1])) == 2
    assert world.cancel_all() == 1
    assert world.cancel_all() == 0


def test_messages_of_every_phase_count() -> None:
    world = World(answering=None)
    retrying = world.publish(URL)
    world.finish(retrying, answered(500))
    in_flight = world.publish(URL)
    world.publish(URL, delay_ms=HOUR)
    world.write_queue("q", paused=True)
    world.enqueue("q", URL)
    assert world.cancel_all() == 4
    assert list(world.simulation.state.messages) == [in_flight]


def test_a_pending_cancellation_does_not_count_again() -> None:
    world = World(answering=None)
    world.publish(URL)
    assert world.cancel_all() == 1
    assert world.cancel_all() == 0


def test_a_count_cancels_the_oldest() -> None:
    """D-062."""
    world = World()
    ids = [world.publish(URL, delay_ms=HOUR) for _ in range(5)]
    assert world.cancel_all(count=2) == 2
    assert list(world.simulation.state.messages) == ids[2:]


def test_nothing_starts_in_the_place_of_what_is_canceled_with_it() -> None:
    world = World(answering=by_url({URL: answered(500)}))
    for _ in range(3):
        world.enqueue("q", URL)
    limits = flow("k", parallelism=1)
    for _ in range(3):
        world.publish(URL, flow_control=limits)
    started = len(world.starts())
    world.answering = None
    world.cancel_all()
    assert len(world.starts()) == started
    assert not world.simulation.state.messages


def test_those_that_stay_start_in_the_place_of_what_is_canceled() -> None:
    world = World(answering=None)
    first = world.enqueue("q", URL, retry_delay="60000")
    world.enqueue("q", URL)
    third = world.enqueue("q", "https://third.test/")
    world.finish(first, answered(500))
    assert world.cancel_all(urls=(URL,)) == 2
    assert world.start_times(third) == [0]


def _busy_world() -> World:
    """One message for every property a filter knows, all of them waiting."""
    world = World(make_account())
    world.make_group("team", "https://team.test/in")
    world.write_queue("q", paused=True)
    world.publish("https://one.test/a", delay_ms=DAY, labels=("red",))
    world.run_until(MINUTE)
    world.publish("https://one.test/b", delay_ms=DAY, labels=("blue", "red"), caller_ip="198.51.100.1")
    world.publish("https://one.test:8443/a", delay_ms=DAY, flow_control=flow("k", rate=1))
    world.run_until(2 * MINUTE)
    world.publish_to_group("team", delay_ms=DAY)
    world.enqueue("q", "https://two.test/")
    world.write_schedule("* * * * *", "https://timed.test/x", schedule_id="mine", delay_ms=DAY)
    world.run_until(3 * MINUTE)
    world.do(commands.DeleteSchedule(account_id=world.account_id, schedule_id=ScheduleId("mine")))
    return world


@pytest.mark.parametrize(
    ("wanted", "urls"),
    [
        pytest.param({"labels": ("red",)}, ["https://one.test/a", "https://one.test/b"], id="label"),
        pytest.param({"labels": ("blue", "green")}, ["https://one.test/b"], id="one-of-several-labels"),
        pytest.param({"urls": ("https://one.test/a",)}, ["https://one.test/a"], id="url"),
        pytest.param(
            {"urls": ("https://one.test/a", "https://two.test/")},
            ["https://one.test/a", "https://two.test/"],
            id="one-of-several-urls",
        ),
        pytest.param({"hosts": ("one.test",)}, ["https://one.test/a", "https://one.test/b"], id="host"),
        pytest.param({"hosts": ("one.test:8443",)}, ["https://one.test:8443/a"], id="host-with-port"),
        pytest.param({"paths": ("/a",)}, ["https://one.test/a", "https://one.test:8443/a"], id="path"),
        pytest.param({"hosts": ("one.test",), "paths": ("/a",)}, ["https://one.test/a"], id="host-and-path"),
        pytest.param({"url_groups": ("team",)}, ["https://team.test/in"], id="group"),
        pytest.param({"queues": ("q",)}, ["https://two.test/"], id="queue"),
        pytest.param({"flow_keys": ("k",)}, ["https://one.test:8443/a"], id="flow-key"),
        pytest.param({"schedule_ids": ("mine",)}, ["https://timed.test/x"], id="schedule"),
        pytest.param({"caller_ips": ("198.51.100.1",)}, ["https://one.test/b"], id="caller"),
        pytest.param({"to_ms": 1_767_225_600_000}, ["https://one.test/a"], id="until-inclusive"),
        pytest.param({"from_ms": 1_767_225_780_000}, ["https://timed.test/x"], id="from-inclusive"),
        pytest.param(
            {"from_ms": 1_767_225_660_000, "to_ms": 1_767_225_660_000},
            ["https://one.test/b", "https://one.test:8443/a"],
            id="one-instant",
        ),
        pytest.param({"labels": ("red",), "queues": ("q",)}, [], id="different-fields-must-all-match"),
        pytest.param({"labels": ("green",)}, [], id="nothing"),
    ],
)
def test_filters_cancel_exactly_what_they_mean(wanted: dict[str, Any], urls: list[str]) -> None:
    world = _busy_world()
    before = {each.message.message_id: each.message.url for each in world.simulation.state.messages.values()}
    assert world.cancel_all(**wanted) == len(urls)
    left = set(world.simulation.state.messages)
    assert sorted(url for message_id, url in before.items() if message_id not in left) == sorted(urls)


def test_with_ids_given_all_other_filters_are_ignored() -> None:
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR)
    assert world.cancel_all(message_ids=(message_id, "msg_nobody"), labels=("red",), to_ms=0) == 1
