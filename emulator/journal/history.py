"""Reading history: messages that have ended, the event log, dead letters, the delivery journal, the trace.

Filters become `?` parameters of fixed conditions; no text of a user's ever enters a statement.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from emulator.core.model.messages import EventState, Message, Response, delivered_bytes
from emulator.core.model.options import CallType
from emulator.core.model.workflows import WorkflowStep, as_delivered
from emulator.core.record import AccountId, DeadLetterId, MessageId, RunId
from emulator.core.rules.callbacks import decompressed
from emulator.journal import codec, schema
from emulator.journal.conditions import BulkRange, Conditions, continue_after, count_in_page, message_of, page_of
from emulator.journal.rows import Found, Row
from emulator.journal.store import Store
from emulator.queries.history import (
    CallbackState,
    DeadLetterEntry,
    DeadLetterQuery,
    DeliveryCount,
    DeliveryQuery,
    Dropped,
    EndedMessage,
    Event,
    EventQuery,
    HistoryPosition,
    MessageEvents,
    Page,
    RecordedDelivery,
)

_SELECT_ENDED = f"""
SELECT messages.definition, events.at_ms
FROM messages JOIN events ON events.number = messages.number
WHERE messages.number IN ({schema.NUMBERS_OF}) AND messages.account_id = ?
AND events.state IN ('DELIVERED', 'FAILED', 'CANCELED')
"""
_SELECT_EVENTS = """
SELECT events.seq, events.at_ms, events.state, events.next_delivery_ms, messages.definition, attempts.outcome
FROM events JOIN messages ON messages.number = events.number LEFT JOIN attempts ON attempts.seq = events.attempt_seq
WHERE """
_SELECT_OLDEST_KEPT = """
SELECT events.seq FROM events JOIN messages ON messages.number = events.number
WHERE messages.account_id = ? ORDER BY events.seq DESC LIMIT 1 OFFSET ?
"""
_SELECT_DEAD_LETTERS = """
SELECT dead_letters.dead_letter_id, dead_letters.failed_ms, dead_letters.position, messages.definition,
       attempts.outcome, attempts.answered_by, workflow_messages.run_number, workflow_runs.labels, %s
FROM dead_letters JOIN messages ON messages.number = dead_letters.number
LEFT JOIN attempts ON attempts.seq = dead_letters.attempt_seq
LEFT JOIN workflow_messages ON workflow_messages.number = dead_letters.number
LEFT JOIN workflow_runs ON workflow_runs.run_number = workflow_messages.run_number
WHERE """
# The state of the last call of the failure function of a dead letter's run, if that was called.
_CALLBACK_STATE = """(
    SELECT CASE events.state WHEN 'DELIVERED' THEN 'CALLBACK_SUCCESS' WHEN 'FAILED' THEN 'CALLBACK_FAIL'
                             WHEN 'CANCELED' THEN 'CALLBACK_CANCELED' ELSE 'CALLBACK_INPROGRESS' END
    FROM workflow_messages AS calls JOIN events ON events.number = calls.number
    WHERE calls.run_number = workflow_messages.run_number AND calls.call_type = 'failureCall'
    ORDER BY events.number DESC, events.seq DESC LIMIT 1
)"""
_SELECT_DEAD_LETTERS %= _CALLBACK_STATE
# Messages of workflow runs are shown with their runs.
_OF_NO_RUN = "events.number NOT IN (SELECT number FROM workflow_messages)"
_SELECT_DELIVERIES = """
SELECT attempts.seq, attempts.at_ms, attempts.finished_ms, attempts.attempt, messages.definition, attempts.outcome,
       attempts.answered_by
FROM attempts JOIN messages ON messages.number = attempts.number
WHERE """
_COUNT_DELIVERIES = "SELECT count(*), count(DISTINCT attempts.number) FROM attempts WHERE "
_NUMBERS = "SELECT messages.number FROM messages WHERE "
_SELECT_TRACE = """
SELECT events.seq, events.number, events.at_ms, NULL, NULL, events.state, events.next_delivery_ms, attempts.outcome,
       NULL
