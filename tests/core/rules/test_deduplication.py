"""Deduplication: which messages count as the same one, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands, replies
from emulator.core.commands import PublishItem
from emulator.core.model.options import Destination, DestinationKind, MessageOptions
from emulator.core.model.resources import Endpoint
from tests.harness.simulations import HOUR, MINUTE, World, always, answered

URL = "https://api.example.com/hook"


def test_the_same_id_again_answers_with_the_first_message_and_sends_nothing() -> None:
    world = World()
    first = world.publish_reply(URL, deduplication_id="order-1")
    second = world.publish_reply(URL, deduplication_id="order-1", body=b"other")
    assert not first.deduplicated
    assert second.deduplicated
    assert second.message_id == first.message_id
    assert len(world.messages) == 1


def test_an_id_counts_for_the_whole_account() -> None:
    """Decision D-023."""
    world = World()
    first = world.publish_reply("https://a.test/", deduplication_id="x")
    second = world.publish_reply("https://b.test/", deduplication_id="x")
    assert (second.deduplicated, second.message_id) == (True, first.message_id)


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


SAME: dict[str, Any] = {"body": b"x", "content_type": "text/plain", "forwarded": (("X-A", "1"), ("X-B", "2"))}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"body": b"y"}, False, id="body"),
        pytest.param({"content_type": "text/html"}, False, id="content-type"),
        pytest.param({"content_type": None}, False, id="no-content-type"),
        pytest.param({"forwarded": (("X-A", "1"),)}, False, id="fewer-headers"),
        pytest.param({"forwarded": (("X-A", "1"), ("X-B", "3"))}, False, id="header-value"),
        pytest.param({"forwarded": (("X-B", "2"), ("X-A", "1"))}, True, id="header-order"),
        pytest.param({"forwarded": (("x-a", "1"), ("x-b", "2"))}, True, id="header-case"),
        pytest.param({"forwarded": (("X-A", "12"), ("X-B", ""))}, False, id="where-a-value-ends"),
        pytest.param({"max_retries": 1, "delay_ms": 5, "labels": ("red",)}, True, id="what-is-not-content"),
    ],
)
def test_content_is_body_content_type_and_forwarded_headers(change: dict[str, Any], is_same: bool) -> None:
    world = World()
    world.publish(URL, content_deduplication=True, **SAME)
    assert world.publish_reply(URL, content_deduplication=True, **{**SAME, **change}).deduplicated is is_same


def test_header_values_beyond_latin_1_are_told_apart() -> None:
    world = World()
    first = world.publish_reply(URL, content_deduplication=True, forwarded=(("X-A", "雨"),))
    second = world.publish_reply(URL, content_deduplication=True, forwarded=(("X-A", "雪"),))
    assert (first.deduplicated, second.deduplicated) == (False, False)


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
    accepted = [each for each in reply.items if isinstance(each, replies.Accepted)]
    assert [each.messages[0].deduplicated for each in accepted] == [False, True]
    assert [each.is_deduplicated for each in accepted] == [False, True]


def test_a_duplicate_does_not_count_against_the_day() -> None:
    world = World()
    world.publish(URL, deduplication_id="x")
    world.publish(URL, deduplication_id="x")
    assert world.owner.usage_count == 1


def test_the_end_of_a_window_is_no_work_that_a_clock_would_wait_for() -> None:
    world = World()
    world.publish(URL, deduplication_id="x")
    assert world.next_due_ms == 600_000
    assert world.simulation.state.timers.next_work_ms() is None
