"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never
from urllib.parse import urlsplit

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.model import (
    AccountId,
    CreatedBy,
    DestinationRule,
    Duplicate,
    EventState,
    Message,
    MessageId,
    Progress,
    RuleId,
    ScriptedAnswer,
)
from emulator.journal import codec, schema
from emulator.journal.meters import (
    ACTIVE,
    BYTES,
    CANCELED,
    CREATED,
    DELIVERED,
    ERROR,
    FAILED,
    RETRY,
    Meter,
    UsageRow,
)
from emulator.queries.message_log import HOLDS, AnnotationKind, AnsweringRule, answering

Row = tuple[object, ...]

# `value` of an enumeration takes a Python call, and every event needs it.
_TEXT_OF = {state: state.value for state in EventState}

# Indexes into a row of the event log.
_ATTEMPT_SEQ = 4
_NEXT_DELIVERY = 5


@dataclass(slots=True)
class Rows:
    """What one group of facts adds to each history table, and which dead letters it removes."""

    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    annotations: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    annotations_on_dead_letters: list[Row] = field(default_factory=list)
    removed_dead_letters: list[Row] = field(default_factory=list)
    usage_minutes: list[UsageRow] = field(default_factory=list)
    usage_days: list[UsageRow] = field(default_factory=list)

    def writes(self) -> Iterator[tuple[str, list[Row] | list[UsageRow]]]:
        """Each statement with its rows, in the order in which they must run."""
        for name, statement in WRITES.items():
            rows = getattr(self, name)
            if rows:
                yield statement, rows


# The statement for each field of `Rows`. Dead letters are annotated before they are removed.
WRITES = {
    "messages": schema.MESSAGES.insert,
    "events": schema.EVENTS.insert,
    "attempts": schema.ATTEMPTS.insert,
    "annotations": schema.ANNOTATIONS.insert,
    "dead_letters": schema.DEAD_LETTERS.insert,
    "annotations_on_dead_letters": schema.INSERT_ANNOTATIONS_ON_DEAD_LETTERS,
    "removed_dead_letters": schema.DELETE_DEAD_LETTERS,
    "usage_minutes": schema.USAGE_MINUTES.add,
    "usage_days": schema.USAGE_DAYS.add,
}


@dataclass(slots=True)
class _Live:
    """What history needs to know of a message until it ends. `meter` is its account's.

    `answered_by` is the encoded rule that decided the attempt under way.
    """

    number: int
    meter: Meter
    body_bytes: int
    answered_by: bytes | None = None


@lru_cache(maxsize=4096)
def _host_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc, parts.path


