"""Facts -> history rows. One pass over a group of facts gives the rows of every history table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from emulator.core import facts
from emulator.core.model import EventState, Message, MessageId
from emulator.journal import codec

Row = tuple[object, ...]


@dataclass(slots=True)
class Rows:
    """What one group of facts adds to history, and takes from the dead letters."""

    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    removed_dead_letters: list[Row] = field(default_factory=list)


@lru_cache(maxsize=4096)
def _host_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc, parts.path


class Projector:
    """Turns facts into rows. It remembers the numbers of live messages.

    `seq` counts events and attempts together, so that history has one order.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self._numbers: dict[MessageId, int] = {}
        # The last failed attempt of each message. A message fails by the same command that finished
        # its attempt, so this need not outlive a group of facts.
        self._last_failures: dict[MessageId, tuple[int, int]] = {}

    def know(self, messages: Iterable[Message]) -> None:
        """Learn the live messages after a restart."""
        self._numbers.update((message.message_id, message.number) for message in messages)

    def __len__(self) -> int:
        """How many live messages there are."""
        return len(self._numbers)

    def rows_of(self, group: Iterable[facts.Fact]) -> Rows:
        rows = Rows()
        self._last_failures.clear()
        for fact in group:
            match fact:
                case facts.MessageCreated():
                    self._created(rows, fact.message)
                case facts.AttemptStarted():
                    self._event(rows, fact.message_id, fact.at_ms, EventState.ACTIVE)
                case facts.AttemptFinished():
                    self._finished(rows, fact)
                case facts.MessageDelivered():
                    self._event(rows, fact.message_id, fact.at_ms, EventState.DELIVERED)
                    self._forget(fact.message_id)
                case facts.RetryScheduled():
                    self._event(rows, fact.message_id, fact.at_ms, EventState.RETRY, next_ms=fact.due_ms)
                case facts.MessageFailed():
                    self._failed(rows, fact)
                case facts.CancelRequested():
                    self._event(rows, fact.message_id, fact.at_ms, EventState.CANCEL_REQUESTED)
                case facts.MessageCanceled():
                    self._event(rows, fact.message_id, fact.at_ms, EventState.CANCELED)
                    self._forget(fact.message_id)
                case facts.DeadLettersRemoved():
                    rows.removed_dead_letters.extend((each,) for each in fact.dead_letter_ids)
                case _:
                    pass  # Other facts leave no trace in history.
        return rows

    def _created(self, rows: Rows, message: Message) -> None:
        self._numbers[message.message_id] = message.number
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
        self._event(rows, message.message_id, message.created_ms, EventState.CREATED)

    def _finished(self, rows: Rows, fact: facts.AttemptFinished) -> None:
        self.seq += 1
        outcome = fact.outcome
        status = 0 if outcome.response is None else outcome.response.status
        rows.attempts.append(
            (
                self.seq,
                self._numbers[fact.message_id],
                fact.number,
                fact.started_ms,
                fact.at_ms,
                outcome.succeeded,
                status,
                codec.encode_outcome(outcome),
            )
        )
        if not outcome.succeeded:
            self._last_failures[fact.message_id] = (self.seq, status)
            self._event(rows, fact.message_id, fact.at_ms, EventState.ERROR, attempt_seq=self.seq)

    def _failed(self, rows: Rows, fact: facts.MessageFailed) -> None:
        attempt_seq, status = self._last_failures[fact.message_id]
        number = self._numbers[fact.message_id]
        self._event(rows, fact.message_id, fact.at_ms, EventState.FAILED, attempt_seq=attempt_seq)
        rows.dead_letters.append((fact.dead_letter_id, self.seq, fact.at_ms, number, status, attempt_seq))
        self._forget(fact.message_id)

    def _event(
        self,
        rows: Rows,
        message_id: MessageId,
        at_ms: int,
        state: EventState,
        attempt_seq: int | None = None,
        next_ms: int | None = None,
    ) -> None:
        self.seq += 1
        rows.events.append((self.seq, self._numbers[message_id], at_ms, state.value, attempt_seq, next_ms))

    def _forget(self, message_id: MessageId) -> None:
        del self._numbers[message_id]
        self._last_failures.pop(message_id, None)
