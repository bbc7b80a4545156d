"""What an attempt's outcome leads to: delivered, tried again, or dead."""

from __future__ import annotations

import pytest

from emulator.core import commands, message_facts
from emulator.core.model.messages import AttemptOutcome
from emulator.core.model.resources import Fault, ScriptedResponse
from tests.harness.simulations import (
    DAY,
    EPOCH_MS,
    World,
    always,
    answered,
    by_url,
    callback,
    make_account,
    unreachable,
)

URL = "https://api.example.com/hook"
BUSY = always(answered(503))


# -- the events of a life ---------------------------------------------------------------------


def test_each_failed_attempt_with_retries_left_shows_active_error_retry() -> None:
    """D-044."""
    world = World(answering=by_url({URL: [answered(500), unreachable(), answered(200)]}))
    message_id = world.publish(URL, max_retries=2, retry_delay="1000")
    world.run_until(2_000)
    assert world.events_of(message_id) == [
        *("CREATED", "ACTIVE", "ERROR", "RETRY"),
        *("ACTIVE", "ERROR", "RETRY"),
        *("ACTIVE", "DELIVERED"),
    ]


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        *((answered(status), "DELIVERED") for status in (200, 201, 204, 299)),
        *((answered(status), "FAILED") for status in (199, 300, 404, 500)),
        (answered(301, headers=(("Location", "https://elsewhere.test/"),)), "FAILED"),
        (unreachable("timeout"), "FAILED"),
    ],
    ids=["200", "201", "204", "299", "199", "300", "404", "500", "redirect", "no-answer"],
)
def test_anything_but_2xx_is_a_failed_attempt(outcome: AttemptOutcome, end: str) -> None:
    """Decision D-010."""
    world = World(answering=always(outcome))
    assert world.events_of(world.publish(URL, max_retries=0))[-1] == end


# -- when the next attempt is due -------------------------------------------------------------


def test_the_default_backoff_puts_retries_at_these_instants() -> None:
    """12 s, 2 m 28 s, 30 m 8 s, 6 h 7 m 6 s, then a day each (D-016)."""
    world = World(answering=BUSY)
    message_id = world.publish(URL, max_retries=6)
    world.run_until(10 * DAY)
    assert world.start_times(message_id) == [
        0,
        12_000,
        160_000,
        1_968_000,
        23_994_000,
        110_394_000,
        196_794_000,
    ]


def test_the_expression_computes_every_delay_from_the_retries_made() -> None:
    world = World(answering=BUSY)
    message_id = world.publish(URL, max_retries=4, retry_delay="pow(2, retried) * 1000")
    world.run_until(DAY)
    assert world.start_times(message_id) == [0, 1_000, 3_000, 7_000, 15_000]
    assert world.events_of(message_id)[-2:] == ["ERROR", "FAILED"]


def test_an_expression_that_is_zero_retries_at_the_same_instant() -> None:
    world = World(answering=by_url({URL: [answered(500), answered(500), answered(200)]}))
    message_id = world.publish(URL, retry_delay="7000 * retried")
    assert world.start_times(message_id) == [0, 0]
    world.run_until(7_000)
    assert world.start_times(message_id) == [0, 0, 7_000]


@pytest.mark.parametrize(
    ("status", "header", "value", "delay_ms"),
    [(429, "retry-after", "30", 30_000), (500, "X-RateLimit-Reset", "6m5s", 365_000)],
)
def test_a_backoff_hint_overrides_the_expression_whatever_the_status(
    status: int, header: str, value: str, delay_ms: int
) -> None:
    world = World(answering=always(answered(status, headers=((header, value),))))
    message_id = world.publish(URL, max_retries=1, retry_delay="1000")
    world.run_until(DAY)
    assert world.start_times(message_id) == [0, delay_ms]
    (scheduled,) = world.all(message_facts.RetryScheduled)
    assert (scheduled.reason.lower(), scheduled.at_ms) == (header.lower(), EPOCH_MS)


# -- the end by failure -----------------------------------------------------------------------


def test_a_non_retryable_answer_fails_the_message_at_once() -> None:
    """Decision D-017."""
    world = World(answering=always(answered(489, headers=(("Svc-NonRetryable-Error", "true"),))))
    message_id = world.publish(URL, max_retries=5)
    assert world.events_of(message_id) == ["CREATED", "ACTIVE", "ERROR", "FAILED"]
    assert len(world.owner.dead_letters) == 1


def test_a_failed_message_becomes_a_dead_letter_named_for_its_instant() -> None:
    world = World(answering=BUSY)
    first = world.publish(URL, max_retries=0)
    second = world.publish(URL, max_retries=1, retry_delay="1000")
    world.run_until(1_000)
    assert world.dead_letter_ids() == ["1767225600000-0", "1767225601000-1"]
    assert [letter.message_id for letter in world.owner.dead_letters.values()] == [first, second]
    assert not world.simulation.state.messages


