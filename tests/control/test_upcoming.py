"""What is due later: the preview of the state, its texts, and `/_emulator/upcoming` with `explain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from emulator.control import upcoming
from emulator.control.upcoming import (
    Upcoming,
    UpcomingQuery,
    read_upcoming,
)
from emulator.control.waiting import Held
from emulator.core import resource_facts
from emulator.core.errors import InvalidInput
from emulator.core.language.calendar import LAST_LOCAL_MS
from emulator.core.model.messages import HoldReason, Response, TimerKind
from emulator.core.model.resources import Fault, ScriptedResponse
from emulator.delivery.mounts import MountedRequest
from emulator.queries.history import EndedMessage, Failure
from emulator.wire.json_reader import Json
from emulator.wire.times import MAX_INSTANT_MS, iso, local_iso
from tests.control.twins import without_twins
from tests.harness.emulators import InProcess, with_emulator
from tests.harness.simulations import (
    ACCOUNT_ID,
    DAY,
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    World,
    answered,
    by_url,
    flow,
    make_account,
)

URL, OTHER, DOWN = "https://one.test/a", "https://two.test/b", "https://down.test/c"


def look(world: World, until: int | None = None, limit: int = 1_000, ended: tuple[EndedMessage, ...] = ()) -> Upcoming:
    """The preview, `until` counted from the world's beginning; what it does to the world is checked."""
    before = world.snapshot()
    until_ms = None if until is None else EPOCH_MS + until
    found = upcoming.preview(world.simulation.state, UpcomingQuery(until_ms=until_ms, limit=limit), ended=ended)
    assert world.snapshot() == before, "looking ahead changed the world"
    return found


def listed(found: Upcoming) -> list[tuple[str, int]]:
    """Every item by its kind and its instant, counted from the world's beginning."""
    return [(type(item).__name__, item.at_ms - EPOCH_MS) for item in found.items]


def as_json(shown: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shown))


# -- what is listed ---------------------------------------------------------------------------


def test_every_kind_of_timer_has_its_item() -> None:
    assert upcoming.OF_TIMER.keys() == set(TimerKind)


def test_a_retry_gets_the_arithmetic_of_its_failure() -> None:
    outcome = answered(503, headers=(("Retry-After", "10"),))
    world = World(answering=by_url({DOWN: outcome}))
    failing = world.publish(DOWN, max_retries=3)
    found = look(world)
    assert listed(found) == [("Retry", 10 * SECOND)]

    def shown(number: int) -> Any:
        failures = {failing: Failure(number=number, at_ms=EPOCH_MS, outcome=outcome)}
        (retry,) = upcoming.with_delays(found, {failing: world.messages[failing]}, failures).items
        return as_json(retry)

    expected: dict[str, Json] = {
        **{"kind": "retry", "at": "2026-01-01T00:00:10.000Z", "at_ms": EPOCH_MS + 10_000},
        **{"why": "retry 1 of 3: Retry-After: 10 -> 10s", "account_id": ACCOUNT_ID, "message_id": failing},
        **{"url": DOWN, "retry": 1, "retries": 3, "delay_ms": 10_000, "set_by": "Retry-After"},
        "arithmetic": "Retry-After: 10 -> 10s",
    }
    assert list(shown(1).items()) == list(expected.items())
    # It was retried while its failure was looked up.
    unknown: dict[str, Json] = {"why": "retry 1 of 3", "delay_ms": None, "set_by": None, "arithmetic": None}
    assert shown(2) == expected | unknown


def test_every_firing_up_to_the_instant_is_listed_with_local_time() -> None:
    """D-210."""
    world = World(now_ms=EPOCH_MS)
    world.run_until(86 * DAY)  # Saturday, 28 March 2026: summer time begins the next night.
    world.write_schedule("CRON_TZ=Europe/Berlin 30 2,9 * * *", URL, schedule_id="berlin")

    found = look(world, until=88 * DAY)

    assert [
        (item.at_ms - EPOCH_MS - 86 * DAY, item.local, item.time_zone)
        for item in found.items
        if isinstance(item, upcoming.ScheduleFiring)
    ] == [
        (1 * HOUR + 30 * MINUTE, "2026-03-28T02:30:00+01:00", "Europe/Berlin"),
        (8 * HOUR + 30 * MINUTE, "2026-03-28T09:30:00+01:00", "Europe/Berlin"),
        # 2:30 does not exist on Sunday: it fires at 3:00 (D-011).
        (25 * HOUR, "2026-03-29T03:00:00+02:00", "Europe/Berlin"),
        (31 * HOUR + 30 * MINUTE, "2026-03-29T09:30:00+02:00", "Europe/Berlin"),
    ]


