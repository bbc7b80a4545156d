"""Why a message is where it is: its reason chain, made of its log and of what waits now.

A message is explained as long as its world lasts (D-212). Nothing here decides anything again: the
delay of a retry comes from the function that set it, asked with what was recorded; who answered an
attempt and what held a message is recorded as it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import assert_never

from emulator.core.model.answers import AttemptOutcome
from emulator.core.model.messages import EventState, HoldKind, HoldReason, Message, Phase, Progress
from emulator.core.model.names import DeadLetterId, MessageId
from emulator.core.record import Record
from emulator.core.rules import retries
from emulator.core.rules.deduplication import WINDOW_MS
from emulator.core.rules.retries import RetryDelay
from emulator.core.state_view import StateView
from emulator.queries import waiting
from emulator.queries.message_log import (
    HOLDS,
    Annotation,
    AnnotationKind,
    AnsweringRule,
    Entry,
    LoggedEvent,
    MessageLog,
    RecordedAttempt,
    answering,
)

_HOLD_KINDS = {annotation: hold for hold, annotation in HOLDS.items()}
_ENDS = {
    EventState.DELIVERED: Phase.DELIVERED,
    EventState.FAILED: Phase.FAILED,
    EventState.CANCELED: Phase.CANCELED,
}


class FailureCause(StrEnum):
    """Why there was no further attempt."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    NON_RETRYABLE = "non_retryable"


# -- reasons ----------------------------------------------------------------------------------


class Created(Record):
    """The message was accepted; the message itself says by what."""

    at_ms: int
    message: Message


class Deduplicated(Record):
    """`count` later publishes with the same key were answered with this message so far."""

    at_ms: int
    key: str
    until_ms: int
    count: int
    last_ms: int | None


class NotApplied(Record):
    """Configuration headers that were given and do not apply to a queued message."""

    at_ms: int
    names: tuple[str, ...]


class Delayed(Record):
    """The first attempt was not to come before an instant."""

    at_ms: int
    until_ms: int


class HeldBack(Record):
    """The message was due and waited until `until_ms`; None: it still does, and `now` says for what."""

    at_ms: int
    kind: HoldKind
    name: str
    reason: HoldReason
    until_ms: int | None
    now: waiting.Held | None = None


class Attempted(Record):
    """An attempt. Without an outcome it is under way; `due_ms` is when a rule's latency lets its answer through."""

    at_ms: int
    number: int
    finished_ms: int | None
    outcome: AttemptOutcome | None
    answered_by: AnsweringRule | None
    due_ms: int | None = None


class BackedOff(Record):
    """Retry `number` was set to `due_ms`, by this arithmetic."""

    at_ms: int
    number: int
    due_ms: int
    delay: RetryDelay


class CalledBack(Record):
    """An outcome was sent to a callback, which is a message of its own."""

    at_ms: int
    message_id: MessageId
    is_failure: bool


class DeliveredAgain(Record):
    """A rule had attempt `number` made again; `said` is the status of the answer, or why there was none (D-421)."""

    at_ms: int
    number: int
    said: str


class CancelAsked(Record):
    """Somebody asked for the message's cancellation."""

    at_ms: int


class Delivered(Record):
    """The last of so many attempts was answered with 2xx."""

    at_ms: int
    attempts: int


class Failed(Record):
    """No further attempt: the message became a dead letter."""

    at_ms: int
    attempts: int
    cause: FailureCause
    dead_letter_id: DeadLetterId | None


class Canceled(Record):
    """It was cancelled, after so many attempts."""

    at_ms: int
    attempts: int


class DeadLetterRemoved(Record):
    """The dead letter left its queue; if it was retried, it became the message `published_as`."""

    at_ms: int
    cause: str
    published_as: MessageId | None


Reason = (
    Created
    | Deduplicated
    | NotApplied
    | Delayed
    | HeldBack
    | Attempted
    | BackedOff
    | CalledBack
    | DeliveredAgain
    | CancelAsked
    | Delivered
    | Failed
    | Canceled
    | DeadLetterRemoved
)


