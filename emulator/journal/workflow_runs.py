"""Reading workflow runs: pages of them, and all that is recorded of one, with its steps as of now."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from emulator.core.errors import NotFound
from emulator.core.model.messages import EventState, Phase
from emulator.core.model.options import CallType
from emulator.core.model.workflows import RunState, WorkflowStep
from emulator.core.record import AccountId, DeadLetterId, MessageId, RunId
from emulator.core.state import StateView
from emulator.journal import codec
from emulator.journal.conditions import LABELS, Conditions, continue_after, page_of
from emulator.journal.history import History
from emulator.journal.rows import Row
from emulator.journal.schema import NUMBERS_OF
from emulator.journal.store import Store
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, Page, RecordedAttempt
from emulator.queries.workflow_runs import (
    AcceptedStep,
    RecordedRun,
    RecordedWait,
    RunEnding,
    RunMessage,
    RunOfId,
    RunQuery,
    RunSummary,
)
from emulator.queries.workflow_steps import RunLog, run_log

# The payload is the body of the first step.
_SELECT_RUNS = """
SELECT workflow_runs.run_number, workflow_runs.definition, first.body, workflow_ends.at_ms, workflow_ends.state,
       workflow_ends.response, workflow_ends.dead_letter_id
FROM workflow_runs
JOIN workflow_steps AS first ON first.id = (
    SELECT min(id) FROM workflow_steps WHERE workflow_steps.run_number = workflow_runs.run_number
)
LEFT JOIN workflow_ends ON workflow_ends.run_number = workflow_runs.run_number
WHERE workflow_runs.run_number IN (%s) ORDER BY workflow_runs.run_number DESC
"""
# The page is chosen first: only its rows are read whole. Runs that have ended in one way are found by their ends, which
# have an index of that.
_NUMBERS = """
SELECT workflow_runs.run_number
FROM workflow_runs LEFT JOIN workflow_ends ON workflow_ends.run_number = workflow_runs.run_number
WHERE %s ORDER BY workflow_runs.run_number DESC LIMIT ?
"""
_NUMBERS_OF_ENDED = """
SELECT workflow_ends.run_number
FROM workflow_ends CROSS JOIN workflow_runs ON workflow_runs.run_number = workflow_ends.run_number
WHERE %s ORDER BY workflow_ends.run_number DESC LIMIT ?
"""
_STATE = f"coalesce(workflow_ends.state, '{RunState.STARTED.value}')"
_COUNT_CHOSEN = f"""
SELECT {_STATE}, count(*)
FROM workflow_runs LEFT JOIN workflow_ends ON workflow_ends.run_number = workflow_runs.run_number
WHERE %s GROUP BY 1
"""
# Without conditions, from indexes alone.
_COUNT_ALL = f"""
SELECT state, count(*) FROM workflow_ends GROUP BY state UNION ALL
SELECT '{RunState.STARTED.value}', (SELECT count(*) FROM workflow_runs) - (SELECT count(*) FROM workflow_ends)
"""
_SELECT_OF_ID = f"""
SELECT workflow_runs.run_number, workflow_runs.created_ms, {_STATE}
FROM workflow_runs LEFT JOIN workflow_ends ON workflow_ends.run_number = workflow_runs.run_number
WHERE workflow_runs.run_id = ? ORDER BY workflow_runs.run_number DESC LIMIT ?
"""
_SELECT_STEPS = """
SELECT message_id, at_ms, call_type, body
FROM workflow_steps WHERE run_number = ? ORDER BY id
"""
_SELECT_WAITS = """
SELECT at_ms, waiter FROM workflow_waits WHERE run_number = ? ORDER BY number
"""
_SELECT_MESSAGES = """
SELECT messages.number, workflow_messages.call_type, messages.definition
FROM workflow_messages JOIN messages ON messages.number = workflow_messages.number
WHERE workflow_messages.run_number = ? ORDER BY messages.number
"""
_SELECT_EVENTS = """
SELECT events.number, events.at_ms, events.state, events.next_delivery_ms
FROM workflow_messages JOIN events ON events.number = workflow_messages.number
WHERE workflow_messages.run_number = ? ORDER BY events.seq
"""
# An attempt is found by its event: that of a delivery follows it at once, and that of an error names it, as that of a
# cancellation does that abandoned it.
_SELECT_ATTEMPTS = """
SELECT attempts.number, attempts.at_ms, attempts.finished_ms, attempts.attempt, attempts.outcome,
       attempts.answered_by