def test_without_an_instant_each_schedule_has_its_next_firing_only() -> None:
    """D-210."""
    world = World()
    world.write_schedule("*/5 * * * *", URL, schedule_id="five")
    world.write_schedule("0 0 1 * *", URL, schedule_id="monthly")

    assert listed(look(world)) == [("ScheduleFiring", 5 * MINUTE), ("ScheduleFiring", 31 * DAY)]


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
        (fact.schedule_id, fact.at_ms) for fact in world.all(resource_facts.ScheduleFired)
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
        (item.url, item.rule_id, item.at_ms - EPOCH_MS, item.kind)
        for item in found.items
        if isinstance(item, upcoming.RuleAnswer)
    ] == [
        (URL, "rule_1", 5 * SECOND, "answer"),
        (OTHER, "rule_2", 30 * SECOND, "timeout"),
        (DOWN, "rule_3", 30 * SECOND, "timeout"),
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
    assert look(world, until=DAY, limit=1_440).truncated is False
    found = look(world, until=DAY, limit=3)
    assert (listed(found), found.truncated) == (
        [("ScheduleFiring", MINUTE), ("ScheduleFiring", 2 * MINUTE), ("ScheduleFiring", 3 * MINUTE)],
        True,
    )


def test_nothing_beyond_the_last_instant_is_listed() -> None:
    world, last = World(now_ms=LAST_LOCAL_MS - DAY), LAST_LOCAL_MS - EPOCH_MS
    world.publish(URL, delay_ms=DAY + 1)
    world.publish(URL, delay_ms=DAY)
    assert listed(look(world)) == [("FirstAttempt", last)]
    assert listed(look(world, until=last + DAY)) == [("FirstAttempt", last)]


# -- what waits for something else ------------------------------------------------------------


def held(world: World) -> list[Held]:
    return [each for each in look(world).waiting if isinstance(each, Held)]


def test_an_attempt_under_way_waits_for_nobody_knows_how_long() -> None:
    """D-211."""
    world = World(answering=None)
    message_id = world.publish(URL, timeout_ms=60_000)
    (waiting,) = as_json(look(world).waiting)
    assert without_twins(waiting) == {
        **{"kind": "attempt", "why": "attempt 1 is under way, for at most 1m", "since_ms": EPOCH_MS},
        **{"account_id": ACCOUNT_ID, "message_id": message_id, "url": URL, "attempt": 1},
    }


def test_messages_in_a_queue_wait_for_those_that_hold_its_slots() -> None:
    world = World(answering=None)
    first, second, third = (world.enqueue("q", URL) for _ in range(3))

    found = held(world)

    assert [(each.message_id, each.position, each.length) for each in found] == [(second, 1, 2), (third, 2, 2)]
    assert [(each.kind, each.name, each.reason) for each in found] == [("queue", "q", HoldReason.PARALLELISM)] * 2
    one = f"queue q lets 1 through at a time, now {first}; it is"
    assert [(each.why, each.holders) for each in found] == [
        (f"{one} next in line", (first,)),
        (f"{one} number 2 in line", (first,)),
    ]


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

    assert (waiting.name, waiting.holders, waiting.earliest_ms) == ("k", (first,), None)
    assert waiting.why.startswith("flow control key k lets 1 through at a time, now ")


def test_a_rate_tells_the_end_of_its_period_and_when_each_message_may_start_at_the_earliest() -> None:
    """D-211."""
    world = World()
    for _ in range(5):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=10 * SECOND))

    found = look(world)
    waiting = held(world)
    last = waiting[-1]
    world.run_until(HOUR)

    assert [(each.position, each.reason, each.earliest_ms) for each in waiting] == [
        (1, HoldReason.RATE, EPOCH_MS + 10 * SECOND),
        (2, HoldReason.RATE, EPOCH_MS + 10 * SECOND),
        (3, HoldReason.RATE, EPOCH_MS + 20 * SECOND),
    ]
    expected: dict[str, Json] = {
        "kind": "flow_control",
        "why": "flow control key k lets 2 start per 10s, this one at 2026-01-01T00:00:20.000Z at the earliest; "
        "it is number 3 in line",
        **{"since_ms": EPOCH_MS, "account_id": ACCOUNT_ID, "message_id": last.message_id, "url": URL, "name": "k"},
        **{"reason": "rate", "position": 3, "length": 3, "holders": [], "earliest_ms": EPOCH_MS + 20 * SECOND},
    }
    assert list(without_twins(as_json(last)).items()) == list(expected.items())
    (window,) = found.items
    assert isinstance(window, upcoming.RateWindowEnd)
    assert (window.at_ms - EPOCH_MS, window.key, window.waiting) == (10 * SECOND, "k", 3)
    # And so they did.
    assert world.start_times() == [0, 0, 10 * SECOND, 10 * SECOND, 20 * SECOND]


