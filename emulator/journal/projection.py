"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from emulator.core import message_facts, resource_facts, run_facts
from emulator.core.model.messages import CreatedBy, Duplicate, EventState, Message, delivered_bytes
from emulator.core.model.options import RunPart
from emulator.core.model.resources import DestinationRule, ScriptedAnswer
from emulator.core.model.workflows import WorkflowRun, WorkflowStep
from emulator.core.record import MessageId, RuleId
from emulator.core.state import Fact, StateView
from emulator.journal import codec
from emulator.journal.meters import USAGE_COLUMNS, WORKFLOW_COLUMNS, Meters, weight_of_answer, weight_of_request
from emulator.journal.rows import Rows
from emulator.queries.history import HOLDS, AnnotationKind, AnsweringRule, answering
from emulator.statistics.series import USAGE_FIELDS, WORKFLOW_FIELDS

# What a state is called in a row, and where it is counted. `value` of an enumeration takes a Python call, and every
# event needs it.
_EVENTS = {state: (state.value, USAGE_COLUMNS.get(state.value.lower())) for state in EventState}
_BYTES = USAGE_COLUMNS["bytes"]

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
        # The abandoned attempt of each message; likewise, the message is canceled by the same command (D-780).
        self._abandoned: dict[MessageId, int] = {}
        # Deliveries that are to be made again, by message, attempt and redelivery.
        self._duplicates: dict[tuple[MessageId, int, int], Duplicate] = {}

    def seed(self, state: StateView) -> None:
        """Begin with what is there already: the world's first rules, and after a restart the live messages."""
        for rule in state.rules.values():
            self._rules.add(rule)
        for progress in state.messages.values():
            message = progress.message
            self._live[message.message_id] = message
            self._rules.answer(message.message_id, progress.dispatch.answer)
        for duplicate in state.duplicates.values():
            self._await_duplicate(duplicate)

    def start_counts_from(self, usage: Iterable[Sequence[Any]], workflows: Iterable[Sequence[Any]]) -> None:
        """Begin with the present counts of history: the last row of each account."""
        self._meters.start_counts_from(usage)
        self._runs.meters.start_counts_from(workflows)

    def copy(self) -> Projector:
        """An independent copy with the same history. Between two groups of facts no row is left to write."""
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

    def rows_of(self, group: Iterable[Fact]) -> Rows:
        rows = Rows()
        self._last_failures.clear()
        for fact in group:
            if not fact.in_history:
                continue
            match fact:
                case message_facts.MessageCreated():
                    self._created(rows, fact)
                case message_facts.AttemptStarted():
                    self._rules.answer(fact.message_id, fact.answer)
                    self._event(rows, self._live[fact.message_id], fact.at_ms, EventState.ACTIVE)
                case message_facts.AttemptFinished():
                    self._finished(rows, fact)
                case message_facts.MessageDelivered():
                    self._event(rows, self._live.pop(fact.message_id), fact.at_ms, EventState.DELIVERED)
                case message_facts.RetryScheduled():
                    self._add_next_delivery(rows, fact)
                    live = self._live[fact.message_id]
                    self._event(rows, live, fact.at_ms, EventState.RETRY, next_ms=fact.due_ms)
                case message_facts.MessageFailed():
                    self._failed(rows, fact)
                case message_facts.MessageGivenUp():
                    self._failed(rows, fact)
                case message_facts.CancelRequested():
                    self._event(rows, self._live[fact.message_id], fact.at_ms, EventState.CANCEL_REQUESTED)
                case message_facts.MessageCanceled():
                    live, attempt_seq = self._live.pop(fact.message_id), self._abandoned.pop(fact.message_id, None)
                    self._event(rows, live, fact.at_ms, EventState.CANCELED, attempt_seq=attempt_seq)
                case message_facts.DeadLettersRemoved():
                    self._dead_letters_removed(rows, fact)
                case message_facts.MessageHeld():
                    hold = fact.hold
                    self._annotate(rows, fact.message_id, fact.at_ms, HOLDS[hold.kind], hold.name, hold.reason.value)
                case message_facts.PublishDeduplicated():
                    self._annotate(rows, fact.message_id, fact.at_ms, AnnotationKind.DEDUPLICATED)
                case message_facts.DuplicateScheduled():
                    self._await_duplicate(fact.duplicate)
                case message_facts.DuplicateFinished():
                    self._duplicate_finished(rows, fact)
                case run_facts.RunStarted():
                    self._runs.started(rows, fact.run)
                case run_facts.RunRewritten():
                    self._runs.rewritten(rows, fact.run)
                case run_facts.StepAccepted():
                    self._runs.step(rows, fact.run_number, fact.step, fact.at_ms)
                case run_facts.RunEnded():
                    self._runs.ended(rows, fact)
                case run_facts.WaitBegan():
                    self._runs.waits(rows, fact)
                case resource_facts.RuleAdded():
                    self._rules.add(fact.rule)
                case resource_facts.RulesRemoved():
                    self._rules.remove(fact.rule_ids)
                case unknown:
                    raise AssertionError(f"no branch for {unknown!r}")
        rows.usage_minutes += self._meters.take()
        rows.workflow_minutes += self._runs.meters.take()
        return rows

    def _created(self, rows: Rows, fact: message_facts.MessageCreated) -> None:
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
                message.source.url_group,
                message.source.schedule_id,
                message.policy.queue,
                None if message.policy.flow_control is None else message.policy.flow_control.key,
                message.source.caller_ip,
                json.dumps(message.policy.labels) if message.policy.labels else None,
                codec.encode(message),
            )
        )
        if message.run is not None:
            self._runs.message(rows, message, message.run)
        self._event(rows, message, message.created_ms, EventState.CREATED)
        message_id, at_ms = message.message_id, message.created_ms
        if fact.deduplication_key is not None:
            self._annotate(rows, message_id, at_ms, AnnotationKind.DEDUPLICATION, fact.deduplication_key)
        if message.source.created_by is CreatedBy.DEAD_LETTER:
            row = (self.seq, at_ms, AnnotationKind.PUBLISHED_AGAIN.value, message_id, message.source.from_dead_letter)
            rows.annotations_on_dead_letters.append(row)
        elif message.source.source_message_id is not None:
            is_failure = message.source.created_by is CreatedBy.FAILURE_CALLBACK
            kind = AnnotationKind.FAILURE_CALLBACK if is_failure else AnnotationKind.CALLBACK
            self._annotate(rows, message.source.source_message_id, at_ms, kind, message_id)

    def _finished(self, rows: Rows, fact: message_facts.AttemptFinished) -> None:
        live = self._live[fact.message_id]
        status = self._attempt(rows, live.number, fact, self._rules.take(fact.message_id))
        if fact.outcome.abandoned:
            # Neither a delivery nor an error is known of it, nor what was sent.
            self._abandoned[fact.message_id] = self.seq
            return
        # The body that was sent, the headers, and the answer (D-192). What the journal keeps has the real time in it,
        # which differs from run to run.
        exchange = weight_of_request(live) + weight_of_answer(fact.outcome)
        self._meters.of(live.account_id).add(fact.at_ms, _BYTES, delivered_bytes(live) + exchange)
        if not fact.outcome.succeeded:
            self._last_failures[fact.message_id] = (self.seq, status)
            self._event(rows, live, fact.at_ms, EventState.ERROR, attempt_seq=self.seq)

    def _attempt(
        self,
        rows: Rows,
        number: int,
        fact: message_facts.AttemptFinished | message_facts.DuplicateFinished,
        rule: bytes | None,
    ) -> int:
        """A row of the delivery journal; the status that the destination answered, 0 for none."""
        self.seq = seq = self.seq + 1
        outcome = fact.outcome
        status = 0 if outcome.response is None else outcome.response.status
        rows.attempts.append(
            (
                seq,
                number,
                fact.number,
                fact.started_ms,
                fact.at_ms,
                int(outcome.succeeded),
                status,
                codec.encode(outcome),
                rule,
            )
        )
        return status

    def _await_duplicate(self, duplicate: Duplicate) -> None:
        self._duplicates[duplicate.message.message_id, duplicate.number, duplicate.redelivery] = duplicate

    def _duplicate_finished(self, rows: Rows, fact: message_facts.DuplicateFinished) -> None:
        """A duplicate is no event and counts in no statistic: no call published it (D-421, D-705)."""
        outcome = fact.outcome
        duplicate = self._duplicates.pop((fact.message_id, fact.number, outcome.redelivery))
        rule = None if duplicate.answer is None else self._rules.encoded(duplicate.answer)
        self._attempt(rows, duplicate.message.number, fact, rule)
        said = str(outcome.response.status) if outcome.response is not None else outcome.error
        kind = AnnotationKind.REDELIVERY if outcome.redelivery else AnnotationKind.DUPLICATE
        self._annotate(rows, fact.message_id, fact.at_ms, kind, f"{fact.number} {said}")

    def _add_next_delivery(self, rows: Rows, fact: message_facts.RetryScheduled) -> None:
        """The ERROR entry before a retry shows when that will be, as the RETRY entry does (D-044)."""
        attempt_seq, _ = self._last_failures[fact.message_id]
        for index in range(len(rows.events) - 1, -1, -1):
            event = rows.events[index]
            if event[_ATTEMPT_SEQ] == attempt_seq:
                rows.events[index] = (*event[:_NEXT_DELIVERY], fact.due_ms)
                return

    def _failed(self, rows: Rows, fact: message_facts.MessageFailed | message_facts.MessageGivenUp) -> None:
        attempt_seq, status = self._last_failures[fact.message_id]
        live = self._live.pop(fact.message_id)
        self._event(rows, live, fact.at_ms, EventState.FAILED, attempt_seq=attempt_seq)
        if isinstance(fact, message_facts.MessageFailed):
            rows.dead_letters.append((fact.dead_letter_id, self.seq, fact.at_ms, live.number, status, attempt_seq))
            self._annotate(rows, fact.message_id, fact.at_ms, AnnotationKind.DEAD_LETTER, fact.dead_letter_id)

    def _dead_letters_removed(self, rows: Rows, fact: message_facts.DeadLettersRemoved) -> None:
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
        attempt_seq: int | None = None,
        next_ms: int | None = None,
    ) -> None:
        self.seq = seq = self.seq + 1
        text, column = _EVENTS[state]
        rows.events.append((seq, live.number, at_ms, text, attempt_seq, next_ms))
        if column is not None:
            self._meters.of(live.account_id).add(at_ms, column)


