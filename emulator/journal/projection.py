"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, assert_never
from urllib.parse import urlsplit

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.model.answers import ScriptedAnswer
from emulator.core.model.messages import CreatedBy, Duplicate, EventState, Message
from emulator.core.model.names import AccountId, MessageId, RuleId
from emulator.core.state_view import StateView
from emulator.core.workflows import RunState, WorkflowRun, WorkflowStep
from emulator.journal import codec, schema
from emulator.journal.checksums import checked
from emulator.journal.meters import (
    ACTIVE,
    BYTES,
    CANCELED,
    CREATED,
    DELIVERED,
    ERROR,
    FAILED,
    RETRY,
    RUN_CANCELED,
    RUN_FAILED,
    RUN_MESSAGES,
    RUN_STARTED,
    RUN_SUCCESS,
    Meter,
    UsageRow,
    weight_of_answer,
    weight_of_request,
)
from emulator.queries.message_log import HOLDS, AnnotationKind, AnsweringRule, answering
from emulator.statistics.workflow_usage import WORKFLOW_FIELDS

Row = tuple[object, ...]

# `value` of an enumeration takes a Python call, and every event needs it.
_TEXT_OF = {state: state.value for state in EventState}

_RUN_METRICS = {
    RunState.SUCCESS: RUN_SUCCESS,
    RunState.FAILED: RUN_FAILED,
    RunState.CANCELED: RUN_CANCELED,
}

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
    workflow_runs: list[Row] = field(default_factory=list)
    workflow_ends: list[Row] = field(default_factory=list)
    workflow_steps: list[Row] = field(default_factory=list)
    replaced_steps: list[Row] = field(default_factory=list)
    workflow_messages: list[Row] = field(default_factory=list)
    workflow_waits: list[Row] = field(default_factory=list)
    workflow_minutes: list[UsageRow] = field(default_factory=list)
    usage_minutes: list[UsageRow] = field(default_factory=list)

    def writes(self) -> Iterator[tuple[str, list[Row] | list[UsageRow]]]:
        """Each statement with its rows, in the order in which they must run."""
        for name, statement in WRITES.items():
            rows = getattr(self, name)
            if rows:
                yield statement, _COMPLETED[name](rows) if name in _COMPLETED else rows


# The statement for each field of `Rows`. Dead letters are annotated before they are removed.
WRITES = {
    "messages": schema.MESSAGES.insert_checked,
    "events": schema.EVENTS.insert_checked,
    "attempts": schema.ATTEMPTS.insert_checked,
    "annotations": schema.ANNOTATIONS.insert,
    "dead_letters": schema.DEAD_LETTERS.insert,
    "annotations_on_dead_letters": schema.INSERT_ANNOTATIONS_ON_DEAD_LETTERS,
    "removed_dead_letters": schema.DELETE_DEAD_LETTERS,
    "workflow_runs": schema.WORKFLOW_RUNS.write,
    "workflow_ends": schema.WORKFLOW_ENDS.insert,
    "workflow_steps": schema.WORKFLOW_STEPS.insert,
    "replaced_steps": schema.DELETE_STEPS_BEFORE,
    "workflow_messages": schema.WORKFLOW_MESSAGES.insert,
    "workflow_waits": schema.WORKFLOW_WAITS.insert,
    "workflow_minutes": schema.WORKFLOW_MINUTES.write_checked,
    "usage_minutes": schema.USAGE_MINUTES.write_checked,
}