def test_a_full_dead_letter_queue_gives_up_its_oldest() -> None:
    """D-045."""
    world = World(make_account(max_dlq_size=2), answering=BUSY)
    for _ in range(3):
        world.publish(URL, max_retries=0)
    assert world.dead_letter_ids() == ["1767225600000-1", "1767225600000-2"]
    (removed,) = world.all(message_facts.DeadLettersRemoved)
    assert (removed.dead_letter_ids, removed.cause) == (("1767225600000-0",), "size")


# -- outcomes that come late or twice ---------------------------------------------------------


@pytest.mark.parametrize("state", ["ended", "retried", "delayed", "recorded"])
def test_an_outcome_of_an_attempt_that_is_not_under_way_is_dropped(state: str) -> None:
    world = World(answering=None)
    if state == "delayed":
        world.add_rule(URL, responses=(ScriptedResponse(latency_ms=2_000),))
    message_id = world.publish(URL, retry_delay="0" if state == "retried" else None)
    first = answered(200 if state in ("ended", "delayed") else 500)
    world.submit(commands.RecordAttempt(message_id=message_id, number=1, outcome=first))
    before = world.snapshot()
    world.submit(commands.RecordAttempt(message_id=message_id, number=1, outcome=answered(500)))
    assert world.snapshot() == before


# -- time that passes on the virtual clock ----------------------------------------------------


def test_a_scripted_latency_holds_the_outcome_back() -> None:
    world = World()
    world.add_rule(URL, responses=(ScriptedResponse(latency_ms=2_000),))
    message_id = world.publish(URL)
    assert world.events_of(message_id) == ["CREATED", "ACTIVE"]
    world.run_until(1_999)
    assert world.events_of(message_id) == ["CREATED", "ACTIVE"]
    world.run_until(2_000)
    assert world.events_of(message_id) == ["CREATED", "ACTIVE", "DELIVERED"]
    (finished,) = world.all(message_facts.AttemptFinished)
    assert (finished.started_ms, finished.at_ms) == (1_767_225_600_000, 1_767_225_602_000)


def test_a_staged_timeout_takes_the_message_timeout() -> None:
    world = World(answering=always(unreachable("staged")))
    world.add_rule(URL, fault=Fault.TIMEOUT)
    message_id = world.publish(URL, timeout_ms=30_000, max_retries=1, retry_delay="1000")
    world.run_until(DAY)
    assert world.start_times(message_id) == [0, 31_000]
    assert [fact.at_ms - world.began_ms for fact in world.all(message_facts.AttemptFinished)] == [30_000, 61_000]
    assert world.all(message_facts.AttemptFinished)[0].outcome.error == "timeout: no response in time"


def test_an_answer_that_comes_after_the_scripted_latency_counts_at_once() -> None:
    world = World(answering=None)
    world.add_rule(URL, forward_to="http://127.0.0.1:3000", latency_ms=1_000)
    message_id = world.publish(URL)
    world.run_until(4_000)
    world.finish(message_id)
    (finished,) = world.all(message_facts.AttemptFinished)
    assert finished.at_ms - world.began_ms == 4_000


# -- the account's own parallelism ------------------------------------------------------------


def test_the_account_has_no_more_attempts_under_way_than_its_global_parallelism() -> None:
    """D-066."""
    world = World(make_account(max_global_parallelism=2))
    world.add_rule("https://*", responses=(ScriptedResponse(latency_ms=10_000),))
    for number in range(5):
        world.publish(f"https://host-{number}.test/")
    world.run_until(DAY)
    assert world.starts() == [
        ("https://host-0.test/", 1, 0),
        ("https://host-1.test/", 1, 0),
        ("https://host-2.test/", 1, 10_000),
        ("https://host-3.test/", 1, 10_000),
        ("https://host-4.test/", 1, 20_000),
    ]


def test_raising_the_global_parallelism_lets_the_waiting_start() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    for number in range(3):
        world.publish(f"https://host-{number}.test/")
    assert len(world.starts()) == 1
    world.change_account(max_global_parallelism=2)
    assert world.urls_started() == ["https://host-0.test/", "https://host-1.test/"]


def test_callbacks_wait_for_the_global_parallelism_like_any_message() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    first = world.publish("https://first.test/", callback=callback("https://back.test/"))
    world.publish("https://second.test/")
    world.finish(first)
    assert world.urls_started() == ["https://first.test/", "https://second.test/"]
    world.finish(world.sent_to("https://second.test/")[0].message_id)
    assert world.urls_started()[-1] == "https://back.test/"
