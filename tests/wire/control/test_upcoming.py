"""The preview of due work as JSON: its query, and every kind of item."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.core.model.messages import DeadLetter, HoldKind, HoldReason, Message
from emulator.core.model.names import AccountId, DeadLetterId, FlowKey, MessageId, RuleId, ScheduleId
from emulator.core.model.options import Destination, DestinationKind
from emulator.core.model.resources import FlowState
from emulator.core.rules import retries
from emulator.queries import upcoming
from emulator.queries.history import EndedMessage
from emulator.queries.upcoming import LAST_MS, Upcoming, UpcomingQuery
from emulator.queries.waiting import Held, UnderWay
from emulator.wire.control.upcoming import item_view, read_upcoming, upcoming_view, waiting_view
from emulator.wire.instants import MAX_INSTANT_MS, local_iso
from emulator.wire.json_fields import Json
from tests.harness.simulations import ACCOUNT_ID, DAY, EPOCH_MS, HOUR, SECOND, World

URL = "https://one.test/a"


def message() -> Message:
    world = World(answering=None)
    return world.messages[world.publish(URL, max_retries=3, timeout_ms=60_000)]


MESSAGE = message()
SUBJECT: dict[str, Json] = {"account_id": ACCOUNT_ID, "message_id": MESSAGE.message_id, "url": URL}


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


def test_firing_has_its_local_time() -> None:
    firing = upcoming.ScheduleFiring(
        at_ms=1_774_746_000_000,
        account_id=AccountId("a"),
        schedule_id=ScheduleId("daily"),
        destination=Destination(kind=DestinationKind.GROUP, text="team"),
        cron="CRON_TZ=Europe/Berlin 30 2 * * *",
        time_zone="Europe/Berlin",
        offset_minutes=120,
    )
    assert item_view(firing) == {
        "kind": "schedule",
        "at": "2026-03-29T01:00:00.000Z",
        "at_ms": 1_774_746_000_000,
        "why": "the schedule fires at 2026-03-29T03:00:00+02:00 in Europe/Berlin "
        "(CRON_TZ=Europe/Berlin 30 2 * * *), to URL group team",
        "account_id": "a",
        "schedule_id": "daily",
        "destination": "team",
        "cron": "CRON_TZ=Europe/Berlin 30 2 * * *",
        "time_zone": "Europe/Berlin",
        "local": "2026-03-29T03:00:00+02:00",
    }


def test_retry_has_the_arithmetic_of_its_delay() -> None:
    delay = retries.delay_before_retry(
        expression=None, retried=1, response_headers=(("Retry-After", "10"),), now_ms=EPOCH_MS
    )
    retry = upcoming.Retry(at_ms=EPOCH_MS + 10 * SECOND, message=MESSAGE, number=2, delay=delay)
    expected: dict[str, Json] = {
        "kind": "retry",
        "at": "2026-01-01T00:00:10.000Z",
        "at_ms": EPOCH_MS + 10_000,
        "why": "retry 2 of 3: Retry-After: 10 -> 10s",
        **SUBJECT,
        "retry": 2,
        "retries": 3,
        "delay_ms": 10_000,
        "set_by": "Retry-After",
        "arithmetic": "Retry-After: 10 -> 10s",
    }
    assert item_view(retry) == expected
    # It went on while its failure was looked up.
    unknown = upcoming.Retry(at_ms=EPOCH_MS + 10 * SECOND, message=MESSAGE, number=2, delay=None)
    assert item_view(unknown) == expected | {
        "why": "retry 2 of 3",
        "delay_ms": None,
        "set_by": None,
        "arithmetic": None,
    }


FLOW = FlowState(
    key=FlowKey("k"),
    account_id=ACCOUNT_ID,
    parallelism=None,
    rate=2,
    period_ms=10_000,
    active=0,
    rate_count=2,
    window_start_ms=EPOCH_MS,
    paused=False,
    pinned_parallelism=False,
    pinned_rate=False,
)
LETTER = DeadLetter(
    dead_letter_id=DeadLetterId("1-0"), account_id=ACCOUNT_ID, message_id=MESSAGE.message_id, failed_ms=EPOCH_MS
)
ENDED = EndedMessage(message_id=MESSAGE.message_id, message=MESSAGE, ended_ms=EPOCH_MS - 55_000)
AT = EPOCH_MS + 5 * SECOND


@pytest.mark.parametrize(
    ("item", "kind", "why", "fields"),
    [
        pytest.param(
            upcoming.FirstAttempt(at_ms=AT, message=MESSAGE),
            "delivery",
            "the first attempt, 5s after the message was made",
            {**SUBJECT, "created": "2026-01-01T00:00:00.000Z", "created_ms": EPOCH_MS},
            id="delivery",
        ),
        pytest.param(
            upcoming.Answer(
                at_ms=AT,
                message=MESSAGE,
                attempt=1,
                started_ms=EPOCH_MS,
                rule_id=RuleId("rule_1"),
                has_timed_out=False,
            ),
            "answer",
            "attempt 1 is answered after 5s, the latency of rule_1",
            {**SUBJECT, "attempt": 1, "rule_id": "rule_1"},
            id="answer",
        ),
        pytest.param(
            upcoming.Answer(
                at_ms=AT, message=MESSAGE, attempt=2, started_ms=EPOCH_MS, rule_id=None, has_timed_out=True
            ),
            "timeout",
            "attempt 2 times out after 5s: a rule that is gone keeps it waiting longer",
            {**SUBJECT, "attempt": 2, "rule_id": None},
            id="timeout",
        ),
        pytest.param(
            upcoming.RateWindowEnd(at_ms=AT, flow=FLOW, waiting=1),
            "rate_window",
            "flow control key k lets 2 start per 10s, and a new period begins; 1 message waits",
            {"account_id": ACCOUNT_ID, "key": "k", "rate": 2, "period_ms": 10_000, "waiting": 1},
            id="rate-window",
        ),
        pytest.param(
            upcoming.DeduplicationExpiry(at_ms=AT, account_id=ACCOUNT_ID, key="id:x", message_id=MESSAGE.message_id),
            "deduplication_expiry",
            f"publishes with the key id:x are answered with {MESSAGE.message_id} until then",
            {"account_id": ACCOUNT_ID, "message_id": MESSAGE.message_id, "key": "id:x"},
            id="deduplication",
        ),
        pytest.param(
            upcoming.MessageExpiry(at_ms=AT, ended=ENDED),
            "message_expiry",
            "a message is found by its id for 1m after its end at 2025-12-31T23:59:05.000Z",
            SUBJECT,
            id="message",
        ),
        pytest.param(
            upcoming.DeadLetterExpiry(at_ms=AT, letter=LETTER),
            "dead_letter_expiry",
            "a dead letter is kept for 5s",
            {"account_id": ACCOUNT_ID, "message_id": MESSAGE.message_id, "dead_letter_id": "1-0"},
            id="dead-letter",
        ),
        pytest.param(
            upcoming.AccountTransition(at_ms=AT, account_id=ACCOUNT_ID, state="suspended"),
            "account",
            "the account's change to suspended is through",
            {"account_id": ACCOUNT_ID},
            id="account",
        ),
    ],
)
def test_item_says_what_is_due_and_why(item: upcoming.Item, kind: str, why: str, fields: dict[str, Json]) -> None:
    assert item_view(item) == {"kind": kind, "at": "2026-01-01T00:00:05.000Z", "at_ms": AT, "why": why, **fields}


# -- what waits -------------------------------------------------------------------------------


def test_held_message_has_its_place_and_what_holds_it() -> None:
    held = Held(
        message=MESSAGE,
        kind=HoldKind.FLOW_CONTROL,
        name="k",
        reason=HoldReason.RATE,
        since_ms=EPOCH_MS,
        position=2,
        length=3,
        maximum=2,
        holders=(MessageId("msg_a"),),
        period_ms=10_000,
        earliest_ms=AT,
    )
    assert waiting_view(held) == {
        "kind": "flow_control",
        "why": "flow control key k lets 2 start per 10s, this one at 2026-01-01T00:00:05.000Z at the earliest; "
        "it is number 2 in line",
        "since": "2026-01-01T00:00:00.000Z",
        "since_ms": EPOCH_MS,
        **SUBJECT,
        "name": "k",
        "reason": "rate",
        "position": 2,
        "length": 3,
        "holders": ["msg_a"],
        "earliest": "2026-01-01T00:00:05.000Z",
        "earliest_ms": AT,
    }


def test_attempt_under_way_has_its_timeout_as_the_last_moment() -> None:
    assert waiting_view(UnderWay(message=MESSAGE, attempt=1, since_ms=EPOCH_MS)) == {
        "kind": "attempt",
        "why": "attempt 1 is under way, for at most 1m",
        "since": "2026-01-01T00:00:00.000Z",
        "since_ms": EPOCH_MS,
        **SUBJECT,
        "attempt": 1,
    }


def test_preview_as_a_whole() -> None:
    found = Upcoming(now_ms=EPOCH_MS, until_ms=EPOCH_MS + HOUR, items=(), waiting=(), is_truncated=True)
    assert upcoming_view(found) == {
        "now": "2026-01-01T00:00:00.000Z",
        "now_ms": EPOCH_MS,
        "until": "2026-01-01T01:00:00.000Z",
        "until_ms": EPOCH_MS + HOUR,
        "items": [],
        "waiting": [],
        "truncated": True,
    }


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
    assert local_iso(LAST_MS, 24 * 60)[:4] == "9999"
    with pytest.raises(ValueError, match="outside"):
        local_iso(MAX_INSTANT_MS, 1)