FROM workflow_messages JOIN events ON events.number = workflow_messages.number
JOIN attempts ON attempts.seq = CASE events.state WHEN 'DELIVERED' THEN events.seq - 1 ELSE events.attempt_seq END
WHERE workflow_messages.run_number = ? AND events.state IN ('ERROR', 'DELIVERED', 'CANCELED') ORDER BY attempts.seq
"""
_OF_MESSAGES = f"""workflow_runs.run_number IN (
    SELECT run_number FROM workflow_messages WHERE number IN ({NUMBERS_OF})
)"""
_CREATED = "workflow_runs.created_ms"
# By texts: to make an enumeration's value of one takes as long as to decode an attempt, and a run may have many.
_PHASES = {
    EventState.CREATED.value: Phase.PENDING,
    EventState.ACTIVE.value: Phase.ACTIVE,
    EventState.ERROR.value: Phase.RETRYING,
    EventState.RETRY.value: Phase.RETRYING,
    EventState.DELIVERED.value: Phase.DELIVERED,
    EventState.FAILED.value: Phase.FAILED,
    EventState.CANCELED.value: Phase.CANCELED,
}
_CALL_TYPES = {each.value: each for each in CallType}
_ENDS = (Phase.DELIVERED, Phase.FAILED, Phase.CANCELED)
# Runs that are read with their steps at a time.
_RUNS_AT_ONCE = 50
# So many active runs are looked for by their numbers.
_FEW_RUNS = 10_000


class RunLogs:
    """Reads history after everything that has happened so far is written. It changes nothing."""

    def __init__(self, state: StateView, store: Store, history: History) -> None:
        self._state = state
        self._history = history
        self._store = store

    async def summaries(self, query: RunQuery) -> Page[RunSummary]:
        """One page of runs without their steps. Raises InvalidInput for a cursor that is none of ours."""
        if query.states == (RunState.STARTED,) and not query.numbers:
            active = tuple(run.number for owner in self._state.accounts.values() for run in owner.runs.values())
            if not active:
                return Page(items=(), cursor=None)
            if len(active) <= _FEW_RUNS:
                # Of many runs that have ended, history would look at each to find these.
                query = replace(query, numbers=active)
        return await self._page(query)

    async def _page(self, query: RunQuery) -> Page[RunSummary]:
        """One page of runs, newest first. Raises InvalidInput for a cursor that is none of ours."""
        conditions, numbers, column = _chosen(query), _NUMBERS, "workflow_runs.run_number"
        match () if query.runs else query.states:
            case (RunState.STARTED,):
                conditions.add("workflow_ends.run_number IS NULL")
            case (state,):
                conditions.add("workflow_ends.state = ?", state.value)
                numbers, column = _NUMBERS_OF_ENDED, "workflow_ends.run_number"
            case states:
                conditions.among(_STATE, [each.value for each in states])
        continue_after(conditions, column, query.cursor, latest_first=True, instant=_CREATED)
        statement = _SELECT_RUNS % (numbers % conditions.text)
        found = [_summary(row) for row in await self._store.rows(statement, [*conditions.parameters, query.count + 1])]
        return page_of(found, query.count, lambda each: f"{each.run.created_ms}-{each.run.number}")

    async def count(self, query: RunQuery) -> dict[RunState, int]:
        """How many runs that a query means are in each state, whatever states, count and cursor it has."""
        conditions = _chosen(query)
        statement = _COUNT_CHOSEN % conditions.text if conditions.texts else _COUNT_ALL
        rows = await self._store.rows(statement, conditions.parameters)
        return dict.fromkeys(RunState, 0) | {RunState(state): count for state, count in rows}

    async def page(self, query: RunQuery) -> Page[RunLog]:
        """One page of runs with their steps. Raises InvalidInput for a cursor that is none of ours."""
        if not query.step_states:
            page = await self._page(query)
            return Page(items=tuple([await self._log(each) for each in page.items]), cursor=page.cursor)
        found: list[RunLog] = []
        async for log in self._with_steps(query):
            if len(found) == query.count:
                last = found[-1].recorded.run
                return Page(items=tuple(found), cursor=f"{last.created_ms}-{last.number}")
            found.append(log)
        return Page(items=tuple(found), cursor=None)

    async def _with_steps(self, query: RunQuery) -> AsyncIterator[RunLog]:
        """The runs in one of the states that are asked for, or with a step in one; no column holds a step's state."""
        cursor, query_states = query.cursor, frozenset(query.step_states)
        while True:
            page = await self._page(replace(query, states=(), cursor=cursor, count=_RUNS_AT_ONCE))
            for summary in page.items:
                log = await self._log(summary)
                steps = (step.state for group in log.groups for step in group.steps)
                tried = (trial.state for trial in log.trials)
                if summary.state in query.states or not query_states.isdisjoint((*steps, *tried)):
                    yield log
            if page.cursor is None:
                return
            cursor = page.cursor

    async def find(self, run_id: RunId, account_id: AccountId | None = None, number: int | None = None) -> RunLog:
        """The run with this id and number, or the latest with the id (D-390), of any account unless one is given.

        Raises NotFound.
        """
        numbers = () if number is None else (number,)
        page = await self._page(RunQuery(account_id=account_id, count=1, run_ids=(run_id,), numbers=numbers))
        if not page.items:
            raise NotFound("workflow run", run_id if number is None else f"{run_id} of number {number}")
        return await self._log(page.items[0])

    async def with_id(self, run_id: RunId, count: int) -> tuple[RunOfId, ...]:
        """The runs that have used an id, of any account, the newest first; at most so many."""
        rows = await self._store.rows(_SELECT_OF_ID, (run_id, count))
        return tuple(RunOfId(number=number, created_ms=at_ms, state=RunState(state)) for number, at_ms, state in rows)

    async def dead_letters(self, query: DeadLetterQuery) -> Page[tuple[DeadLetterEntry, RunLog]]:
        """One page of the dead letters of runs, each with its run. Raises InvalidInput for a foreign cursor."""
        page = await self._history.dead_letters(query)
        numbers = tuple({entry.run_number for entry in page.items if entry.run_number is not None})
        runs = await self._page(RunQuery(account_id=query.account_id, count=len(numbers), numbers=numbers))
        logs = {each.run.number: await self._log(each) for each in runs.items} if numbers else {}
        found = ((entry, logs[entry.run_number]) for entry in page.items if entry.run_number in logs)
        return Page(items=tuple(found), cursor=page.cursor)

    async def _log(self, summary: RunSummary) -> RunLog:
        return run_log(await self._record(summary), self._state.now_ms)

    async def _record(self, summary: RunSummary) -> RecordedRun:
        """All that is recorded of a run."""
        run = summary.run
        invoked = Conditions()
        # A client may leave out when the invoker was created.
        invoked.among("workflow_runs.invoker", [f"{run.run_id}@{run.created_ms}", f"{run.run_id}@0"])

        def read(connection: sqlite3.Connection) -> list[list[Row]]:
            statements = (_SELECT_STEPS, _SELECT_WAITS, _SELECT_EVENTS, _SELECT_ATTEMPTS, _SELECT_MESSAGES)
            rows = [connection.execute(statement, (run.number,)).fetchall() for statement in statements]
            found = connection.execute(_SELECT_RUNS % (_NUMBERS % invoked.text), [*invoked.parameters, -1])
            return [*rows, found.fetchall()]

        # At one moment: messages continue meanwhile.
        steps, waits, events, attempts, messages, invoked_rows = await self._store.read(read)
        return RecordedRun(
            summary=summary,
            steps=tuple(
                AcceptedStep(
                    step=WorkflowStep(message_id=MessageId(message_id), body=body, call_type=_CALL_TYPES[call_type]),
                    at_ms=at_ms,
                )
                for message_id, at_ms, call_type, body in steps
            ),
            messages=_messages(messages, events, attempts),
            waits=tuple(RecordedWait(waiter=codec.decode_waiter(waiter), at_ms=at_ms) for at_ms, waiter in waits),
            invoked=tuple(_summary(row) for row in invoked_rows),
        )


