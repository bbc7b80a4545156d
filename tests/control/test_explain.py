"""The reason chain of a message as JSON: every kind of reason, and one sentence for every state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from emulator.control.explain import Chain
from emulator.core import message_facts
from emulator.core.model.messages import (
    NOT_SENT,
    OUTCOME_UNKNOWN,
    AttemptOutcome,
    CreatedBy,
    EventState,
    HoldReason,
    Via,
    abandoned_attempt,
)
from emulator.core.model.resources import ScriptedResponse
from emulator.core.record import DeadLetterId, GroupName, MessageId, QueueName, RuleId, ScheduleId
from emulator.queries.history import (
    Annotation,
    AnnotationKind,
    AnsweringRule,
    Entry,
    LoggedEvent,
    MessageLog,
    RecordedAttempt,
)
from emulator.wire import dialect
from emulator.wire.times import format_duration
from tests.control.twins import without_twins
from tests.harness import simulations
from tests.harness.emulators import InProcess, receiver, with_emulator
from tests.harness.simulations import (
    ACCOUNT_ID,
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    World,
    always,
    callback,
    changed,
    flow,
    unreachable,
)

URL = "https://one.test/a"
SVC = dialect.load("svc")
NOW, NOW_TEXT = EPOCH_MS, "2026-01-01T00:00:00.000Z"
LATER, LATER_TEXT = EPOCH_MS + 10 * SECOND, "2026-01-01T00:00:10.000Z"
RULE = AnsweringRule(rule_id=RuleId("rule_1"), url="https://one.test/*", method=None, forward_to=None, fault=None)
BUSY = replace(simulations.answered(503), via=Via.RULE)
FINE = replace(simulations.answered(200), via=Via.CAPTURE)
FINAL = simulations.answered(489, headers=(("Svc-NonRetryable-Error", "true"),))


def explained(
    world: World, message_id: MessageId, *entries: Entry, names: dialect.Dialect = SVC, **changes: Any
) -> Any:
    """The explanation of a message, changed so, with these entries behind its CREATED; the world stays as it is."""
    message = changed(world.messages[message_id], **changes)
    before = world.snapshot()
    log = MessageLog(message=message, entries=(noted("CREATED"), *entries))
    found = json.encode(Chain(world.simulation.state, log, names, redact=True).explanation())
    assert world.snapshot() == before
    return json.decode(found)


def reasons(*entries: Entry, names: dialect.Dialect = SVC, **changes: Any) -> list[Any]:
    """The reasons of a message with an attempt under way, behind the first one."""
    world = World(answering=None)
    message_id = world.publish(URL, max_retries=3, retry_delay="1000 * 10")
    others: list[Any]
    first, *others = explained(world, message_id, *entries, names=names, **changes)["reasons"]
    assert first["kind"] == "created"
    return [without_twins(each) for each in others]


def noted(state: str, at: int = 0, next_delivery: int | None = None) -> LoggedEvent:
    next_ms = None if next_delivery is None else EPOCH_MS + next_delivery
    return LoggedEvent(at_ms=EPOCH_MS + at, state=EventState(state), next_delivery_ms=next_ms)


def tried(
    number: int, outcome: AttemptOutcome, start: int = 0, end: int = 0, by: AnsweringRule | None = None
) -> RecordedAttempt:
    return RecordedAttempt(
        at_ms=EPOCH_MS + end, started_ms=EPOCH_MS + start, number=number, outcome=outcome, answered_by=by
    )


def remark(kind: AnnotationKind, name: str = "", at: int = 0, reason: HoldReason | None = None) -> Annotation:
    return Annotation(at_ms=EPOCH_MS + at, kind=kind, name=name, reason=reason)


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
    world = World(answering=None)
    message_id = world.publish(URL)
    assert explained(world, message_id, **changes) == {
        "message_id": message_id,
        "account_id": ACCOUNT_ID,
        "url": URL,
        "state": "ACTIVE",
        "summary": "Its attempt is under way.",
        "reasons": [
            {
                "at": NOW_TEXT,
                "at_ms": NOW,
                "kind": "created",
                "text": text,
                "by": changes.get("created_by", CreatedBy.PUBLISH).value,
                "url_group": changes.get("url_group"),
                "queue": changes.get("queue"),
                "schedule_id": changes.get("schedule_id"),
                "source_message_id": changes.get("source_message_id"),
                "dead_letter_id": changes.get("from_dead_letter"),
            }
        ],
    }


NO_LINE: dict[str, Any] = {"position": None, "length": None, "holders": [], "earliest_ms": None}
NO_ANSWER: dict[str, Any] = {"finished_ms": None, "due_ms": None, "via": None, "status": None, "error": None}
NO_RULE: dict[str, Any] = {"rule_id": None, "rule_url": None, "forward_to": None}
REPEATABLE = "publishes with the key id:x are answered with this message until 2026-01-01T00:10:00.000Z"
KIND = AnnotationKind


def row(id: str, kind: str, text: str, /, *entries: Entry, **fields: Any) -> Any:
    """A row: entries, the changes of the message among `fields` by `given`, and the reason that follows from both."""
    given = fields.pop("given", {})
    return pytest.param(entries, given, {"kind": kind, "text": text, **fields}, id=id)


@pytest.mark.parametrize(
    ("entries", "changes", "expected"),
    [
        row(
            *("deduplication", "deduplication", REPEATABLE),
            remark(KIND.DEDUPLICATION, "id:x"),
            **{"until_ms": NOW + 10 * MINUTE, "key": "id:x", "repeats": 0, "last_repeat_ms": None},
        ),
        row(
            *("repeats", "deduplication", f"{REPEATABLE}; 2 were so far, last at {LATER_TEXT}"),
            *(remark(KIND.DEDUPLICATION, "id:x"), remark(KIND.DEDUPLICATED, at=SECOND)),
            remark(KIND.DEDUPLICATED, at=10 * SECOND),
            **{"until_ms": NOW + 10 * MINUTE, "key": "id:x", "repeats": 2, "last_repeat_ms": LATER},
        ),
        row(
            *("not-applied", "not_applied", "Svc-Delay is not applied to a queued message"),
            given={"not_applied": ("Svc-Delay",)},
            headers=["Svc-Delay"],
        ),
        row(
            *("real-time", "real_time"),
            "not-before 2026-02-10T00:00:00.000Z is near real time, and the virtual clock is at "
            "2026-01-01T00:00:00.000Z: the message waits for 40d; was it computed from the real time?",
            given={"real_not_before_ms": NOW + 40 * 86_400_000},
            not_before_ms=NOW + 40 * 86_400_000,
        ),
        row(
            *("delayed", "delayed", f"no attempt before {LATER_TEXT}, a delay of 10s"),
            given={"not_before_ms": LATER},
            until_ms=LATER,
            delay_ms=10_000,
        ),
        row(
            *("held", "held", f"held by flow control key k (rate) until {LATER_TEXT}, for 10s"),
            *(remark(KIND.KEY_HOLD, "k", 0, HoldReason.RATE), noted("ACTIVE", 10 * SECOND)),
            **{"line": "flow_control", "name": "k", "reason": "rate", "until_ms": LATER, **NO_LINE},
        ),
        row(
            *("held-until-the-next-line", "held"),
            f"held by the account's global parallelism until {LATER_TEXT}, for 10s",
            *(remark(KIND.GLOBAL_HOLD, "", 0, HoldReason.PARALLELISM), remark(KIND.DEDUPLICATED, at=SECOND)),
            remark(KIND.QUEUE_HOLD, "q", 10 * SECOND, HoldReason.PAUSED),
            **{"line": "global", "name": None, "reason": "parallelism", "until_ms": LATER, **NO_LINE},
        ),
        row(
            *("held-until-canceled", "held", f"held by queue q (paused) until {LATER_TEXT}, for 10s"),
            *(remark(KIND.QUEUE_HOLD, "q", 0, HoldReason.PAUSED), noted("CANCEL_REQUESTED", 10 * SECOND)),
            noted("CANCELED", 10 * SECOND),
            **{"line": "queue", "name": "q", "reason": "paused", "until_ms": LATER, **NO_LINE},
        ),
        row(
            *("attempt", "attempt", "attempt 1 was answered 503 by rule_1 (https://one.test/*), after 10s"),
            *(noted("ACTIVE"), tried(1, BUSY, 0, 10 * SECOND, RULE)),
            **{**NO_ANSWER, "attempt": 1, "finished_ms": LATER, "via": "rule", "status": 503},
            **{"rule_id": "rule_1", "rule_url": "https://one.test/*", "forward_to": None},
        ),
        row(
            *("attempt-under-way", "attempt", "attempt 1 is under way"),
            noted("ACTIVE"),
            **{"attempt": 1, **NO_ANSWER, **NO_RULE},
        ),
        row(
            *("failure-callback", "callback", "the failure callback was published as msg_c"),
            remark(KIND.FAILURE_CALLBACK, "msg_c"),
            **{"message_id": "msg_c", "failure": True},
        ),
        row(
            *("callback", "callback", "the callback was published as msg_c"),
            remark(KIND.CALLBACK, "msg_c"),
            **{"message_id": "msg_c", "failure": False},
        ),
        row("cancel", "cancel_requested", "its cancellation was asked for", noted("CANCEL_REQUESTED")),
        row("canceled", "canceled", "canceled before its first attempt", noted("CANCELED"), attempts=0),
        row(
            *("retried", "dead_letter_removed", "the dead letter was published again as msg_n"),
            remark(KIND.PUBLISHED_AGAIN, "msg_n"),
            **{"cause": "retried", "message_id": "msg_n"},
        ),
        row(
            *("removed", "dead_letter_removed", "the dead letter was removed to make room for newer ones"),
            remark(KIND.DEAD_LETTER_REMOVED, "size"),
            **{"cause": "size", "message_id": None},
        ),
    ],
)
def test_reason_is_a_line_and_its_data(
    entries: tuple[Entry, ...], changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert reasons(*entries, **changes)[0] == {"at_ms": NOW, **expected}


@pytest.mark.parametrize(
    ("followed", "outcome", "expected"),
    [
        row(
            *("backoff", "backoff", f"retry 1 of 3 at {LATER_TEXT}: 1000 * 10 with retried = 0 is 10000 ms -> 10s"),
            noted("RETRY", 0, next_delivery=10 * SECOND),
            given=BUSY,
            **{"retry": 1, "retries": 3, "due_ms": LATER, "delay_ms": 10_000, "set_by": "expression"},
            **{"arithmetic": "1000 * 10 with retried = 0 is 10000 ms -> 10s", "header": None},
            expression="1000 * 10",
        ),
        row("delivered", "delivered", "delivered by attempt 1", noted("DELIVERED"), given=FINE, attempts=1),
        row(
            *("failed", "failed"),
            "failed after 1 attempt: the answer asked for no further attempt; it is dead letter 1-0",
            noted("FAILED"),
            given=FINAL,
            **{"attempts": 1, "cause": "non_retryable", "dead_letter_id": "1-0"},
        ),
        row(
            *("failed-retries", "failed", "failed after 1 attempt: all 3 retries were made; it is dead letter 1-0"),
            noted("FAILED"),
            given=BUSY,
            **{"attempts": 1, "cause": "retries_exhausted", "dead_letter_id": "1-0"},
        ),
        row("canceled", "canceled", "canceled after 1 attempt", noted("CANCELED"), given=BUSY, attempts=1),
    ],
)
def test_what_followed_an_attempt_is_a_line_and_its_data(
    followed: tuple[Entry, ...], outcome: AttemptOutcome, expected: dict[str, Any]
) -> None:
    letter = remark(AnnotationKind.DEAD_LETTER, "1-0")
    (_, found) = reasons(noted("ACTIVE"), tried(1, outcome), noted("ERROR"), *followed, letter)
    assert found == {"at_ms": NOW, **expected}


# -- the summary ------------------------------------------------------------------------------


def test_a_delayed_message_says_until_when() -> None:
    world = World()
    found = explained(world, world.publish(URL, delay_ms=HOUR))
    assert (found["state"], found["summary"], [each["kind"] for each in found["reasons"]]) == (
        "PENDING",
        "Waits for its first attempt at 2026-01-01T01:00:00.000Z, 1h after it was made.",
        ["created", "delayed"],
    )


def test_a_hold_that_lasts_tells_what_the_line_waits_for_now() -> None:
    world = World(answering=None)
    world.write_queue("q", paused=True)
    world.enqueue("q", URL)
    message_id = world.enqueue("q", URL)
    world.run_for(MINUTE)
    found = explained(world, message_id, remark(AnnotationKind.QUEUE_HOLD, "q", 0, HoldReason.PARALLELISM))
    why = "queue q is paused; it is number 2 in line"
    assert (found["state"], found["summary"]) == ("HELD", f"Is due and waits since {NOW_TEXT}: {why}.")
    assert [without_twins(each) for each in found["reasons"][1:]] == [
        {
            **{"at_ms": NOW, "kind": "held", "text": f"waits since then: {why}", "line": "queue", "name": "q"},
            **{"reason": "paused", "until_ms": None, **NO_LINE, "position": 2, "length": 2},
        }
    ]


def test_an_attempt_under_way_stands_where_it_started() -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    world.cancel(message_id)
    found = explained(world, message_id, noted("ACTIVE"), noted("CANCEL_REQUESTED"))
    last = "it is the last one, because the cancellation of the message was asked for"
    assert (found["state"], found["summary"]) == ("ACTIVE", f"Attempt 1 is under way since {NOW_TEXT}; {last}.")
    assert [each["kind"] for each in found["reasons"]] == ["created", "attempt", "cancel_requested"]


def test_a_latency_tells_when_the_answer_comes_and_whose_it_is() -> None:
    world = World()
    rule_id = world.add_rule(URL, responses=(ScriptedResponse(latency_ms=10 * SECOND),))
    found = explained(world, world.publish(URL), noted("ACTIVE"))
    (_, attempt) = found["reasons"]
    held_back = f"{rule_id} holds its answer back until {LATER_TEXT}"
    assert found["summary"] == f"Attempt 1 is under way, and {held_back}."
    assert attempt["text"] == f"attempt 1 is under way; {held_back}"
    assert (attempt["status"], attempt["due_ms"], attempt["rule_id"]) == (None, LATER, rule_id)


def test_a_retry_is_summed_up_by_the_attempt_before_it_and_its_arithmetic() -> None:
    world = World(answering=always(BUSY))
    message_id = world.publish(URL, max_retries=3, retry_delay="1000 * 10")
    retry = noted("RETRY", next_delivery=10 * SECOND)
    found = explained(world, message_id, noted("ACTIVE"), tried(1, BUSY, by=RULE), noted("ERROR"), retry)
    assert (found["state"], found["summary"]) == (
        "RETRYING",
        f"Waits for retry 1 of 3 at {LATER_TEXT}: attempt 1 was answered 503 by rule_1 (https://one.test/*); "
        "1000 * 10 with retried = 0 is 10000 ms -> 10s.",
    )


@pytest.mark.parametrize(
    ("outcome", "end", "most", "summary"),
    [
        pytest.param(
            FINE,
            "DELIVERED",
            3,
            f"Delivered at {LATER_TEXT}: attempt 1 was answered 200 by rule_1 (https://one.test/*).",
            id="delivered",
        ),
        *(
            pytest.param(
                BUSY,
                "FAILED",
                most,
                f"Failed at {LATER_TEXT}: attempt 1 was answered 503 by rule_1 (https://one.test/*); {why}.",
                id=f"failed-{most}",
            )
            for most, why in ((0, "it has no retries"), (1, "its only retry was made"), (2, "all 2 retries were made"))
        ),
        pytest.param(FINAL, "CANCELED", 3, f"Canceled at {LATER_TEXT} after 1 attempt.", id="canceled"),
        *(
            # D-780
            pytest.param(
                abandoned_attempt(error),
                "CANCELED",
                3,
                f"Canceled at {LATER_TEXT}: attempt 1 was abandoned: {error}.",
                id=f"abandoned-{number}",
            )
            for number, error in enumerate((OUTCOME_UNKNOWN, NOT_SENT))
        ),
    ],
)
def test_an_end_is_summed_up(outcome: AttemptOutcome, end: str, most: int, summary: str) -> None:
    world = World()
    entries = (noted("ACTIVE"), tried(1, replace(outcome, via=Via.RULE), by=RULE), noted(end, 10 * SECOND))
    found = explained(world, world.publish(URL), *entries, max_retries=most)
    assert (found["state"], found["summary"]) == (end, summary)


@pytest.mark.parametrize(
    ("entries", "state"),
    [
        pytest.param((noted("FAILED", 10 * SECOND),), "FAILED", id="failed"),
        pytest.param((noted("ERROR"), noted("RETRY", next_delivery=10 * SECOND)), "RETRYING", id="retrying"),
        pytest.param(
            (noted("RETRY", next_delivery=0), noted("ACTIVE"), tried(2, FINE), noted("DELIVERED", 10 * SECOND)),
            "DELIVERED",
            id="delivered",
        ),
    ],
)
def test_an_attempt_whose_signature_was_refused_says_which_keys_to_compare(
    entries: tuple[Entry, ...], state: str
) -> None:
    """D-804. As long as it is not over: a message that was delivered says it of that attempt alone."""
    hint = "its SVC_CURRENT_SIGNING_KEY and SVC_NEXT_SIGNING_KEY have to be those that `svc-emulator env` prints"
    refused = simulations.answered(401)
    world = World(answering=None if state != "RETRYING" else always(refused))
    message_id = world.publish(URL, max_retries=3, retry_delay="1000 * 10")
    result = explained(world, message_id, noted("ACTIVE"), tried(1, refused), *entries)
    attempt = next(each for each in result["reasons"] if each["kind"] == "attempt")
    assert attempt["text"] == (
        f"attempt 1 was answered 401 by the destination; if the application refuses the signature, {hint}"
    )
    if state == "RETRYING":
        assert result["state"] == state
    is_over = state == "DELIVERED"
    assert result["summary"].endswith(f" If the application refuses the signature, {hint}.") is not is_over


# -- the chain --------------------------------------------------------------------------------


def test_the_delay_that_is_explained_is_the_one_that_was_set() -> None:
    """One function does both; this holds for every source of a delay."""
    answers = (
        simulations.answered(503, headers=(("Retry-After", "10"),)),
        unreachable(),
        simulations.answered(500),
        simulations.answered(429, headers=(("X-RateLimit-Reset", "1m"),)),
        simulations.answered(503, headers=(("Retry-After", "1767225600"),)),
    )
    for expression in (None, "1000 * (retried + 1)", "0 - 1", "1e300"):
        for outcome in answers:
            world = World(answering=always(outcome))
            message_id = world.publish(URL, retry_delay=expression, max_retries=1)
            (scheduled,) = world.all(message_facts.RetryScheduled)
            entries = (noted("ACTIVE"), tried(1, outcome), noted("ERROR"))
            retry = noted("RETRY", next_delivery=scheduled.due_ms - EPOCH_MS)
            backoff = explained(world, message_id, *entries, retry)["reasons"][-1]
            # What follows the arrow is the delay as it was computed anew.
            delay = format_duration(scheduled.due_ms - scheduled.at_ms)
            assert (backoff["set_by"], backoff["arithmetic"].rpartition(" -> ")[2]) == (scheduled.reason, delay)


# -- what is recorded with the message itself -------------------------------------------------


def test_a_message_knows_what_made_it() -> None:
    world = World(answering=always(simulations.answered(500)))
    world.publish(URL, max_retries=0, callback=callback("https://cb.test/"), failure_callback=callback(f"{URL}/f"))
    world.write_schedule("* * * * *", "https://two.test/s", max_retries=0)
    world.run_for(MINUTE)
    made = {message.url: message.source.created_by for message in world.messages.values()}
    assert made == {
        URL: CreatedBy.PUBLISH,
        "https://cb.test/": CreatedBy.CALLBACK,
        f"{URL}/f": CreatedBy.FAILURE_CALLBACK,
        "https://two.test/s": CreatedBy.SCHEDULE,
    }
    (again,) = world.retry_dead_letters(world.dead_letter_ids()[0])
    assert world.messages[again.message_id].source.created_by is CreatedBy.DEAD_LETTER


def test_what_a_queue_does_not_apply_is_recorded() -> None:
    """D-021."""
    world = World(answering=None)
    options: dict[str, Any] = {"delay_ms": HOUR, "not_before_ms": EPOCH_MS + HOUR, "flow_control": flow("k", rate=1)}
    message_id = world.enqueue("q", URL, **options)
    names = ("Svc-Delay", "Svc-Not-Before", "Svc-Flow-Control-Key")
    assert world.messages[message_id].source.not_applied == names
    assert world.messages[world.enqueue("q", URL, delay_ms=0)].source.not_applied == ()


def test_a_deduplicated_publish_is_a_fact_that_changes_no_state() -> None:
    """D-213."""
    world = World()
    message_id = world.publish(URL, deduplication_id="x")
    before = world.snapshot()
    world.publish(URL, deduplication_id="x")
    assert world.facts[-1] == message_facts.PublishDeduplicated(message_id=message_id, at_ms=EPOCH_MS)
    assert world.snapshot() == before


# -- as answered -------------------------------------------------------------------------------


HOOK, FAILING = "https://api.test/hook", "https://down.test/hook"


async def ask(emulator: InProcess, message_id: str, query: str = "") -> Any:
    answer = await emulator.control("GET", f"/messages/{message_id}/explain{query}")
    assert answer.status == 200, answer.body
    return answer.json


def lines(explanation: Any) -> list[tuple[str, str]]:
    return [(reason["kind"], reason["text"]) for reason in explanation["reasons"]]


# -- why a message is where it is -------------------------------------------------------------


@with_emulator()
async def test_a_message_is_explained_from_its_publish_to_its_dead_letter(emulator: InProcess) -> None:
    busy = await emulator.rule(FAILING, respond={"status": 503, "headers": {"Retry-After": "10"}}, times=1)
    down = await emulator.rule(FAILING, fault="refused")
    message_id = await emulator.publish(
        FAILING, {"Svc-Retries": "1", "Svc-Delay": "1m", "Svc-Failure-Callback": "https://cb.test/"}
    )
    await emulator.advance("1h")
    await emulator.control("DELETE", "/destinations")

    found = await ask(emulator, message_id)

    letter = (await emulator.get("/v2/dlq")).json["messages"][0]["dlqId"]
    callback = found["reasons"][-1]["message_id"]
    assert lines(found) == [
        ("created", f"published by 203.0.113.7 to {FAILING}"),
        ("delayed", "no attempt before 2026-01-01T00:01:00.000Z, a delay of 1m"),
        ("attempt", f"attempt 1 was answered 503 by {busy} ({FAILING})"),
        ("backoff", "retry 1 of 1 at 2026-01-01T00:01:10.000Z: Retry-After: 10 -> 10s"),
        ("attempt", f"attempt 2 failed: connection refused, as {down} ({FAILING}, fault refused) says"),
        ("failed", f"failed after 2 attempts: its only retry was made; it is dead letter {letter}"),
        ("callback", f"the failure callback was published as {callback}"),
    ]
    assert (found["state"], found["message_id"]) == ("FAILED", message_id)
    assert found["summary"].startswith("Failed at 2026-01-01T00:01:10.000Z: attempt 2 failed: connection refused")
    assert lines(await ask(emulator, callback))[0] == (
        "created",
        f"published as the failure callback of {message_id} to https://cb.test/",
    )

    again = (await emulator.post(f"/v2/dlq/retry/{letter}")).json["messageId"]
    assert lines(await ask(emulator, message_id))[-1] == (
        "dead_letter_removed",
        f"the dead letter was published again as {again}",
    )
    assert (await ask(emulator, again))["reasons"][0]["dead_letter_id"] == letter


@with_emulator(dialect="upstash")
async def test_what_a_queue_does_not_apply_is_explained_in_the_dialects_words(emulator: InProcess) -> None:
    """D-021."""
    headers = {
        "Upstash-Delay": "1h",
        "Upstash-Flow-Control-Key": "k",
        "Upstash-Flow-Control-Value": "rate=1",
    }
    answer = await emulator.post(f"/v2/enqueue/q/{HOOK}", headers)
    assert lines(await ask(emulator, answer.json["messageId"]))[1] == (
        "not_applied",
        "Upstash-Delay, Upstash-Flow-Control-Key are not applied to a queued message",
    )


@with_emulator()
async def test_a_held_message_says_what_it_waits_for_and_later_how_long_it_did(emulator: InProcess) -> None:
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    await emulator.post("/v2/queues/q/pause")
    message_id = (await emulator.post(f"/v2/enqueue/q/{HOOK}")).json["messageId"]
    await emulator.advance("1m")

    waits = await ask(emulator, message_id)
    await emulator.post("/v2/queues/q/resume")
    ended = await ask(emulator, message_id)

    assert waits["state"] == "HELD"
    assert waits["summary"] == "Is due and waits since 2026-01-01T00:00:00.000Z: queue q is paused; it is next in line."
    assert ended["state"] == "DELIVERED"
    assert lines(ended)[1] == ("held", "held by queue q (paused) until 2026-01-01T00:01:00.000Z, for 1m")


@with_emulator()
async def test_a_deduplicated_publish_is_told_by_the_message_that_stands_for_it(emulator: InProcess) -> None:
    """D-213."""
    message_id = await emulator.publish(HOOK, {"Svc-Deduplication-Id": "order-1"})
    await emulator.advance("1m")
    assert (await emulator.post(f"/v2/publish/{HOOK}", {"Svc-Deduplication-Id": "order-1"})).status == 202
    assert lines(await ask(emulator, message_id))[1] == (
        "deduplication",
        "publishes with the key id:order-1 are answered with this message until 2026-01-01T00:10:00.000Z; "
        "1 was so far, last at 2026-01-01T00:01:00.000Z",
    )


@with_emulator()
async def test_who_answered_is_told_for_a_batch_a_group_and_a_schedule(emulator: InProcess) -> None:
    """D-677."""
    with receiver() as destination:
        await emulator.rule("https://front.test/*", forward_to=destination.url)
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": f"{destination.url}/hook"}]})
        await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"})
        batch = [{"destination": "g"}, {"destination": "https://front.test/x"}]
        answers = (await emulator.post("/v2/batch", (), batch)).json
        await emulator.advance("1h")
        (scheduled,) = await emulator.deliveries(HOOK)
        (forwarded,) = await emulator.deliveries("https://front.test/x")
        explained = [
            lines(await ask(emulator, message_id))
            for message_id in (answers[0][0]["messageId"], answers[1]["messageId"], scheduled["message_id"])
        ]
    assert (forwarded["via"], forwarded["forwarded_to"]) == ("rule", destination.url)
    assert "forwarded_to" not in scheduled
    assert [each[:2] for each in explained] == [
        [
            (
                "created",
                f"published in a batch by 203.0.113.7 to URL group g, for its endpoint {destination.url}/hook",
            ),
            ("attempt", "attempt 1 was answered 200 by the destination"),
        ],
        [
            ("created", "published in a batch by 203.0.113.7 to https://front.test/x"),
            (
                "attempt",
                f"attempt 1 was answered 200 by {destination.url}, to which rule_1 (https://front.test/*) forwards",
            ),
        ],
        [
            ("created", f"published by schedule hourly to {HOOK}"),
            (
                "attempt",
                "attempt 1 was answered 200 by the emulator, which captured it because the destination is external",
            ),
        ],
    ]


@with_emulator()
async def test_an_explanation_lasts_though_the_message_is_forgotten_by_the_service(emulator: InProcess) -> None:
    """D-212."""
    message_id = await emulator.publish(HOOK)
    await emulator.advance("400d")
    await emulator.control("DELETE", "/deliveries")
    assert (await emulator.get(f"/v2/messages/{message_id}")).status == 404
    assert (await ask(emulator, message_id))["state"] == "DELIVERED"


@with_emulator()
async def test_an_unknown_message_is_not_found_and_neither_is_one_of_another_world(emulator: InProcess) -> None:
    await emulator.control("POST", "/worlds", {"id": "w", "epoch": EPOCH_MS, "seed": 9})
    message_id = await emulator.publish(HOOK)
    for target in ("/messages/msg_nobody/explain", f"/messages/{message_id}/explain?world=w"):
        answer = await emulator.control("GET", target)
        assert (answer.status, answer.json["error"]) == (
            404,
            f"message {target.split('/')[2]} not found",
        )
    assert (await ask(emulator, message_id, "?world=default"))["state"] == "DELIVERED"
    await emulator.control("POST", "/reset")
    assert (await emulator.control("GET", f"/messages/{message_id}/explain")).status == 404


@with_emulator()
async def test_a_restored_world_explains_as_the_one_that_was_saved(emulator: InProcess) -> None:
    await emulator.rule(FAILING, respond={"status": 503})
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    await emulator.post("/v2/queues/q/pause")
    failing = await emulator.publish(FAILING, {"Svc-Retries": "1"})
    held = (await emulator.post(f"/v2/enqueue/q/{HOOK}")).json["messageId"]
    before = [await ask(emulator, each) for each in (failing, held)]
    await emulator.control("POST", "/snapshots", {"name": "s"})
    await emulator.advance("1d")
    await emulator.control("POST", "/snapshots/s/restore")
    assert [await ask(emulator, each) for each in (failing, held)] == before


# -- schedules --------------------------------------------------------------------------------


@with_emulator()
async def test_a_schedule_is_explained(emulator: InProcess) -> None:
    """D-263."""
    await emulator.post("/v2/schedules/https://a.test/", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "s"})

    async def explained() -> Any:
        return (await emulator.control("GET", "/schedules/s/explain")).json

    async def limit(most: int) -> None:
        account_id = emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_day_hard": most})

    assert (await explained())["summary"] == "Has not fired yet. It fires next at 2026-01-01T01:00:00.000Z."
    await emulator.advance("1h")
    fired = await explained()
    assert fired["summary"] == (
        "Fired last at 2026-01-01T01:00:00.000Z: it made 1 message. It fires next at 2026-01-01T02:00:00.000Z."
    )
    assert list(fired["reasons"][1]["messages"].values()) == ["SUCCESS"]
    await limit(0)
    await emulator.advance("1h")
    refusal = "quota maxRequestsPerDay exceeded, current limit: 0"
    refused = await explained()
    assert refused["summary"] == (
        f"Fired last at 2026-01-01T02:00:00.000Z: it made no message, {refusal}. It fires next at "
        f"2026-01-01T03:00:00.000Z. As things are, that would make no message: {refusal}."
    )
    assert lines(refused) == [
        ("created", "written by 203.0.113.7, to https://a.test/ at 0 * * * *"),
        ("refused", f"it made no message, {refusal}"),
        ("due", "it fires next"),
        ("would_be_refused", f"a firing now would make no message: {refusal}"),
    ]
    await limit(9)
    await emulator.post("/v2/schedules/s/pause")
    paused = await explained()
    assert (paused["paused"], paused["reasons"][-1]["kind"]) == (True, "paused")
    unknown = await emulator.control("GET", "/schedules/nobody/explain")
    assert (unknown.status, unknown.json["error"]) == (404, "schedule nobody not found")
