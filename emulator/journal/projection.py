"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, assert_never
from urllib.parse import urlsplit

from emulator.core import facts
from emulator.core.model.messages import CreatedBy, Duplicate, EventState, Message
from emulator.core.model.names import MessageId
from emulator.core.state_view import StateView
from emulator.journal import codec
from emulator.journal.answering_rules import AnsweringRules
from emulator.journal.meters import (
    ACTIVE,
    BYTES,
    CANCELED,
    CREATED,
    DELIVERED,
    ERROR,
    FAILED,
    RETRY,
    Meters,
    weight_of_answer,
    weight_of_request,
)
from emulator.journal.rows import Rows
from emulator.journal.run_projection import RunProjector
from emulator.queries.message_log import HOLDS, AnnotationKind
from emulator.statistics.series import USAGE_FIELDS

# `value` of an enumeration takes a Python call, and every event needs it.
_TEXT_OF = {state: state.value for state in EventState}

# Indexes into a row of the event log.
_ATTEMPT_SEQ = 4
_NEXT_DELIVERY = 5


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
        self._live: dict[MessageId, Message] = {}
        self._meters = Meters(len(USAGE_FIELDS))
        self._runs = RunProjector()
        self._rules = AnsweringRules()
        # The last failed attempt of each message. A message fails by the same command that finished
        # its attempt, so this need not outlive a group of facts.
        self._last_failures: dict[MessageId, tuple[int, int]] = {}
        # Deliveries that are to be made again, by message and attempt.
        self._duplicates: dict[tuple[MessageId, int], Duplicate] = {}

    def seed(self, state: StateView) -> None:
        """Begin with what is there already: the world's first rules, and after a restart the live messages."""
        for rule in state.rules.values():
            self._rules.add(rule)
        for progress in state.messages.values():
            message = progress.message
            self._live[message.message_id] = message
            self._rules.answer(message.message_id, progress.answer)
        for duplicate in state.duplicates.values():
            self._duplicates[duplicate.message.message_id, duplicate.number] = duplicate

    def count_on(self, usage: Iterable[Sequence[Any]], workflows: Iterable[Sequence[Any]]) -> None:
        """Begin with the counts that history has come to: the last row of each account."""
        self._meters.count_on(usage)
        self._runs.meters.count_on(workflows)

    def copy(self) -> Projector:
        """One that goes on from the same history by itself. Between two groups of facts no row is left to write."""
        twin = Projector(self.seq)
        twin._meters, twin._runs, twin._rules = self._meters.copy(), self._runs.copy(), self._rules.copy()
        twin._live, twin._duplicates = dict(self._live), dict(self._duplicates)
        return twin

    def __len__(self) -> int:
        """How many live messages there are."""
        return len(self._live)

    def live_numbers(self) -> Iterable[int]:
        """The numbers of the live messages, and of those that are to be delivered again."""
        yield from (message.number for message in self._live.values())
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
                    self._rules.answer(fact.message_id, fact.answer)
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
                case facts.MessageGivenUp():
                    attempt_seq, _ = self._last_failures[fact.message_id]
                    live = self._live.pop(fact.message_id)
                    self._event(rows, live, fact.at_ms, EventState.FAILED, FAILED, attempt_seq=attempt_seq)
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
                case facts.RunStarted():
                    self._runs.started(rows, fact.run)
                case facts.RunRewritten():
                    self._runs.rewritten(rows, fact.run)
                case facts.StepAccepted():
                    self._runs.step(rows, fact.run_number, fact.step, fact.at_ms)
                case facts.RunEnded():
                    self._runs.ended(rows, fact)
                case facts.WaitBegan():
                    self._runs.waits(rows, fact)
                case facts.RuleAdded():
                    self._rules.add(fact.rule)
                case facts.RulesRemoved():
                    self._rules.remove(fact.rule_ids)
                case (
                    facts.ResponseDelayed()
                    | facts.DeliveryPostponed()
                    | facts.DuplicateStarted()
                    | facts.RulesOrdered()
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
                    | facts.WaitEnded()
                    | facts.EventSaved()
                    | facts.SavedEventTaken()
                ):
                    pass  # Not shown in history.
                case unknown:
                    assert_never(unknown)
        rows.usage_minutes += self._meters.take()
        rows.workflow_minutes += self._runs.meters.take()
        return rows

    def _created(self, rows: Rows, fact: facts.MessageCreated) -> None:
        message = fact.message
        self._live[message.message_id] = message
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
        if message.run is not None:
            self._runs.message(rows, message, message.run)
        self._event(rows, message, message.created_ms, EventState.CREATED, CREATED)
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
        exchange = len(encoded) if outcome.unsent is None else weight_of_request(live) + weight_of_answer(outcome)
        self._meters.of(live.account_id).add(fact.at_ms, BYTES, len(live.body) + exchange)
        status = 0 if outcome.response is None else outcome.response.status
        rows.attempts.append(
            (
                self.seq,
                live.number,
                fact.number,
                fact.started_ms,
                fact.at_ms,
                int(outcome.succeeded),
                status,
                encoded,
                self._rules.take(fact.message_id),
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
                int(outcome.succeeded),
                0 if outcome.response is None else outcome.response.status,
                codec.encode_outcome(outcome),
                self._rules.encoded(duplicate.answer),
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
        live: Message,
        at_ms: int,
        state: EventState,
        metric: int | None,
        attempt_seq: int | None = None,
        next_ms: int | None = None,
    ) -> None:
        self.seq += 1
        rows.events.append((self.seq, live.number, at_ms, _TEXT_OF[state], attempt_seq, next_ms))
        if metric is not None:
            self._meters.of(live.account_id).add(at_ms, metric)