def _summary(row: Row) -> RunSummary:
    _, definition, payload, at_ms, state, response, dead_letter_id = row
    ending = None
    if state is not None:
        dead_letter = None if dead_letter_id is None else DeadLetterId(dead_letter_id)
        ending = RunEnding(state=RunState(state), at_ms=at_ms, response=response, dead_letter_id=dead_letter)
    return RunSummary(run=codec.decode_run(definition), payload=payload, ending=ending)


def _messages(rows: Iterable[Row], events: Iterable[Row], attempts: Iterable[Row]) -> tuple[RunMessage, ...]:
    events_of: dict[int, list[tuple[int, str, int | None]]] = defaultdict(list)
    for number, at_ms, state, next_ms in events:
        events_of[number].append((at_ms, state, next_ms))
    attempts_of: dict[int, list[RecordedAttempt]] = defaultdict(list)
    for number, at_ms, finished_ms, attempt, outcome, rule in attempts:
        attempts_of[number].append(codec.decode_attempt(attempt, at_ms, finished_ms, outcome, rule))
    found = []
    for number, call_type, definition in rows:
        phase, next_ms, ended_ms = _where(events_of[number])
        found.append(
            RunMessage(
                message=codec.decode_message(definition),
                call_type=_CALL_TYPES[call_type],
                phase=phase,
                attempts=tuple(attempts_of[number]),
                next_ms=next_ms,
                ended_ms=ended_ms,
            )
        )
    return tuple(found)


