"""Spans out of facts: what was published, each attempt, each dead letter, each workflow run.

`Notes` keeps of the facts, as they happen, what a span needs of the state; `spans_of` makes spans of the notes later.
Names and attributes are those of OpenTelemetry's conventions for messaging and HTTP; our own begin with
`svc_emulator.`. Times are wall times, virtual instants are attributes (D-728).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from emulator.core.message_facts import (
    AttemptFinished,
    AttemptStarted,
    DuplicateFinished,
    DuplicateStarted,
    MessageCanceled,
    MessageCreated,
    MessageFailed,
    MessageGivenUp,
    MessageHeld,
    RetryScheduled,
)
from emulator.core.model.messages import AttemptOutcome, CreatedBy, Message
from emulator.core.model.workflows import WorkflowRun
from emulator.core.record import MessageId, Record
from emulator.core.rules import retries
from emulator.core.run_facts import RunStarted
from emulator.core.state import Fact, StateView, duplicate_subject
from emulator.wire.reasons import answered, arithmetic, held_by, not_applied, of_real_time
from emulator.wire.redaction import Surface, url_of_span, visibility_of
from emulator.wire.times import iso
from emulator.wire.trace_context import SpanContext, SpanIds, read_traceparent
from emulator.wire.urls import origin_of, read_target

# As long as a value in another tool's list may well be.
_LONGEST_URL = 2_000
_CALLBACKS = (CreatedBy.CALLBACK, CreatedBy.FAILURE_CALLBACK)
_MS = 1_000_000

Attributes: TypeAlias = Mapping[str, str | int]


class Kind(StrEnum):
    """The kinds of span that there are."""

    INTERNAL = "internal"
    PRODUCER = "producer"
    CLIENT = "client"


class SpanEvent(Record):
    """A moment within a span: a reason, by its kind in explanations, with its text."""

    name: str
    text: str


class Span(Record):
    """One span. Times are nanoseconds since the Unix epoch; `error` says why it is a failure."""

    name: str
    kind: Kind
    context: SpanContext
    parent: SpanContext | None
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None


class Note(Record):
    """A fact, and the message that it is about; `run` of one that begins a run."""

    fact: Fact
    message: Message | None = None
    run: WorkflowRun | None = None


class Group(Record):
    """What one command did: `ids` are those of the world's life, `at_ns` when it was, on the wall clock."""

    world_id: str
    ids: SpanIds
    at_ns: int
    notes: tuple[Note, ...]


class Notes:
    """Takes notes of the facts of one world. It remembers the messages of attempts under way."""

    def __init__(self) -> None:
        self._under_way: dict[str, Message] = {}

    def of(self, state: StateView, produced: Sequence[Fact]) -> tuple[Note, ...]:
        return tuple(note for fact in produced if (note := self._note(state, fact)) is not None)

    def _note(self, state: StateView, fact: Fact) -> Note | None:
        match fact:
            case MessageCreated():
                return Note(fact=fact, message=fact.message)
            case AttemptStarted():
                progress = state.messages.get(fact.message_id)
                if progress is not None:
                    self._under_way[fact.message_id] = progress.message
            case DuplicateStarted():
                subject = duplicate_subject(fact.message_id, fact.number, fact.redelivery)
                self._under_way[subject] = state.duplicates[subject].message
            case AttemptFinished():
                # Of an attempt from before a restart, the message may have ended with it.
                message = self._under_way.pop(fact.message_id, None)
                return None if message is None else Note(fact=fact, message=message)
            case DuplicateFinished():
                subject = duplicate_subject(fact.message_id, fact.number, fact.outcome.redelivery)
                message = self._under_way.pop(subject, None)
                return None if message is None else Note(fact=fact, message=message)
            case RunStarted():
                return Note(fact=fact, run=fact.run)
            case MessageHeld() | RetryScheduled() | MessageFailed() | MessageGivenUp() | MessageCanceled():
                return Note(fact=fact)
        return None


# What held messages before their next attempt; of so many messages.
Held: TypeAlias = dict[MessageId, list[SpanEvent]]
_MOST_HELD = 10_000