class Explanation(Record):
    """A message, its phase at `now_ms`, and the reasons in the order in which they came about."""

    now_ms: int
    message: Message
    phase: Phase
    reasons: tuple[Reason, ...]


def explain(state: StateView, log: MessageLog) -> Explanation:
    """The reason chain of a message, live or ended."""
    message = log.message
    progress = state.messages.get(message.message_id)
    if progress is None:
        phase = next(_ENDS[each.state] for each in log.entries if isinstance(each, LoggedEvent) and each.state in _ENDS)
    else:
        phase = progress.phase
    reasons = (*_beginnings(log), *_course(state, log, progress))
    return Explanation(now_ms=state.now_ms, message=message, phase=phase, reasons=reasons)


# -- what the message was given ---------------------------------------------------------------


def _beginnings(log: MessageLog) -> Iterator[Reason]:
    message, at_ms = log.message, log.message.created_ms
    yield Created(at_ms=at_ms, message=message)
    repeats = [each.at_ms for each in _annotations(log) if each.kind is AnnotationKind.DEDUPLICATED]
    for annotation in _annotations(log):
        if annotation.kind is AnnotationKind.DEDUPLICATION:
            yield Deduplicated(
                at_ms=at_ms,
                key=annotation.name,
                until_ms=at_ms + WINDOW_MS,
                count=len(repeats),
                last_ms=repeats[-1] if repeats else None,
            )
    if message.not_applied:
        yield NotApplied(at_ms=at_ms, names=message.not_applied)
    if message.not_before_ms > at_ms:
        yield Delayed(at_ms=at_ms, until_ms=message.not_before_ms)


def _annotations(log: MessageLog) -> Iterator[Annotation]:
    return (each for each in log.entries if isinstance(each, Annotation))


# -- what happened to it ----------------------------------------------------------------------


def _course(state: StateView, log: MessageLog, progress: Progress | None) -> Iterator[Reason]:
    recorded_attempts = {entry.number: entry for entry in log.entries if isinstance(entry, RecordedAttempt)}
    started = 0
    for index, entry in enumerate(log.entries):
        match entry:
            case LoggedEvent(state=EventState.ACTIVE):
                started += 1
                if started in recorded_attempts:
                    yield _attempted(recorded_attempts[started])
                elif progress is not None and progress.phase is Phase.ACTIVE:
                    yield _under_way(state, progress)
            case LoggedEvent():
                yield from _logged(log, index, entry, recorded_attempts.get(started))
            case Annotation():
                yield from _annotated(state, log, index, progress)
            case RecordedAttempt():
                pass  # Part of the reason at its start.
            case unknown:
                assert_never(unknown)


def _attempted(recorded: RecordedAttempt) -> Attempted:
    return Attempted(
        at_ms=recorded.started_ms,
        number=recorded.number,
        finished_ms=recorded.at_ms,
        outcome=recorded.outcome,
        answered_by=recorded.answered_by,
    )


def _under_way(state: StateView, progress: Progress) -> Attempted:
    rule = None if progress.answer is None else state.rules.get(progress.answer.rule_id)
    return Attempted(
        at_ms=progress.started_ms,
        number=progress.retried + 1,
        finished_ms=None,
        outcome=None,
        answered_by=None if rule is None else answering(rule),
        due_ms=None if progress.outcome is None else progress.due_ms,
    )


