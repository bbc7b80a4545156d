"""Reading messages: a list with the progress of each, the records of single ones, the failures that retries follow."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from emulator.core.message_facts import FINAL
from emulator.core.model.messages import EventState, HoldReason, Message, Phase
from emulator.core.record import MessageId
from emulator.journal import codec
from emulator.journal.conditions import (
    PAGE_BODY_BYTES,
    Conditions,
    continue_after,
    first_rows,
    message_of,
    page_of,
)
from emulator.journal.rows import Row
from emulator.journal.schema import ANNOTATIONS_OF, NUMBERS_OF
from emulator.journal.store import Store
from emulator.queries.history import (
    LIVE,
    Annotation,
    AnnotationKind,
    AsOf,
    EndedMessage,
    Entry,
    Failure,
    LoggedEvent,
    MessageLog,
    MessageProgress,
    MessageQuery,
    Page,
)

# The page is chosen first: only its rows are read whole.
_SELECT_MESSAGES = """
SELECT number, definition FROM messages WHERE number IN (
    SELECT messages.number FROM messages WHERE %s ORDER BY messages.number DESC LIMIT ?
) ORDER BY number DESC
"""
_ENDED = "events.state IN ('DELIVERED', 'FAILED', 'CANCELED')"
# Most messages are delivered, so a page of those is found at once. To find the few that were not, one pass over all
# events is ten times as fast as a look at those of each message.
_HAS_ENDED = """EXISTS (
    SELECT 1 FROM events WHERE events.number = messages.number AND events.state IN (SELECT value FROM json_each(?))
)"""
_IS_ONE_THAT_ENDED = """messages.number IN (
    SELECT number FROM events WHERE state IN (SELECT value FROM json_each(?))
)"""
# Their answers may be long.
_PROGRESS_AT_ONCE = 16
# The attempt that came back last, found as below.
_SELECT_PROGRESS = f"""
SELECT found.number, begun, ended, ended_ms, attempts.at_ms, attempts.finished_ms, attempts.attempt, attempts.outcome,
       attempts.answered_by
