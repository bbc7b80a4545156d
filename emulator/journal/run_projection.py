"""Facts of workflow runs -> history rows: runs, their ends, steps, messages and waits, and the counts of them."""

from __future__ import annotations

import json

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.model.messages import Message
from emulator.core.model.options import RunPart
from emulator.core.workflows import RunState, WorkflowRun, WorkflowStep
from emulator.journal import codec
from emulator.journal.meters import (
    RUN_CANCELED,
    RUN_FAILED,
    RUN_MESSAGES,
    RUN_STARTED,
    RUN_SUCCESS,
    Meters,
)
from emulator.journal.rows import Rows
from emulator.statistics.workflow_usage import WORKFLOW_FIELDS

_METRICS = {RunState.SUCCESS: RUN_SUCCESS, RunState.FAILED: RUN_FAILED, RunState.CANCELED: RUN_CANCELED}


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
        self.meters.of(run.account_id).add(run.created_ms, RUN_STARTED)
        self._began(rows, run)

    def rewritten(self, rows: Rows, run: WorkflowRun) -> None:
        """A handshake replaces the steps by its payload (D-452); a run that is invoked on its way keeps its steps."""
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
                codec.encode_run(replace(run, steps=(), waiters=(), saved_events=())),
            )
        )
        for step in run.steps:
            self.step(rows, run.number, step, run.created_ms)

    def step(self, rows: Rows, run_number: int, step: WorkflowStep, at_ms: int) -> None:
        rows.workflow_steps.append((None, run_number, step.message_id, at_ms, step.call_type.value, step.body))

    def message(self, rows: Rows, message: Message, run: RunPart) -> None:
        """A message of a run was created."""
        rows.workflow_messages.append((message.number, run.run_number, run.call_type.value))
        self.meters.of(message.account_id).add(message.created_ms, RUN_MESSAGES)

    def waits(self, rows: Rows, fact: facts.WaitBegan) -> None:
        row = (fact.waiter.number, fact.run_number, fact.at_ms, codec.encode_waiter(fact.waiter))
        rows.workflow_waits.append(row)

    def ended(self, rows: Rows, fact: facts.RunEnded) -> None:
        row = (fact.run_number, fact.at_ms, fact.state.value, fact.response, fact.dead_letter_id)
        rows.workflow_ends.append(row)
        self.meters.of(fact.account_id).add(fact.at_ms, _METRICS[fact.state])