def test_the_global_parallelism_holds_every_message_beyond_it() -> None:
    world = World(account=make_account(max_global_parallelism=1), answering=None)
    world.publish(URL)
    second = world.publish(URL)
    (waiting,) = held(world)
    assert (waiting.message_id, waiting.kind, waiting.name) == (second, "global", None)
    assert waiting.why == "the account's global parallelism lets 1 through at a time; it is next in line"


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
    assert (len(found.waiting), found.truncated) == (2, True)


# -- the query --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], UpcomingQuery(until_ms=None, limit=1_000), id="nothing"),
        pytest.param([("until", ""), ("world", "w")], UpcomingQuery(until_ms=None, limit=1_000), id="empty"),
        pytest.param([("until", "1970-01-02")], UpcomingQuery(until_ms=DAY, limit=1_000), id="iso"),
        pytest.param([("until", "86400000")], UpcomingQuery(until_ms=DAY, limit=1_000), id="milliseconds"),
        pytest.param([("limit", "10000")], UpcomingQuery(until_ms=None, limit=10_000), id="limit"),
    ],
)
def test_query_is_read(pairs: list[tuple[str, str]], expected: UpcomingQuery) -> None:
    assert read_upcoming(pairs) == expected


@pytest.mark.parametrize(
    ("pairs", "field"),
    [
        pytest.param([("until", "tomorrow")], "until", id="no-instant"),
        pytest.param([("until", "9" * 15)], "until", id="too-late"),
        pytest.param([("until", "-1")], "until", id="negative"),
        pytest.param([("until", "1531-09-06")], "until", id="too-early"),
        pytest.param([("limit", "0")], "limit", id="none"),
        pytest.param([("limit", "10001")], "limit", id="too-many"),
        pytest.param([("limit", "ten")], "limit", id="no-number"),
        pytest.param([("untill", "1")], "untill", id="unknown"),
        pytest.param([("until", "1"), ("until", "2")], "until", id="twice"),
    ],
)
def test_query_that_is_wrong_names_the_field(pairs: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_upcoming(pairs)
    assert caught.value.field == field


# -- items ------------------------------------------------------------------------------------


def make_window(world: World) -> None:
    for _ in range(3):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=5 * SECOND))


def forget_rule(world: World) -> None:
    world.add_rule(URL, responses=(ScriptedResponse(latency_ms=5 * SECOND),))
    messages = world.simulation.state.messages
    assert isinstance(messages, dict)
    progress = messages[world.publish(URL)]
    dispatch = replace(progress.dispatch, answer=None)
    messages[progress.message.message_id] = replace(progress, dispatch=dispatch)


