"""What the client asks of a message: where it goes, how often it is tried, what it counts against."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, StrEnum, auto

from emulator.core.record import FlowKey, Headers, QueueName, Record, RunId

# The rate period of a flow control key that names none.
DEFAULT_PERIOD_MS = 1000


class Method(StrEnum):
    """The methods a delivery may use (interface document, Svc-Method)."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class DestinationKind(StrEnum):
    URL = "url"
    GROUP = "group"
    API = "api"


class Destination(Record):
    """What a publish names: a URL exactly as typed, the name of a URL group, or that of an API such as `api/llm`.

    `url` is where the messages to an API go.
    """

    kind: DestinationKind
    text: str
    url: str | None = None

    @property
    def api(self) -> str | None:
        """The name of the API, such as `llm`."""
        return self.text.removeprefix("api/") if self.kind is DestinationKind.API else None


class Redaction(Record):
    """What API answers hide; deliveries always carry the original. Names are lower-case."""

    body: bool
    all_headers: bool
    header_names: tuple[str, ...]

    def joined(self, other: Redaction | None) -> Redaction:
        """What either of two hides."""
        if other is None:
            return self
        return Redaction(
            body=self.body or other.body,
            all_headers=self.all_headers or other.all_headers,
            header_names=tuple(dict.fromkeys((*self.header_names, *other.header_names))),
        )


class FlowControl(Record):
    """The flow control a message asks for. Values left out (None) leave the key's own limit unset."""

    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int


class CallType(StrEnum):
    """What a message of a workflow run is to the run."""

    STEP = "step"
    # The request of a call step, which goes to a third party, and the message that carries its response.
    TO_CALLBACK = "toCallback"
    FROM_CALLBACK = "fromCallback"
    FAILURE_CALL = "failureCall"


class RunOptions(Record):
    """What the workflow headers of one request say: the run that a message is part of, and how.

    `invokes` starts a run for another one; `by_sdk` is the second half of a trigger's handshake, which
    `unknown_sdk` asks for. `triggered`: the run was named by no client of its endpoint.
    """

    run_id: RunId
    is_init: bool = False
    url: str | None = None
    call_type: CallType = CallType.STEP
    invokes: bool = False
    by_sdk: bool = False
    features: tuple[str, ...] = ()
    unknown_sdk: bool = False
    triggered: bool = False


class RunPart(Record):
    """What a message is to the run that it belongs to; `run_number` tells runs of one id apart.

    `awaits_sdk` marks the first delivery of a trigger's handshake. With `detects_workflow` a 2xx answer
    that is no workflow's fails the run, with `names_sdk` also one of a client that names no version of itself.
    With `listed` the message delivers the list of the run's first so many
    steps, which takes `listed_bytes`; its own body is the last of them (D-560).
    """

    run_id: RunId
    run_number: int
    run_created_ms: int
    url: str
    call_type: CallType
    is_init: bool = False
    awaits_sdk: bool = False
    detects_workflow: bool = False
    listed: int = 0
    listed_bytes: int = 0
    names_sdk: bool = False


class MessageOptions(Record):
    """What the configuration headers of one request say; None is "not said".

    `forwarded` are the headers that had the forward prefix. `incoming` are the request's other
    headers, which are forwarded only if `forward_incoming` is true. The two kinds of settings configure a callback
    whose URL stands elsewhere, in the defaults of a URL group or in the publish to it (D-020).
    """

    method: Method | None = None
    content_type: str | None = None
    forwarded: Headers = ()
    incoming: Headers = ()
    forward_incoming: bool | None = None
    delay_ms: int | None = None
    not_before_ms: int | None = None
    timeout_ms: int | None = None
    max_retries: int | None = None
    retry_delay: str | None = None
    callback: CallbackOptions | None = None
    failure_callback: CallbackOptions | None = None
    labels: tuple[str, ...] = ()
    redaction: Redaction | None = None
    flow_control: FlowControl | None = None
    queue: QueueName | None = None
    deduplication_id: str | None = None
    content_deduplication: bool | None = None
    workflow: RunOptions | None = None
    callback_settings: MessageOptions | None = None
    failure_callback_settings: MessageOptions | None = None


class Reuse(Flag):
    """Which other messages of a workflow run an option of the run, or of a call about it, holds for as well."""

    NOWHERE = 0
    # The call of the failure function, which a triggered run has without naming one.
    FAILURE_CALL = auto()
    # The later calls of the workflow's endpoint, if the run hands its options on.
    RUN_CALLS = auto()
    # The run that a resume or a restart begins, whose request gives the option.
    NEXT_RUN = auto()


# Every option has its place here, so that a new one joins no call of a run by itself.
REUSE: Mapping[str, Reuse] = {
    "method": Reuse.NOWHERE,
    "content_type": Reuse.NOWHERE,
    # The headers of a run's calls are chosen one by one, by `rules/runs.py`.
    "forwarded": Reuse.FAILURE_CALL,
    "incoming": Reuse.NOWHERE,
    "forward_incoming": Reuse.NOWHERE,
    "delay_ms": Reuse.NEXT_RUN,
    "not_before_ms": Reuse.NEXT_RUN,
    "timeout_ms": Reuse.NOWHERE,
    "max_retries": Reuse.FAILURE_CALL | Reuse.RUN_CALLS | Reuse.NEXT_RUN,
    "retry_delay": Reuse.FAILURE_CALL | Reuse.RUN_CALLS | Reuse.NEXT_RUN,
    "callback": Reuse.NOWHERE,
    "failure_callback": Reuse.RUN_CALLS | Reuse.NEXT_RUN,
    "labels": Reuse.RUN_CALLS | Reuse.NEXT_RUN,
    "redaction": Reuse.RUN_CALLS,
    "flow_control": Reuse.FAILURE_CALL | Reuse.RUN_CALLS | Reuse.NEXT_RUN,
    "queue": Reuse.NOWHERE,
    "deduplication_id": Reuse.NOWHERE,
    "content_deduplication": Reuse.NOWHERE,
    "workflow": Reuse.NOWHERE,
    "callback_settings": Reuse.NOWHERE,
    "failure_callback_settings": Reuse.NOWHERE,
}


class CallbackOptions(Record):
    """Where a callback goes, and the configuration of the callback message itself."""

    url: str
    options: MessageOptions


class DeliveryPolicy(Record, array_like=True):
    """How a message is delivered: the options of its publish, with the account's limits and defaults applied.

    Messages that are delivered alike share one: `rules/options.py` makes them. Stored as a list, like `Message`.
    """

    max_retries: int
    timeout_ms: int
    retry_delay: str | None = None
    callback: CallbackOptions | None = None
    failure_callback: CallbackOptions | None = None
    labels: tuple[str, ...] = ()
    redaction: Redaction | None = None
    flow_control: FlowControl | None = None
    queue: QueueName | None = None

    @property
    def flow_key(self) -> FlowKey | None:
        """The flow control key, None without one."""
        return None if self.flow_control is None else self.flow_control.key
