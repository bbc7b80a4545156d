"""Cancelling messages, and deleting and publishing again those that failed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands, message_facts
from emulator.core.errors import InvalidInput, LimitReached, NotFound, QuotaExceeded
from emulator.core.model.messages import CreatedBy, Message
from emulator.core.model.options import MessageOptions, Method
from emulator.core.model.resources import Plan
from emulator.core.record import DeadLetterId, MessageId, ScheduleId
from tests.harness.simulations import DAY, HOUR, MINUTE, World, always, answered, by_url, callback, flow, make_account

# -- cancelling ---------------------------------------------------------------------------------

URL = "https://api.example.com/hook"


def test_a_delayed_message_is_canceled_at_once() -> None:
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR)
    world.cancel(message_id)
    assert world.events_of(message_id) == ["CREATED", "CANCEL_REQUESTED", "CANCELED"]
    world.run_until(DAY)
    assert world.starts() == []
    assert world.next_due_ms is None


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
    message_id = world.publish(URL, max_retries=0)
    world.cancel(message_id)
    world.finish(message_id, answered(status))
    assert world.events_of(message_id) == events
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
    # It is asked for already.
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


# -- dead letters -------------------------------------------------------------------------------


def failed_world(count: int = 1, account: Any = None, **options: Any) -> World:
    """A world with dead letters, whose destination answers from now on."""
    world = World(account, answering=by_url({URL: answered(500)}))
    for _ in range(count):
        world.publish(URL, max_retries=0, **options)
    world.answering = always(answered(200))
    return world


def retried(world: World, **overrides: Any) -> Message:
    (published,) = world.retry_dead_letters(*world.dead_letter_ids(), **overrides)
    return world.messages[published.message_id]


# -- deleting ---------------------------------------------------------------------------------


def test_deleting_counts_what_was_there_and_each_once() -> None:
    world = failed_world(3)
    first, second, third = world.dead_letter_ids()
    assert world.delete_dead_letters(first, first, third, DeadLetterId("0-0")) == 2
    assert [fact.cause for fact in world.all(message_facts.DeadLettersRemoved)] == ["deleted"]
    assert world.dead_letter_ids() == [second]
    assert world.delete_dead_letters(first) == 0


def test_deleting_one_by_its_id_a_second_time_is_not_found() -> None:
    world = failed_world()
    (only,) = world.dead_letter_ids()
    assert world.delete_dead_letters(only, only, strict=True) == 1
    with pytest.raises(NotFound) as refusal:
        world.delete_dead_letters(only, strict=True)
    assert refusal.value.text == f"dlq message {only} not found"


# -- publishing again -------------------------------------------------------------------------


def test_a_dead_letter_is_published_again_as_a_new_message_and_leaves_the_queue() -> None:
    """D-046."""
    world = failed_world(
        body=b"hello",
        method=Method.PUT,
        content_type="text/plain",
        forwarded=(("X-One", "1"),),
        labels=("red",),
        timeout_ms=45_000,
        callback=callback("https://back.test/"),
        caller_ip="198.51.100.1",
    )
    original, now_ms = world.sent_to(URL)[0], world.began_ms + HOUR
    (entry,) = world.dead_letter_ids()
    world.run_until(HOUR)
    message = retried(world)
    source = replace(original.source, created_by=CreatedBy.DEAD_LETTER, from_dead_letter=entry)
    own = {"message_id": message.message_id, "number": 3, "created_ms": now_ms, "not_before_ms": now_ms}
    assert message == replace(original, source=source, **own)
    assert message.message_id != original.message_id
    assert world.owner.dead_letters == {}
    assert world.events_of(message.message_id) == ["CREATED", "ACTIVE", "DELIVERED"]
    assert [fact.cause for fact in world.all(message_facts.DeadLettersRemoved)] == ["retried"]


def test_overrides_win_over_the_settings_of_the_original() -> None:
    """D-046."""
    world = failed_world(labels=("red",), method=Method.PUT, forwarded=(("X-One", "1"), ("X-Two", "2")))
    kept: dict[str, Any] = {
        "max_retries": 3,
        "labels": ("blue",),
        "retry_delay": "1000",
        "timeout_ms": 1_000,
        "failure_callback": callback("https://failed.test/"),
        "flow_control": flow("k", parallelism=1),
    }
    others: dict[str, Any] = {"content_type": "application/json", "forwarded": (("x-two", "new"),), "delay_ms": HOUR}
    message = retried(world, method=Method.PATCH, **kept, **others)
    assert {name: getattr(message.policy, name) for name in kept} == kept
    assert (message.method, message.headers) == (Method.PATCH, (("x-two", "new"), ("X-One", "1")))
    assert message.not_before_ms - message.created_ms == HOUR


def test_a_callback_is_overridden_option_by_option() -> None:
    """D-046."""
    world = failed_world(callback=callback("https://back.test/", forwarded=(("X-One", "1"),), max_retries=3))
    settings = MessageOptions(max_retries=0)
    assert retried(world, callback_settings=settings).policy.callback == callback(
        "https://back.test/", forwarded=(("X-One", "1"),), max_retries=0
    )


def test_the_content_type_of_the_retry_call_is_not_that_of_the_message() -> None:
    world = failed_world(content_type="text/plain")
    assert retried(world, content_type="application/json").headers == (("Content-Type", "text/plain"),)


def test_a_timeout_override_cannot_pass_that_of_the_plan() -> None:
    world = failed_world(timeout_ms=1_000)
    assert retried(world, timeout_ms=10 * DAY).policy.timeout_ms == 21_600_000


def test_several_are_published_in_the_order_asked_for_and_each_once() -> None:
    world = failed_world(3)
    first, second, third = world.dead_letter_ids()
    published = world.retry_dead_letters(third, first, third)
    assert [each.url for each in published] == [world.messages[each.message_id].url for each in published]
    assert len(published) == 2
    assert world.dead_letter_ids() == [second]


def test_a_dead_letter_that_is_gone_is_passed_over_or_refused() -> None:
    world = failed_world(2)
    gone, present = world.dead_letter_ids()
    world.delete_dead_letters(gone)
    before = world.snapshot()
    with pytest.raises(NotFound) as refusal:
        world.retry_dead_letters(gone, present, strict=True)
    assert refusal.value.text == f"dlq message {gone} not found"
    assert world.snapshot() == before
    assert len(world.retry_dead_letters(gone, present, strict=False)) == 1


def test_a_dead_letter_of_a_deleted_queue_makes_the_queue_again() -> None:
    world = World(answering=always(answered(500)))
    world.enqueue("q", URL, max_retries=0)
    world.delete_queue("q")
    world.answering = always(answered(200))
    message = retried(world)
    assert message.policy.queue == "q"
    assert world.queue("q").parallelism == 1
    assert world.events_of(message.message_id)[-1] == "DELIVERED"


def test_a_retry_may_go_through_another_queue() -> None:
    """D-046."""
    world = failed_world()
    world.answering = None
    busy = world.enqueue("other", "https://busy.test/")
    message = retried(world, queue="other")
    assert message.policy.queue == "other"
    assert world.start_times(message.message_id) == []
    world.finish(busy)
    assert world.start_times(message.message_id) == [0]


def test_retries_make_no_more_queues_than_the_plan_allows() -> None:
    """D-046."""
    world = World(make_account(max_queues=2), answering=always(answered(500)))
    for name in ("a", "b"):
        world.enqueue(name, URL, max_retries=0)
        world.delete_queue(name)
    world.enqueue("c", URL, max_retries=0)
    before = world.snapshot()
    with pytest.raises(LimitReached) as refusal:
        world.retry_dead_letters(*world.dead_letter_ids())
    assert refusal.value.text == "quota maxQueues exceeded, current limit: 2"
    assert world.snapshot() == before
    assert len(world.retry_dead_letters(*world.dead_letter_ids(), queue="d")) == 3


def test_a_failed_callback_may_be_published_again() -> None:
    world = World(answering=by_url({"https://back.test/": answered(500)}))
    world.enqueue("q", URL, max_retries=0, callback=callback("https://back.test/"))
    body = world.sent_to("https://back.test/")[0].body
    world.answering = None
    world.enqueue("q", "https://busy.test/")
    message = retried(world)
    assert message.body == body
    assert message.source.queue_slot is None
    assert world.start_times(message.message_id) == [0], "a callback does not stand in the queue of its source"


def test_a_retry_keeps_the_limits_of_a_publish() -> None:
    world = failed_world()
    with pytest.raises(InvalidInput) as refusal:
        retried(world, max_retries=21)
    assert refusal.value.field == "Svc-Retries"
    assert len(world.owner.dead_letters) == 1


def test_a_retry_counts_against_the_daily_quota() -> None:
    world = failed_world(2, make_account(max_requests_per_day_hard=3))
    with pytest.raises(QuotaExceeded):
        world.retry_dead_letters(*world.dead_letter_ids())
    assert len(world.owner.dead_letters) == 2


# -- the end by age and by size ---------------------------------------------------------------


def test_dead_letters_expire_with_the_retention_of_the_plan() -> None:
    """D-045."""
    world = World(make_account(Plan.FREE), answering=always(answered(500)))
    world.publish(URL, max_retries=0)
    world.run_until(HOUR)
    world.publish(URL, max_retries=0)
    world.run_until(3 * DAY - 1)
    assert len(world.owner.dead_letters) == 2
    world.run_until(3 * DAY)
    assert world.dead_letter_ids() == ["1767229200000-1"]
    world.run_until(3 * DAY + HOUR)
    assert world.owner.dead_letters == {}
    assert [fact.cause for fact in world.all(message_facts.DeadLettersRemoved)] == ["expired", "expired"]


def test_a_shorter_retention_counts_at_once() -> None:
    world = failed_world()
    world.run_until(HOUR)
    world.change_account(max_dlq_retention_time_milis=HOUR)
    assert world.owner.dead_letters == {}


def test_nothing_expires_after_the_last_one_was_deleted() -> None:
    world = failed_world()
    # No work that a clock would wait for.
    assert (world.next_due_ms, world.simulation.state.timers.next_work_ms()) == (30 * DAY, None)
    world.delete_dead_letters(*world.dead_letter_ids())
    assert world.next_due_ms is None
