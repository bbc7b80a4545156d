"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from emulator.core import facts
from emulator.core.model import AccountId, EventState, Message, MessageId
from emulator.journal import codec
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

Row = tuple[object, ...]

# Places in a row of the event log.
_ATTEMPT_SEQ = 4
_NEXT_DELIVERY = 5


@dataclass(slots=True)
class Rows:
    """What one group of facts adds to history, and takes from the dead letters."""

    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    removed_dead_letters: list[Row] = field(default_factory=list)
    usage_minutes: list[UsageRow] = field(default_factory=list)
    usage_days: list[UsageRow] = field(default_factory=list)


@dataclass(slots=True)
class _Live:
    """What history needs to know of a message until it ends. `meter` is its account's."""

    number: int
    meter: Meter
    body_bytes: int


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
        # The last failed attempt of each message. A message fails by the same command that finished
        # its attempt, so this need not outlive a group of facts.
        self._last_failures: dict[MessageId, tuple[int, int]] = {}

    def know(self, messages: Iterable[Message]) -> None:
        """Learn the live messages after a restart."""
        for message in messages:
            self._know(message)

    def _know(self, message: Message) -> _Live:
        meter = self._meters.get(message.account_id)
        if meter is None:
            meter = self._meters[message.account_id] = Meter(message.account_id)
        live = self._live[message.message_id] = _Live(message.number, meter, len(message.body))
        return live

    def __len__(self) -> int:
        """How many live messages there are."""
        return len(self._live)

    def rows_of(self, group: Iterable[facts.Fact]) -> Rows:
        rows = Rows()
        self._last_failures.clear()
        for fact in group:
            match fact:
                case facts.MessageCreated():
                    self._created(rows, fact.message)
                case facts.AttemptStarted():
                    self._event(rows, self._live[fact.message_id], fact.at_ms, EventState.ACTIVE, ACTIVE)
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
                    rows.removed_dead_letters.extend((each,) for each in fact.dead_letter_ids)
                case _:
                    pass  # Other facts leave no trace in history.
        for meter in self._meters.values():
            minutes, days = meter.take()
            rows.usage_minutes += minutes
            rows.usage_days += days
        return rows

    def _created(self, rows: Rows, message: Message) -> None:
        live = self._know(message)
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
            )
        )
        if not outcome.succeeded:
            self._last_failures[fact.message_id] = (self.seq, status)
            self._event(rows, live, fact.at_ms, EventState.ERROR, ERROR, attempt_seq=self.seq)

    def _add_next_delivery(self, rows: Rows, fact: facts.RetryScheduled) -> None:
        """The error that a retry follows tells when that will be, as the retry's own entry does (D-044)."""
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
        rows.events.append((self.seq, live.number, at_ms, state.value, attempt_seq, next_ms))
        if metric is not None:
            live.meter.add(at_ms, metric)
