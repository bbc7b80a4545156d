"""Reading workflow runs: pages of them, and all that is recorded of one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from emulator.core.model.messages import EventState, Phase
from emulator.core.model.names import DeadLetterId, MessageId
from emulator.core.model.options import CallType
from emulator.core.workflows import RunState, WorkflowStep
from emulator.journal import codec
from emulator.journal.conditions import LABELS, Conditions, continue_after, page_of
from emulator.journal.schema import NUMBERS_OF
from emulator.journal.store import Store
from emulator.journal.tables import (
    ATTEMPTS,
    EVENTS,
    MESSAGES,
    WORKFLOW_ENDS,
    WORKFLOW_RUNS,
    WORKFLOW_STEPS,
    WORKFLOW_WAITS,
)
from emulator.queries.history import Page
from emulator.queries.message_log import RecordedAttempt
from emulator.queries.workflow_runs import (
    AcceptedStep,
    RecordedRun,
    RecordedWait,
    RunEnding,
    RunMessage,
    RunQuery,
    RunSummary,
)

# The payload is the body of the first step.
_SELECT_RUNS = f"""
SELECT workflow_runs.run_number, workflow_runs.definition, first.body, workflow_ends.at_ms, workflow_ends.state,
       workflow_ends.response, workflow_ends.dead_letter_id,
       {WORKFLOW_RUNS.is_whole} AND (workflow_ends.run_number IS NULL OR {WORKFLOW_ENDS.is_whole})
FROM workflow_runs
JOIN workflow_steps AS first ON first.id = (
    SELECT min(id) FROM workflow_steps WHERE workflow_steps.run_number = workflow_runs.run_number
)
LEFT JOIN workflow_ends ON workflow_ends.run_number = workflow_runs.run_number
WHERE """
_SELECT_STEPS = f"""
SELECT message_id, at_ms, call_type, body, {WORKFLOW_STEPS.is_whole}
FROM workflow_steps WHERE run_number = ? ORDER BY id
"""
_SELECT_WAITS = f"""
SELECT at_ms, waiter, {WORKFLOW_WAITS.is_whole} FROM workflow_waits WHERE run_number = ? ORDER BY number
"""
_SELECT_MESSAGES = f"""
SELECT messages.number, workflow_messages.call_type, messages.definition, {MESSAGES.is_whole}
FROM workflow_messages JOIN messages ON messages.number = workflow_messages.number
WHERE workflow_messages.run_number = ? ORDER BY messages.number
"""
_SELECT_EVENTS = f"""
SELECT events.number, events.at_ms, events.state, events.next_delivery_ms, {EVENTS.is_whole}
FROM workflow_messages JOIN events ON events.number = workflow_messages.number
WHERE workflow_messages.run_number = ? ORDER BY events.seq
"""
# An attempt is found by its event: that of an error names it, and that of a delivery follows it at once.
_SELECT_ATTEMPTS = f"""
SELECT attempts.number, attempts.at_ms, attempts.finished_ms, attempts.attempt, attempts.outcome,
       attempts.answered_by, {ATTEMPTS.is_whole}