FROM events LEFT JOIN attempts ON attempts.seq = events.attempt_seq WHERE events.seq > ? AND events.seq <= ?
UNION ALL
SELECT seq, number, at_ms, finished_ms, attempt, NULL, NULL, outcome, answered_by
FROM attempts WHERE seq > ? AND seq <= ?
ORDER BY 1
"""
# In the order of the list: SQLite goes through the first of a CROSS JOIN from its beginning to its end.
_SELECT_DEFINITIONS = """
SELECT number, definition FROM json_each(?) AS wanted CROSS JOIN messages ON messages.number = wanted.value
"""
_SELECT_RUN = "SELECT 1 FROM workflow_runs WHERE run_id = ? AND account_id = ? LIMIT 1"
_SELECT_LISTED = """
SELECT message_id, call_type, body
FROM workflow_steps WHERE run_number = ? ORDER BY id LIMIT ?
"""
_TRACE_STEP = 5_000
# So many messages with their events are read at a time.
_MESSAGES_AT_ONCE = 16


def _of_run(conditions: Conditions, query: DeadLetterQuery) -> None:
    """Dead letters of workflow runs, or of other messages: two queues, or both."""
    wanted = query.workflow
    if wanted is None:
        if not query.both:
            conditions.add("workflow_messages.run_number IS NULL")
        return
    conditions.add("workflow_messages.run_number IS NOT NULL")
    conditions.among("workflow_runs.url", wanted.urls)
    conditions.among("workflow_runs.run_id", wanted.run_ids)
    conditions.among(_CALLBACK_STATE, [state.value for state in wanted.callback_states])
    conditions.given("workflow_runs.created_ms = ?", wanted.created_ms)


def _choose_events(conditions: Conditions, query: EventQuery) -> None:
    """What the filters of a query ask of events and of their messages."""
    conditions.given("events.at_ms >= ?", query.from_ms)
    conditions.given("events.at_ms <= ?", query.to_ms)
    conditions.of_states(query)
    conditions.of_message(query)
    # Hosts are compared without letter case (D-522).
    conditions.among("messages.host COLLATE NOCASE", query.hosts)
    conditions.among("messages.path", query.paths)


class History:
    """What has happened in one world, read after everything that has happened so far is written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The last entry whose delivery was removed from view.
        self.cleared_up_to = 0
        # Drawn once, so that concurrent first calls of `generation` agree.
        self._new_generation = secrets.token_hex(4)
        self._generation: str | None = None

    async def load(self) -> None:
        """Recall which deliveries were removed from view."""
        self.cleared_up_to = int((await self._store.meta()).get(schema.DELIVERIES_CLEARED, b"0"))

    # -- messages ---------------------------------------------------------------------------

    async def ended_message(self, account_id: AccountId, message_id: MessageId) -> EndedMessage | None:
        """A message that has ended, whenever that was; None for one that has not, or never was."""
        wanted = (json.dumps([message_id]), account_id)
        for definition, ended_ms in await self._store.rows(_SELECT_ENDED, wanted):
            message = message_of(definition)
            steps = await self._steps((message,))
            return EndedMessage(message_id=message_id, message=_delivered(message, steps), ended_ms=ended_ms)
        return None

    # -- workflow runs ----------------------------------------------------------------------

    async def has_run(self, account_id: AccountId, run_id: RunId) -> bool:
        """Whether a run had that id, as far as history is kept."""
        return bool(list(await self._store.rows(_SELECT_RUN, (run_id, account_id))))

    # -- events -----------------------------------------------------------------------------

    async def events(self, query: EventQuery) -> Page[Event]:
        """One page of the event log. Raises InvalidInput for a cursor that is none of ours."""
        conditions = await self._kept_events(query)
        _choose_events(conditions, query)
        continue_after(conditions, "events.seq", query.cursor, latest_first=query.latest_first, instant="events.at_ms")
        found, count = await self._select_events(conditions, query, query.count)
        count = min(count, count_in_page(found, _bytes_of_event))
        return page_of(found, count, lambda event: f"{event.at_ms}-{event.seq}")

    async def events_by_message(self, query: EventQuery) -> Page[MessageEvents]:
        """One page of the messages with an event that the query means, each with all its events that are kept (D-525).

        A message stands where the first such event does. Raises InvalidInput for a cursor that is none of ours.
        """
        kept = await self._kept_events(query)
        conditions = Conditions(list(kept.texts), list(kept.parameters))
        _choose_events(conditions, query)
        after = Conditions()
        continue_after(after, "place", query.cursor, latest_first=query.latest_first, instant="at_ms")
        edge, order = ("max", "DESC") if query.latest_first else ("min", "ASC")
        statement = (
            f"SELECT events.number, {edge}(events.seq) AS place, {edge}(events.at_ms) AS at_ms "
            f"FROM events JOIN messages ON messages.number = events.number WHERE {conditions.text} "
            f"GROUP BY events.number HAVING {after.text} ORDER BY place {order} LIMIT ?"
        )
        parameters = [*conditions.parameters, *after.parameters, query.count + 1]
        places = await self._store.rows(statement, parameters)
        found: list[MessageEvents] = []
        while len(found) < len(places):
            found += await self._with_events(kept, query, [number for number, _, _ in places[len(found) :]])
            if count_in_page(found, _bytes_of_events) < len(found):
                break
        count = min(query.count, count_in_page(found, _bytes_of_events))
        items = tuple(found[:count])
        if count >= len(places):
            return Page(items=items, cursor=None)
        _, seq, at_ms = places[count - 1]
        return Page(items=items, cursor=f"{at_ms}-{seq}")

    async def _with_events(self, kept: Conditions, query: EventQuery, numbers: list[int]) -> list[MessageEvents]:
        """The first few of the messages with these numbers, each with its events that are kept."""
        numbers = numbers[:_MESSAGES_AT_ONCE]
        conditions = Conditions(list(kept.texts), list(kept.parameters))
        conditions.among("events.number", numbers)
        order = "DESC" if query.latest_first else "ASC"
        rows = await self._store.rows(
            f"{_SELECT_EVENTS}{conditions.text} ORDER BY events.seq {order}", conditions.parameters
        )
        events: dict[int, list[Event]] = {number: [] for number in numbers}
        for seq, at_ms, state, next_ms, definition, outcome in rows:
            event = _event(seq, at_ms, state, next_ms, message_of(definition), outcome)
            events[event.message.number].append(event)
        by_number = await self._definitions(set(numbers))
        return [MessageEvents(message=by_number[each], events=tuple(events[each])) for each in numbers]

    async def _kept_events(self, query: EventQuery) -> Conditions:
        """Events of the account's messages, of runs aside, that its plan still shows."""
        conditions = Conditions()
        conditions.add("messages.account_id = ?", query.account_id)
        conditions.add(_OF_NO_RUN)
        conditions.add("events.at_ms >= ?", query.since_ms)
        if query.newest is not None:
            for (seq,) in await self._store.rows(_SELECT_OLDEST_KEPT, (query.account_id, max(0, query.newest - 1))):
                conditions.add("events.seq >= ?", seq)
        return conditions

    async def _select_events(self, conditions: Conditions, query: EventQuery, count: int) -> tuple[list[Event], int]:
        """As `_select`."""
        latest_first = query.latest_first
        rows, count = await self._select(_SELECT_EVENTS, conditions, "events.seq", count, latest_first=latest_first)
        found = [
            _event(seq, at_ms, state, next_ms, message_of(definition), outcome)
            for seq, at_ms, state, next_ms, definition, outcome in rows
        ]
        return found, count

    async def _select(
        self,
        statement: str,
        conditions: Conditions,
        column: str,
        count: int,
        *,
        latest_first: bool,
        whole: bool = False,
    ) -> tuple[list[Row], int]:
        """The rows for which the conditions hold, in the order of a column, and how many a page may have.

        That is `count`, or fewer if they are long, unless the page is `whole`, as that of a bulk operation, which
        shows none of it. There is a row more than that if it is not the last page.
        """
        order = "DESC" if latest_first else "ASC"
        ordered = f"{statement}{conditions.text} ORDER BY {column} {order} LIMIT ?"
        parameters = [*conditions.parameters, count + 1]
        if whole:
            return await self._store.rows(ordered, parameters), count
        rows, is_cut = await self._store.first_rows(ordered, parameters)
        return rows, len(rows) - 1 if is_cut else count

    # -- dead letters -----------------------------------------------------------------------

    async def dead_letters(self, query: DeadLetterQuery) -> Page[DeadLetterEntry]:
        """One page of the dead letter queue. Raises InvalidInput for a cursor that is none of ours."""
        conditions = Conditions()
        conditions.given("messages.account_id = ?", query.account_id)
        conditions.given("dead_letters.failed_ms >= ?", query.from_ms)
        conditions.given("dead_letters.failed_ms <= ?", query.to_ms)
        conditions.among("dead_letters.dead_letter_id", query.dead_letter_ids)
        conditions.among("dead_letters.status", query.response_statuses)
        _of_run(conditions, query)
        conditions.of_message(query)
        ids = ("dead_letters.dead_letter_id", "messages.message_id", "workflow_runs.run_id")
        conditions.matching(query.wanted, *ids, runs=True)
        column, latest_first = "dead_letters.position", query.latest_first
        bulk = None if query.operation is None else BulkRange(query, await self._store.last_seq())
        if bulk is not None:
            bulk.limit(conditions, column)
        else:
            continue_after(conditions, column, query.cursor, latest_first=latest_first)
        rows, count = await self._select(
            _SELECT_DEAD_LETTERS, conditions, column, query.count, latest_first=latest_first, whole=bulk is not None
        )
        positions = {row[0]: row[2] for row in rows}
        found = [
            DeadLetterEntry(
                dead_letter_id=DeadLetterId(dead_letter_id),
                failed_ms=failed_ms,
                message=message_of(definition),
                outcome=codec.decode_outcome(outcome),
                run_number=run_number,
                answered_by=None if rule is None else codec.decode_rule(rule),
                run_labels=() if labels is None else tuple(json.loads(labels)),
                callback_state=None if called is None else CallbackState(called),
            )
            for dead_letter_id, failed_ms, _, definition, outcome, rule, run_number, labels, called in rows
        ]
        if bulk is None:
            count = min(count, count_in_page(found, lambda entry: _bytes_of(entry.message, entry.outcome.response)))

        def cursor_of(entry: DeadLetterEntry) -> str:
            position = positions[entry.dead_letter_id]
            return f"{entry.failed_ms}-{position}" if bulk is None else bulk.cursor(entry.failed_ms, position)

        return page_of(found, count, cursor_of)

    # -- deliveries -------------------------------------------------------------------------

    async def deliveries(self, query: DeliveryQuery) -> Page[RecordedDelivery]:
        """One page of the delivery journal, shorter if bodies or answers are long.

        `as_sent` gives the attempts their bodies. Raises InvalidInput for a foreign cursor.
        """
        conditions = self._of_deliveries(query)
        column, latest_first = "attempts.seq", query.latest_first
        continue_after(conditions, column, query.cursor, latest_first=latest_first)
        rows, count = await self._select(_SELECT_DELIVERIES, conditions, column, query.limit, latest_first=latest_first)
        found = [
            _delivery(seq, at_ms, finished_ms, attempt, message_of(definition), outcome, rule)
            for seq, at_ms, finished_ms, attempt, definition, outcome, rule in rows
        ]
        count = min(count, count_in_page(found, lambda each: _bytes_of(each.message, each.outcome.response)))
        return page_of(found, count, lambda delivery: f"{delivery.at_ms}-{delivery.seq}")

    async def as_sent(self, found: Sequence[RecordedDelivery]) -> Iterator[RecordedDelivery]:
        """Attempts with the bodies that they sent, one at a time: that of a run's call has all steps before it."""
        steps = await self._steps(each.message for each in found)
        return (
            each if each.message.run is None else replace(each, message=_delivered(each.message, steps))
            for each in found
        )

    async def _steps(self, messages: Iterable[Message]) -> dict[int, list[WorkflowStep]]:
        """Of each run, by its number, the steps that calls of it deliver."""
        most: dict[int, int] = {}
        for part in (message.run for message in messages):
            if part is not None and part.listed:
                most[part.run_number] = max(part.listed, most.get(part.run_number, 0))
        return {
            number: [
                WorkflowStep(message_id=MessageId(message_id), body=body, call_type=CallType(call_type))
                for message_id, call_type, body in await self._store.rows(_SELECT_LISTED, (number, count))
            ]
            for number, count in most.items()
        }

    async def count_deliveries(self, query: DeliveryQuery) -> DeliveryCount:
        """How many attempts fit a query, whatever its limit and its cursor."""
        conditions = self._of_deliveries(query)
        rows = await self._store.rows(f"{_COUNT_DELIVERIES}{conditions.text}", conditions.parameters)
        [(attempts, messages)] = rows
        return DeliveryCount(attempts=attempts, messages=messages)

    def _of_deliveries(self, query: DeliveryQuery) -> Conditions:
        conditions, messages = Conditions(), Conditions()
        conditions.add("attempts.seq > ?", max(self.cleared_up_to, self.dropped.seq))
        if query.message_id is not None:
            messages.of_ids([query.message_id])
        messages.matching(query.wanted)
        if messages.texts:
            # The messages are few, or the filter is of little use: they are found first.
            conditions.add(f"attempts.number IN ({_NUMBERS}{messages.text})", *messages.parameters)
        if query.outcome is not None:
            conditions.add("attempts.succeeded = ?", query.outcome == "succeeded")
        conditions.given("attempts.at_ms >= ?", query.since_ms)
        conditions.given("attempts.seq = ?", query.seq)
        return conditions

    @property
    def dropped_deliveries(self) -> Dropped:
        """What is not kept any more of the delivery journal; what was removed from view before is not missed."""
        return Dropped() if self.cleared_up_to >= self.dropped.seq else self.dropped

    async def clear_deliveries(self) -> None:
        """Empty the delivery journal. The event log and the trace keep what they need of it."""
        for (seq,) in await self._store.rows("SELECT coalesce(max(seq), 0) FROM attempts", ()):
            self.cleared_up_to = seq
        await self._store.write_meta(schema.DELIVERIES_CLEARED, b"%d" % self.cleared_up_to)

    # -- the trace --------------------------------------------------------------------------

    async def trace(self, step: int = _TRACE_STEP) -> AsyncIterator[Event | RecordedDelivery]:
        """Every event and attempt in order that was not dropped, read `step` at a time."""
        last, seq = await self._store.last_seq(), self.dropped.seq
        while seq < last:
            entries = await self.since(seq, min(step, last - seq))
            if not entries or entries[-1].seq != seq + len(entries):
                raise self._store.damaged(f"entries of its history after the {seq}th are missing")
            for entry in entries:
                yield entry
            seq += len(entries)

    async def since(self, seq: int, count: int) -> list[Event | RecordedDelivery]:
        """The next `count` events and attempts after entry `seq`, or after what was dropped.

        They are fewer if they are long, or if there are no more yet.
        """
        # Each number of the common count is an event's or an attempt's, and none behind the dropped ones is missing.
        seq = max(seq, self.dropped.seq)
        latest = self._store.latest.since(seq, count)
        if latest is None or len(latest.rows) < count:
            # Only then: to write what has happened since the last group has a price however little it is.
            await self._store.writer.flush_history()
            latest = self._store.latest.since(seq, count)
        if latest is not None:
            definitions = await self._definitions_of(latest)
            return [_entry(row, definitions[row[1]]) for row in latest.rows]
        rows, _ = await self._store.first_rows(_SELECT_TRACE, (seq, seq + count) * 2)
        if not rows:
            return []
        definitions = await self._first_definitions(dict.fromkeys(row[1] for row in rows))
        return [_entry(row, definitions[row[1]]) for row in takewhile(lambda row: row[1] in definitions, rows)]

    async def _definitions_of(self, latest: Found) -> dict[int, Message]:
        numbers: set[int] = {row[1] for row in latest.rows}
        known = {each: message_of(latest.definitions[each]) for each in numbers if each in latest.definitions}
        # The others were published before anybody followed.
        others = numbers - known.keys()
        return known | await self._definitions(others) if others else known

    async def position(self) -> HistoryPosition:
        """Where history ends now."""
        return HistoryPosition(generation=await self.generation(), seq=await self._store.last_seq())

    async def generation(self) -> str:
        """What distinguishes this history from that before a reset or restore; it survives a restart."""
        if self._generation is None:
            kept = (await self._store.meta()).get(schema.GENERATION)
            if kept is None:
                await self._store.write_meta(schema.GENERATION, self._new_generation.encode())
            self._generation = self._new_generation if kept is None else kept.decode()
        return self._generation

    @property
    def dropped(self) -> Dropped:
        """What is not kept any more of the oldest history."""
        return self._store.writer.dropped

    async def _definitions(self, numbers: set[int]) -> dict[int, Message]:
        rows = await self._store.rows(_SELECT_DEFINITIONS, (json.dumps(sorted(numbers)),))
        return self._all_definitions(rows, len(numbers))

    async def _first_definitions(self, numbers: Collection[int]) -> dict[int, Message]:
        """Of long messages only the first, in this order."""
        rows, is_cut = await self._store.first_rows(_SELECT_DEFINITIONS, (json.dumps(list(numbers)),))
        return self._all_definitions(rows, len(rows) if is_cut else len(numbers))

    def _all_definitions(self, rows: Sequence[Row], count: int) -> dict[int, Message]:
        if len(rows) < count:
            raise self._store.damaged(f"{count - len(rows)} messages of its history are missing")
        return {number: message_of(definition) for number, definition in rows}