class SpanMaker:
    """Makes the spans of one world of its notes, in their order."""

    def __init__(self) -> None:
        self._held: Held = {}

    def spans_of(self, group: Group) -> Iterator[Span]:
        """The spans of what one command did."""
        last: dict[MessageId, SpanContext] = {}
        for at, note in enumerate(group.notes):
            match note.fact:
                case MessageCreated() if note.message is not None:
                    yield _publish(group, note.message, last)
                case AttemptFinished(number=number) | DuplicateFinished(number=number) if note.message is not None:
                    span = self._attempt(group, note.message, note.fact, _after(group.notes[at + 1 :], note.message))
                    if isinstance(note.fact, AttemptFinished):
                        last[note.message.message_id] = span.context
                    yield span
                    yield from _dead_letter(group, note.message, number, span.context, group.notes[at + 1 :])
                case RunStarted() if note.run is not None:
                    yield _run(group, note.run)
                case MessageHeld() as held:
                    self._hold(held)
                case MessageCanceled() as canceled:
                    self._held.pop(canceled.message_id, None)

    def _hold(self, fact: MessageHeld) -> None:
        if len(self._held) >= _MOST_HELD:
            self._held.pop(next(iter(self._held)))
        text = f"{held_by(fact.hold.kind, fact.hold.name, fact.hold.reason)} at {iso(fact.at_ms)}"
        self._held.setdefault(fact.message_id, []).append(SpanEvent(name="held", text=text))

    def _attempt(
        self, group: Group, message: Message, fact: AttemptFinished | DuplicateFinished, after: Sequence[Fact]
    ) -> Span:
        outcome, is_again = (
            visibility_of(message, Surface.LOG).outcome(fact.outcome),
            isinstance(fact, DuplicateFinished),
        )
        events = [] if is_again else self._held.pop(message.message_id, [])
        events.append(SpanEvent(name="attempt", text=f"attempt {fact.number} {answered(outcome, None)}"))
        # The arithmetic of a delay needs the headers of the answer.
        events += [event for each in after if (event := _consequence(message, fact.outcome, fact.number, each))]
        response = outcome.response
        if outcome.error is not None:
            error: str | None = outcome.error
        else:
            error = None if outcome.succeeded or response is None else f"answered {response.status}"
        return Span(
            name=message.method.value,
            kind=Kind.CLIENT,
            context=group.ids.attempt(
                message,
                fact.number,
                is_duplicate=is_again and outcome.redelivery == 0,
                redelivery=outcome.redelivery,
            ),
            parent=group.ids.publish(message),
            start_ns=group.at_ns - (outcome.took_ms or 0) * _MS,
            end_ns=group.at_ns,
            attributes={**_about(group, message), **_exchange(message, fact, is_again=is_again)},
            events=tuple(events),
            error=error,
        )


def _after(notes: Sequence[Note], message: Message) -> tuple[Fact, ...]:
    """What the end of an attempt led to, by the same command."""
    kinds = (RetryScheduled, MessageFailed, MessageGivenUp)
    facts = (note.fact for note in notes)
    return tuple(fact for fact in facts if isinstance(fact, kinds) and fact.message_id == message.message_id)


def _consequence(message: Message, outcome: AttemptOutcome, number: int, fact: Fact) -> SpanEvent | None:
    match fact:
        case RetryScheduled():
            delay = retries.delay_after(message, outcome, retried=number - 1, now_ms=fact.at_ms)
            text = f"retry {number} of {message.policy.max_retries} at {iso(fact.due_ms)}: {arithmetic(delay)}"
            return SpanEvent(name="backoff", text=text)
        case MessageFailed():
            return SpanEvent(name="failed", text=f"{_cause(outcome)}, dead letter {fact.dead_letter_id}")
        case MessageGivenUp():
            return SpanEvent(name="failed", text=_cause(outcome))
    return None


def _cause(outcome: AttemptOutcome) -> str:
    return "the answer asked for no further attempt" if outcome.non_retryable else "all retries are spent"