FROM workflow_messages JOIN events ON events.number = workflow_messages.number
JOIN attempts ON attempts.seq = CASE events.state WHEN 'DELIVERED' THEN events.seq - 1 ELSE events.attempt_seq END
WHERE workflow_messages.run_number = ? AND events.state IN ('ERROR', 'DELIVERED') ORDER BY attempts.seq
"""
_OF_MESSAGES = f"""workflow_runs.run_number IN (
    SELECT run_number FROM workflow_messages WHERE number IN ({NUMBERS_OF})
)"""
_PHASES = {
    EventState.CREATED: Phase.PENDING,
    EventState.ACTIVE: Phase.ACTIVE,
    EventState.ERROR: Phase.RETRYING,
    EventState.RETRY: Phase.RETRYING,
    EventState.DELIVERED: Phase.DELIVERED,
    EventState.FAILED: Phase.FAILED,
    EventState.CANCELED: Phase.CANCELED,
}
_ENDS = (Phase.DELIVERED, Phase.FAILED, Phase.CANCELED)


class WorkflowRuns:
    """The runs of one world, read after everything that has happened so far is written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, query: RunQuery) -> Page[RunSummary]:
        """One page of runs, newest first. Raises InvalidInput for a cursor that is none of ours."""
        conditions = Conditions()
        if query.account_id is not None:
            conditions.add("workflow_runs.account_id = ?", query.account_id)
        _choose(conditions, query)
        continue_after(conditions, "workflow_runs.run_number", query.cursor, latest_first=True)
        found = await self._summaries(conditions, query.count + 1)
        return page_of(found, query.count, lambda each: f"{each.run.created_ms}-{each.run.number}")

    async def record(self, summary: RunSummary) -> RecordedRun:
        """All that is recorded of a run."""
        run = summary.run
        steps = await self._store.whole_rows(_SELECT_STEPS, (run.number,))
        waits = await self._store.whole_rows(_SELECT_WAITS, (run.number,))
        invoked = Conditions()
        # A client may leave out when the invoker was created.
        invoked.among("workflow_runs.invoker", [f"{run.run_id}@{run.created_ms}", f"{run.run_id}@0"])
        return RecordedRun(
            summary=summary,
            steps=tuple(
                AcceptedStep(
                    step=WorkflowStep(message_id=MessageId(message_id), body=body, call_type=CallType(call_type)),
                    at_ms=at_ms,
                )
                for message_id, at_ms, call_type, body, _ in steps
            ),
            messages=await self._messages(run.number),
            waits=tuple(RecordedWait(waiter=codec.decode_waiter(waiter), at_ms=at_ms) for at_ms, waiter, _ in waits),
            invoked=tuple(await self._summaries(invoked, -1)),
        )

    async def _summaries(self, conditions: Conditions, limit: int) -> list[RunSummary]:
        statement = f"{_SELECT_RUNS}{conditions.text} ORDER BY workflow_runs.run_number DESC LIMIT ?"
        rows = await self._store.whole_rows(statement, [*conditions.parameters, limit])
        return [
            RunSummary(
                run=codec.decode_run(definition),
                payload=payload,
                ending=None
                if state is None
                else RunEnding(
                    state=RunState(state),
                    at_ms=at_ms,
                    response=response,
                    dead_letter_id=None if dead_letter_id is None else DeadLetterId(dead_letter_id),
                ),
            )
            for _, definition, payload, at_ms, state, response, dead_letter_id, _ in rows
        ]

    async def _messages(self, run_number: int) -> tuple[RunMessage, ...]:
        events: dict[int, list[tuple[int, EventState, int | None]]] = defaultdict(list)
        for number, at_ms, state, next_ms, _ in await self._store.whole_rows(_SELECT_EVENTS, (run_number,)):
            events[number].append((at_ms, EventState(state), next_ms))
        attempts: dict[int, list[RecordedAttempt]] = defaultdict(list)
        rows = await self._store.whole_rows(_SELECT_ATTEMPTS, (run_number,))
        for number, at_ms, finished_ms, attempt, outcome, rule, _ in rows:
            attempts[number].append(codec.decode_attempt(attempt, at_ms, finished_ms, outcome, rule))
        found = []
        for number, call_type, definition, _ in await self._store.whole_rows(_SELECT_MESSAGES, (run_number,)):
            phase, next_ms, ended_ms = _where(events[number])
            found.append(
                RunMessage(
                    message=codec.decode_message(definition),
                    call_type=CallType(call_type),
                    phase=phase,
                    attempts=tuple(attempts[number]),
                    next_ms=next_ms,
                    ended_ms=ended_ms,
                )
            )
        return tuple(found)


def _choose(conditions: Conditions, query: RunQuery) -> None:
    if query.runs:
        names = [f"{run_id}@{created_ms}" for run_id, created_ms in query.runs]
        conditions.among("workflow_runs.run_id || '@' || workflow_runs.created_ms", names)
        return
    for column, values in (
        ("workflow_runs.run_number", query.numbers),
        ("workflow_runs.run_id", query.run_ids),
        ("workflow_runs.url", query.urls),
        ("workflow_runs.flow_key", query.flow_keys),
        ("workflow_runs.caller_ip", query.caller_ips),
        (f"coalesce(workflow_ends.state, '{RunState.STARTED.value}')", [state.value for state in query.states]),
    ):
        conditions.among(column, values)
    if query.labels:
        conditions.add(LABELS.format(table="workflow_runs"), json.dumps(query.labels))
    if query.message_ids:
        conditions.add(_OF_MESSAGES, json.dumps(query.message_ids))
    for text, instant_ms in (
        ("workflow_runs.created_ms = ?", query.created_ms),
        ("workflow_runs.created_ms >= ?", query.from_ms),
        ("workflow_runs.created_ms <= ?", query.to_ms),
    ):
        if instant_ms is not None:
            conditions.add(text, instant_ms)


def _where(events: Iterable[tuple[int, EventState, int | None]]) -> tuple[Phase, int | None, int | None]:
    """What the events of a message amount to: its phase, when its retry is due, and when it ended."""
    phase, next_ms, ended_ms = Phase.PENDING, None, None
    for at_ms, state, due_ms in events:
        phase = _PHASES.get(state, phase)
        next_ms = due_ms if phase is Phase.RETRYING else None
        ended_ms = at_ms if phase in _ENDS else None
    return phase, next_ms, ended_ms
