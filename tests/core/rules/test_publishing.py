"""Publishing: what becomes of the options, groups, batches, delays."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands, facts
from emulator.core.commands import PublishItem
from emulator.core.errors import Forbidden, InvalidInput, LimitReached, NotFound, QuotaExceeded, Refused
from emulator.core.model.names import QueueName
from emulator.core.model.options import Destination, DestinationKind, MessageOptions, Method
from emulator.core.model.resources import Endpoint
from emulator.core.replies import DailyQuota
from tests.harness.simulations import DAY, HOUR, World, callback, flow, make_account

URL = "https://api.example.com/hook"


def item(url: str, **options: Any) -> PublishItem:
    return PublishItem(
        destination=Destination(kind=DestinationKind.URL, text=url),
        body=b"",
        options=MessageOptions(**options),
        caller_ip="203.0.113.7",
    )


def test_a_message_carries_what_was_published() -> None:
    world = World()
    message_id = world.publish(
        URL,
        body=b"\x00\xff",
        method=Method.DELETE,
        content_type="text/plain",
        forwarded=(("X-One", "1"),),
        labels=("red", "blue"),
        timeout_ms=30_000,
        max_retries=2,
        retry_delay="1000",
    )
    message = world.messages[message_id]
    assert (message.url, message.method, message.body) == (URL, Method.DELETE, b"\x00\xff")
    assert message.headers == (("Content-Type", "text/plain"), ("X-One", "1"))
    assert (message.timeout_ms, message.max_retries, message.retry_delay) == (30_000, 2, "1000")
    assert message.labels == ("red", "blue")
    assert message.caller_ip == "203.0.113.7"
    assert (message.number, message.created_ms, message.not_before_ms) == (1, 1767225600000, 1767225600000)


def test_a_message_without_options_has_these_defaults() -> None:
    world = World()
    message = world.messages[world.publish(URL)]
    assert message.method is Method.POST
    assert message.headers == ()
    assert (message.max_retries, message.retry_delay) == (5, None)
    assert message.timeout_ms == 21_600_000
    assert (message.url_group, message.endpoint_name, message.queue, message.schedule_id) == (None, None, None, None)


def test_messages_that_wait_share_equal_headers() -> None:
    world = World(answering=None)
    one, other, third = (
        world.messages[world.publish(URL, content_type="text/plain", forwarded=((f"X-{name}", "1"),), delay_ms=5)]
        for name in ("One", "".join(("O", "ne")), "Two")
    )
    assert one.headers is other.headers
    assert third.headers == (("Content-Type", "text/plain"), ("X-Two", "1"))


def test_zero_retries_is_something_said() -> None:
    world = World()
    assert world.messages[world.publish(URL, max_retries=0)].max_retries == 0


def test_a_timeout_can_only_shorten_that_of_the_plan() -> None:
    world = World(make_account(timeout=900))
    assert world.messages[world.publish(URL, timeout_ms=5_000)].timeout_ms == 5_000
    assert world.messages[world.publish(URL, timeout_ms=3_600_000)].timeout_ms == 900_000


def test_message_ids_differ_and_the_same_world_gives_the_same() -> None:
    first, second = World(), World()
    ids = [first.publish(URL) for _ in range(3)]
    assert len(set(ids)) == 3
    assert [second.publish(URL) for _ in range(3)] == ids
    assert World(seed=1).publish(URL) != ids[0]


# -- delays -----------------------------------------------------------------------------------


def test_a_message_without_delay_starts_within_the_call() -> None:
    world = World()
    world.publish(URL)
    assert world.starts() == [(URL, 1, 0)]


def test_a_delayed_message_waits_for_its_instant() -> None:
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR)
    world.run_until(HOUR - 1)
    assert world.starts() == []
    world.run_until(HOUR)
    assert world.start_times(message_id) == [3_600_000]


def test_not_before_wins_over_a_delay() -> None:
    """Decision D-008."""
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR, not_before_ms=1_767_225_605_000)
    world.run_until(DAY)
    assert world.start_times(message_id) == [5_000]


def test_a_not_before_in_the_past_means_now() -> None:
    world = World()
    message_id = world.publish(URL, not_before_ms=1_767_225_599_000)
    assert world.messages[message_id].not_before_ms == 1_767_225_600_000
    assert world.start_times(message_id) == [0]


def test_messages_due_at_one_instant_start_in_the_order_of_their_publishing() -> None:
    world = World()
    for number in range(4):
        world.publish(f"https://host-{number}.test/", delay_ms=1_000)
    world.run_until(1_000)
    assert world.urls_started() == [f"https://host-{number}.test/" for number in range(4)]


# -- forwarded headers ------------------------------------------------------------------------


def test_incoming_headers_are_forwarded_only_when_asked_for() -> None:
    world = World()
    incoming = (("X-Hook", "1"), ("X-Both", "incoming"))
    forwarded = (("x-both", "forwarded"),)
    plain = world.publish(URL, incoming=incoming, forwarded=forwarded)
    asked = world.publish(URL, incoming=incoming, forwarded=forwarded, forward_incoming=True)
    assert world.messages[plain].headers == (("x-both", "forwarded"),)
    assert world.messages[asked].headers == (("x-both", "forwarded"), ("X-Hook", "1"))


# -- URL groups -------------------------------------------------------------------------------


def test_publishing_to_a_group_makes_one_message_for_each_endpoint_in_order() -> None:
    world = World()
    world.make_group("team", Endpoint(url="https://a.test/", name="first one"), "https://b.test/")
    published = world.publish_to_group("team", body=b"x")
    assert [each.url for each in published] == ["https://a.test/", "https://b.test/"]
    messages = [world.messages[each.message_id] for each in published]
    assert [message.url_group for message in messages] == ["team", "team"]
    assert [message.endpoint_name for message in messages] == ["first one", None]
    assert [message.body for message in messages] == [b"x", b"x"]
    assert world.urls_started() == ["https://a.test/", "https://b.test/"]


def test_publishing_to_an_unknown_group_is_refused() -> None:
    world = World()
    with pytest.raises(NotFound) as refusal:
        world.publish_to_group("nobody")
    assert refusal.value.text == "topic nobody not found"
    assert world.facts == []


def test_group_defaults_act_as_if_sent_with_the_publish() -> None:
    world = World()
    world.make_group("team", URL)
    world.set_group_defaults(
        "team",
        max_retries=1,
        delay_ms=60_000,
        method=Method.PUT,
        callback=callback("https://back.test/"),
        forwarded=(("X-Team", "blue"), ("X-Both", "group")),
        labels=("team",),
    )
    (published,) = world.publish_to_group("team", forwarded=(("x-both", "publish"),))
    message = world.messages[published.message_id]
    assert (message.max_retries, message.method, message.labels) == (1, Method.PUT, ("team",))
    assert message.not_before_ms - message.created_ms == 60_000
    assert message.headers == (("x-both", "publish"), ("X-Team", "blue"))
    assert message.callback == callback("https://back.test/")


def test_the_publish_wins_over_group_defaults_with_falsy_values_too() -> None:
    world = World()
    world.make_group("team", URL)
    world.set_group_defaults("team", max_retries=4, delay_ms=60_000)
    (published,) = world.publish_to_group("team", max_retries=0, delay_ms=0)
    message = world.messages[published.message_id]
    assert message.max_retries == 0
    assert message.not_before_ms == message.created_ms


# -- batches ----------------------------------------------------------------------------------


def test_a_refused_item_holds_up_none_of_a_batch() -> None:
    world = World()
    already = InvalidInput("Svc-Delay", "expected <value><unit>")
    reply = world.do(
        commands.PublishBatch(
            account_id=world.account_id,
            items=(item("https://a.test/"), item("https://b.test/", max_retries=99), already, item("https://c.test/")),
        )
    )
    assert world.urls_started() == ["https://a.test/", "https://c.test/"]
    assert [isinstance(each, Refused) for each in reply.items] == [False, True, True, False]
    refusal = reply.items[1]
    assert isinstance(refusal, InvalidInput)
    assert refusal.text == "Svc-Retries: quota maxRetries exceeded, current limit: 20"
    assert reply.items[2] is already


def test_each_item_of_a_batch_counts_against_the_daily_quota() -> None:
    world = World(make_account(max_requests_per_day_hard=2))
    reply = world.do(commands.PublishBatch(account_id=world.account_id, items=tuple(item(URL) for _ in range(3))))
    assert [isinstance(each, QuotaExceeded) for each in reply.items] == [False, False, True]


@pytest.mark.parametrize(
    ("earlier", "remaining"), [pytest.param(0, 2, id="first"), pytest.param(2, 0, id="at-the-soft-limit")]
)
def test_a_publish_says_where_it_left_the_daily_quota(earlier: int, remaining: int) -> None:
    """D-028."""
    world = World(make_account(max_requests_per_day=3))
    for _ in range(earlier):
        world.publish(URL)
    reply = world.do(commands.Publish(account_id=world.account_id, item=item(URL)))
    world.publish(URL)
    assert reply.quota == DailyQuota(limit=3, remaining=remaining, reset_s=1_767_312_000)


def test_a_batch_says_where_the_whole_of_it_left_the_daily_quota() -> None:
    world = World(make_account(max_requests_per_day=5))
    reply = world.do(commands.PublishBatch(account_id=world.account_id, items=(item(URL), item(URL))))
    assert reply.quota == DailyQuota(limit=5, remaining=3, reset_s=1_767_312_000)


# -- what a message brings for its flow control key -------------------------------------------


def test_newer_limits_let_in_those_that_wait_already() -> None:
    world = World(answering=None)
    old = [world.publish(URL, flow_control=flow("k", parallelism=1)) for _ in range(3)]
    assert len(world.starts()) == 1
    world.publish(URL, flow_control=flow("k", parallelism=2), delay_ms=HOUR)
    assert [world.start_times(message_id) for message_id in old] == [[0], [0], []]


def test_a_message_that_drops_the_rate_of_its_key_lets_the_line_go() -> None:
    world = World()
    first = world.publish(URL, flow_control=flow("k", rate=1, period_ms=DAY))
    second = world.publish(URL, flow_control=flow("k", rate=1, period_ms=DAY))
    third = world.publish(URL, flow_control=flow("k", parallelism=5))
    assert [world.start_times(each) for each in (first, second, third)] == [[0], [0], [0]]
    assert [each.message_id for each in world.all(facts.AttemptStarted)] == [first, second, third]


# -- queues -----------------------------------------------------------------------------------


def test_delay_and_flow_control_are_not_applied_on_enqueue() -> None:
    """Decision D-021."""
    world = World()
    message_id = world.enqueue("q", URL, delay_ms=HOUR, not_before_ms=1_767_300_000_000, flow_control=flow("k", rate=1))
    message = world.messages[message_id]
    assert message.queue == "q"
    assert message.flow_control is None
    assert world.start_times(message_id) == [0]
    assert world.owner.flow_keys == {}


def test_a_queue_is_made_by_its_first_message() -> None:
    """D-022."""
    world = World()
    world.enqueue("q", URL)
    queue = world.queue("q")
    assert (queue.parallelism, queue.paused, queue.created_ms) == (1, False, 1767225600000)


def test_enqueueing_to_a_group_makes_one_queued_message_for_each_endpoint() -> None:
    world = World()
    world.make_group("team", "https://a.test/", "https://b.test/")
    group = Destination(kind=DestinationKind.GROUP, text="team")
    world.do(
        commands.Publish(
            account_id=world.account_id,
            item=PublishItem(destination=group, body=b"", options=MessageOptions(), caller_ip="", queue=QueueName("q")),
        )
    )
    assert [message.queue for message in world.messages.values()] == ["q", "q"]
    assert world.urls_started() == ["https://a.test/", "https://b.test/"]


def test_one_queue_too_many_is_refused_before_anything_happens() -> None:
    world = World(make_account(max_queues=1))
    world.enqueue("first", URL)
    before = world.snapshot()
    with pytest.raises(LimitReached) as refusal:
        world.enqueue("second", URL)
    assert refusal.value.text == "quota maxQueues exceeded, current limit: 1"
    assert world.snapshot() == before


# -- accounts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"active": False}, {"state": "suspended"}], ids=["inactive", "suspended"])
def test_an_account_that_is_not_active_publishes_nothing(changes: dict[str, Any]) -> None:
    """Decision D-029."""
    world = World(make_account(**changes))
    with pytest.raises(Forbidden):
        world.publish(URL)
    assert world.facts == []


def test_an_account_of_another_world_is_not_found() -> None:
    world = World()
    with pytest.raises(NotFound):
        world.do(commands.Publish(account_id="nobody", item=item(URL)))  # type: ignore[arg-type]  # a plain string
