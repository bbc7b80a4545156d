"""Reading what is recorded of single messages: their logs, and the failures that retries follow from."""

from __future__ import annotations

import json
from collections.abc import Iterable

from emulator.core.model.messages import EventState, HoldReason
from emulator.core.model.names import MessageId
from emulator.journal import codec
from emulator.journal.schema import ANNOTATIONS_OF, NUMBERS_OF
from emulator.journal.store import Store
from emulator.journal.tables import ANNOTATIONS, ATTEMPTS, EVENTS, MESSAGES
from emulator.queries.history import EndedMessage
from emulator.queries.message_log import (
    Annotation,
    AnnotationKind,
    Entry,
    Failure,
    LoggedEvent,
    MessageLog,
)

_SELECT_MESSAGE = f"SELECT number, definition, {MESSAGES.is_whole} FROM messages WHERE number IN ({NUMBERS_OF})"
_SELECT_EVENTS = f"""
SELECT seq, at_ms, state, next_delivery_ms, {EVENTS.is_whole} FROM events WHERE number = ? ORDER BY seq
"""
# An attempt is found by its event: that of an error names it, and that of a delivery follows it at once.
_SELECT_ATTEMPTS = f"""
SELECT seq, at_ms, finished_ms, attempt, outcome, answered_by, {ATTEMPTS.is_whole} FROM attempts WHERE seq IN (
    SELECT CASE state WHEN 'DELIVERED' THEN seq - 1 ELSE attempt_seq END
    FROM events WHERE number = ? AND state IN ('ERROR', 'DELIVERED')
) ORDER BY seq
"""
_SELECT_ANNOTATIONS = f"""
SELECT after_seq, at_ms, kind, name, reason, {ANNOTATIONS.is_whole} FROM annotations WHERE {ANNOTATIONS_OF} ORDER BY id
"""
_SELECT_FAILURES = f"""
SELECT messages.message_id, attempts.attempt, attempts.finished_ms, attempts.outcome,
       {ATTEMPTS.is_whole} AND {MESSAGES.is_whole}
FROM (
    SELECT number, max(attempt_seq) AS attempt_seq FROM events
    WHERE number IN (SELECT value FROM json_each(?)) AND state = 'ERROR' GROUP BY number
) AS last
JOIN attempts ON attempts.seq = last.attempt_seq JOIN messages ON messages.number = last.number
"""
_SELECT_LAST_EVENT = "SELECT coalesce(max(seq), 0) FROM events"
_SELECT_EVENT_TIME = "SELECT at_ms FROM events WHERE seq >= ? ORDER BY seq LIMIT 1"
_SELECT_ENDED = f"""
SELECT messages.definition, events.at_ms, {EVENTS.is_whole} AND {MESSAGES.is_whole}
FROM events JOIN messages ON messages.number = events.number
WHERE events.seq >= ? AND events.state IN ('DELIVERED', 'FAILED', 'CANCELED') ORDER BY events.seq LIMIT ?
"""


class MessageLogs:
    """The recorded side of explanations and previews, read after everything that has happened is written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, message_id: MessageId) -> MessageLog | None:
        """What is recorded of a message, live or ended; None for an id that no message has had."""
        for number, definition, _ in await self._store.whole_rows(_SELECT_MESSAGE, (json.dumps([message_id]),)):
            placed: list[tuple[int, int, Entry]] = []
            for seq, at_ms, state, next_ms, _ in await self._store.whole_rows(_SELECT_EVENTS, (number,)):
                placed.append((seq, 0, LoggedEvent(at_ms=at_ms, state=EventState(state), next_delivery_ms=next_ms)))
            attempts = await self._store.whole_rows(_SELECT_ATTEMPTS, (number,))
            for seq, at_ms, finished_ms, attempt, outcome, rule, _ in attempts:
                placed.append((seq, 0, codec.decode_attempt(attempt, at_ms, finished_ms, outcome, rule)))
            annotations = await self._store.whole_rows(_SELECT_ANNOTATIONS, (message_id,))
            for seq, at_ms, kind, name, reason, _ in annotations:
                hold = None if reason is None else HoldReason(reason)
                placed.append((seq, 1, Annotation(at_ms=at_ms, kind=AnnotationKind(kind), name=name, reason=hold)))
            # A stable sort: annotations after the same entry keep the order in which they were made.
            placed.sort(key=lambda each: each[:2])
            return MessageLog(message=codec.decode_message(definition), entries=tuple(entry for _, _, entry in placed))
        return None

    async def last_failures(self, numbers: Iterable[int]) -> dict[MessageId, Failure]:
        """The last failed attempt of each of these messages, which are given by their numbers."""
        rows = await self._store.whole_rows(_SELECT_FAILURES, (json.dumps(sorted(numbers)),))
        return {
            message_id: Failure(number=attempt, at_ms=finished_ms, outcome=codec.decode_outcome(outcome))
            for message_id, attempt, finished_ms, outcome, _ in rows
        }

    async def ended_after(self, instant_ms: int, count: int) -> list[EndedMessage]:
        """The first `count` messages that ended after an instant, in order."""
        rows = await self._store.whole_rows(_SELECT_ENDED, (await self._first_event_after(instant_ms), count))
        messages = ((codec.decode_message(definition), at_ms) for definition, at_ms, _ in rows)
        return [EndedMessage(message_id=each.message_id, message=each, ended_ms=at_ms) for each, at_ms in messages]

    async def _first_event_after(self, instant_ms: int) -> int:
        """The number of an event after an instant, before which there is none.

        Events have no index by time; but their times rise with their numbers, so it can be searched for.
        """
        low, high = 1, 1
        for (last,) in await self._store.rows(_SELECT_LAST_EVENT, ()):
            high = last + 1
        while low < high:
            middle = (low + high) // 2
            rows = list(await self._store.rows(_SELECT_EVENT_TIME, (middle,)))
            if rows and rows[0][0] <= instant_ms:
                low = middle + 1
            else:
                high = middle
        return low