def _chosen(query: RunQuery) -> Conditions:
    """What a query asks of runs, but for their states and its cursor."""
    conditions = Conditions()
    conditions.given("workflow_runs.account_id = ?", query.account_id)
    if query.runs:
        names = [f"{run_id}@{created_ms}" for run_id, created_ms in query.runs]
        conditions.among("workflow_runs.run_id || '@' || workflow_runs.created_ms", names)
        return conditions
    for column, values in (
        ("workflow_runs.run_number", query.numbers),
        ("workflow_runs.run_id", query.run_ids),
        ("workflow_runs.url", query.urls),
        ("workflow_runs.flow_key", query.flow_keys),
        ("workflow_runs.caller_ip", query.caller_ips),
    ):
        conditions.among(column, values)
    if query.labels:
        conditions.add(LABELS.format(table="workflow_runs"), json.dumps(query.labels))
    if query.message_ids:
        conditions.add(_OF_MESSAGES, json.dumps(query.message_ids))
    conditions.given("workflow_runs.created_ms = ?", query.created_ms)
    conditions.given("workflow_runs.created_ms >= ?", query.from_ms)
    conditions.given("workflow_runs.created_ms <= ?", query.to_ms)
    conditions.matching_runs(query.wanted)
    return conditions


def _where(events: Iterable[tuple[int, str, int | None]]) -> tuple[Phase, int | None, int | None]:
    """What the events of a message amount to: its phase, when its retry is due, and when it ended."""
    phase, next_ms, ended_ms = Phase.PENDING, None, None
    for at_ms, state, due_ms in events:
        phase = _PHASES.get(state, phase)
        next_ms = due_ms if phase is Phase.RETRYING else None
        ended_ms = at_ms if phase in _ENDS else None
    return phase, next_ms, ended_ms
