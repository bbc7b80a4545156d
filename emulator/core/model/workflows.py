"""The records of workflow runs: live ones in the state, ended ones in history.

Every call of a run delivers the list of all steps so far. A message therefore keeps its own step and how
many steps its list has; the list is made when the message is sent or shown (D-560). Otherwise a run of n
steps would keep, write and copy n lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from emulator.core.model.messages import Message
from emulator.core.model.options import CallType, MessageOptions, Redaction
from emulator.core.record import AccountId, DeadLetterId, MessageId, Record, RunId

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
    acceptance, the first holds the initial payload; their list takes `listed_bytes`.
    `from_dead_letter` is what it was resumed or restarted from.
    `depth` is how many runs are above it, of which each has invoked the next. `traceparent`: see
    `Source`.
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
    listed_bytes: int = 0
    awaits_sdk: bool = False
    invoker: Invoker | None = None
    waiters: tuple[Waiter, ...] = ()
    saved_events: tuple[SavedEvent, ...] = ()
    from_dead_letter: DeadLetterId | None = None
    depth: int = 0
    traceparent: str | None = None

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


# -- the list of steps that a call delivers ---------------------------------------------------


class _Listed(msgspec.Struct, gc=False):
    # Named as on the wire; bytes become base64.
    messageId: MessageId  # noqa: N815
    body: bytes
    callType: CallType  # noqa: N815


_encode = msgspec.json.Encoder().encode
# What an entry has around its values, and the comma or bracket behind it.
_AROUND = len('{"messageId":"","body":"","callType":""},')


def steps_body(steps: Sequence[WorkflowStep]) -> bytes:
    """The list of steps that a workflow endpoint replays, as compact JSON."""
    return _encode([_Listed(step.message_id, step.body, step.call_type) for step in steps])


def listed_bytes(step: WorkflowStep) -> int:
    """What a step adds to the length of the list, which begins with a bracket."""
    return _AROUND + len(step.message_id) + (len(step.body) + 2) // 3 * 4 + len(step.call_type)


def as_delivered(message: Message, steps: Sequence[WorkflowStep]) -> Message:
    """The message with the body that it delivers, given the steps of its run."""
    part = message.run
    if part is None or not part.listed:
        return message
    listed = tuple(steps[: part.listed])
    if len(listed) < part.listed or listed[-1].message_id != message.message_id:
        # A handshake has replaced the steps since the message was accepted (D-452).
        listed = (*listed[: part.listed - 1], WorkflowStep(message_id=message.message_id, body=message.body))
    return replace(message, body=steps_body(listed), run=replace(part, listed=0, listed_bytes=0))


# -- replies ------------------------------------------------------------------------------------


class TriggeredRun(Record):
    """A run that was started; `deduplicated`: it is active already and nothing was sent."""

    run_id: RunId
    created_ms: int
    deduplicated: bool = False


class NotifiedWaiter(Record):
    """A waiter that an event resumed, and the message that tells its run."""

    waiter: Waiter
    message_id: MessageId
    run_id: RunId
    run_created_ms: int
    # What the run hides.
    redaction: Redaction | None
