"""The reason chain of a message, from what is recorded of it and from what waits now."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.model.answers import AttemptOutcome, ScriptedResponse
from emulator.core.model.messages import CreatedBy, EventState, HoldKind, HoldReason, Phase
from emulator.core.model.names import DeadLetterId, MessageId
from emulator.core.rules.retries import RetryReason
from emulator.queries import explanations
from emulator.queries.explanations import (
    Attempted,
    BackedOff,
    CalledBack,
    CancelAsked,
    Canceled,
    Created,
    DeadLetterRemoved,
    Deduplicated,
    Delayed,
    Delivered,
    Explanation,
    Failed,
    FailureCause,
    HeldBack,
    NotApplied,
)
from emulator.queries.message_log import (
    Annotation,
    AnnotationKind,
    AnsweringRule,
    Entry,
    LoggedEvent,
    MessageLog,
    RecordedAttempt,
)
from tests.harness.simulations import (
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    World,
    always,
    answered,
    callback,
    flow,
    unreachable,
)

URL = "https://one.test/a"
BUSY = answered(503, headers=(("Retry-After", "10"),))


def explained(world: World, message_id: MessageId, *entries: Entry) -> Explanation:
    """The explanation of a message with these entries behind its CREATED."""
    story = MessageLog(message=world.messages[message_id], entries=(noted("CREATED"), *entries))
    before = world.snapshot()
    found = explanations.explain(world.simulation.state, story)
    assert world.snapshot() == before
    assert found.reasons[0] == Created(at_ms=EPOCH_MS, message=world.messages[message_id])
    return replace(found, reasons=found.reasons[1:])


def noted(state: str, at: int = 0, next_delivery: int | None = None) -> LoggedEvent:
    next_ms = None if next_delivery is None else EPOCH_MS + next_delivery
    return LoggedEvent(at_ms=EPOCH_MS + at, state=EventState(state), next_delivery_ms=next_ms)


def tried(number: int, outcome: AttemptOutcome, start: int = 0, end: int = 0) -> RecordedAttempt:
    return RecordedAttempt(at_ms=EPOCH_MS + end, started_ms=EPOCH_MS + start, number=number, outcome=outcome)


def remark(kind: AnnotationKind, name: str = "", at: int = 0, reason: HoldReason | None = None) -> Annotation:
    return Annotation(at_ms=EPOCH_MS + at, kind=kind, name=name, reason=reason)


# -- what is recorded with the message itself -------------------------------------------------


def test_a_message_knows_what_made_it() -> None:
    world = World(answering=always(answered(500)))
    world.make_group("g", URL)
    world.publish(URL, max_retries=0, callback=callback("https://cb.test/"), failure_callback=callback(f"{URL}/f"))
    world.publish_to_group("g", max_retries=0)
    world.write_schedule("* * * * *", "https://two.test/s", max_retries=0)
    world.run_for(MINUTE)
    dead = world.dead_letter_ids()[0]
    (again,) = world.retry_dead_letters(dead)

    made = {message.url: message.created_by for message in reversed(world.messages.values())}

    assert made == {
        URL: CreatedBy.PUBLISH,
        "https://cb.test/": CreatedBy.CALLBACK,
        f"{URL}/f": CreatedBy.FAILURE_CALLBACK,
        "https://two.test/s": CreatedBy.SCHEDULE,
    }
    retried = world.messages[again.message_id]
    assert (retried.created_by, retried.from_dead_letter) == (CreatedBy.DEAD_LETTER, dead)


def test_what_a_queue_does_not_apply_is_recorded_and_told() -> None:
    """D-021."""
    world = World(answering=None)
    options: dict[str, Any] = {"delay_ms": HOUR, "not_before_ms": EPOCH_MS + HOUR, "flow_control": flow("k", rate=1)}
    message_id = world.enqueue("q", URL, **options)
    names = ("Svc-Delay", "Svc-Not-Before", "Svc-Flow-Control-Key")
    assert world.messages[message_id].not_applied == names
    assert explained(world, message_id).reasons == (NotApplied(at_ms=EPOCH_MS, names=names),)
    assert world.messages[world.enqueue("q", URL, delay_ms=0)].not_applied == ()


def test_a_schedule_through_a_queue_keeps_its_delay() -> None:
    """D-021."""
    world = World()
    world.write_schedule("* * * * *", URL, queue="q", delay_ms=SECOND, flow_control=flow("k", rate=1))
    world.run_for(MINUTE)
    (message,) = world.sent_to(URL)
    assert message.not_applied == ("Svc-Flow-Control-Key",)


def test_a_deduplicated_publish_is_a_fact_that_changes_no_state() -> None:
    """D-213."""
    world = World()
    message_id = world.publish(URL, deduplication_id="x")
    before = world.snapshot()
    world.publish(URL, deduplication_id="x")
    assert world.facts[-1] == facts.PublishDeduplicated(message_id=message_id, at_ms=EPOCH_MS)
    assert world.snapshot() == before


# -- the chain --------------------------------------------------------------------------------


def test_a_delayed_message_says_until_when() -> None:
    world = World()
    message_id = world.publish(URL, delay_ms=HOUR)
    found = explained(world, message_id)
    assert found.phase is Phase.PENDING
    assert found.reasons == (Delayed(at_ms=EPOCH_MS, until_ms=EPOCH_MS + HOUR),)


def test_a_key_tells_how_many_publishes_the_message_stood_for() -> None:
    world = World()
    message_id = world.publish(URL, deduplication_id="x", delay_ms=HOUR)
    found = explained(
        world,
        message_id,
        remark(AnnotationKind.DEDUPLICATION, "id:x"),
        remark(AnnotationKind.DEDUPLICATED, at=SECOND),
        remark(AnnotationKind.DEDUPLICATED, at=MINUTE),
    )
    assert found.reasons[0] == Deduplicated(
        at_ms=EPOCH_MS, key="id:x", until_ms=EPOCH_MS + 10 * MINUTE, count=2, last_ms=EPOCH_MS + MINUTE
    )


def test_retries_come_with_what_set_their_delay_and_the_end_with_its_cause() -> None:
    world = World(answering=always(BUSY))
    message_id = world.publish(URL, max_retries=2, retry_delay="pow(2, retried) * 1000")
    world.run_for(HOUR)
    found = explained(
        world,
        message_id,
        noted("ACTIVE"),
        tried(1, BUSY),
        noted("ERROR"),
        noted("RETRY", next_delivery=10_000),
        noted("ACTIVE", 10_000),
        tried(2, unreachable(), 10_000, 10_500),
        noted("ERROR", 10_500),
        noted("RETRY", 10_500, next_delivery=12_500),
        noted("ACTIVE", 12_500),
        tried(3, BUSY, 12_500, 12_500),
        noted("ERROR", 12_500),
        noted("FAILED", 12_500),
        remark(AnnotationKind.DEAD_LETTER, "1-0", 12_500),
        remark(AnnotationKind.FAILURE_CALLBACK, "msg_f", 12_500),
        remark(AnnotationKind.CALLBACK, "msg_c", 12_500),
        remark(AnnotationKind.PUBLISHED_AGAIN, "msg_n", HOUR),
    )

    backoffs = [each for each in found.reasons if isinstance(each, BackedOff)]
    assert found.phase is Phase.FAILED
    assert [(each.number, each.due_ms - EPOCH_MS, each.delay.reason, each.delay.value) for each in backoffs] == [
        (1, 10_000, RetryReason.RETRY_AFTER, None),
        (2, 12_500, RetryReason.EXPRESSION, 2_000.0),
    ]
    assert [each.delay.delay_ms for each in backoffs] == [each.due_ms - each.at_ms for each in backoffs]
    assert found.reasons[-4:] == (
        Failed(
            at_ms=EPOCH_MS + 12_500,
            attempts=3,
            cause=FailureCause.RETRIES_EXHAUSTED,
            dead_letter_id=DeadLetterId("1-0"),
        ),
        CalledBack(at_ms=EPOCH_MS + 12_500, message_id=MessageId("msg_f"), is_failure=True),
        CalledBack(at_ms=EPOCH_MS + 12_500, message_id=MessageId("msg_c"), is_failure=False),
        DeadLetterRemoved(at_ms=EPOCH_MS + HOUR, cause="retried", published_as=MessageId("msg_n")),
    )


def test_an_answer_that_asks_for_no_further_attempt_is_the_cause() -> None:
    final = answered(489, headers=(("Svc-NonRetryable-Error", "true"),))
    world = World(answering=always(final))
    message_id = world.publish(URL)
    entries = (noted("ACTIVE"), tried(1, final), noted("ERROR"), noted("FAILED"))
    (_, failed) = explained(
        world, message_id, *entries, remark(AnnotationKind.DEAD_LETTER_REMOVED, "expired", HOUR)
    ).reasons[:2]
    assert isinstance(failed, Failed)
    assert failed.cause is FailureCause.NON_RETRYABLE


def test_a_rule_is_named_by_the_attempt_it_decided() -> None:
    world = World()
    message_id = world.publish(URL)
    rule = AnsweringRule(rule_id=world.add_rule(URL), url=URL, method=None, forward_to=None, fault=None)
    decided = RecordedAttempt(at_ms=EPOCH_MS, started_ms=EPOCH_MS, number=1, outcome=answered(), answered_by=rule)
    found = explained(world, message_id, noted("ACTIVE"), decided, noted("DELIVERED"))
    assert found.reasons == (
        Attempted(at_ms=EPOCH_MS, number=1, finished_ms=EPOCH_MS, outcome=answered(), answered_by=rule, due_ms=None),
        Delivered(at_ms=EPOCH_MS, attempts=1),
    )


def test_a_hold_ends_with_the_next_line_or_the_attempt() -> None:
    world = World()
    message_id = world.publish(URL)
    found = explained(
        world,
        message_id,
        remark(AnnotationKind.QUEUE_HOLD, "q", 0, HoldReason.PAUSED),
        remark(AnnotationKind.KEY_HOLD, "k", MINUTE, HoldReason.RATE),
        remark(AnnotationKind.DEDUPLICATED, at=MINUTE),
        noted("ACTIVE", HOUR),
        tried(1, answered(), HOUR, HOUR),
        noted("DELIVERED", HOUR),
    )
    assert found.reasons[:2] == (
        HeldBack(at_ms=EPOCH_MS, kind=HoldKind.QUEUE, name="q", reason=HoldReason.PAUSED, until_ms=EPOCH_MS + MINUTE),
        HeldBack(
            at_ms=EPOCH_MS + MINUTE,
            kind=HoldKind.FLOW_CONTROL,
            name="k",
            reason=HoldReason.RATE,
            until_ms=EPOCH_MS + HOUR,
        ),
    )


def test_a_hold_that_lasts_tells_what_the_line_waits_for_now() -> None:
    world = World(answering=None)
    world.write_queue("q", paused=True)
    message_id = world.enqueue("q", URL)
    world.run_for(MINUTE)
    hold = remark(AnnotationKind.QUEUE_HOLD, "q", 0, HoldReason.PARALLELISM)

    (waits,) = explained(world, message_id, hold).reasons

    assert isinstance(waits, HeldBack)
    assert (waits.at_ms, waits.until_ms, waits.reason) == (EPOCH_MS, None, HoldReason.PAUSED)
    assert waits.now is not None
    assert (waits.now.position, waits.now.length) == (1, 1)


def test_a_message_that_was_canceled_in_its_line() -> None:
    world = World(answering=None)
    world.write_queue("q", paused=True)
    message_id = world.enqueue("q", URL)
    world.cancel(message_id)
    found = explained(
        world,
        message_id,
        remark(AnnotationKind.QUEUE_HOLD, "q", 0, HoldReason.PAUSED),
        noted("CANCEL_REQUESTED", SECOND),
        noted("CANCELED", SECOND),
    )
    assert found.phase is Phase.CANCELED
    assert found.reasons == (
        HeldBack(at_ms=EPOCH_MS, kind=HoldKind.QUEUE, name="q", reason=HoldReason.PAUSED, until_ms=EPOCH_MS + SECOND),
        CancelAsked(at_ms=EPOCH_MS + SECOND),
        Canceled(at_ms=EPOCH_MS + SECOND, attempts=0),
    )


def test_an_attempt_under_way_stands_where_it_started() -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    world.cancel(message_id)
    found = explained(world, message_id, noted("ACTIVE"), noted("CANCEL_REQUESTED"))
    assert found.phase is Phase.ACTIVE
    assert found.reasons == (
        Attempted(at_ms=EPOCH_MS, number=1, finished_ms=None, outcome=None, answered_by=None),
        CancelAsked(at_ms=EPOCH_MS),
    )


def test_a_latency_tells_when_the_answer_comes_and_whose_it_is() -> None:
    world = World()
    rule_id = world.add_rule(URL, responses=(ScriptedResponse(latency_ms=5 * SECOND),))
    message_id = world.publish(URL)
    (attempt,) = explained(world, message_id, noted("ACTIVE")).reasons
    assert isinstance(attempt, Attempted)
    assert attempt.due_ms == EPOCH_MS + 5 * SECOND
    assert attempt.answered_by is not None
    assert attempt.answered_by.rule_id == rule_id


def test_the_delay_that_is_explained_is_the_one_that_was_set() -> None:
    """One function does both; this holds for every source of a delay."""
    answers = (
        BUSY,
        unreachable(),
        answered(500),
        answered(429, headers=(("X-RateLimit-Reset", "1m"),)),
        answered(503, headers=(("Retry-After", "1767225600"),)),
    )
    for expression in (None, "1000 * (retried + 1)", "0 - 1", "1e300"):
        for outcome in answers:
            world = World(answering=always(outcome))
            message_id = world.publish(URL, retry_delay=expression, max_retries=1)
            (scheduled,) = world.all(facts.RetryScheduled)
            entries = (noted("ACTIVE"), tried(1, outcome), noted("ERROR"))
            retry = noted("RETRY", next_delivery=scheduled.due_ms - EPOCH_MS)
            (_, backoff) = explained(world, message_id, *entries, retry).reasons
            assert isinstance(backoff, BackedOff)
            assert backoff.delay.delay_ms == scheduled.due_ms - scheduled.at_ms
            assert backoff.delay.reason.value == scheduled.reason