FROM (
    SELECT number, sum(state = 'ACTIVE') AS begun, max(CASE WHEN {_ENDED} THEN state END) AS ended,
           max(CASE WHEN {_ENDED} THEN at_ms END) AS ended_ms,
           max(CASE WHEN state = 'DELIVERED' THEN seq - 1
                    WHEN state IN ('ERROR', 'CANCELED') THEN attempt_seq END) AS last
    FROM events WHERE number IN (SELECT value FROM json_each(?)) GROUP BY number
) AS found LEFT JOIN attempts ON attempts.seq = found.last
"""
_SELECT_MESSAGE = f"SELECT number, definition FROM messages WHERE number IN ({NUMBERS_OF})"
_SELECT_EVENTS = """
SELECT seq, at_ms, state, next_delivery_ms FROM events WHERE number = ? ORDER BY seq
"""
# An attempt is found by its event: that of a delivery follows it at once, and that of an error names it, as that of a
# cancellation does that abandoned it.
_SELECT_ATTEMPTS = """
SELECT seq, at_ms, finished_ms, attempt, outcome, answered_by FROM attempts WHERE seq IN (
    SELECT CASE state WHEN 'DELIVERED' THEN seq - 1 ELSE attempt_seq END
    FROM events WHERE number = ? AND state IN ('ERROR', 'DELIVERED', 'CANCELED')
) ORDER BY seq
"""
_SELECT_ANNOTATIONS = f"""
SELECT after_seq, at_ms, kind, name, reason FROM annotations WHERE {ANNOTATIONS_OF} ORDER BY id
"""
_SELECT_FAILURES = """
SELECT messages.message_id, attempts.attempt, attempts.finished_ms, attempts.outcome
FROM (
    SELECT number, max(attempt_seq) AS attempt_seq FROM events
    WHERE number IN (SELECT value FROM json_each(?)) AND state = 'ERROR' GROUP BY number
) AS last
JOIN attempts ON attempts.seq = last.attempt_seq JOIN messages ON messages.number = last.number
"""
_SELECT_LAST_EVENT = "SELECT coalesce(max(seq), 0) FROM events"
_SELECT_EVENT_TIME = "SELECT at_ms FROM events WHERE seq >= ? ORDER BY seq LIMIT 1"
_SELECT_ENDED = """
SELECT messages.definition, events.at_ms
FROM events JOIN messages ON messages.number = events.number
WHERE events.seq >= ? AND events.state IN ('DELIVERED', 'FAILED', 'CANCELED') ORDER BY events.seq LIMIT ?
"""


def _in_phases(conditions: Conditions, phases: frozenset[Phase], at: AsOf) -> None:
    """Messages that are in one of the phases: history does not know those of live messages."""
    texts: list[str] = []
    lists: list[str] = []
    if phases & LIVE:
        texts.append("messages.number IN (SELECT value FROM json_each(?))")
        lists.append(json.dumps(at.numbers_in(phases)))
    if phases & FINAL:
        texts.append(_HAS_ENDED if Phase.DELIVERED in phases else _IS_ONE_THAT_ENDED)
        lists.append(json.dumps(sorted(phases & FINAL)))
    conditions.add(f"({' OR '.join(texts)})", *lists)


def _message_progress(row: Row, message: Message) -> MessageProgress:
    _, begun, ended, ended_ms, at_ms, finished_ms, attempt, outcome, rule = row
    return MessageProgress(
        message=message,
        attempts=begun,
        last=None if outcome is None else codec.decode_attempt(attempt, at_ms, finished_ms, outcome, rule),
        ended=None if ended is None else Phase(ended),
        ended_ms=ended_ms,
    )


class MessageLogs:
    """Lists of messages, and the recorded side of explanations, read after everything that has happened is written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, query: MessageQuery, at: AsOf) -> Page[MessageProgress]:
        """One page of messages, the newest first. Raises InvalidInput for a cursor that is none of ours."""
        conditions = Conditions()
        conditions.add("messages.number <= ?", at.last_number)
        conditions.matching(query.wanted, "messages.message_id")
        if query.phases:
            _in_phases(conditions, query.phases, at)
        continue_after(conditions, "messages.number", query.cursor, latest_first=True)
        statement = _SELECT_MESSAGES % conditions.text

        def read(connection: sqlite3.Connection) -> tuple[list[Row], int, list[Row]]:
            rows, is_cut = first_rows(connection, statement, [*conditions.parameters, query.limit + 1])
            progress: list[Row] = []
            size = 0
            for start in range(0, len(rows), _PROGRESS_AT_ONCE):
                if size > PAGE_BODY_BYTES:
                    return rows[: start + 1], start, progress
                numbers = [row[0] for row in rows[start : start + _PROGRESS_AT_ONCE]]
                more = connection.execute(_SELECT_PROGRESS, (json.dumps(numbers),)).fetchall()
                size += sum([len(row[-2] or b"") for row in more])
                progress += more
            return rows, len(rows) - 1 if is_cut else query.limit, progress

        rows, count, progress = await self._store.read(read)
        found = {row[0]: row for row in progress}
        page = page_of(rows, count, lambda row: f"{message_of(row[1]).created_ms}-{row[0]}")
        recorded = [_message_progress(found[number], message_of(definition)) for number, definition in page.items]
        for each in recorded:
            if each.ended is None and each.message.message_id not in at.live:
                raise self._store.damaged(f"the end of the message {each.message.message_id} is missing in its history")
        return Page(items=tuple(recorded), cursor=page.cursor)

    async def find(self, message_id: MessageId) -> MessageLog | None:
        """What is recorded of a message, live or ended; None for an id that no message has had."""

        def read(connection: sqlite3.Connection) -> list[list[Row]]:
            found = connection.execute(_SELECT_MESSAGE, (json.dumps([message_id]),)).fetchall()
            return (
                [found]
                + [
                    connection.execute(statement, (number,)).fetchall()
                    for number, _ in found
                    for statement in (_SELECT_EVENTS, _SELECT_ATTEMPTS)
                ]
                + [connection.execute(_SELECT_ANNOTATIONS, (message_id, message_id)).fetchall()]
            )

        # At one moment: the message continues meanwhile.
        found, *recorded = await self._store.read(read)
        if not found:
            return None
        events, attempts, annotations = recorded
        placed: list[tuple[int, int, Entry]] = []
        for seq, at_ms, state, next_ms in events:
            placed.append((seq, 0, LoggedEvent(at_ms=at_ms, state=EventState(state), next_delivery_ms=next_ms)))
        for seq, at_ms, finished_ms, attempt, outcome, rule in attempts:
            placed.append((seq, 0, codec.decode_attempt(attempt, at_ms, finished_ms, outcome, rule)))
        for seq, at_ms, kind, name, reason in annotations:
            hold = None if reason is None else HoldReason(reason)
            placed.append((seq, 1, Annotation(at_ms=at_ms, kind=AnnotationKind(kind), name=name, reason=hold)))
        # A stable sort: annotations after the same entry keep the order in which they were made.
        placed.sort(key=lambda each: each[:2])
        ((_, definition),) = found
        return MessageLog(message=codec.decode_message(definition), entries=tuple(entry for _, _, entry in placed))

    async def last_failures(self, numbers: Iterable[int]) -> dict[MessageId, Failure]:
        """The last failed attempt of each of these messages, which are given by their numbers."""
        rows = await self._store.rows(_SELECT_FAILURES, (json.dumps(sorted(numbers)),))
        return {
            message_id: Failure(number=attempt, at_ms=finished_ms, outcome=codec.decode_outcome(outcome))
            for message_id, attempt, finished_ms, outcome in rows
        }

    async def ended_after(self, instant_ms: int, count: int) -> list[EndedMessage]:
        """The first `count` messages that ended after an instant, in order."""
        rows = await self._store.rows(_SELECT_ENDED, (await self._first_event_after(instant_ms), count))
        messages = ((codec.decode_message(definition), at_ms) for definition, at_ms in rows)
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
