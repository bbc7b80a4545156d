"""What the Python API answers with: the control API's JSON as records."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec
from httpx import Headers

from emulator.core import record
from emulator.core.model.messages import Via
from emulator.core.record import AsDatetime
from emulator.delivery.mounts import MountedRequest
from emulator.queries.reports import Credentials, Snapshot
from emulator.wire.dialect import BUILT_IN, Environment, load


class Content:
    """The decoded body of a request or a response."""

    __slots__ = ()
    body: bytes

    @property
    def text(self) -> str:
        """The body as text; what is not UTF-8 in it is replaced."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises: ValueError."""
        return json.loads(self.body)


class _WithHeaders(Content):
    """Its headers are made when somebody asks for them, which most mounted functions do not."""

    __slots__ = ("_pairs",)
    _pairs: record.Headers

    def __getattr__(self, name: str) -> Any:
        # Called while the slot is empty.
        if name != "headers":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        headers = Headers(list(self._pairs), encoding="utf-8")
        object.__setattr__(self, "headers", headers)
        return headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(_WithHeaders):
    """A delivery as a mounted function gets it: exactly what a receiver at `url` would have got."""

    method: str
    url: str
    headers: Headers
    body: bytes


def read_request(mounted: MountedRequest) -> Request:
    """A delivery as the transport makes it."""
    request = _new(Request)
    _set_method(request, mounted.method.value)
    _set_url(request, mounted.url)
    _set_body(request, mounted.body)
    _set_pairs(request, mounted.headers)
    return request


_new = object.__new__
# The class is frozen; the descriptors of its slots are not.
_set_method, _set_url, _set_body, _set_pairs = (
    Request.__dict__["method"].__set__,
    Request.__dict__["url"].__set__,
    Request.__dict__["body"].__set__,
    _WithHeaders.__dict__["_pairs"].__set__,
)


@dataclass(frozen=True, slots=True)
class Response(Content):
    """The response of a destination, or of a mounted function."""

    status: int = 200
    headers: Headers = field(default_factory=Headers, kw_only=True)
    body: bytes = field(default=b"", kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """What rules did to an attempt by chance: `did` in words, and the `id` by which a rule can spare the attempt."""

    id: str
    did: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Content):
    """One attempt of a message: the exact request, and the exact response or why there is none.

    `at_ms` is when it started and `created_ms` when its message was made, both epoch ms of the
    virtual clock, `at` and `created` the same as datetimes; `attempt` counts from 1; `via` says what
    answered. `error` is set if and only if `response` is not. `duration_ms` passed on the virtual clock,
    `took_ms` in real time (None if the attempt never left the emulator). `chaos` says what rules did to it
    by chance; `redelivery` numbers those that `redeliver` made, and is None for all others.
    `redacts` has what the message redacts, such as `body` and `header[x-card]`: here nothing is hidden.
    `workflow_run_id` and `step` say what a call of a workflow run is about; `forwarded_to` is where a rule sent it.
    """

    # Those of the control API's record: `python -m emulator.control.schemas` writes them.
    seq: int
    at_ms: int
    created_ms: int
    message_id: str
    attempt: int
    method: str
    url: str
    workflow_run_id: str | None = None
    step: str | None = None
    labels: tuple[str, ...] = ()
    queue: str | None = None
    schedule_id: str | None = None
    redacts: tuple[str, ...] = ()
    via: Via
    error: str | None = None
    duration_ms: int
    took_ms: int | None = None
    forwarded_to: str | None = None
    chaos: Chaos | None = None
    redelivery: int | None = None

    headers: Headers
    body: bytes
    response: Response | None

    at = AsDatetime[datetime]("at_ms")
    created = AsDatetime[datetime]("created_ms")

    @property
    def status(self) -> int | None:
        """The status of the response, None without one."""
        return None if self.response is None else self.response.status

    @property
    def succeeded(self) -> bool:
        """Whether the response was a 2xx."""
        return self.response is not None and 200 <= self.response.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Attempts of the delivery journal, which has `count` of `messages` messages in all that fit.

    `dropped_ms` is the instant up to which nothing is kept of it, None if all of it is.
    """

    deliveries: list[Delivery]
    dropped_ms: int | None = None
    count: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The names of a server's dialect that a test may need."""

    name: str
    header_prefix: str
    issuer: str