def _logged(log: MessageLog, index: int, entry: LoggedEvent, last: RecordedAttempt | None) -> Iterator[Reason]:
    """`last` is the attempt before the entry."""
    attempts = 0 if last is None else last.number
    match entry.state:
        case EventState.RETRY if last is not None and entry.next_delivery_ms is not None:
            delay = retries.delay_after(log.message, last.outcome, retried=last.number - 1, now_ms=entry.at_ms)
            yield BackedOff(at_ms=entry.at_ms, number=last.number, due_ms=entry.next_delivery_ms, delay=delay)
        case EventState.DELIVERED:
            yield Delivered(at_ms=entry.at_ms, attempts=attempts)
        case EventState.FAILED:
            is_final = last is not None and last.outcome.non_retryable
            yield Failed(
                at_ms=entry.at_ms,
                attempts=attempts,
                cause=FailureCause.NON_RETRYABLE if is_final else FailureCause.RETRIES_EXHAUSTED,
                dead_letter_id=_dead_letter_of(log.entries[index:]),
            )
        case EventState.CANCEL_REQUESTED:
            yield CancelAsked(at_ms=entry.at_ms)
        case EventState.CANCELED:
            yield Canceled(at_ms=entry.at_ms, attempts=attempts)
        case _:
            pass  # CREATED is a reason already, and an ERROR belongs to its attempt.


def _dead_letter_of(following: tuple[Entry, ...]) -> DeadLetterId | None:
    for entry in following:
        if isinstance(entry, Annotation) and entry.kind is AnnotationKind.DEAD_LETTER:
            return DeadLetterId(entry.name)
    return None


def _annotated(state: StateView, log: MessageLog, index: int, progress: Progress | None) -> Iterator[Reason]:
    annotation = log.entries[index]
    assert isinstance(annotation, Annotation)
    at_ms = annotation.at_ms
    match annotation.kind:
        case AnnotationKind.QUEUE_HOLD | AnnotationKind.KEY_HOLD | AnnotationKind.GLOBAL_HOLD:
            yield from _held_back(state, annotation, log.entries[index + 1 :], progress)
        case AnnotationKind.CALLBACK | AnnotationKind.FAILURE_CALLBACK:
            is_failure = annotation.kind is AnnotationKind.FAILURE_CALLBACK
            yield CalledBack(at_ms=at_ms, message_id=MessageId(annotation.name), is_failure=is_failure)
        case AnnotationKind.DUPLICATE:
            number, _, said = annotation.name.partition(" ")
            yield DeliveredAgain(at_ms=at_ms, number=int(number), said=said)
        case AnnotationKind.PUBLISHED_AGAIN:
            yield DeadLetterRemoved(at_ms=at_ms, cause="retried", published_as=MessageId(annotation.name))
        case AnnotationKind.DEAD_LETTER_REMOVED:
            yield DeadLetterRemoved(at_ms=at_ms, cause=annotation.name, published_as=None)
        case AnnotationKind.DEDUPLICATION | AnnotationKind.DEDUPLICATED | AnnotationKind.DEAD_LETTER:
            pass  # Part of the first reasons, and of the failure.
        case unknown:
            assert_never(unknown)


def _held_back(
    state: StateView, annotation: Annotation, following: tuple[Entry, ...], progress: Progress | None
) -> Iterator[HeldBack]:
    assert annotation.reason is not None
    kind, reason, until_ms = _HOLD_KINDS[annotation.kind], annotation.reason, _end_of_hold(following)
    now: waiting.Held | None = None
    if until_ms is None:
        if progress is None or progress.hold is None:
            return
        now = next(
            each
            for each in waiting.waits(state)
            if isinstance(each, waiting.Held) and each.message.message_id == progress.message.message_id
        )
        reason = now.reason
    yield HeldBack(at_ms=annotation.at_ms, kind=kind, name=annotation.name, reason=reason, until_ms=until_ms, now=now)


def _end_of_hold(following: tuple[Entry, ...]) -> int | None:
    """When a message left its wait list: for another one, an attempt, or for good. None: it has not."""
    for entry in following:
        if isinstance(entry, Annotation):
            if entry.kind in _HOLD_KINDS:
                return entry.at_ms
        elif isinstance(entry, LoggedEvent) and entry.state in (EventState.ACTIVE, EventState.CANCELED):
            return entry.at_ms
    return None
