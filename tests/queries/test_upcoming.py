"""The preview of due work: what it lists, in which order, and that a clock advance then does just that."""

from __future__ import annotations

import pytest

from emulator.core import facts
from emulator.core.model.answers import Fault, ScriptedResponse
from emulator.core.model.messages import HoldKind, HoldReason
from emulator.core.model.names import FlowKey, MessageId
from emulator.core.rules.retries import RetryReason
from emulator.queries import upcoming
from emulator.queries.history import EndedMessage
from emulator.queries.message_log import Failure
from emulator.queries.upcoming import Upcoming, UpcomingQuery
from emulator.queries.waiting import Held, UnderWay
from tests.harness.simulations import (
    DAY,
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    World,
    always,
    answered,
    by_url,
    flow,
    make_account,
)

URL, OTHER, DOWN = "https://one.test/a", "https://two.test/b", "https://down.test/c"
LAST_MS = EPOCH_MS + 1_000 * DAY


def look(world: World, until: int | None = None, limit: int = 1_000, ended: tuple[EndedMessage, ...] = ()) -> Upcoming:
    """The preview, `until` counted from the world's beginning; what it does to the world is checked."""
    before = world.snapshot()
    until_ms = None if until is None else EPOCH_MS + until
    found = upcoming.preview(
        world.simulation.state, UpcomingQuery(until_ms=until_ms, limit=limit), last_ms=LAST_MS, ended=ended
    )
    assert world.snapshot() == before, "looking ahead changed the world"
    return found


def listed(found: Upcoming) -> list[tuple[str, int]]:
    """Every item by its kind and its instant, counted from the world's beginning."""
    return [(type(item).__name__, item.at_ms - EPOCH_MS) for item in found.items]


# -- what is listed ---------------------------------------------------------------------------


def test_an_empty_world_has_nothing_to_come() -> None:
    assert look(World()) == Upcoming(now_ms=EPOCH_MS, until_ms=None, items=(), waiting=(), is_truncated=False)


def test_delayed_messages_and_retries_are_listed_in_order() -> None:
    world = World(answering=by_url({DOWN: answered(500)}))
    delayed = world.publish(URL, delay_ms=HOUR)
    failing = world.publish(DOWN, retry_delay="90000", max_retries=3)

    found = look(world)

    assert [
        (item.message.message_id, item.at_ms - EPOCH_MS)
        for item in found.items
        if isinstance(item, upcoming.Retry | upcoming.FirstAttempt)
    ] == [(failing, 90_000), (delayed, HOUR)]
    (retry, first) = found.items
    assert isinstance(retry, upcoming.Retry)
    assert (retry.number, retry.delay) == (1, None)
    assert isinstance(first, upcoming.FirstAttempt)


def test_a_retry_gets_the_arithmetic_of_its_failure() -> None:
    world = World(answering=by_url({DOWN: answered(503, headers=(("Retry-After", "10"),))}))
    failing = world.publish(DOWN)
    found = look(world)
    outcome = answered(503, headers=(("Retry-After", "10"),))

    (retry,) = upcoming.with_delays(found, {failing: Failure(number=1, at_ms=EPOCH_MS, outcome=outcome)}).items
    (stale,) = upcoming.with_delays(found, {failing: Failure(number=2, at_ms=EPOCH_MS, outcome=outcome)}).items

    assert upcoming.retrying(found) == [1]
    assert isinstance(retry, upcoming.Retry)
    assert retry.delay is not None
    assert (retry.delay.delay_ms, retry.delay.reason) == (10_000, RetryReason.RETRY_AFTER)
    assert isinstance(stale, upcoming.Retry)
    assert stale.delay is None