class AnsweringRules:
    """The rules of a world, and those that decided the attempts under way, all encoded."""

    def __init__(self) -> None:
        # Encoded once, because most attempts of a test are decided by a rule.
        self._rules: dict[RuleId, bytes] = {}
        self._answered_by: dict[MessageId, bytes] = {}

    def copy(self) -> AnsweringRules:
        """See `Projector.copy`."""
        twin = AnsweringRules()
        twin._rules, twin._answered_by = dict(self._rules), dict(self._answered_by)
        return twin

    def add(self, rule: DestinationRule) -> None:
        self._rules[rule.rule_id] = codec.encode(answering(rule))

    def remove(self, rule_ids: Iterable[RuleId]) -> None:
        for rule_id in rule_ids:
            self._rules.pop(rule_id, None)

    def answer(self, message_id: MessageId, answer: ScriptedAnswer | None) -> None:
        """An attempt is under way, which a rule may have decided."""
        if answer is not None and (rule := self.encoded(answer)) is not None:
            self._answered_by[message_id] = rule

    def take(self, message_id: MessageId) -> bytes | None:
        """The rule of an attempt that has finished."""
        return self._answered_by.pop(message_id, None) if self._answered_by else None

    def encoded(self, answer: ScriptedAnswer) -> bytes | None:
        """The rule that decides an attempt, and what it does beside that."""
        encoded = self._rules.get(answer.rule_id)
        if answer.disturbance is None:
            return encoded
        # The rule may have been removed before a duplicate of its attempt.
        gone = AnsweringRule(
            rule_id=answer.rule_id, url="", method=None, forward_to=answer.forward_to, fault=answer.fault
        )
        rule = gone if encoded is None else codec.decode_rule(encoded)
        return codec.encode(replace(rule, disturbance=answer.disturbance))