@pytest.mark.parametrize(
    ("make", "kind", "why", "fields"),
    [
        pytest.param(
            lambda world: world.publish(URL, delay_ms=5 * SECOND),
            "delivery",
            "the first attempt, 5s after the message was made",
            {"message_id": "*", "url": URL, "created_ms": EPOCH_MS},
            id="delivery",
        ),
        pytest.param(
            lambda world: (
                world.add_rule(URL, responses=(ScriptedResponse(latency_ms=5 * SECOND),)),
                world.publish(URL),
            ),
            "answer",
            "attempt 1 is answered after 5s, the latency of rule_1",
            {"message_id": "*", "url": URL, "attempt": 1, "rule_id": "rule_1"},
            id="answer",
        ),
        pytest.param(
            lambda world: (world.add_rule(URL, fault=Fault.TIMEOUT), world.publish(URL, timeout_ms=5 * SECOND)),
            "timeout",
            "attempt 1 times out after 5s: rule_1 keeps it waiting longer",
            {"message_id": "*", "url": URL, "attempt": 1, "rule_id": "rule_1"},
            id="timeout",
        ),
        pytest.param(
            forget_rule,
            "answer",
            "attempt 1 is answered after 5s, the latency of a rule that is gone",
            {"message_id": "*", "url": URL, "attempt": 1, "rule_id": None},
            id="rule-gone",
        ),
        pytest.param(
            lambda world: (
                world.run_until(7 * HOUR - 5 * SECOND),
                world.make_group("team", URL),
                world.write_schedule("CRON_TZ=Europe/Berlin 0 8 * * *", "team", schedule_id="daily"),
            ),
            "schedule",
            "the schedule fires at 2026-01-01T08:00:00+01:00 in Europe/Berlin "
            "(CRON_TZ=Europe/Berlin 0 8 * * *), to URL group team",
            {
                "schedule_id": "daily",
                "destination": "team",
                "cron": "CRON_TZ=Europe/Berlin 0 8 * * *",
                "time_zone": "Europe/Berlin",
                "local": "2026-01-01T08:00:00+01:00",
            },
            id="schedule",
        ),
        pytest.param(
            make_window,
            "rate_window",
            "flow control key k lets 2 start per 5s, and a new period begins; 1 message waits",
            {"key": "k", "rate": 2, "period_ms": 5_000, "waiting": 1},
            id="rate-window",
        ),
        pytest.param(
            lambda world: (world.publish(URL, deduplication_id="x"), world.run_until(10 * MINUTE - 5 * SECOND)),
            "deduplication_expiry",
            "publishes with the key id:x are answered with * until then",
            {"message_id": "*", "key": "id:x"},
            id="deduplication",
        ),
        pytest.param(
            lambda world: (world.publish(URL), world.run_until(55 * SECOND)),
            "message_expiry",
            "a message is found by its id for 1m after its end at 2026-01-01T00:00:00.000Z",
            {"message_id": "*", "url": URL},
            id="message",
        ),
        pytest.param(
            lambda world: world.publish(DOWN, max_retries=0),
            "dead_letter_expiry",
            "a dead letter is kept for 5s",
            {"message_id": "*", "dead_letter_id": "*"},
            id="dead-letter",
        ),
        pytest.param(
            lambda world: (world.change_account(state="passive"), world.run_until(55 * SECOND)),
            "account",
            "the account's change to passive is through",
            {},
            id="account",
        ),
    ],
)
def test_item_says_what_is_due_and_why(
    make: Callable[[World], object], kind: str, why: str, fields: dict[str, Json]
) -> None:
    """`*` stands for an id that the world made."""
    account = make_account(max_dlq_retention_time_milis=5_000)
    world = World(account=account, answering=by_url({DOWN: answered(500)}))
    make(world)
    ended = [EndedMessage(message_id=key, message=each, ended_ms=EPOCH_MS) for key, each in world.messages.items()]
    (item,) = as_json(look(world, ended=tuple(ended) if kind == "message_expiry" else ()).items)
    made = {*world.messages, *world.dead_letter_ids()}
    if "message_id" in fields:
        why = why.replace("*", item["message_id"])
    at_ms = EPOCH_MS + world.now_ms + 5 * SECOND
    expected: dict[str, Json] = {"kind": kind, "at_ms": at_ms, "why": why, "account_id": ACCOUNT_ID, **fields}
    shown = {name: "*" if value in made else value for name, value in without_twins(item).items()}
    assert list(shown.items()) == list(expected.items())


def test_preview_as_a_whole() -> None:
    assert list(as_json(look(World(), until=HOUR)).items()) == [
        ("now", "2026-01-01T00:00:00.000Z"),
        ("now_ms", EPOCH_MS),
        ("until", "2026-01-01T01:00:00.000Z"),
        ("until_ms", EPOCH_MS + HOUR),
        ("items", []),
        ("waiting", []),
        ("truncated", False),
    ]


# -- local time -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, "2026-01-01T00:00:00+00:00"),
        (120, "2026-01-01T02:00:00+02:00"),
        (345, "2026-01-01T05:45:00+05:45"),
        (-210, "2025-12-31T20:30:00-03:30"),
    ],
)
def test_local_time_has_its_offset(offset: int, expected: str) -> None:
    assert local_iso(EPOCH_MS, offset) == expected


def test_whatever_is_listed_can_be_shown_by_any_clock() -> None:
    assert local_iso(LAST_LOCAL_MS, 24 * 60)[:4] == "9999"
    with pytest.raises(ValueError, match="outside"):
        local_iso(MAX_INSTANT_MS, 1)


async def ask(emulator: InProcess, query: str = "") -> Any:
    answer = await emulator.control("GET", f"/upcoming{query}")
    assert answer.status == 200, answer.body
    return answer.json


# -- what is due later ------------------------------------------------------------------------