class _ResponseRow(msgspec.Struct, frozen=True, gc=False):
    """The response of an attempt, as the control API has it."""

    status: int
    headers: msgspec.Raw
    body: str | None
    body_base64: str | None


# An attempt as the control API has it: the fields of a `Delivery`, but for its content. Headers are decoded when
# somebody reads them: most are never read. What has a default may be absent.
_CONTENT = {"headers": msgspec.Raw, "response": _ResponseRow | None, "body": str | None}
_HINTS = get_type_hints(Delivery) | _CONTENT
_Row: Any = msgspec.defstruct(
    "_Row",
    [
        *(
            (each.name, _HINTS[each.name]) if each.default is MISSING else (each.name, _HINTS[each.name], each.default)
            for each in fields(Delivery)
        ),
        ("body_base64", str | None),
    ],
    frozen=True,
    kw_only=True,
    gc=False,
)


class _Dropped(msgspec.Struct, frozen=True):
    until_ms: int


class _Count(msgspec.Struct, frozen=True):
    attempts: int = 0
    messages: int = 0


class _Page(msgspec.Struct, frozen=True):
    deliveries: list[_Row]
    cursor: str | None
    dropped: _Dropped | None = None
    count: _Count = _Count()


class _ReadDelivery(Delivery):
    """A delivery that was read: what it consists of is made when it is asked for."""

    __slots__ = ("_row",)
    _row: Any

    def __new__(cls, **fields: Any) -> Delivery:  # type: ignore[misc]  # what `dataclasses.replace` makes is a plain one
        return Delivery(**fields)

    @property
    def headers(self) -> Headers:
        return _headers(msgspec.json.decode(self._row.headers))

    @property
    def body(self) -> bytes:  # type: ignore[override]  # a field of the base
        return _content_of(self._row)

    @property
    def response(self) -> Response | None:
        row = self._row.response
        if row is None:
            return None
        return Response(row.status, headers=_headers(msgspec.json.decode(row.headers)), body=_content_of(row))

    @property
    def status(self) -> int | None:
        return None if self._row.response is None else self._row.response.status

    @property
    def succeeded(self) -> bool:
        return self._row.response is not None and 200 <= self._row.response.status < 300

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delivery):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(Delivery))

    __hash__ = None  # type: ignore[assignment]  # headers have none

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Delivery, **{each.name: getattr(self, each.name) for each in fields(Delivery)}), ()


_set_row = _ReadDelivery.__dict__["_row"].__set__
for _name in {each.name for each in fields(Delivery)} - {"headers", "body", "response"}:
    setattr(_ReadDelivery, _name, property(attrgetter(f"_row.{_name}")))
_ReadDelivery.__qualname__ = Delivery.__qualname__
_PAGES = msgspec.json.Decoder(_Page)


def read_deliveries(body: bytes) -> tuple[Journal, str | None]:
    """A page of the control API's delivery journal, and the cursor of the next one."""
    page = _PAGES.decode(body)
    journal = Journal(
        deliveries=[_read(row) for row in page.deliveries],
        dropped_ms=None if page.dropped is None else page.dropped.until_ms,
        count=page.count.attempts,
        messages=page.count.messages,
    )
    return journal, page.cursor


def read_delivery(entry: Mapping[str, Any]) -> Delivery:
    """A delivery of the control API's JSON."""
    return _read(msgspec.json.decode(msgspec.json.encode(entry), type=_Row))


def _read(row: Any) -> Delivery:
    delivery: Delivery = _new(_ReadDelivery)
    _set_row(delivery, row)
    return delivery


def _content_of(row: Any) -> bytes:
    # What came packed is both: the text of it, and the bytes as they came.
    return (row.body or "").encode() if row.body_base64 is None else b64decode(row.body_base64)


def _headers(values_by_name: Mapping[str, list[str]]) -> Headers:
    return Headers([(name, value) for name, values in values_by_name.items() for value in values], encoding="utf-8")


def read_snapshot(answer: Mapping[str, Any]) -> Snapshot:
    """A snapshot, from the control API's JSON."""
    return msgspec.convert({**answer, "now_ms": answer["created_ms"]}, Snapshot)


def read_credentials(answer: Mapping[str, Any]) -> Credentials:
    """The credentials of a world, from the control API's JSON."""
    return msgspec.convert({**answer, **answer["queue"], **answer["management"]}, Credentials)


