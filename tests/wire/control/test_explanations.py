"""The reason chain as JSON: every kind of reason, and one sentence for every state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.model.answers import Via
from emulator.core.model.messages import CreatedBy, HoldKind, HoldReason, Message, Phase
from emulator.core.model.names import DeadLetterId, GroupName, MessageId, QueueName, RuleId, ScheduleId
from emulator.core.record import whole
from emulator.core.rules import retries
from emulator.queries import explanations
from emulator.queries.explanations import Explanation, FailureCause, Reason
from emulator.queries.message_log import AnsweringRule
from emulator.queries.waiting import Held
from emulator.wire import dialect
from emulator.wire.control.explanations import explanation_view, reason_view, summary
from tests.harness import simulations
from tests.harness.simulations import ACCOUNT_ID, EPOCH_MS, HOUR, SECOND, World

URL = "https://one.test/a"
SVC = dialect.load("svc")
NOW, NOW_TEXT = EPOCH_MS, "2026-01-01T00:00:00.000Z"
LATER, LATER_TEXT = EPOCH_MS + 10 * SECOND, "2026-01-01T00:00:10.000Z"
RULE = AnsweringRule(rule_id=RuleId("rule_1"), url="https://one.test/*", method=None, forward_to=None, fault=None)
BUSY = replace(simulations.answered(503), via=Via.RULE)
FINE = replace(simulations.answered(200), via=Via.CAPTURE)
DELAY = retries.delay_before_retry(expression="1000 * 10", retried=0, response_headers=(), now_ms=NOW)


def message(**changes: Any) -> Message:
    world = World(answering=None)
    return replace(whole(world.messages[world.publish(URL, max_retries=3)]), **changes)


MESSAGE = message()
HELD = Held(
    message=MESSAGE,
    kind=HoldKind.QUEUE,
    name="q",
    reason=HoldReason.PAUSED,
    since_ms=NOW,
    position=2,
    length=3,
    maximum=1,
    holders=(),
)


# -- reasons ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({}, f"published by 203.0.113.7 to {URL}", id="publish"),
        pytest.param(
            {"created_by": CreatedBy.BATCH, "queue": QueueName("q")},
            f"published in a batch by 203.0.113.7 to {URL}, through queue q",
            id="batch",
        ),
        pytest.param(
            {"created_by": CreatedBy.SCHEDULE, "schedule_id": ScheduleId("daily"), "url_group": GroupName("g")},
            f"published by schedule daily to URL group g, for its endpoint {URL}",
            id="schedule",
        ),
        pytest.param(
            {"created_by": CreatedBy.CALLBACK, "source_message_id": MessageId("msg_s")},
            f"published as the callback of msg_s to {URL}",
            id="callback",
        ),
        pytest.param(
            {"created_by": CreatedBy.FAILURE_CALLBACK, "source_message_id": MessageId("msg_s")},
            f"published as the failure callback of msg_s to {URL}",
            id="failure-callback",
        ),
        pytest.param(
            {"created_by": CreatedBy.DEAD_LETTER, "from_dead_letter": DeadLetterId("1-0")},
            f"published again from dead letter 1-0 to {URL}",
            id="dead-letter",
        ),
    ],
)
def test_message_tells_what_made_it(changes: dict[str, Any], text: str) -> None:
    made = message(**changes)
    assert reason_view(explanations.Created(at_ms=NOW, message=made), made, SVC) == {
        "at": NOW_TEXT,
        "at_ms": NOW,
        "kind": "created",
        "text": text,
        "by": made.created_by.value,
        "url_group": made.url_group,
        "queue": made.queue,
        "schedule_id": made.schedule_id,
        "source_message_id": made.source_message_id,
        "dead_letter_id": made.from_dead_letter,
    }


@pytest.mark.parametrize(
    ("reason", "kind", "text", "fields"),
    [
        pytest.param(
            explanations.Deduplicated(at_ms=NOW, key="id:x", until_ms=LATER, count=0, last_ms=None),
            "deduplication",
            f"publishes with the key id:x are answered with this message until {LATER_TEXT}",
            {
                "key": "id:x",
                "until": LATER_TEXT,
                "until_ms": LATER,
                "repeats": 0,
                "last_repeat": None,
                "last_repeat_ms": None,
            },
            id="deduplication",
        ),
        pytest.param(
            explanations.NotApplied(at_ms=NOW, names=("Svc-Delay",)),
            "not_applied",
            "Svc-Delay is not applied to a queued message",
            {"headers": ["Svc-Delay"]},
            id="not-applied",
        ),
        pytest.param(
            explanations.Delayed(at_ms=NOW, until_ms=LATER),
            "delayed",
            f"no attempt before {LATER_TEXT}, a delay of 10s",
            {"until": LATER_TEXT, "until_ms": LATER, "delay_ms": 10_000},
            id="delayed",
        ),
        pytest.param(
            explanations.HeldBack(
                at_ms=NOW, kind=HoldKind.FLOW_CONTROL, name="k", reason=HoldReason.RATE, until_ms=LATER
            ),
            "held",
            f"held by flow control key k (rate) until {LATER_TEXT}, for 10s",
            {
                "line": "flow_control",
                "name": "k",
                "reason": "rate",
                "until": LATER_TEXT,
                "until_ms": LATER,
                "position": None,
                "length": None,
                "holders": [],
                "earliest": None,
                "earliest_ms": None,
            },
            id="held",
        ),
        pytest.param(
            explanations.HeldBack(
                at_ms=NOW, kind=HoldKind.QUEUE, name="q", reason=HoldReason.PAUSED, until_ms=None, now=HELD
            ),
            "held",
            "waits since then: queue q is paused; it is number 2 in line",
            {
                "line": "queue",
                "name": "q",
                "reason": "paused",
                "until": None,
                "until_ms": None,
                "position": 2,
                "length": 3,
                "holders": [],
                "earliest": None,
                "earliest_ms": None,
            },
            id="waits",
        ),
        pytest.param(
            explanations.Attempted(at_ms=NOW, number=1, finished_ms=LATER, outcome=BUSY, answered_by=RULE),
            "attempt",
            "attempt 1 was answered 503 by rule_1 (https://one.test/*), after 10s",
            {
                "attempt": 1,
                "finished": LATER_TEXT,
                "finished_ms": LATER,
                "due": None,
                "due_ms": None,
                "via": "rule",
                "status": 503,
                "error": None,
                "rule_id": "rule_1",
                "rule_url": "https://one.test/*",
                "forward_to": None,
            },
            id="attempt",
        ),
        pytest.param(
            explanations.BackedOff(at_ms=NOW, number=1, due_ms=LATER, delay=DELAY),
            "backoff",
            f"retry 1 of 3 at {LATER_TEXT}: 1000 * 10 with retried = 0 is 10000 ms -> 10s",
            {
                "retry": 1,
                "retries": 3,
                "due": LATER_TEXT,
                "due_ms": LATER,
                "delay_ms": 10_000,
                "set_by": "expression",
                "arithmetic": "1000 * 10 with retried = 0 is 10000 ms -> 10s",
                "header": None,
                "expression": "1000 * 10",
            },
            id="backoff",
        ),
        pytest.param(
            explanations.CalledBack(at_ms=NOW, message_id=MessageId("msg_c"), is_failure=True),
            "callback",
            "the failure callback was published as msg_c",
            {"message_id": "msg_c", "failure": True},
            id="callback",
        ),
        pytest.param(
            explanations.CancelAsked(at_ms=NOW), "cancel_requested", "its cancellation was asked for", {}, id="cancel"
        ),
        pytest.param(
            explanations.Delivered(at_ms=NOW, attempts=2),
            "delivered",
            "delivered by attempt 2",
            {"attempts": 2},
            id="delivered",
        ),
        pytest.param(
            explanations.Failed(
                at_ms=NOW, attempts=1, cause=FailureCause.NON_RETRYABLE, dead_letter_id=DeadLetterId("1-0")
            ),
            "failed",
            "failed after 1 attempt: the answer asked for no further attempt; it is dead letter 1-0",
            {"attempts": 1, "cause": "non_retryable", "dead_letter_id": "1-0"},
            id="failed",
        ),
        pytest.param(
            explanations.Canceled(at_ms=NOW, attempts=0),
            "canceled",
            "canceled before its first attempt",
            {"attempts": 0},
            id="canceled",
        ),
        pytest.param(
            explanations.DeadLetterRemoved(at_ms=NOW, cause="retried", published_as=MessageId("msg_n")),
            "dead_letter_removed",
            "the dead letter was published again as msg_n",
            {"cause": "retried", "message_id": "msg_n"},
            id="retried",
        ),
        pytest.param(
            explanations.DeadLetterRemoved(at_ms=NOW, cause="size", published_as=None),
            "dead_letter_removed",
            "the dead letter was removed to make room for newer ones",
            {"cause": "size", "message_id": None},
            id="removed",
        ),
    ],
)
def test_reason_is_a_line_and_its_data(reason: Reason, kind: str, text: str, fields: dict[str, Any]) -> None:
    assert reason_view(reason, MESSAGE, SVC) == {"at": NOW_TEXT, "at_ms": NOW, "kind": kind, "text": text, **fields}


def test_repeats_are_counted() -> None:
    view = reason_view(
        explanations.Deduplicated(at_ms=NOW, key="id:x", until_ms=LATER, count=2, last_ms=LATER), MESSAGE, SVC
    )
    assert str(view["text"]).endswith(f"; 2 were so far, last at {LATER_TEXT}")
    assert (view["repeats"], view["last_repeat_ms"]) == (2, LATER)


def test_headers_have_the_names_of_the_dialect() -> None:
    reason = explanations.NotApplied(at_ms=NOW, names=("Svc-Delay", "Svc-Flow-Control-Key"))
    assert reason_view(reason, MESSAGE, dialect.load("upstash"))["headers"] == [
        "Upstash-Delay",
        "Upstash-Flow-Control-Key",
    ]


@pytest.mark.parametrize(
    ("outcome", "due_ms", "text"),
    [
        pytest.param(None, None, "attempt 1 is under way", id="network"),
        pytest.param(
            None, LATER, f"attempt 1 is under way; rule_1 holds its answer back until {LATER_TEXT}", id="rule"
        ),
    ],
)
def test_attempt_under_way(outcome: None, due_ms: int | None, text: str) -> None:
    reason = explanations.Attempted(
        at_ms=NOW, number=1, finished_ms=None, outcome=outcome, answered_by=RULE if due_ms else None, due_ms=due_ms
    )
    view = reason_view(reason, MESSAGE, SVC)
    assert (view["text"], view["status"], view["due_ms"]) == (text, None, due_ms)


# -- the summary ------------------------------------------------------------------------------

ATTEMPT = explanations.Attempted(at_ms=NOW, number=4, finished_ms=NOW, outcome=BUSY, answered_by=RULE)


def explained(phase: Phase, *reasons: Reason, of: Message = MESSAGE) -> Explanation:
    return Explanation(now_ms=NOW, message=of, phase=phase, reasons=reasons)


@pytest.mark.parametrize(
    ("explanation", "expected"),
    [
        pytest.param(
            explained(Phase.PENDING, of=message(not_before_ms=NOW + HOUR)),
            "Waits for its first attempt at 2026-01-01T01:00:00.000Z, 1h after it was made.",
            id="pending",
        ),
        pytest.param(
            explained(
                Phase.HELD,
                explanations.HeldBack(
                    at_ms=NOW, kind=HoldKind.QUEUE, name="q", reason=HoldReason.PAUSED, until_ms=None, now=HELD
                ),
            ),
            f"Is due and waits since {NOW_TEXT}: queue q is paused; it is number 2 in line.",
            id="held",
        ),
        pytest.param(
            explained(
                Phase.ACTIVE,
                explanations.Attempted(at_ms=NOW, number=2, finished_ms=None, outcome=None, answered_by=None),
            ),
            f"Attempt 2 is under way since {NOW_TEXT}.",
            id="active",
        ),
        pytest.param(
            explained(
                Phase.ACTIVE,
                explanations.Attempted(
                    at_ms=NOW, number=2, finished_ms=None, outcome=None, answered_by=RULE, due_ms=LATER
                ),
            ),
            f"Attempt 2 is under way, and rule_1 holds its answer back until {LATER_TEXT}.",
            id="active-by-rule",
        ),
        pytest.param(
            explained(Phase.RETRYING, ATTEMPT, explanations.BackedOff(at_ms=NOW, number=1, due_ms=LATER, delay=DELAY)),
            f"Waits for retry 1 of 3 at {LATER_TEXT}: attempt 4 was answered 503 by rule_1 (https://one.test/*); "
            "1000 * 10 with retried = 0 is 10000 ms -> 10s.",
            id="retrying",
        ),
        pytest.param(
            explained(Phase.DELIVERED, replace(ATTEMPT, outcome=FINE), explanations.Delivered(at_ms=LATER, attempts=4)),
            f"Delivered at {LATER_TEXT}: attempt 4 was answered 200 by the emulator, which captured it because the "
            "destination is external.",
            id="delivered",
        ),
        pytest.param(
            explained(
                Phase.FAILED,
                ATTEMPT,
                explanations.Failed(at_ms=LATER, attempts=4, cause=FailureCause.RETRIES_EXHAUSTED, dead_letter_id=None),
            ),
            f"Failed at {LATER_TEXT}: attempt 4 was answered 503 by rule_1 (https://one.test/*); "
            "all 3 retries are made.",
            id="failed",
        ),
        pytest.param(
            explained(Phase.CANCELED, ATTEMPT, explanations.Canceled(at_ms=LATER, attempts=4)),
            f"Canceled at {LATER_TEXT} after 4 attempts.",
            id="canceled",
        ),
    ],
)
def test_summary_is_one_sentence(explanation: Explanation, expected: str) -> None:
    assert summary(explanation) == expected


@pytest.mark.parametrize(
    ("retries_at_most", "why"), [(0, "it has no retries"), (1, "its retry is made"), (2, "all 2 retries are made")]
)
def test_failure_says_how_many_retries_there_were(retries_at_most: int, why: str) -> None:
    failed = explanations.Failed(at_ms=NOW, attempts=1, cause=FailureCause.RETRIES_EXHAUSTED, dead_letter_id=None)
    assert why in summary(explained(Phase.FAILED, ATTEMPT, failed, of=message(max_retries=retries_at_most)))


def test_explanation_as_a_whole() -> None:
    made = explanations.Created(at_ms=NOW, message=MESSAGE)
    view = explanation_view(explained(Phase.ACTIVE, made), SVC)
    assert view == {
        "message_id": MESSAGE.message_id,
        "account_id": ACCOUNT_ID,
        "url": URL,
        "state": "ACTIVE",
        "summary": "Its attempt is under way.",
        "reasons": [reason_view(made, MESSAGE, SVC)],
    }