@with_emulator()
async def test_everything_due_is_listed_and_nothing_of_it_done(emulator: InProcess) -> None:
    await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}})
    await emulator.rule("https://slow.test/*", respond={"latency": "5s"})
    await emulator.publish(DOWN, {"Svc-Retries": "3"})
    await emulator.publish("https://slow.test/", {"Svc-Deduplication-Id": "order-1"})
    await emulator.publish(URL, {"Svc-Delay": "1h"})
    for _ in range(3):
        await emulator.publish(URL, {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=2, period=1m"})
    await emulator.post(
        f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Europe/Berlin 30 9 * * *", "Svc-Schedule-Id": "daily"}
    )
    before = emulator.image()

    found = await ask(emulator)

    assert emulator.image() == before
    assert [(item["kind"], item["at_ms"] - EPOCH_MS) for item in found["items"]] == [
        ("answer", 5_000),
        ("retry", 10_000),
        ("rate_window", 60_000),
        ("message_expiry", 60_000),
        ("message_expiry", 60_000),
        ("deduplication_expiry", 600_000),
        ("delivery", HOUR),
        ("schedule", 8 * HOUR + HOUR // 2),
    ]
    assert found["items"][1]["why"] == "retry 1 of 3: Retry-After: 10 -> 10s"
    assert found["items"][-1]["local"] == "2026-01-01T09:30:00+01:00"
    assert [(wait["kind"], wait["name"], wait["earliest_ms"]) for wait in found["waiting"]] == [
        ("flow_control", "k", EPOCH_MS + 60_000)
    ]
    assert (found["now_ms"], found["until"], found["truncated"]) == (EPOCH_MS, None, False)


@with_emulator()
async def test_until_lists_every_firing_and_the_limit_says_that_there_are_more(emulator: InProcess) -> None:
    """D-210."""
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "0 * * * *"})
    assert len((await ask(emulator))["items"]) == 1
    day = await ask(emulator, "?until=2026-01-02T00:00:00Z")
    assert [item["at_ms"] for item in day["items"]] == [EPOCH_MS + hour * HOUR for hour in range(1, 25)]
    assert (await ask(emulator, f"?until={EPOCH_MS + 2 * HOUR}"))["items"] == day["items"][:2]
    cut = await ask(emulator, "?until=2026-01-02&limit=3")
    assert (cut["items"], cut["truncated"]) == (day["items"][:3], True)


@with_emulator()
async def test_a_retry_shows_what_set_its_delay_whatever_that_was(emulator: InProcess) -> None:
    await emulator.rule(DOWN, respond={"status": 500})
    await emulator.publish(DOWN, {"Svc-Retry-Delay": "pow(2, retried) * 1000"})
    await emulator.publish(DOWN)
    await emulator.advance("1s")
    assert [(item["set_by"], item["arithmetic"], item["delay_ms"]) for item in (await ask(emulator))["items"]] == [
        ("expression", "pow(2, retried) * 1000 with retried = 1 is 2000 ms -> 2s", 2_000),
        ("default", "default backoff min(86400, e^(2.5 * 1)) s -> 12s", 12_000),
    ]


@with_emulator(epoch="9999-12-31T12:00:00Z")
async def test_a_clock_at_the_end_of_the_calendar_is_no_trouble(emulator: InProcess) -> None:
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Pacific/Kiritimati * * * * *"})
    await emulator.publish(URL, {"Svc-Delay": "1d"})
    found = await ask(emulator, "?until=9999-12-31T23:59:59Z")
    assert found["items"] == []


@with_emulator()
async def test_an_attempt_that_has_not_left_is_said_to_wait(emulator: InProcess) -> None:
    """D-537: applications in the test's own process take turns."""
    seen: list[list[str]] = []

    async def receive(_: MountedRequest) -> Response:
        waiting = (await emulator.control("GET", "/upcoming")).json["waiting"]
        explained = [
            (await emulator.control("GET", f"/messages/{each['message_id']}/explain")).json for each in waiting
        ]
        seen.append([each["why"] for each in waiting])
        seen.append([each["summary"] for each in explained])
        seen.append([each["reasons"][-1]["text"] for each in explained])
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount("https://app.test", receive)
    for _ in range(2):
        await emulator.publish("https://app.test/", {"Svc-Delay": "1s"})
    await emulator.advance("1s")

    at = iso(EPOCH_MS + SECOND)
    assert seen == [
        ["attempt 1 is under way, for at most 6h", "attempt 1 waits to leave"],
        [f"Attempt 1 is under way since {at}.", f"Attempt 1 has started and waits to leave since {at}."],
        ["attempt 1 is under way", "attempt 1 waits to leave"],
        ["attempt 1 is under way, for at most 6h"],
        [f"Attempt 1 is under way since {at}."],
        ["attempt 1 is under way"],
    ]