# -- workflow runs ----------------------------------------------------------------------------


class RunProjector:
    """The part of the projector that is about workflow runs. `meters` count them for statistics."""

    def __init__(self) -> None:
        self.meters = Meters(len(WORKFLOW_FIELDS))

    def copy(self) -> RunProjector:
        """See `Projector.copy`."""
        twin = RunProjector()
        twin.meters = self.meters.copy()
        return twin

    def started(self, rows: Rows, run: WorkflowRun) -> None:
        self.meters.of(run.account_id).add(run.created_ms, WORKFLOW_COLUMNS["started"])
        self._began(rows, run)

    def rewritten(self, rows: Rows, run: WorkflowRun) -> None:
        """A handshake replaces the steps by its payload (D-452); a run invoked after its first call keeps them."""
        is_handshake = len(run.steps) == 1
        self._began(rows, run if is_handshake else replace(run, steps=()))
        if is_handshake:
            rows.replaced_steps.append((run.number, run.number, run.steps[0].message_id))

    def _began(self, rows: Rows, run: WorkflowRun) -> None:
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
                codec.encode(replace(run, steps=(), waiters=(), saved_events=())),
            )
        )
        for step in run.steps:
            self.step(rows, run.number, step, run.created_ms)

    def step(self, rows: Rows, run_number: int, step: WorkflowStep, at_ms: int) -> None:
        rows.workflow_steps.append((None, run_number, step.message_id, at_ms, step.call_type.value, step.body))

    def message(self, rows: Rows, message: Message, run: RunPart) -> None:
        """A message of a run was created."""
        rows.workflow_messages.append((message.number, run.run_number, run.call_type.value))
        self.meters.of(message.account_id).add(message.created_ms, WORKFLOW_COLUMNS["messages"])

    def waits(self, rows: Rows, fact: run_facts.WaitBegan) -> None:
        row = (fact.waiter.number, fact.run_number, fact.at_ms, codec.encode(fact.waiter))
        rows.workflow_waits.append(row)

    def ended(self, rows: Rows, fact: run_facts.RunEnded) -> None:
        row = (fact.run_number, fact.at_ms, fact.state.value, fact.response, fact.dead_letter_id)
        rows.workflow_ends.append(row)
        self.meters.of(fact.account_id).add(fact.at_ms, WORKFLOW_COLUMNS[fact.state.name.lower()])