def _publish(group: Group, message: Message, last: Mapping[MessageId, SpanContext]) -> Span:
    source, made_by = message.source, message.source.created_by
    about = source.source_message_id
    if made_by in _CALLBACKS and about is not None:
        # By the attempt whose end called back; without it, by the message.
        parent: SpanContext | None = last.get(about) or group.ids.trace_of(message)
    else:
        made = group.ids.trace_of(message)
        own = group.ids.publish(message)
        parent = None if made.span_id == own.span_id else made
    events = []
    if message.not_before_ms > message.created_ms:
        events.append(SpanEvent(name="delayed", text=f"not before {iso(message.not_before_ms)}"))
    if source.not_applied:
        events.append(SpanEvent(name="not_applied", text=not_applied(source.not_applied)))
    if source.real_not_before_ms is not None:
        text = of_real_time(source.real_not_before_ms, now_ms=message.created_ms)
        events.append(SpanEvent(name="real_time", text=text))
    verb = "callback" if made_by in _CALLBACKS else "publish"
    attributes: dict[str, str | int] = {
        **_about(group, message),
        "messaging.operation.name": verb,
        "messaging.operation.type": "send",
        "svc_emulator.virtual_time": iso(message.created_ms),
        "svc_emulator.not_before": iso(message.not_before_ms),
        "svc_emulator.created_by": made_by.value,
    }
    for name, value in (
        ("messaging.message.body.size", visibility_of(message, Surface.LOG).size(len(message.body))),
        ("svc_emulator.schedule_id", source.schedule_id),
        ("svc_emulator.source_message_id", about),
        ("svc_emulator.dead_letter_id", source.from_dead_letter),
    ):
        if value is not None:
            attributes[name] = value
    return Span(
        name=f"{verb} {destination_of(message)}",
        kind=Kind.PRODUCER,
        context=group.ids.publish(message),
        parent=parent,
        start_ns=group.at_ns,
        end_ns=group.at_ns,
        attributes=attributes,
        events=tuple(events),
    )


def _dead_letter(
    group: Group, message: Message, number: int, attempt: SpanContext, after: Sequence[Note]
) -> Iterator[Span]:
    for note in after:
        fact = note.fact
        if isinstance(fact, MessageFailed) and fact.message_id == message.message_id:
            yield Span(
                name=f"dead letter {destination_of(message)}",
                kind=Kind.INTERNAL,
                context=group.ids.dead_letter(message),
                parent=attempt,
                start_ns=group.at_ns,
                end_ns=group.at_ns,
                attributes={
                    **_about(group, message),
                    "svc_emulator.dead_letter_id": fact.dead_letter_id,
                    "svc_emulator.attempt": number,
                    "svc_emulator.virtual_time": iso(fact.at_ms),
                },
                error="the message became a dead letter",
            )


def _run(group: Group, run: WorkflowRun) -> Span:
    return Span(
        name="workflow run",
        kind=Kind.INTERNAL,
        context=group.ids.run_of(run),
        parent=read_traceparent(run.traceparent),
        start_ns=group.at_ns,
        end_ns=group.at_ns,
        attributes={
            "svc_emulator.world": group.world_id,
            "svc_emulator.workflow_run_id": run.run_id,
            "svc_emulator.virtual_time": iso(run.created_ms),
            "url.full": url_of_span(run.url)[:_LONGEST_URL],
        },
    )


def destination_of(message: Message) -> str:
    """What a span is named for: a URL group, a queue, or an origin."""
    return message.source.url_group or message.policy.queue or origin_of(message.url) or "nowhere"


def _about(group: Group, message: Message) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "messaging.system": "svc_emulator",
        "messaging.destination.name": destination_of(message),
        "messaging.message.id": message.message_id,
        "svc_emulator.world": group.world_id,
    }
    if message.run is not None:
        attributes["svc_emulator.workflow_run_id"] = message.run.run_id
    return attributes


def _exchange(message: Message, fact: AttemptFinished | DuplicateFinished, *, is_again: bool) -> dict[str, str | int]:
    target, outcome = read_target(message.url), fact.outcome
    attributes: dict[str, str | int] = {
        "http.request.method": message.method.value,
        "url.full": url_of_span(message.url)[:_LONGEST_URL],
        "svc_emulator.attempt": fact.number,
        "svc_emulator.via": outcome.via.value,
        "svc_emulator.virtual_time": iso(fact.started_ms),
        "svc_emulator.virtual_end_time": iso(fact.at_ms),
    }
    if target is not None:
        attributes |= {"server.address": target.host, "server.port": target.port}
    if fact.number > 1:
        attributes["http.request.resend_count"] = fact.number - 1
    if is_again:
        attributes["svc_emulator.again"] = "redelivery" if outcome.redelivery else "duplicate"
    if outcome.response is not None:
        attributes["http.response.status_code"] = outcome.response.status
        if outcome.response.status >= 400:
            attributes["error.type"] = str(outcome.response.status)
    elif outcome.error is not None:
        attributes["error.type"] = outcome.error
    return attributes