def test_every_firing_up_to_the_instant_is_listed_with_local_time() -> None:
    """D-210."""
    world = World(now_ms=EPOCH_MS)
    world.run_until(86 * DAY)  # Saturday, 28 March 2026: summer time begins the next night.
    world.write_schedule("CRON_TZ=Europe/Berlin 30 2,9 * * *", URL, schedule_id="berlin")

    found = look(world, until=88 * DAY)

    assert [
        (item.at_ms - EPOCH_MS - 86 * DAY, item.offset_minutes, item.time_zone)
        for item in found.items
        if isinstance(item, upcoming.ScheduleFiring)
    ] == [
        (1 * HOUR + 30 * MINUTE, 60, "Europe/Berlin"),
        (8 * HOUR + 30 * MINUTE, 60, "Europe/Berlin"),
        # 2:30 does not exist on Sunday: it fires at 3:00 (D-011).
        (25 * HOUR, 120, "Europe/Berlin"),
        (31 * HOUR + 30 * MINUTE, 120, "Europe/Berlin"),
    ]


def test_without_an_instant_each_schedule_has_its_next_firing_only() -> None:
    """D-210."""
    world = World()
    world.write_schedule("*/5 * * * *", URL, schedule_id="five")
    world.write_schedule("0 0 1 * *", URL, schedule_id="monthly")

    assert listed(look(world)) == [("ScheduleFiring", 5 * MINUTE), ("ScheduleFiring", 31 * DAY)]


def test_the_instant_itself_is_included() -> None:
    world = World()
    world.publish(URL, delay_ms=HOUR)
    assert listed(look(world, until=HOUR)) == [("FirstAttempt", HOUR)]
    assert listed(look(world, until=HOUR - 1)) == []


def test_a_paused_schedule_is_not_listed() -> None:
    world = World()
    world.pause_schedule(world.write_schedule("*/5 * * * *", URL))
    assert look(world, until=DAY).items == ()


def test_schedules_that_fire_together_are_listed_in_the_order_in_which_they_will() -> None:
    world = World()
    world.write_schedule("*/5 * * * *", URL, schedule_id="five")
    world.write_schedule("*/10 * * * *", URL, schedule_id="ten")

    found = look(world, until=20 * MINUTE)
    world.run_until(20 * MINUTE)

    assert [(item.schedule_id, item.at_ms) for item in found.items if isinstance(item, upcoming.ScheduleFiring)] == [
        (fact.schedule_id, fact.at_ms) for fact in world.all(facts.ScheduleFired)
    ]


def test_a_latency_shows_when_the_answer_or_the_timeout_comes() -> None:
    world = World()
    world.add_rule(URL, responses=(ScriptedResponse(latency_ms=5 * SECOND),))
    world.add_rule(OTHER, responses=(ScriptedResponse(latency_ms=HOUR),))
    world.add_rule(DOWN, fault=Fault.TIMEOUT)
    for url in (URL, OTHER, DOWN):
        world.publish(url, timeout_ms=30 * SECOND)

    found = look(world)

    assert [
        (item.message.url, item.rule_id, item.at_ms - EPOCH_MS, item.has_timed_out)
        for item in found.items
        if isinstance(item, upcoming.Answer)
    ] == [
        (URL, "rule_1", 5 * SECOND, False),
        (OTHER, "rule_2", 30 * SECOND, True),
        (DOWN, "rule_3", 30 * SECOND, True),
    ]
    assert found.waiting == ()


def test_expiries_are_listed_one_by_one_and_behind_the_work_of_their_instant() -> None:
    world = World(account=make_account(max_dlq_retention_time_milis=600_000), answering=by_url({DOWN: answered(500)}))
    first = world.publish(URL, deduplication_id="a")
    world.publish(DOWN, max_retries=0)
    world.publish(URL, delay_ms=10 * MINUTE)
    world.run_until(MINUTE)
    world.publish(URL, deduplication_id="b")
    ended = EndedMessage(message_id=first, message=world.messages[first], ended_ms=EPOCH_MS)

    assert listed(look(world, ended=(ended,))) == [
        ("MessageExpiry", MINUTE),
        ("FirstAttempt", 10 * MINUTE),
        ("DeduplicationExpiry", 10 * MINUTE),
        ("DeadLetterExpiry", 10 * MINUTE),
        ("DeduplicationExpiry", 11 * MINUTE),
    ]


