"""The records of workflow runs: live ones in the state, ended ones in history."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.names import AccountId, DeadLetterId, MessageId, RunId
from emulator.core.model.options import CallType, MessageOptions
from emulator.core.record import Record

# Values of one header name each, as a client gave them.
ListedHeaders = tuple[tuple[str, tuple[str, ...]], ...]


class RunState(StrEnum):
    """The state of a run. All but the first are final."""

    STARTED = "RUN_STARTED"
    SUCCESS = "RUN_SUCCESS"
    FAILED = "RUN_FAILED"
    CANCELED = "RUN_CANCELED"


class WorkflowStep(Record):
    """One entry of the list that a workflow endpoint replays; `body` as it was published."""

    message_id: MessageId
    body: bytes
    call_type: CallType = CallType.STEP


class Waiter(Record):
    """A step that waits for an event until `deadline_ms`. `number` counts the waiters of the world.

    `step` is the JSON object that becomes the step's result. `headers` and `timeout_headers` are as
    given, to show; `options` and `timeout_options` are what they say.
    """

    number: int
    event_id: str
    url: str
    headers: ListedHeaders
    options: MessageOptions
    deadline_ms: int
    timeout: str
    timeout_url: str
    timeout_headers: ListedHeaders
    timeout_options: MessageOptions
    step: bytes


class SavedEvent(Record):
    """An event that came before the run waited for it."""

    event_id: str
    body: bytes


class Invoker(Record):
    """The run that invoked another: where the result goes, and the step that it completes (a JSON object)."""

    run_id: RunId
    run_created_ms: int
    url: str
    options: MessageOptions
    step: bytes


class WorkflowRun(Record):
    """A run that has not ended. `number` counts the runs of the world from 1; ids may be used again.

    `options` are those of the init message; with `inherits` they hold for every call of the run.
    `awaits_sdk` until the endpoint has answered a trigger's handshake. `steps` are in order of
    acceptance, the first holds the initial payload. `from_dead_letter` is what it was resumed or restarted from.
    """

    run_id: RunId
    number: int
    account_id: AccountId
    url: str
    created_ms: int
    caller_ip: str
    options: MessageOptions
    inherits: bool
    steps: tuple[WorkflowStep, ...]
    awaits_sdk: bool = False
    invoker: Invoker | None = None
    waiters: tuple[Waiter, ...] = ()
    saved_events: tuple[SavedEvent, ...] = ()
    from_dead_letter: DeadLetterId | None = None

    @property
    def payload(self) -> bytes:
        """The raw initial payload."""
        return self.steps[0].body


class RunFilter(Record):
    """Which live runs a bulk cancellation means: values of one field are OR-ed, fields AND-ed.

    Each of `urls` is a beginning, unless `url_is_exact` (D-377).
    """

    run_ids: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    url_is_exact: bool = False
    labels: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
