"""Reading the messages of a world as a list, each with how far it has come."""

from __future__ import annotations

import json
import sqlite3

from emulator.core.lifecycle import FINAL
from emulator.core.model.messages import Message, Phase
from emulator.journal import codec
from emulator.journal.conditions import Conditions, continue_after, message_of, page_of
from emulator.journal.schema import ATTEMPTS, EVENTS, MESSAGES
from emulator.journal.store import Store
from emulator.queries.history import Page
from emulator.queries.listings import LIVE, Course, MessageQuery, Moment
from emulator.queries.message_log import RecordedAttempt

# The page is chosen first: only its rows are read whole and checked.
_SELECT_MESSAGES = f"""
SELECT number, definition, {MESSAGES.is_whole} FROM messages WHERE number IN (
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
# The attempt that came back last: the event of an error names it, and that of a delivery follows it at once.
_SELECT_COURSES = f"""
SELECT found.number, begun, ended, ended_ms, attempts.at_ms, attempts.finished_ms, attempts.attempt, attempts.outcome,
       attempts.answered_by, found.is_whole AND (found.last IS NULL OR {ATTEMPTS.is_whole})
FROM (
    SELECT number, sum(state = 'ACTIVE') AS begun, max(CASE WHEN {_ENDED} THEN state END) AS ended,
           max(CASE WHEN {_ENDED} THEN at_ms END) AS ended_ms,
           max(CASE state WHEN 'DELIVERED' THEN seq - 1 WHEN 'ERROR' THEN attempt_seq END) AS last,
           min({EVENTS.is_whole}) AS is_whole
    FROM events WHERE number IN (SELECT value FROM json_each(?)) GROUP BY number
) AS found LEFT JOIN attempts ON attempts.seq = found.last
"""


class MessageListing:
    """Lists messages, live and ended, after everything that has happened so far is written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, query: MessageQuery, at: Moment) -> Page[Course]:
        """One page, the newest first. Raises InvalidInput for a cursor that is none of ours."""
        conditions = Conditions()
        conditions.add("messages.number <= ?", at.last_number)
        conditions.matching(query.wanted, "messages.message_id")
        if query.phases:
            _in_phases(conditions, query.phases, at)
        continue_after(conditions, "messages.number", query.cursor, latest_first=True)
        statement = _SELECT_MESSAGES % conditions.text
        rows = await self._store.whole_rows(statement, [*conditions.parameters, query.limit + 1])
        numbers = json.dumps([row[0] for row in rows])
        found = {row[0]: row for row in await self._store.whole_rows(_SELECT_COURSES, (numbers,))}
        # One that is not found was dropped meanwhile, as too old to keep.
        courses = [_course(found[number], message_of(definition)) for number, definition, _ in rows if number in found]
        return page_of(courses, query.limit, lambda each: f"{each.message.created_ms}-{each.message.number}")


def _in_phases(conditions: Conditions, phases: frozenset[Phase], at: Moment) -> None:
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


def _course(row: sqlite3.Row, message: Message) -> Course:
    _, begun, ended, ended_ms, at_ms, finished_ms, attempt, outcome, rule, _ = row
    last: RecordedAttempt | None = None
    if outcome is not None:
        last = RecordedAttempt(
            at_ms=finished_ms,
            started_ms=at_ms,
            number=attempt,
            outcome=codec.decode_outcome(outcome),
            answered_by=None if rule is None else codec.decode_rule(rule),
        )
    return Course(
        message=message,
        attempts=begun,
        last=last,
        ended=None if ended is None else Phase(ended),
        ended_ms=ended_ms,
    )