def test_the_transition_of_an_account_is_listed() -> None:
    world = World()
    world.change_account(state="passive")
    assert listed(look(world)) == [("AccountTransition", MINUTE)]


def test_no_more_is_listed_than_asked_for_and_that_is_told() -> None:
    world = World()
    world.write_schedule("* * * * *", URL)
    assert look(world, until=DAY, limit=1_440).is_truncated is False
    found = look(world, until=DAY, limit=3)
    assert (listed(found), found.is_truncated) == (
        [("ScheduleFiring", MINUTE), ("ScheduleFiring", 2 * MINUTE), ("ScheduleFiring", 3 * MINUTE)],
        True,
    )


def test_nothing_beyond_the_last_instant_is_listed() -> None:
    world = World()
    world.publish(URL, delay_ms=1_001 * DAY)
    world.publish(URL, delay_ms=1_000 * DAY)
    assert listed(look(world)) == [("FirstAttempt", 1_000 * DAY)]
    assert listed(look(world, until=2_000 * DAY)) == [("FirstAttempt", 1_000 * DAY)]


# -- what waits for something else ------------------------------------------------------------


def held(world: World) -> list[Held]:
    return [each for each in look(world).waiting if isinstance(each, Held)]


def test_an_attempt_under_way_waits_for_nobody_knows_how_long() -> None:
    """D-211."""
    world = World(answering=None)
    message_id = world.publish(URL)
    message = world.messages[message_id]
    assert look(world).waiting == (UnderWay(message=message, attempt=1, since_ms=EPOCH_MS),)


def test_messages_in_a_queue_wait_for_those_that_hold_its_slots() -> None:
    world = World(answering=None)
    first, second, third = (world.enqueue("q", URL) for _ in range(3))

    found = held(world)

    assert [(each.message.message_id, each.position, each.length) for each in found] == [(second, 1, 2), (third, 2, 2)]
    assert [(each.kind, each.name, each.reason) for each in found] == [
        (HoldKind.QUEUE, "q", HoldReason.PARALLELISM)
    ] * 2
    assert [(each.maximum, each.holders) for each in found] == [(1, (first,))] * 2


def test_a_line_waits_for_what_holds_it_now_and_not_for_what_held_it_first() -> None:
    """D-211."""
    world = World(answering=None)
    for _ in range(2):
        world.enqueue("q", URL)
        world.publish(URL, flow_control=flow("k", parallelism=1))
    assert [each.reason for each in held(world)] == [HoldReason.PARALLELISM, HoldReason.PARALLELISM]

    world.write_queue("q", paused=True)
    world.pause_key("k")

    assert [(each.reason, each.holders) for each in held(world)][1] == (HoldReason.PAUSED, ())
    assert [each.reason for each in held(world)] == [HoldReason.PAUSED, HoldReason.PAUSED]


def test_a_key_names_the_messages_that_are_under_way_on_it() -> None:
    world = World(answering=None)
    first = world.publish(URL, flow_control=flow("k", parallelism=1))
    world.publish(URL, flow_control=flow("other", parallelism=1))
    world.publish(URL, flow_control=flow("k", parallelism=1))

    (waiting,) = held(world)

    assert (waiting.name, waiting.maximum, waiting.holders, waiting.earliest_ms) == ("k", 1, (first,), None)


