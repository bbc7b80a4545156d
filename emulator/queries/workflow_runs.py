"""Workflow runs as they are read: what history has of a run, of its steps and of its messages."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from emulator.core.language.text import value_of
from emulator.core.model.messages import Message, Phase
from emulator.core.model.options import CallType
from emulator.core.model.workflows import RunState, Waiter, WorkflowRun, WorkflowStep
from emulator.core.record import AccountId, DeadLetterId, Headers, MessageId, Record
from emulator.queries.history import ANY_MESSAGE, HistoryFilter, RecordedAttempt


class StepState(StrEnum):
    """How far a step has come, as the service names it."""

    SUCCESS = "STEP_SUCCESS"
    PROGRESS = "STEP_PROGRESS"
    RETRY = "STEP_RETRY"
    FAILED = "STEP_FAILED"
    CANCELED = "STEP_CANCELED"


class RunQuery(Record):
    """A page of runs, newest first; values of one field are OR-ed, fields AND-ed.

    `runs` names runs by id and creation: then nothing else counts. `step_states` are further values of `states`:
    of runs with such a step. `wanted` is what a listing of the control API asks for.
    """

    account_id: AccountId | None
    count: int = 10
    cursor: str | None = None
    run_ids: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    numbers: tuple[int, ...] = ()
    states: tuple[RunState, ...] = ()
    step_states: tuple[StepState, ...] = ()
    labels: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    created_ms: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    wanted: HistoryFilter = ANY_MESSAGE


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


class RunOfId(Record):
    """One of the runs that have used an id."""

    number: int
    created_ms: int
    state: RunState


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

    def messages_by_id(self) -> dict[MessageId, RunMessage]:
        return {each.message.message_id: each for each in self.messages}


# -- where a run failed -------------------------------------------------------------------------


class FailedCall(Record):
    """Which call of its endpoint failed a run: that of `step`; if that is unknown, the one after the step `after`.

    Without either it is the first call.
    """

    step: str | None
    after: str | None


def failed_call(message: Message, answer_headers: Headers, prefix: str) -> FailedCall:
    """Which call failed: a message of a run, and with which headers its last attempt was answered, as far as shown.

    The result of a step makes the next call, and which step that runs, its endpoint alone knows: clients tell it in
    the header Error-Step-Name. A plan and the answer for a call step are about a step of their own.
    """
    step = step_of(message)
    named = value_of(answer_headers, f"{prefix}Error-Step-Name")
    if named:
        return FailedCall(step=named, after=None)
    if step is None:
        return FailedCall(step=None, after=None)
    is_own = step.is_plan or (message.run is not None and message.run.call_type is CallType.FROM_CALLBACK)
    return FailedCall(step=step.step_name, after=None) if is_own else FailedCall(step=None, after=step.step_name)


# -- steps as they were published ---------------------------------------------------------------
# Steps of a workflow run as its endpoint publishes them: what a message of the run says of the step it is about.
#
# Source: the workflow reference, 4.2 and 4.9; decision D-385.

# What reading JSON raises for what is none, or is nested too deep.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class PublishedStep(Record, rename="camel"):
    """A step as its endpoint published it; what else it holds does not matter here.

    With `target_step` it is the plan of a parallel step, which has no id of its own. `out` is a text; clients
    differ in whether what is absent is null.
    """

    step_name: str
    step_type: str
    step_id: int = 0
    out: str | None = None
    concurrent: int = 1
    target_step: int | None = None
    sleep_for: int | float | str | None = None
    sleep_until: int | float | None = None
    wait_event_id: str | None = None
    timeout: int | float | str | None = None
    wait_timeout: bool | None = None

    @property
    def is_plan(self) -> bool:
        return bool(self.target_step)

    @property
    def number(self) -> int:
        """The id of the step in its run, also of a plan."""
        return self.target_step or self.step_id

    @property
    def is_sleep(self) -> bool:
        return self.sleep_for is not None or self.sleep_until is not None


class CallResponse(Record):
    """What a third party answered to a call step, as the endpoint reported it."""

    status: int
    body: str = ""
    header: Mapping[str, tuple[str, ...]] = {}


def read_step(body: bytes) -> PublishedStep:
    """A published step. What is none has neither name nor type: a run takes any message."""
    try:
        return msgspec.json.decode(body, type=PublishedStep)
    except _UNREADABLE:
        return PublishedStep(step_name="", step_type="", out=body.decode("utf-8", "replace"))


class _ListedStep(Record, rename="camel"):
    """An entry of the list that a workflow endpoint gets; its body in base64."""

    body: str


def step_of(message: Message) -> PublishedStep | None:
    """The step that a message of a run is about; None for the first call, a failure function, and other messages."""
    if message.run is None or message.run.is_init:
        return None
    match message.run.call_type:
        case CallType.STEP:
            if message.run.listed:
                return read_step(message.body)
            try:
                listed = msgspec.json.decode(message.body, type=list[_ListedStep])
                return read_step(b64decode(listed[-1].body))
            except (*_UNREADABLE, ValueError, IndexError):
                return None
        case CallType.TO_CALLBACK:
            return step_of_request(message)
        case CallType.FROM_CALLBACK:
            return _step_of_headers(message.headers)
        case _:
            return None


def step_of_request(message: Message) -> PublishedStep:
    """The call step that a request to a third party belongs to: its callback carries it in forwarded headers."""
    return _step_of_headers(() if message.policy.callback is None else message.policy.callback.options.forwarded)


def _step_of_headers(headers: Headers) -> PublishedStep:
    values = {
        name.lower().rpartition("-workflow-")[2]: value for name, value in headers if "-workflow-" in name.lower()
    }
    return PublishedStep(
        step_name=values.get("stepname", ""),
        step_type=values.get("steptype", "Call"),
        step_id=_number(values.get("stepid", "")),
        concurrent=_number(values.get("concurrent", "")) or 1,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def response_of(step: PublishedStep) -> CallResponse | None:
    """What came back to a call step, None for another step and for one without a result."""
    if step.step_type != "Call" or step.out is None or step.is_plan:
        return None
    try:
        return msgspec.json.decode(step.out, type=CallResponse)
    except _UNREADABLE:
        return None
