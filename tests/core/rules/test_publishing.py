"""Publishing: what becomes of the options, groups, batches, delays."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands
from emulator.core.commands import PublishItem
from emulator.core.errors import InvalidInput, QuotaExceeded, Refused
from emulator.core.model import messages
from emulator.core.model.messages import DailyQuota
from emulator.core.model.options import Destination, DestinationKind, MessageOptions, Method
from emulator.core.model.resources import Endpoint
from tests.harness.simulations import DAY, HOUR, MINUTE, World, always, answered, flow, make_account

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
    assert (message.policy.timeout_ms, message.policy.max_retries, message.policy.retry_delay) == (30_000, 2, "1000")
    assert message.policy.labels == ("red", "blue")
    assert message.source.caller_ip == "203.0.113.7"
    assert (message.number, message.created_ms, message.not_before_ms) == (1, 1767225600000, 1767225600000)


def test_a_message_without_options_has_these_defaults() -> None:
    world = World()
    message = world.messages[world.publish(URL)]
    assert message.method is Method.POST
    assert message.headers == ()
    assert (message.policy.max_retries, message.policy.retry_delay) == (5, None)
    assert message.policy.timeout_ms == 21_600_000
    assert (
        message.source.url_group,
        message.source.endpoint_name,
        message.policy.queue,
        message.source.schedule_id,
    ) == (None, None, None, None)


def test_messages_that_wait_share_what_is_equal() -> None:
    """D-403."""
    world = World(answering=None)

    def waiting(**options: Any) -> messages.Progress:
        # Made anew, as each request is.
        given = {"labels": ("a",), "retry_delay": "1000", "flow_control": flow("k", rate=1), **options}
        message_id = world.publish(URL, delay_ms=5, forwarded=(("".join(("X-", "One")), "1"),), **given)
        return world.simulation.state.messages[message_id]

    one, two, other = waiting(), waiting(), waiting(labels=("b",))
    assert one.message.policy is two.message.policy
    assert one.message.policy != other.message.policy
    assert one.message.source is other.message.source
    assert one.message.headers is other.message.headers
    assert one.dispatch is other.dispatch


def test_a_timeout_can_only_shorten_that_of_the_plan() -> None:
    world = World(make_account(timeout=900))
    assert world.messages[world.publish(URL, timeout_ms=5_000)].policy.timeout_ms == 5_000
    assert world.messages[world.publish(URL, timeout_ms=3_600_000)].policy.timeout_ms == 900_000


# -- delays -----------------------------------------------------------------------------------


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


# -- URL groups -------------------------------------------------------------------------------


def test_publishing_to_a_group_makes_one_message_for_each_endpoint_in_order() -> None:
    world = World()
    world.make_group("team", Endpoint(url="https://a.test/", name="first one"), "https://b.test/")
    published = world.publish_to_group("team", body=b"x")
    assert [each.url for each in published] == ["https://a.test/", "https://b.test/"]
    messages = [world.messages[each.message_id] for each in published]
    assert [message.source.url_group for message in messages] == ["team", "team"]
    assert [message.source.endpoint_name for message in messages] == ["first one", None]
    assert [message.body for message in messages] == [b"x", b"x"]
    assert world.urls_started() == ["https://a.test/", "https://b.test/"]


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


# -- what a message sets for its flow control key --------------------------------------------


def test_newer_limits_let_in_those_that_wait_already() -> None:
    world = World(answering=None)
    old = [world.publish(URL, flow_control=flow("k", parallelism=1)) for _ in range(3)]
    assert len(world.starts()) == 1
    world.publish(URL, flow_control=flow("k", parallelism=2), delay_ms=HOUR)
    assert [world.start_times(message_id) for message_id in old] == [[0], [0], []]


# -- queues -----------------------------------------------------------------------------------


def test_delay_and_flow_control_are_not_applied_on_enqueue() -> None:
    """Decision D-021."""
    world = World()
    message_id = world.enqueue("q", URL, delay_ms=HOUR, not_before_ms=1_767_300_000_000, flow_control=flow("k", rate=1))
    message = world.messages[message_id]
    assert message.policy.queue == "q"
    assert message.policy.flow_control is None
    assert world.start_times(message_id) == [0]
    assert world.owner.flow_keys == {}


def test_a_queue_is_made_by_its_first_message() -> None:
    """D-022."""
    world = World()
    world.enqueue("q", URL)
    queue = world.queue("q")
    assert (queue.parallelism, queue.paused, queue.created_ms) == (1, False, 1767225600000)


# -- deduplication ----------------------------------------------------------------------------


def test_the_same_id_again_answers_with_the_first_message_and_sends_nothing() -> None:
    """The id counts for the whole account (D-023), and what is not sent does not count against the day."""
    world = World()
    first = world.publish_reply("https://a.test/", deduplication_id="order-1")
    second = world.publish_reply("https://b.test/", deduplication_id="order-1", body=b"other")
    assert not first.deduplicated
    assert second.deduplicated
    assert second.message_id == first.message_id
    assert (len(world.messages), world.owner.usage_count) == (1, 1)


def test_the_window_is_ten_minutes_and_does_not_slide() -> None:
    world = World()
    world.publish(URL, deduplication_id="x")
    world.run_until(10 * MINUTE - 1)
    assert world.publish_reply(URL, deduplication_id="x").deduplicated
    world.run_until(10 * MINUTE)
    assert not world.publish_reply(URL, deduplication_id="x").deduplicated
    world.run_until(20 * MINUTE - 1)
    assert world.publish_reply(URL, deduplication_id="x").deduplicated


def test_windows_that_have_ended_are_forgotten() -> None:
    world = World()
    world.publish(URL, deduplication_id="a")
    # No work that a clock would wait for.
    assert (world.next_due_ms, world.simulation.state.timers.next_work_ms()) == (600_000, None)
    world.run_until(MINUTE)
    world.publish(URL, deduplication_id="b")
    world.run_until(10 * MINUTE)
    assert list(world.owner.deduplications) == ["id:b"]
    world.run_until(11 * MINUTE)
    assert world.owner.deduplications == {}
    assert world.next_due_ms is None


def test_a_message_that_has_ended_still_stands_for_its_id() -> None:
    world = World(answering=always(answered(500)))
    first = world.publish(URL, deduplication_id="x", max_retries=0)
    second = world.publish(URL, deduplication_id="y", delay_ms=HOUR)
    world.cancel(second)
    assert world.publish_reply(URL, deduplication_id="x").message_id == first
    assert world.publish_reply(URL, deduplication_id="y").message_id == second


def test_without_id_and_without_content_deduplication_nothing_is_the_same() -> None:
    world = World()
    assert len({world.publish(URL, body=b"x", content_deduplication=False) for _ in range(2)}) == 2


SAME: dict[str, Any] = {"body": b"x", "content_type": "text/plain", "forwarded": (("X-A", "1"), ("X-B", "雨"))}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"body": b"y"}, False, id="body"),
        pytest.param({"content_type": "text/html"}, False, id="content-type"),
        pytest.param({"content_type": None}, False, id="no-content-type"),
        pytest.param({"forwarded": (("X-A", "1"),)}, False, id="fewer-headers"),
        pytest.param({"forwarded": (("X-A", "1"), ("X-B", "雪"))}, False, id="header-value"),
        pytest.param({"forwarded": (("X-B", "雨"), ("X-A", "1"))}, True, id="header-order"),
        pytest.param({"forwarded": (("x-a", "1"), ("x-b", "雨"))}, True, id="header-case"),
        pytest.param({"forwarded": (("X-A", "1雨"), ("X-B", ""))}, False, id="where-a-value-ends"),
        pytest.param({"max_retries": 1, "delay_ms": 5, "labels": ("red",)}, True, id="what-is-not-content"),
    ],
)
def test_content_is_body_content_type_and_forwarded_headers(change: dict[str, Any], is_same: bool) -> None:
    world = World()
    world.publish(URL, content_deduplication=True, **SAME)
    assert world.publish_reply(URL, content_deduplication=True, **{**SAME, **change}).deduplicated is is_same


def test_content_belongs_to_its_destination() -> None:
    world = World()
    world.publish("https://a.test/", content_deduplication=True)
    assert not world.publish_reply("https://b.test/", content_deduplication=True).deduplicated


def test_the_id_wins_over_the_content() -> None:
    world = World()
    world.publish(URL, deduplication_id="a", content_deduplication=True)
    assert not world.publish_reply(URL, deduplication_id="b", content_deduplication=True).deduplicated


@pytest.mark.parametrize("options", [{"deduplication_id": "x"}, {"content_deduplication": True}], ids=["id", "content"])
def test_each_endpoint_of_a_group_is_deduplicated_by_itself(options: dict[str, Any]) -> None:
    world = World()
    world.make_group("team", "https://a.test/", "https://b.test/")
    first = world.publish_to_group("team", **options)
    world.make_group("team", "https://c.test/")
    second = world.publish_to_group("team", **options)
    assert [each.deduplicated for each in first] == [False, False]
    assert [each.deduplicated for each in second] == [True, True, False]
    assert [each.message_id for each in second[:2]] == [each.message_id for each in first]


def test_endpoints_with_one_url_and_two_names_both_get_their_message() -> None:
    world = World()
    world.make_group("team", Endpoint(url=URL, name="one"), Endpoint(url=URL, name="two"))
    assert [each.deduplicated for each in world.publish_to_group("team", deduplication_id="x")] == [False, False]
    assert [each.deduplicated for each in world.publish_to_group("team", deduplication_id="x")] == [True, True]


def test_a_group_message_does_not_stand_for_one_to_the_url_itself() -> None:
    world = World()
    world.make_group("team", URL)
    world.publish_to_group("team", deduplication_id="x")
    assert not world.publish_reply(URL, deduplication_id="x").deduplicated


def test_duplicates_within_one_batch_are_found() -> None:
    world = World()
    item = PublishItem(
        destination=Destination(kind=DestinationKind.URL, text=URL),
        body=b"",
        options=MessageOptions(deduplication_id="x"),
        caller_ip="",
    )
    reply = world.do(commands.PublishBatch(account_id=world.account_id, items=(item, item)))
    accepted = [each for each in reply.items if isinstance(each, messages.Accepted)]
    assert [each.messages[0].deduplicated for each in accepted] == [False, True]
    assert [each.is_deduplicated for each in accepted] == [False, True]