def test_a_rate_tells_the_end_of_its_period_and_when_each_message_may_start_at_the_earliest() -> None:
    """D-211."""
    world = World()
    for _ in range(5):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=10 * SECOND))

    found = look(world)
    waiting = [(each.position, each.reason, each.maximum, each.earliest_ms) for each in held(world)]
    world.run_until(HOUR)

    assert waiting == [
        (1, HoldReason.RATE, 2, EPOCH_MS + 10 * SECOND),
        (2, HoldReason.RATE, 2, EPOCH_MS + 10 * SECOND),
        (3, HoldReason.RATE, 2, EPOCH_MS + 20 * SECOND),
    ]
    (window,) = found.items
    assert isinstance(window, upcoming.RateWindowEnd)
    assert (window.at_ms - EPOCH_MS, window.flow.key, window.waiting) == (10 * SECOND, FlowKey("k"), 3)
    # And so they did.
    assert world.start_times() == [0, 0, 10 * SECOND, 10 * SECOND, 20 * SECOND]


def test_the_global_parallelism_holds_whoever_comes_too_many() -> None:
    world = World(account=make_account(max_global_parallelism=1), answering=None)
    world.publish(URL)
    second = world.publish(URL)
    (waiting,) = held(world)
    assert (waiting.message.message_id, waiting.kind, waiting.maximum) == (second, HoldKind.GLOBAL, 1)


def test_of_many_messages_in_the_way_the_first_are_named() -> None:
    world = World(answering=None)
    ids = [world.publish(URL, flow_control=flow("k", parallelism=12)) for _ in range(13)]
    (waiting,) = held(world)
    assert waiting.holders == tuple(ids[:10])


def test_no_more_that_waits_is_listed_than_asked_for() -> None:
    world = World(answering=None)
    for _ in range(3):
        world.publish(URL)
    found = look(world, limit=2)
    assert (len(found.waiting), found.is_truncated) == (2, True)


# -- what it says comes true ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_clock_advance_does_what_was_listed(seed: int) -> None:
    """Firings and retries come at the listed instants, and none besides."""
    world = World(answering=by_url({DOWN: [answered(500), answered(500), answered()]}), seed=seed)
    world.write_schedule(f"*/{seed + 3} * * * *", URL, schedule_id="often")
    world.write_schedule("CRON_TZ=Asia/Kathmandu 15 9 * * *", URL, schedule_id="daily")
    for number in range(4):
        world.publish(DOWN, retry_delay=f"{seed * 7_000 + number * 1_111}", max_retries=5)
        world.publish(URL, delay_ms=(number * 37 + seed) * MINUTE)
    found = look(world, until=DAY)
    began = len(world.facts)

    world.run_until(DAY)

    done = world.facts[began:]
    assert [(item.schedule_id, item.at_ms) for item in found.items if isinstance(item, upcoming.ScheduleFiring)] == [
        (fact.schedule_id, fact.at_ms) for fact in done if isinstance(fact, facts.ScheduleFired)
    ]
    started = [(fact.message_id, fact.number, fact.at_ms) for fact in done if isinstance(fact, facts.AttemptStarted)]
    known = {item.message.message_id for item in found.items if isinstance(item, upcoming.Retry)}
    first_of: dict[MessageId, tuple[MessageId, int, int]] = {}
    for each in started:
        if each[0] in known:
            first_of.setdefault(each[0], each)
    # Listed is the next retry of each message; the one after that depends on what it comes to.
    assert [
        (item.message.message_id, item.number + 1, item.at_ms)
        for item in found.items
        if isinstance(item, upcoming.Retry)
    ] == sorted(first_of.values(), key=lambda each: each[2])


def test_retries_that_are_answered_200_are_all_that_happens() -> None:
    world = World(answering=always(answered(500)))
    for number in range(5):
        world.publish(DOWN, retry_delay=str(number * 1_000 + 500))
    found = look(world, until=HOUR)
    began = len(world.starts())
    world.answering = always(answered())

    world.run_until(HOUR)

    assert [(item.at_ms - EPOCH_MS) for item in found.items] == [at for _, _, at in world.starts()[began:]]
    assert world.simulation.state.messages == {}
