"""Queues: first in, first out, with a slot that a message keeps until it is really over."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core import commands, message_facts
from emulator.core.errors import LimitReached
from emulator.core.model.resources import Plan, ScriptedResponse
from emulator.core.record import QueueName
from tests.harness.simulations import DAY, MINUTE, World, answered, by_url, callback, flow, make_account

BACK = "https://back.test/"


def url(number: int) -> str:
    return f"https://host-{number}.test/"


def pause(world: World, name: str, *, paused: bool = True) -> None:
    world.do(commands.SetQueuePaused(account_id=world.account_id, name=QueueName(name), paused=paused))


# -- order ------------------------------------------------------------------------------------


def test_a_queue_of_parallelism_1_delivers_one_message_after_the_other() -> None:
    """D-043."""
    world = World()
    world.add_rule("https://*", responses=(ScriptedResponse(latency_ms=1_000),))
    for number in range(4):
        world.enqueue("q", url(number))
    world.run_until(DAY)
    assert world.starts() == [(url(0), 1, 0), (url(1), 1, 1_000), (url(2), 1, 2_000), (url(3), 1, 3_000)]


def test_the_next_message_waits_for_the_retries_of_the_one_before() -> None:
    world = World(answering=by_url({url(0): [answered(500), answered(500), answered(200)]}))
    world.enqueue("q", url(0), max_retries=2, retry_delay="10000")
    world.enqueue("q", url(1))
    world.run_until(DAY)
    assert world.starts() == [(url(0), 1, 0), (url(0), 2, 10_000), (url(0), 3, 20_000), (url(1), 1, 20_000)]


@pytest.mark.parametrize("kind", ["callback", "failure_callback"])
def test_the_next_message_waits_for_the_callback_of_the_one_before(kind: str) -> None:
    """D-043."""
    world = World(answering=None)
    options: dict[str, Any] = {kind: callback(BACK)}
    first = world.enqueue("q", url(0), max_retries=0, **options)
    world.enqueue("q", url(1))
    world.finish(first, answered(200 if kind == "callback" else 500))
    assert world.urls_started() == [url(0), BACK]
    world.finish(world.sent_to(BACK)[0].message_id)
    assert world.urls_started() == [url(0), BACK, url(1)]


def test_the_next_message_waits_for_callbacks_of_callbacks() -> None:
    world = World(answering=None)
    nested = callback(BACK, callback=callback("https://nested.test/"))
    first = world.enqueue("q", url(0), callback=nested)
    world.enqueue("q", url(1))
    world.finish(first)
    world.finish(world.sent_to(BACK)[0].message_id)
    assert world.urls_started() == [url(0), BACK, "https://nested.test/"]
    world.finish(world.sent_to("https://nested.test/")[0].message_id)
    assert world.urls_started()[-1] == url(1)


def test_a_callback_that_retries_keeps_the_slot_until_it_has_ended() -> None:
    world = World(answering=by_url({BACK: [answered(500), answered(200)]}))
    world.enqueue("q", url(0), callback=callback(BACK, retry_delay="30000"))
    world.enqueue("q", url(1))
    world.run_until(DAY)
    assert world.starts() == [(url(0), 1, 0), (BACK, 1, 0), (BACK, 2, 30_000), (url(1), 1, 30_000)]


def test_raising_the_parallelism_lets_the_next_in_at_once() -> None:
    world = World(answering=None)
    for number in range(4):
        world.enqueue("q", url(number))
    world.write_queue("q", parallelism=3)
    assert world.urls_started() == [url(0), url(1), url(2)]


def test_lowering_the_parallelism_waits_for_those_in_flight() -> None:
    world = World(answering=None)
    world.write_queue("q", parallelism=2)
    ids = [world.enqueue("q", url(number)) for number in range(4)]
    world.write_queue("q", parallelism=1)
    world.finish(ids[0])
    assert len(world.starts()) == 2
    world.finish(ids[1])
    assert world.urls_started()[-1] == url(2)
    assert len(world.starts()) == 3


def test_the_holds_say_why_a_queue_keeps_a_message_and_since_when() -> None:
    world = World(answering=None)
    world.enqueue("q", url(0))
    world.run_until(5_000)
    world.enqueue("q", url(1))
    pause(world, "q")
    world.enqueue("q", url(2))
    holds = [(fact.hold.kind, fact.hold.name, fact.hold.reason) for fact in world.all(message_facts.MessageHeld)]
    assert holds == [("queue", "q", "parallelism"), ("queue", "q", "paused")]
    assert [fact.at_ms - world.began_ms for fact in world.all(message_facts.MessageHeld)] == [5_000, 5_000]


# -- pausing ----------------------------------------------------------------------------------


def test_a_paused_queue_accepts_and_holds() -> None:
    world = World()
    world.write_queue("q", paused=True)
    world.enqueue("q", url(0))
    world.enqueue("q", url(1))
    world.run_until(DAY)
    assert world.starts() == []
    assert world.owner.queue_lag[QueueName("q")] == 2
    pause(world, "q", paused=False)
    assert world.starts() == [(url(0), 1, DAY), (url(1), 1, DAY)]


def test_a_retry_that_comes_due_in_a_pause_goes_first_on_resume() -> None:
    world = World(answering=by_url({url(0): [answered(500), answered(200)]}))
    world.enqueue("q", url(0), retry_delay="10000")
    world.enqueue("q", url(1))
    pause(world, "q")
    world.run_until(MINUTE)
    assert world.starts() == [(url(0), 1, 0)]
    pause(world, "q", paused=False)
    assert world.starts() == [(url(0), 1, 0), (url(0), 2, 60_000), (url(1), 1, 60_000)]


# -- lag, upsert, limits ----------------------------------------------------------------------


def test_lag_counts_messages_that_have_not_ended() -> None:
    world = World(answering=None)
    first = world.enqueue("q", url(0))
    second = world.enqueue("q", url(1))
    assert world.owner.queue_lag == {"q": 2}
    world.finish(first)
    assert world.owner.queue_lag == {"q": 1}
    world.cancel(second)
    world.finish(second)
    assert world.owner.queue_lag == {"q": 0}


def test_an_upsert_changes_only_what_it_names() -> None:
    world = World()
    world.write_queue("q", parallelism=4, paused=True)
    world.run_until(MINUTE)
    world.write_queue("q", paused=False)
    queue = world.queue("q")
    assert (queue.parallelism, queue.paused) == (4, False)
    assert (queue.created_ms, queue.updated_ms) == (1_767_225_600_000, 1_767_225_660_000)


def test_a_parallelism_above_the_plan_is_refused() -> None:
    world = World(make_account(Plan.FREE))
    with pytest.raises(LimitReached) as refusal:
        world.write_queue("q", parallelism=3)
    assert refusal.value.text == "quota maxParallelism exceeded, current limit: 2"


# -- deleting ---------------------------------------------------------------------------------


def test_deleting_a_queue_drops_its_backlog_and_starts_none_of_it() -> None:
    world = World(answering=None)
    ids = [world.enqueue("q", url(number)) for number in range(3)]
    world.delete_queue("q")
    assert world.owner.queues == {}
    assert world.events_of(ids[1]) == ["CREATED", "CANCEL_REQUESTED", "CANCELED"]
    assert world.events_of(ids[0]) == ["CREATED", "ACTIVE", "CANCEL_REQUESTED"]
    world.finish(ids[0], answered(500))
    assert world.events_of(ids[0])[-2:] == ["ERROR", "CANCELED"]
    assert world.urls_started() == [url(0)]


def test_deleting_a_queue_does_not_ask_for_a_cancellation_twice() -> None:
    world = World(answering=None)
    message_id = world.enqueue("q", url(0))
    world.cancel(message_id)
    world.delete_queue("q")
    assert world.events_of(message_id) == ["CREATED", "ACTIVE", "CANCEL_REQUESTED"]


def test_a_queue_made_again_waits_for_what_is_still_in_flight_from_the_old_one() -> None:
    world = World(answering=None)
    old = world.enqueue("q", url(0))
    world.delete_queue("q")
    new = world.enqueue("q", url(1))
    assert world.urls_started() == [url(0)]
    world.finish(old)
    assert world.urls_started() == [url(0), url(1)]
    world.finish(new)
    assert world.owner.queue_lag == {"q": 0}
    assert world.owner.queue_slots == {"q": {}}


def test_a_callback_outlives_the_queue_of_its_source() -> None:
    world = World(answering=None)
    first = world.enqueue("q", url(0), callback=callback(BACK))
    world.finish(first)
    world.delete_queue("q")
    called = world.sent_to(BACK)[0].message_id
    world.finish(called)
    assert world.events_of(called) == ["CREATED", "ACTIVE", "DELIVERED"]
    assert world.owner.queue_slots == {"q": {}}


def test_canceling_a_slot_holder_leaves_the_slot_to_its_callback() -> None:
    world = World(answering=None)
    first = world.enqueue("q", url(0), callback=callback(BACK), retry_delay="60000")
    world.enqueue("q", url(1))
    world.finish(first, answered(500))
    world.cancel(first)
    assert world.events_of(first)[-1] == "CANCELED"
    assert world.urls_started() == [url(0), BACK]
    world.finish(world.sent_to(BACK)[0].message_id)
    assert world.urls_started() == [url(0), BACK, url(1)]


def test_canceling_a_retrying_slot_holder_lets_the_next_start() -> None:
    world = World(answering=by_url({url(0): answered(500)}))
    first = world.enqueue("q", url(0))
    world.enqueue("q", url(1))
    world.cancel(first)
    assert world.starts() == [(url(0), 1, 0), (url(1), 1, 0)]


def test_a_slot_is_kept_while_its_message_waits_elsewhere() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    busy = world.publish("https://busy.test/")
    world.enqueue("q", url(0))
    world.enqueue("q", url(1))
    assert world.urls_started() == ["https://busy.test/"]
    assert list(world.owner.queue_slots[QueueName("q")].values()) == [1]
    world.finish(busy)
    assert world.urls_started() == ["https://busy.test/", url(0)]


def test_a_message_moves_from_the_global_line_back_to_its_paused_queue() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    busy = world.publish("https://busy.test/")
    waiting = world.enqueue("q", url(0))
    pause(world, "q")
    world.finish(busy)
    assert world.starts() == [("https://busy.test/", 1, 0)]
    holds = [fact.hold.kind.value for fact in world.all(message_facts.MessageHeld) if fact.message_id == waiting]
    assert holds == ["global", "queue"]
    pause(world, "q", paused=False)
    assert world.urls_started() == ["https://busy.test/", url(0)]


def test_a_queued_dead_letter_may_be_retried_under_a_flow_control_key() -> None:
    world = World(answering=by_url({url(0): [answered(500)]}))
    world.enqueue("q", url(0), max_retries=0)
    world.answering = None
    world.publish("https://other.test/", flow_control=flow("k", parallelism=1))
    (published,) = world.retry_dead_letters(*world.dead_letter_ids(), flow_control=flow("k", parallelism=1))
    assert len(world.starts()) == 2
    world.finish(world.sent_to("https://other.test/")[0].message_id)
    world.finish(published.message_id)
    assert world.events_of(published.message_id) == ["CREATED", "ACTIVE", "DELIVERED"]
    assert world.owner.queue_slots == {"q": {}}