# What adds the checksums to the rows of those that every message writes to.
_COMPLETED: dict[str, Callable[[list[Any]], list[Row]]] = {
    "messages": checked,
    "events": checked,
    "attempts": checked,
    "usage_minutes": checked,
    "workflow_minutes": checked,
}


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
        # The encoded rules that decided the attempts under way.
        self._answered_by: dict[MessageId, bytes] = {}
        self._meters: dict[AccountId, Meter] = {}
        self._run_meters: dict[AccountId, Meter] = {}
        # Encoded once, because most attempts of a test are decided by a rule.
        self._rules: dict[RuleId, bytes] = {}
        # The last failed attempt of each message. A message fails by the same command that finished
        # its attempt, so this need not outlive a group of facts.
        self._last_failures: dict[MessageId, tuple[int, int]] = {}
        # Deliveries that are to be made again, by message and attempt.
        self._duplicates: dict[tuple[MessageId, int], Duplicate] = {}

    def seed(self, state: StateView) -> None:
        """Begin with what is there already: the world's first rules, and after a restart the live messages."""
        for rule in state.rules.values():
            self._rules[rule.rule_id] = codec.encode_rule(answering(rule))
        for progress in state.messages.values():
            message = progress.message
            self._live[message.message_id] = message
            if progress.answer is not None:
                self._note_rule(message.message_id, progress.answer)
        for duplicate in state.duplicates.values():
            self._duplicates[duplicate.message.message_id, duplicate.number] = duplicate

    def count_on(self, usage: Iterable[Sequence[Any]], workflows: Iterable[Sequence[Any]]) -> None:
        """Begin with the counts that history has come to: the last row of each account."""
        self._meters = {row[0]: Meter(row) for row in usage}
        self._run_meters = {row[0]: Meter(row) for row in workflows}

    def copy(self) -> Projector:
        """One that goes on from the same history by itself. Between two groups of facts no row is left to write."""
        twin = Projector(self.seq)
        twin._meters = {account_id: meter.copy() for account_id, meter in self._meters.items()}
        twin._run_meters = {account_id: meter.copy() for account_id, meter in self._run_meters.items()}
        twin._live, twin._answered_by, twin._rules = dict(self._live), dict(self._answered_by), dict(self._rules)
        return twin

    def _note_rule(self, message_id: MessageId, answer: ScriptedAnswer | None) -> None:
        if answer is not None and (rule := self._encoded(answer)) is not None:
            self._answered_by[message_id] = rule

    def _meter(self, account_id: AccountId) -> Meter:
        meter = self._meters.get(account_id)
        if meter is None:
            meter = self._meters[account_id] = Meter.unused(account_id)
        return meter

    def _encoded(self, answer: ScriptedAnswer) -> bytes | None:
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
                    self._note_rule(fact.message_id, fact.answer)
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
                    self._run_meter(fact.run.account_id).add(fact.run.created_ms, RUN_STARTED)
                    self._run_began(rows, fact.run)
                case facts.RunRewritten():
                    self._run_rewritten(rows, fact.run)
                case facts.StepAccepted():
                    self._step(rows, fact.run_number, fact.step, fact.at_ms)
                case facts.RunEnded():
                    rows.workflow_ends.append(
                        (fact.run_number, fact.at_ms, fact.state.value, fact.response, fact.dead_letter_id)
                    )
                    self._run_meter(fact.account_id).add(fact.at_ms, _RUN_METRICS[fact.state])
                case facts.WaitBegan():
                    row = (fact.waiter.number, fact.run_number, fact.at_ms, codec.encode_waiter(fact.waiter))
                    rows.workflow_waits.append(row)
                case facts.RuleAdded():
                    self._rules[fact.rule.rule_id] = codec.encode_rule(answering(fact.rule))
                case facts.RulesRemoved():
                    for rule_id in fact.rule_ids:
                        self._rules.pop(rule_id, None)
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
        for meter in self._meters.values():
            rows.usage_minutes += meter.take()
        for meter in self._run_meters.values():
            rows.workflow_minutes += meter.take()
        return rows

    def _run_meter(self, account_id: AccountId) -> Meter:
        meter = self._run_meters.get(account_id)
        if meter is None:
            meter = self._run_meters[account_id] = Meter.unused(account_id, len(WORKFLOW_FIELDS))
        return meter

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
            rows.workflow_messages.append((message.number, message.run.run_number, message.run.call_type.value))
            self._run_meter(message.account_id).add(message.created_ms, RUN_MESSAGES)
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
        self._meter(live.account_id).add(fact.at_ms, BYTES, len(live.body) + exchange)
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
                self._answered_by.pop(fact.message_id, None) if self._answered_by else None,
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
                self._encoded(duplicate.answer),
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

    def _run_rewritten(self, rows: Rows, run: WorkflowRun) -> None:
        """A handshake replaces the steps by its payload (D-452); a run that is invoked on its way keeps its steps."""
        is_handshake = len(run.steps) == 1
        self._run_began(rows, run if is_handshake else replace(run, steps=()))
        if is_handshake:
            rows.replaced_steps.append((run.number, run.number, run.steps[0].message_id))

    def _run_began(self, rows: Rows, run: WorkflowRun) -> None:
        options, invoker = run.options, run.invoker
        rows.workflow_runs.append(
            (
                run.number,
                run.run_id,
                run.account_id,
                run.url,
                run.created_ms,
                run.caller_ip,
                None if options.flow_control is None else options.flow_control.key,
                json.dumps(options.labels) if options.labels else None,
                None if invoker is None else f"{invoker.run_id}@{invoker.run_created_ms}",
                codec.encode_run(replace(run, steps=(), waiters=(), saved_events=())),
            )
        )
        for step in run.steps:
            self._step(rows, run.number, step, run.created_ms)

    def _step(self, rows: Rows, run_number: int, step: WorkflowStep, at_ms: int) -> None:
        rows.workflow_steps.append((None, run_number, step.message_id, at_ms, step.call_type.value, step.body))

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
            self._meter(live.account_id).add(at_ms, metric)