def _bytes_of(message: Message, response: Response | None) -> int:
    """The bytes of a message's body and of an answer, as a list shows them: unpacked."""
    answer = 0 if response is None else len(decompressed(response, message.headers).body)
    return delivered_bytes(message) + answer


def _bytes_of_event(event: Event) -> int:
    return _bytes_of(event.message, event.response)


def _bytes_of_events(message: MessageEvents) -> int:
    return sum(_bytes_of_event(each) for each in message.events)


def _delivered(message: Message, steps: Mapping[int, Sequence[WorkflowStep]]) -> Message:
    return message if message.run is None else as_delivered(message, steps.get(message.run.run_number, ()))


def _entry(row: sqlite3.Row | Row, message: Message) -> Event | RecordedDelivery:
    seq, _, at_ms, finished_ms, attempt, state, next_ms, encoded, rule = row
    if state is not None:
        return _event(seq, at_ms, state, next_ms, message, encoded)
    return _delivery(seq, at_ms, finished_ms, attempt, message, encoded, rule)


def _delivery(
    seq: int, at_ms: int, finished_ms: int, attempt: int, message: Message, outcome: bytes, rule: bytes | None
) -> RecordedDelivery:
    return RecordedDelivery(
        seq=seq,
        at_ms=at_ms,
        finished_ms=finished_ms,
        message=message,
        attempt=attempt,
        outcome=codec.decode_outcome(outcome),
        answered_by=None if rule is None else codec.decode_rule(rule),
    )


def _event(seq: int, at_ms: int, state: str, next_ms: int | None, message: Message, encoded: bytes | None) -> Event:
    error = response = None
    if encoded is not None:
        outcome = codec.decode_outcome(encoded)
        response = outcome.response
        error = outcome.error if response is None else f"destination answered {response.status}"
    return Event(
        seq=seq,
        at_ms=at_ms,
        state=EventState(state),
        message=message,
        error=error,
        response=response,
        next_delivery_ms=next_ms,
    )
