"""Schedules: one message per due instant, in order, whatever becomes of the messages."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands, resource_facts
from emulator.core.errors import InvalidInput, LimitReached, NotFound, PayloadTooLarge
from emulator.core.model.options import Method
from emulator.core.record import ScheduleId
from emulator.core.record import schedule_id as make_schedule_id
from emulator.core.resource_facts import ScheduleDeleted
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, MINUTE, World, answered, by_url, make_account

URL = "https://api.example.com/hook"


def delete(world: World, schedule_id: str) -> None:
    world.do(commands.DeleteSchedule(account_id=world.account_id, schedule_id=ScheduleId(schedule_id)))


# -- firing -----------------------------------------------------------------------------------


def test_a_schedule_fires_once_at_every_due_instant_in_order() -> None:
    world = World()
    world.write_schedule("*/15 * * * *", URL)
    world.run_until(DAY)
    assert world.start_times() == [900_000 * number for number in range(1, 97)]


@pytest.mark.parametrize("cron", ["0 0 * * *", "CRON_TZ=Asia/Tokyo 0 9 * * *"])
def test_a_schedule_that_begins_on_its_own_instant_waits_for_the_next(cron: str) -> None:
    world = World()
    world.write_schedule(cron, URL)
    world.run_until(2 * DAY)
    assert world.start_times() == [86_400_000, 172_800_000]


def test_a_firing_publishes_body_and_options_of_the_schedule() -> None:
    world = World()
    options: dict[str, Any] = {
        "method": Method.GET,
        "content_type": "text/plain",
        "labels": ("timed",),
        "max_retries": 1,
    }
    schedule_id = world.write_schedule("* * * * *", URL, body=b"tick", **options)
    world.run_until(MINUTE)
    (message,) = world.messages.values()
    assert (message.body, message.method, message.headers) == (b"tick", Method.GET, (("Content-Type", "text/plain"),))
    assert (message.policy.labels, message.policy.max_retries) == (("timed",), 1)
    assert (message.source.schedule_id, message.source.caller_ip) == (schedule_id, "203.0.113.7")
    assert message.created_ms - world.began_ms == 60_000


def test_a_delay_delays_the_messages_and_not_the_schedule() -> None:
    world = World()
    world.write_schedule("*/10 * * * *", URL, delay_ms=90_000)
    world.run_until(22 * MINUTE)
    assert world.start_times() == [690_000, 1_290_000]
    assert [fact.at_ms - world.began_ms for fact in world.all(resource_facts.ScheduleFired)] == [600_000, 1_200_000]


def test_a_schedule_may_publish_through_a_queue_without_touching_its_parallelism() -> None:
    world = World()
    world.write_queue("q", parallelism=3)
    world.write_schedule("* * * * *", URL, queue="q", delay_ms=30_000)
    world.run_until(2 * MINUTE)
    assert [message.policy.queue for message in world.messages.values()] == ["q", "q"]
    assert world.start_times() == [90_000]
    assert world.queue("q").parallelism == 3


def test_a_schedule_to_a_group_that_does_not_exist_is_refused_like_a_publish() -> None:
    """D-262."""
    world = World()
    for name, text in (
        ("team", "topic team not found"),
        ("example.com", "topic example.com not found; a URL begins with http:// or https://"),
    ):
        with pytest.raises(NotFound) as scheduled:
            world.write_schedule("* * * * *", name)
        with pytest.raises(NotFound) as published:
            world.publish_to_group(name)
        assert scheduled.value.text == published.value.text == text
    assert world.facts == []


def test_a_firing_that_is_refused_notes_the_error_and_goes_on() -> None:
    """D-065."""
    world = World()
    schedule_id = world.write_schedule("* * * * *", URL)
    world.change_account(active=False)
    world.run_until(MINUTE)
    progress = world.schedule(schedule_id)
    assert progress.error == f"account {world.account_id} is not active"
    assert progress.last_fired_ms == EPOCH_MS + 60_000
    assert progress.next_ms == EPOCH_MS + 120_000
    assert progress.last_states == ()
    world.change_account(active=True)
    world.run_until(2 * MINUTE)
    assert world.schedule(schedule_id).error is None
    assert world.start_times() == [120_000]


# -- what the record shows of the last firing -------------------------------------------------


def test_the_states_are_those_of_the_last_firing() -> None:
    """D-038."""
    world = World(answering=None)
    schedule_id = world.write_schedule("* * * * *", URL, max_retries=0)
    world.run_until(MINUTE)
    first = world.sent_to(URL)[0].message_id
    assert world.schedule(schedule_id).last_states == ((first, "IN_PROGRESS"),)
    world.run_until(2 * MINUTE)
    second = world.sent_to(URL)[1].message_id
    assert world.schedule(schedule_id).last_states == ((second, "IN_PROGRESS"),)
    world.finish(first)
    assert world.schedule(schedule_id).last_states == ((second, "IN_PROGRESS"),)
    world.finish(second, answered(500))
    assert world.schedule(schedule_id).last_states == ((second, "FAIL"),)


def test_the_states_name_every_message_of_a_firing() -> None:
    world = World(answering=by_url({"https://b.test/": answered(500)}))
    world.make_group("team", "https://a.test/", "https://b.test/", "https://c.test/")
    schedule_id = world.write_schedule("* * * * *", "team", max_retries=0)
    world.run_until(MINUTE)
    assert [state.value for _, state in world.schedule(schedule_id).last_states] == ["SUCCESS", "FAIL", "SUCCESS"]


def test_a_canceled_message_counts_as_failed() -> None:
    world = World()
    schedule_id = world.write_schedule("* * * * *", URL, delay_ms=HOUR)
    world.run_until(MINUTE)
    world.cancel_all()
    assert [state.value for _, state in world.schedule(schedule_id).last_states] == ["FAIL"]


@pytest.mark.parametrize("later_ms", [0, MINUTE])
def test_a_dead_letter_published_again_is_not_of_the_last_firing(later_ms: int) -> None:
    """D-038: not in the very instant of the firing either."""
    world = World(answering=by_url({URL: [answered(500)]}))
    schedule_id = world.write_schedule("0 * * * *", URL, max_retries=0)
    world.run_until(HOUR + later_ms)
    before = world.schedule(schedule_id).last_states
    (again,) = world.retry_dead_letters(*world.dead_letter_ids())
    assert world.messages[again.message_id].source.schedule_id == schedule_id
    assert world.schedule(schedule_id).last_states == before


# -- pausing ----------------------------------------------------------------------------------


def test_firings_that_fall_into_a_pause_are_skipped_and_never_caught_up() -> None:
    """Decision D-033."""
    world = World()
    schedule_id = world.write_schedule("* * * * *", URL)
    world.run_until(2 * MINUTE)
    world.pause_schedule(schedule_id)
    assert world.schedule(schedule_id).paused
    assert world.schedule(schedule_id).next_ms is None
    assert world.next_due_ms is None
    world.run_until(10 * MINUTE + 30_000)
    world.pause_schedule(schedule_id, paused=False)
    assert not world.schedule(schedule_id).paused
    world.run_until(12 * MINUTE)
    assert world.start_times() == [60_000, 120_000, 660_000, 720_000]


# -- writing and deleting ---------------------------------------------------------------------


def test_a_schedule_without_an_id_gets_a_random_one() -> None:
    world = World()
    first = world.write_schedule("* * * * *", URL)
    second = world.write_schedule("* * * * *", URL)
    assert first != second
    assert first.startswith("scd_")
    assert len(first) == 32
    # It follows from the world's key, and so is the same in every version.
    key = world.simulation.state.event_key
    assert [first, second] == [make_schedule_id(key, number) for number in (1, 2)]


def test_the_same_id_again_replaces_the_whole_schedule() -> None:
    """Decision D-037."""
    world = World()
    world.write_schedule("* * * * *", URL, schedule_id="mine", body=b"old", labels=("old",))
    world.run_until(MINUTE)
    world.write_schedule("*/5 * * * *", "https://new.test/", schedule_id="mine")
    progress = world.schedule("mine")
    assert (progress.schedule.body, progress.schedule.options.labels) == (b"", ())
    assert progress.schedule.created_ms == EPOCH_MS
    assert progress.next_ms == EPOCH_MS + 300_000
    world.run_until(10 * MINUTE)
    assert world.starts() == [
        (URL, 1, 60_000),
        ("https://new.test/", 1, 300_000),
        ("https://new.test/", 1, 600_000),
    ]


def test_a_replaced_schedule_stays_paused() -> None:
    world = World()
    schedule_id = world.write_schedule("* * * * *", URL, schedule_id="mine")
    world.pause_schedule(schedule_id)
    world.write_schedule("*/2 * * * *", URL, schedule_id="mine")
    world.run_until(HOUR)
    assert world.starts() == []
    world.pause_schedule(schedule_id, paused=False)
    assert world.schedule("mine").next_ms == EPOCH_MS + 3_720_000


def test_the_expression_is_kept_trimmed() -> None:
    world = World()
    schedule_id = world.write_schedule(" */10 * * * * ", URL)
    assert world.schedule(schedule_id).schedule.cron == "*/10 * * * *"


def test_a_deleted_schedule_fires_no_more_and_its_messages_live_on() -> None:
    world = World(answering=None)
    schedule_id = world.write_schedule("* * * * *", URL)
    world.run_until(MINUTE)
    delete(world, schedule_id)
    assert world.next_due_ms is None
    assert [fact.at_ms for fact in world.all(ScheduleDeleted)] == [EPOCH_MS + MINUTE]
    (message,) = world.sent_to(URL)
    world.finish(message.message_id)
    assert world.events_of(message.message_id) == ["CREATED", "ACTIVE", "DELIVERED"]


# -- limits -----------------------------------------------------------------------------------


def test_a_schedule_that_needs_one_queue_too_many_is_refused() -> None:
    world = World(make_account(max_queues=0))
    with pytest.raises(LimitReached) as refusal:
        world.write_schedule("* * * * *", URL, queue="q")
    assert refusal.value.text == "quota maxQueues exceeded, current limit: 0"


def test_a_schedule_keeps_the_limits_of_a_message() -> None:
    world = World(make_account(max_message_size=3))
    with pytest.raises(PayloadTooLarge):
        world.write_schedule("* * * * *", URL, body=b"1234")
    with pytest.raises(InvalidInput) as refusal:
        world.write_schedule("* * * * *", URL, max_retries=21)
    assert refusal.value.field == "Svc-Retries"
    assert world.facts == []
