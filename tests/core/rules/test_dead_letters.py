"""Dead letters: deleting them, publishing them again, and their end by age."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import facts
from emulator.core.errors import Forbidden, InvalidInput, LimitReached, NotFound, QuotaExceeded
from emulator.core.model.accounts import Plan
from emulator.core.model.messages import Message
from emulator.core.model.names import DeadLetterId
from emulator.core.model.options import MessageOptions, Method
from tests.harness.simulations import DAY, HOUR, World, always, answered, by_url, callback, flow, make_account

URL = "https://api.example.com/hook"


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
    assert world.dead_letter_ids() == [second]
    assert world.delete_dead_letters(first) == 0


def test_deleting_one_by_its_id_a_second_time_is_not_found() -> None:
    world = failed_world()
    (only,) = world.dead_letter_ids()
    assert world.delete_dead_letters(only, strict=True) == 1
    with pytest.raises(NotFound) as refusal:
        world.delete_dead_letters(only, strict=True)
    assert refusal.value.text == f"dlq message {only} not found"


def test_naming_an_id_twice_does_not_make_a_strict_deletion_fail() -> None:
    world = failed_world()
    (only,) = world.dead_letter_ids()
    assert world.delete_dead_letters(only, only, strict=True) == 1


# -- publishing again -------------------------------------------------------------------------


def test_a_dead_letter_is_published_again_as_a_new_message_and_leaves_the_queue() -> None:
    """D-046."""
    world = failed_world(
        body=b"hello",
        method=Method.PUT,
        content_type="text/plain",
        forwarded=(("X-One", "1"),),
        labels=("red",),
        timeout_ms=30_000,
        callback=callback("https://back.test/"),
        caller_ip="198.51.100.1",
    )
    original = world.sent_to(URL)[0]
    world.run_until(HOUR)
    message = retried(world)
    assert message.message_id != original.message_id
    assert (message.url, message.body, message.method, message.headers) == (
        URL,
        b"hello",
        Method.PUT,
        (("Content-Type", "text/plain"), ("X-One", "1")),
    )
    assert (message.labels, message.timeout_ms, message.max_retries) == (("red",), 30_000, 0)
    assert message.callback == callback("https://back.test/")
    assert message.caller_ip == "198.51.100.1"
    assert message.created_ms - world.began_ms == 3_600_000
    assert world.owner.dead_letters == {}
    assert world.events_of(message.message_id) == ["CREATED", "ACTIVE", "DELIVERED"]
    assert [fact.cause for fact in world.all(facts.DeadLettersRemoved)] == ["retried"]


def test_overrides_win_over_the_settings_of_the_original() -> None:
    """D-046."""
    world = failed_world(labels=("red",), method=Method.PUT, forwarded=(("X-One", "1"), ("X-Two", "2")))
    message = retried(
        world,
        max_retries=3,
        method=Method.PATCH,
        labels=("blue",),
        retry_delay="1000",
        timeout_ms=1_000,
        delay_ms=HOUR,
        content_type="application/json",
        forwarded=(("x-two", "new"),),
        failure_callback=callback("https://failed.test/"),
        flow_control=flow("k", parallelism=1),
    )
    assert (message.max_retries, message.method, message.labels) == (3, Method.PATCH, ("blue",))
    assert (message.retry_delay, message.timeout_ms) == ("1000", 1_000)
    assert message.headers == (("x-two", "new"), ("X-One", "1"))
    assert message.failure_callback == callback("https://failed.test/")
    assert message.flow_control == flow("k", parallelism=1)
    assert message.not_before_ms - message.created_ms == 3_600_000


def test_a_callback_is_overridden_option_by_option() -> None:
    """D-046."""
    world = failed_world(callback=callback("https://back.test/", forwarded=(("X-One", "1"),), max_retries=3))
    settings = MessageOptions(max_retries=0)
    assert retried(world, callback_settings=settings).callback == callback(
        "https://back.test/", forwarded=(("X-One", "1"),), max_retries=0
    )


def test_a_not_before_override_wins_over_a_delay() -> None:
    world = failed_world()
    message = retried(world, delay_ms=HOUR, not_before_ms=1_767_225_605_000)
    assert message.not_before_ms - message.created_ms == 5_000


def test_the_content_type_of_the_retry_call_is_not_that_of_the_message() -> None:
    world = failed_world(content_type="text/plain")
    assert retried(world, content_type="application/json").headers == (("Content-Type", "text/plain"),)


def test_a_timeout_override_cannot_pass_that_of_the_plan() -> None:
    world = failed_world(timeout_ms=1_000)
    assert retried(world, timeout_ms=10 * DAY).timeout_ms == 21_600_000


def test_several_are_published_in_the_order_asked_for_and_each_once() -> None:
    world = failed_world(3)
    first, second, third = world.dead_letter_ids()
    published = world.retry_dead_letters(third, first, third)
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


def test_a_dead_letter_that_fails_again_is_a_new_one() -> None:
    world = failed_world()
    (old,) = world.dead_letter_ids()
    world.answering = by_url({URL: answered(500)})
    world.retry_dead_letters(old)
    assert world.dead_letter_ids() == ["1767225600000-1"]


def test_a_dead_letter_of_a_deleted_queue_makes_the_queue_again() -> None:
    world = World(answering=always(answered(500)))
    world.enqueue("q", URL, max_retries=0)
    world.delete_queue("q")
    world.answering = always(answered(200))
    message = retried(world)
    assert message.queue == "q"
    assert world.queue("q").parallelism == 1
    assert world.events_of(message.message_id)[-1] == "DELIVERED"


def test_a_queued_dead_letter_stands_in_line_again() -> None:
    world = World(answering=by_url({URL: answered(500)}))
    world.enqueue("q", URL, max_retries=0)
    world.answering = None
    busy = world.enqueue("q", "https://busy.test/")
    message = retried(world)
    assert world.start_times(message.message_id) == []
    world.finish(busy)
    assert world.start_times(message.message_id) == [0]


def test_a_retry_may_go_through_another_queue() -> None:
    """D-046."""
    world = failed_world()
    world.answering = None
    busy = world.enqueue("other", "https://busy.test/")
    message = retried(world, queue="other")
    assert message.queue == "other"
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
    assert message.queue_slot is None
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


def test_an_inactive_account_retries_nothing() -> None:
    world = failed_world()
    world.change_account(active=False)
    with pytest.raises(Forbidden):
        retried(world)


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
    assert [fact.cause for fact in world.all(facts.DeadLettersRemoved)] == ["expired", "expired"]


def test_a_shorter_retention_counts_at_once() -> None:
    world = failed_world()
    world.run_until(HOUR)
    world.change_account(max_dlq_retention_time_milis=HOUR)
    assert world.owner.dead_letters == {}


def test_nothing_expires_after_the_last_one_was_deleted() -> None:
    world = failed_world()
    world.delete_dead_letters(*world.dead_letter_ids())
    assert world.next_due_ms is None


def test_expiry_is_no_work_that_a_clock_would_wait_for() -> None:
    world = failed_world()
    assert world.next_due_ms == 30 * DAY
    assert world.simulation.state.timers.next_work_ms() is None