class Projector:
    """Turns facts into rows, and counts them for statistics. It remembers a little of each live message.

    `seq` counts events and attempts together, so that history has one order.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self._live: dict[MessageId, _Live] = {}
        self._meters: dict[AccountId, Meter] = {}
        # Encoded once, because most attempts of a test are decided by a rule.
        self._rules: dict[RuleId, bytes] = {}
        # The last failed attempt of each message. A message fails by the same command that finished
        # its attempt, so this need not outlive a group of facts.
        self._last_failures: dict[MessageId, tuple[int, int]] = {}
        # Deliveries that are to be made again, by message and attempt.
        self._duplicates: dict[tuple[MessageId, int], Duplicate] = {}

    def seed(
        self, messages: Iterable[Progress], rules: Iterable[DestinationRule], duplicates: Iterable[Duplicate]
    ) -> None:
        """Begin with what is there already: the world's first rules, and after a restart the live messages."""
        for rule in rules:
            self._rules[rule.rule_id] = codec.encode_rule(answering(rule))
        for progress in messages:
            live = self._add(progress.message)
            live.answered_by = None if progress.answer is None else self._answered_by(progress.answer)
        for duplicate in duplicates:
            self._duplicates[duplicate.message.message_id, duplicate.number] = duplicate

    def _add(self, message: Message) -> _Live:
        meter = self._meters.get(message.account_id)
        if meter is None:
            meter = self._meters[message.account_id] = Meter(message.account_id)
        live = self._live[message.message_id] = _Live(message.number, meter, len(message.body))
        return live

    def _answered_by(self, answer: ScriptedAnswer) -> bytes | None:
        """The encoded rule that decides an attempt, and what it does beside that."""
        encoded = self._rules.get(answer.rule_id)
        if answer.disturbance is None:
            return encoded
        # The rule may have been removed before a duplicate of its attempt.
        gone = AnsweringRule(
            rule_id=answer.rule_id, url="", method=None, forward_to=answer.forward_to, fault=answer.fault
        )
        rule = gone if encoded is None else codec.decode_rule(encoded)
        return codec.encode_rule(replace(rule, disturbance=answer.disturbance))

    def __len__(self) -> int:
        """How many live messages there are."""
        return len(self._live)

    def live_numbers(self) -> Iterable[int]:
        """The numbers of the live messages, and of those that are to be delivered again."""
        yield from (live.number for live in self._live.values())
        yield from (duplicate.message.number for duplicate in self._duplicates.values())

    def rows_of(self, group: Iterable[facts.Fact]) -> Rows:
        rows = Rows()
        self._last_failures.clear()
        for fact in group:
            match fact:
                case facts.ClockMoved() | facts.ScheduleFired():
                    pass  # Not shown in history, like those at the end; these two are frequent.
                case facts.MessageCreated():
                    self._created(rows, fact)
                case facts.AttemptStarted():
                    live = self._live[fact.message_id]
                    live.answered_by = None if fact.answer is None else self._answered_by(fact.answer)
                    self._event(rows, live, fact.at_ms, EventState.ACTIVE, ACTIVE)
                case facts.AttemptFinished():
                    self._finished(rows, fact)
                case facts.MessageDelivered():
                    live = self._live.pop(fact.message_id)
                    self._event(rows, live, fact.at_ms, EventState.DELIVERED, DELIVERED)
                case facts.RetryScheduled():
                    live = self._live[fact.message_id]
                    self._add_next_delivery(rows, fact)
                    self._event(rows, live, fact.at_ms, EventState.RETRY, RETRY, next_ms=fact.due_ms)
                case facts.MessageFailed():
                    self._failed(rows, fact)
                case facts.CancelRequested():
                    live = self._live[fact.message_id]
                    self._event(rows, live, fact.at_ms, EventState.CANCEL_REQUESTED, None)
                case facts.MessageCanceled():
                    live = self._live.pop(fact.message_id)
                    self._event(rows, live, fact.at_ms, EventState.CANCELED, CANCELED)
                case facts.DeadLettersRemoved():
                    self._dead_letters_removed(rows, fact)
                case facts.MessageHeld():
                    hold = fact.hold
                    self._annotate(rows, fact.message_id, fact.at_ms, HOLDS[hold.kind], hold.name, hold.reason.value)
                case facts.PublishDeduplicated():
                    self._annotate(rows, fact.message_id, fact.at_ms, AnnotationKind.DEDUPLICATED)
                case facts.DuplicateScheduled():
                    duplicate = fact.duplicate
                    self._duplicates[duplicate.message.message_id, duplicate.number] = duplicate
                case facts.DuplicateFinished():
                    self._duplicate_finished(rows, fact)
                case facts.RuleAdded():
                    self._rules[fact.rule.rule_id] = codec.encode_rule(answering(fact.rule))
                case facts.RulesRemoved():
                    for rule_id in fact.rule_ids:
                        self._rules.pop(rule_id, None)
                case (
                    facts.ResponseDelayed()
                    | facts.DeliveryPostponed()
                    | facts.DuplicateStarted()
                    | facts.QueueSlotTaken()
                    | facts.QueueSlotReleased()
                    | facts.DeduplicationsExpired()
                    | facts.ScheduleWritten()
                    | facts.SchedulePaused()
                    | facts.ScheduleResumed()
                    | facts.ScheduleDeleted()
                    | facts.UrlGroupWritten()
                    | facts.UrlGroupDeleted()
                    | facts.QueueWritten()
                    | facts.QueueDeleted()
                    | facts.FlowKeyChanged()
                    | facts.FlowCountersReset()
                    | facts.RateWindowOpened()
                    | facts.AccountChanged()
                    | facts.AccountSettled()
                    | facts.AccountTokenRotated()
                    | facts.SigningKeysRotated()
                    | facts.SearchIndexCreated()
                    | facts.SearchIndexChanged()
                    | facts.SearchIndexDeleted()
                ):
                    pass  # Not shown in history.
                case unknown:
                    assert_never(unknown)
        for meter in self._meters.values():
            minutes, days = meter.take()
            rows.usage_minutes += minutes
            rows.usage_days += days
        return rows

    def _created(self, rows: Rows, fact: facts.MessageCreated) -> None:
        message = fact.message
        live = self._add(message)
        host, path = _host_and_path(message.url)
        rows.messages.append(
            (
                message.number,
                message.message_id,
                message.account_id,
                message.url,
                host,
                path,
                message.url_group,
                message.schedule_id,
                message.queue,
                None if message.flow_control is None else message.flow_control.key,
                message.caller_ip,
                json.dumps(message.labels) if message.labels else None,
                codec.encode_message(message),
            )
        )
        self._event(rows, live, message.created_ms, EventState.CREATED, CREATED)
        message_id, at_ms = message.message_id, message.created_ms
        if fact.deduplication_key is not None:
            self._annotate(rows, message_id, at_ms, AnnotationKind.DEDUPLICATION, fact.deduplication_key)
        if message.created_by is CreatedBy.DEAD_LETTER:
            row = (self.seq, at_ms, AnnotationKind.PUBLISHED_AGAIN.value, message_id, message.from_dead_letter)
            rows.annotations_on_dead_letters.append(row)
        elif message.source_message_id is not None:
            is_failure = message.created_by is CreatedBy.FAILURE_CALLBACK
            kind = AnnotationKind.FAILURE_CALLBACK if is_failure else AnnotationKind.CALLBACK
            self._annotate(rows, message.source_message_id, at_ms, kind, message_id)

    def _finished(self, rows: Rows, fact: facts.AttemptFinished) -> None:
        self.seq += 1
        live = self._live[fact.message_id]
        outcome = fact.outcome
        encoded = codec.encode_outcome(outcome)
        # The body that was sent, and what the journal keeps of the exchange: headers and the answer (D-192).
        live.meter.add(fact.at_ms, BYTES, live.body_bytes + len(encoded))
        status = 0 if outcome.response is None else outcome.response.status
        rows.attempts.append(
            (
                self.seq,
                live.number,
                fact.number,
                fact.started_ms,
                fact.at_ms,
                outcome.succeeded,
                status,
                encoded,
                live.answered_by,
            )
        )
        if not outcome.succeeded:
            self._last_failures[fact.message_id] = (self.seq, status)
            self._event(rows, live, fact.at_ms, EventState.ERROR, ERROR, attempt_seq=self.seq)

    def _duplicate_finished(self, rows: Rows, fact: facts.DuplicateFinished) -> None:
        """A duplicate is no event and counts in no statistic: nobody asked for it (D-421)."""
        self.seq += 1
        duplicate = self._duplicates.pop((fact.message_id, fact.number))
        outcome = fact.outcome
        assert duplicate.answer is not None
        rows.attempts.append(
            (
                self.seq,
                duplicate.message.number,
                fact.number,
                fact.started_ms,
                fact.at_ms,
                outcome.succeeded,
                0 if outcome.response is None else outcome.response.status,
                codec.encode_outcome(outcome),
                self._answered_by(duplicate.answer),
            )
        )
        said = str(outcome.response.status) if outcome.response is not None else outcome.error
        self._annotate(rows, fact.message_id, fact.at_ms, AnnotationKind.DUPLICATE, f"{fact.number} {said}")

    def _add_next_delivery(self, rows: Rows, fact: facts.RetryScheduled) -> None:
        """The ERROR entry before a retry shows when that will be, as the RETRY entry does (D-044)."""
        attempt_seq, _ = self._last_failures[fact.message_id]
        for index in range(len(rows.events) - 1, -1, -1):
            event = rows.events[index]
            if event[_ATTEMPT_SEQ] == attempt_seq:
                rows.events[index] = (*event[:_NEXT_DELIVERY], fact.due_ms)
                return

    def _failed(self, rows: Rows, fact: facts.MessageFailed) -> None:
        attempt_seq, status = self._last_failures[fact.message_id]
        live = self._live.pop(fact.message_id)
        self._event(rows, live, fact.at_ms, EventState.FAILED, FAILED, attempt_seq=attempt_seq)
        rows.dead_letters.append((fact.dead_letter_id, self.seq, fact.at_ms, live.number, status, attempt_seq))
        self._annotate(rows, fact.message_id, fact.at_ms, AnnotationKind.DEAD_LETTER, fact.dead_letter_id)

    def _dead_letters_removed(self, rows: Rows, fact: facts.DeadLettersRemoved) -> None:
        rows.removed_dead_letters.extend((each,) for each in fact.dead_letter_ids)
        # For one that is retried, the message that it becomes is annotated.
        if fact.cause != "retried":
            kind = AnnotationKind.DEAD_LETTER_REMOVED.value
            rows.annotations_on_dead_letters.extend(
                (self.seq, fact.at_ms, kind, fact.cause, each) for each in fact.dead_letter_ids
            )

    def _annotate(
        self,
        rows: Rows,
        message_id: MessageId,
        at_ms: int,
        kind: AnnotationKind,
        name: str = "",
        reason: str | None = None,
    ) -> None:
        """An annotation takes no number of the common count: it comes after the entry before it."""
        rows.annotations.append((None, message_id, self.seq, at_ms, kind.value, name, reason))

    def _event(
        self,
        rows: Rows,
        live: _Live,
        at_ms: int,
        state: EventState,
        metric: int | None,
        attempt_seq: int | None = None,
        next_ms: int | None = None,
    ) -> None:
        self.seq += 1
        rows.events.append((self.seq, live.number, at_ms, _TEXT_OF[state], attempt_seq, next_ms))
        if metric is not None:
            live.meter.add(at_ms, metric)
