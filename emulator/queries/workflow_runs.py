"""Workflow runs as they are read: what history has of a run, of its steps and of its messages."""

from __future__ import annotations

from emulator.core.model.messages import Message, Phase
from emulator.core.model.names import AccountId, DeadLetterId, MessageId
from emulator.core.model.options import CallType
from emulator.core.record import Record
from emulator.core.workflows import RunState, Waiter, WorkflowRun, WorkflowStep
from emulator.queries.message_log import RecordedAttempt


class RunQuery(Record):
    """A page of runs, newest first; values of one field are OR-ed, fields AND-ed.

    `runs` names runs by id and creation: then nothing else counts. `limit` and `since_ms` are of the
    account's plan as for events.
    """

    account_id: AccountId | None
    count: int = 10
    cursor: str | None = None
    run_ids: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    numbers: tuple[int, ...] = ()
    states: tuple[RunState, ...] = ()
    labels: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    created_ms: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None


class AcceptedStep(Record):
    """An entry of the run's list, and when it was accepted."""

    step: WorkflowStep
    at_ms: int


class RunMessage(Record):
    """A message of a run with its attempts. `next_ms` is when its retry is due, `ended_ms` its end."""

    message: Message
    call_type: CallType
    phase: Phase
    attempts: tuple[RecordedAttempt, ...]
    next_ms: int | None = None
    ended_ms: int | None = None


class RecordedWait(Record):
    """A wait for an event, from its beginning on; its end is the step's result."""

    waiter: Waiter
    at_ms: int


class RunEnding(Record):
    """The final state of a run. `response` is what a success returned, JSON text or nothing."""

    state: RunState
    at_ms: int
    response: bytes | None
    dead_letter_id: DeadLetterId | None


class RunSummary(Record):
    """A run without its steps; `run` is the run as it began. Without an ending it is active."""

    run: WorkflowRun
    payload: bytes
    ending: RunEnding | None

    @property
    def state(self) -> RunState:
        return RunState.STARTED if self.ending is None else self.ending.state


class RecordedRun(Record):
    """All that history has of a run; `invoked` are the runs that it invoked."""

    summary: RunSummary
    steps: tuple[AcceptedStep, ...]
    messages: tuple[RunMessage, ...]
    waits: tuple[RecordedWait, ...]
    invoked: tuple[RunSummary, ...]

    @property
    def run(self) -> WorkflowRun:
        return self.summary.run

    @property
    def state(self) -> RunState:
        return self.summary.state

    def message(self, message_id: MessageId) -> RunMessage | None:
        """The message of the run with this id."""
        return next((each for each in self.messages if each.message.message_id == message_id), None)