class Variables(dict[str, str]):
    """The environment variables of a dialect's clients. A KeyError says which there are."""

    def __init__(self, values: Mapping[str, str], dialect: str) -> None:
        super().__init__(values)
        self._dialect = dialect

    def __missing__(self, name: str) -> str:
        owners = (each for each in BUILT_IN if name in _names(load(each).environment))
        owner = next((f"; it is of the dialect {each}: dialect={each!r}" for each in owners), "")
        raise KeyError(f"{name}: the dialect {self._dialect} has {', '.join(self)}{owner}")


def _names(environment: Environment) -> list[str]:
    return list(environment.variables(url="", token="", current_signing_key="", next_signing_key=""))


def read_env(answer: Mapping[str, Any], url: str) -> dict[str, str]:
    """The variables of a dialect's clients, from the control API's JSON of the credentials."""
    queue, names = answer["queue"], msgspec.convert(answer["environment"], Environment)
    values = names.variables(
        url=url,
        token=queue["token"],
        current_signing_key=queue["current_signing_key"],
        next_signing_key=queue["next_signing_key"],
    )
    return Variables(values, answer["dialect"]["name"])


RunState: TypeAlias = Literal["RUN_STARTED", "RUN_SUCCESS", "RUN_FAILED", "RUN_CANCELED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """A step of a run.

    `type` is the client's word, such as Run or SleepFor, and `state` is STEP_SUCCESS, STEP_PROGRESS,
    STEP_RETRY, STEP_FAILED or STEP_CANCELED. It began at `at_ms` and was done at `ended_ms`, epoch ms of the
    virtual clock. `out` is its result: JSON's value, or the text that is none. `event_id` is what it waits for,
    `url` the third party that it calls, `run_id` the run that it invoked.
    """

    id: int
    name: str
    type: str
    state: str
    at_ms: int
    ended_ms: int | None
    out: Any
    parallel: bool
    message_id: str | None
    event_id: str | None = None
    url: str | None = None
    run_id: str | None = None

    at = AsDatetime[datetime]("at_ms")
    ended = AsDatetime[datetime | None]("ended_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """Which call of its endpoint failed a run: `where` in words, `step` if that is known, and its message.

    `last_status`, `last_error` and `last_result` are of its last attempt, as those of a `MessageStatus`; `excerpt` is
    the beginning of the body that it was answered with.
    """

    where: str
    step: str | None
    message_id: str
    last_status: int | None
    last_error: str | None
    last_result: str
    excerpt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDeadLetter(RunFailure):
    """The dead letter of a failed run. `actions` can be done with it, by the names of the shell's commands."""

    dead_letter_id: str
    workflow_run_id: str
    url: str
    labels: tuple[str, ...]
    failed_ms: int
    actions: tuple[str, ...]

    failed = AsDatetime[datetime]("failed_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """A run; `state` is RUN_STARTED, RUN_SUCCESS, RUN_FAILED or RUN_CANCELED.

    `number` counts the runs of the world from 1, and tells those of one id apart.

    `payload` is the text that it began with, `result` the value that it returned. Of a run in a list, `steps`
    and `waiting` are empty, `summary` and `failure` are None: `workflows.run(id)` has them.
    """

    id: str
    number: int
    url: str
    state: str
    created_ms: int
    ended_ms: int | None
    labels: tuple[str, ...]
    payload: str
    result: Any
    dead_letter_id: str | None
    invoked_by: str | None
    steps: tuple[WorkflowStep, ...] = ()
    waiting: tuple[str, ...] = ()
    summary: str | None = None
    failure: RunFailure | None = None

    created = AsDatetime[datetime]("created_ms")
    ended = AsDatetime[datetime | None]("ended_ms")


def read_run(answer: Mapping[str, Any]) -> WorkflowRun:
    """A run of the control API's JSON, with its steps but the payload's or without."""
    steps = [
        {**step, "out": _json_or_text(step["out"]), "parallel": group["parallel"]}
        for group in answer.get("steps", [])[1:]
        for step in group["steps"]
    ]
    made = {"result": _json_or_text(answer["result"]), "waiting": [each["text"] for each in answer.get("waiting", ())]}
    return msgspec.convert({**answer, **made, "steps": steps}, WorkflowRun)


def _json_or_text(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
