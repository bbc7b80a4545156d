"""What the service keeps, as records: its JSON of messages, schedules, queues, URL groups and dead letters.

Times are epoch ms of the virtual clock, and without `_ms` the same as datetimes in UTC; durations are ms. A field
that does not apply is None.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from httpx import Headers

from emulator.client.arguments import check_choice
from emulator.client.publishing import FlowControl
from emulator.client.records import Content, Response
from emulator.core.record import AsDatetime, Record

R = TypeVar("R", bound=Record)

# Where a message stands; `live` and `ended` are several at once.
MessageState: TypeAlias = Literal[
    "PENDING", "HELD", "ACTIVE", "RETRYING", "DELIVERED", "FAILED", "CANCELED", "live", "ended"
]


class Message(Record, Content):
    """A message as the service shows it; redacted parts are shown as their hashes."""

    message_id: str
    url: str
    method: str
    headers: Headers
    body: bytes
    max_retries: int
    retry_delay: str | None
    created_ms: int
    not_before_ms: int
    labels: tuple[str, ...]
    url_group: str | None
    endpoint: str | None
    queue: str | None
    schedule_id: str | None
    callback: str | None
    failure_callback: str | None
    flow_control: FlowControl | None
    caller_ip: str | None

    created = AsDatetime[datetime]("created_ms")
    not_before = AsDatetime[datetime]("not_before_ms")


class DeadLetter(Message):
    """A message whose last attempt has failed; `response` is None if none came."""

    dead_letter_id: str
    response: Response | None


class MessageStatus(Record):
    """A message of the world, and where it stands.

    `state` is PENDING, HELD, ACTIVE, RETRYING, DELIVERED, FAILED or CANCELED. `attempts` counts
    those that were begun, of at most `max_attempts`. `next_ms` is when the next one is due, `waits` what
    holds it up; `last_status`, `last_error` and `last_result` are of the last attempt that has ended.
    """

    message_id: str
    url: str
    method: str
    state: str
    attempts: int
    max_attempts: int
    created_ms: int
    next_ms: int | None
    ended_ms: int | None
    waits: str | None
    cancel_requested: bool
    last_status: int | None
    last_error: str | None
    last_result: str | None
    labels: tuple[str, ...]
    schedule_id: str | None
    queue: str | None
    url_group: str | None
    flow_control_key: str | None
    source_message_id: str | None
    dead_letter_id: str | None

    created = AsDatetime[datetime]("created_ms")
    next = AsDatetime[datetime | None]("next_ms")
    ended = AsDatetime[datetime | None]("ended_ms")


class Schedule(Record, Content):
    """A schedule, and the messages that it makes; `last_states` is how those of its last firing fare."""

    schedule_id: str
    cron: str
    destination: str
    paused: bool
    method: str
    headers: Headers
    body: bytes
    retries: int
    retry_delay: str | None
    delay_ms: int | None
    timeout_ms: int | None
    labels: tuple[str, ...]
    queue: str | None
    callback: str | None
    failure_callback: str | None
    flow_control: FlowControl | None
    created_ms: int
    last_ms: int | None
    next_ms: int | None
    last_states: Mapping[str, str]
    error: str | None

    created = AsDatetime[datetime]("created_ms")
    last = AsDatetime[datetime | None]("last_ms")
    next = AsDatetime[datetime | None]("next_ms")


class Queue(Record):
    """A queue; `lag` counts its messages that have not ended."""

    name: str
    parallelism: int
    paused: bool
    lag: int
    created_ms: int
    updated_ms: int

    created = AsDatetime[datetime]("created_ms")
    updated = AsDatetime[datetime]("updated_ms")


class Endpoint(Record, kw_only=False):
    """One endpoint of a URL group."""

    url: str
    name: str | None = None


class UrlGroup(Record):
    """A URL group; `headers` are the defaults of what is published to it."""

    name: str
    endpoints: tuple[Endpoint, ...]
    headers: Headers
    created_ms: int
    updated_ms: int

    created = AsDatetime[datetime]("created_ms")
    updated = AsDatetime[datetime]("updated_ms")


class Event(Record, Content):
    """An entry of the service's event log: what became of a message at an instant.

    `state` is CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED or CANCELED. `next_ms` is
    when the next attempt is due; `response` is what the attempt was answered, if the entry is about one.
    """

    at_ms: int
    message_id: str
    state: str
    url: str
    method: str
    headers: Headers
    body: bytes
    error: str | None
    next_ms: int | None
    response: Response | None
    labels: tuple[str, ...]
    url_group: str | None
    endpoint: str | None
    queue: str | None
    schedule_id: str | None
    flow_control: FlowControl | None

    at = AsDatetime[datetime]("at_ms")
    next = AsDatetime[datetime | None]("next_ms")


class FlowControlKey(Record):
    """A flow control key: its limits, 0 for none, and how much of them is used.

    `waiting` counts the messages that wait for it, `active` the attempts under way, `rate_used` those that
    began in the present `period_ms`. A pinned limit is not changed by messages.
    """

    key: str
    paused: bool
    waiting: int
    parallelism: int
    active: int
    rate: int
    rate_used: int
    period_ms: int
    pinned_parallelism: bool
    pinned_rate: bool


def state_text(state: MessageState | Sequence[MessageState] | None) -> str | None:
    """The states as the control API takes them, with commas between. Raises ValueError for one that is none."""
    if state is None:
        return None
    if not isinstance(state, str | Sequence):
        raise TypeError(f"state: expected a state or several, got {state!r}")
    states = state.split(",") if isinstance(state, str) else state
    for each in states:
        check_choice("state", each.strip().upper() if isinstance(each, str) else each, _STATES)
    return ",".join(states)


_STATES = tuple(each.upper() for each in get_args(MessageState))


# -- reading ----------------------------------------------------------------------------------

# What the service's JSON calls a field, where that is not the field's own name.
_WIRE_NAMES = {
    "message_id": "messageId",
    "dead_letter_id": "dlqId",
    "max_retries": "maxRetries",
    "retry_delay": "retryDelayExpression",
    "created_ms": "createdAt",
    "updated_ms": "updatedAt",
    "not_before_ms": "notBefore",
    "url_group": "topicName",
    "endpoint": "endpointName",
    "queue": "queueName",
    "schedule_id": "scheduleId",
    "failure_callback": "failureCallback",
    "caller_ip": "callerIP",
}
# The fields that are not in the JSON of what has none.
_OPTIONAL = frozenset(
    {
        "retry_delay",
        "url_group",
        "endpoint",
        "queue",
        "schedule_id",
        "callback",
        "failure_callback",
        "caller_ip",
        "error",
    }
)


def read(kind: type[R], entry: Mapping[str, Any]) -> R:
    """A record of the service's JSON."""
    made = _MADE[kind](entry) if kind in _MADE else {}
    for field in kind.__struct_fields__:
        if field not in made:
            name = _WIRE_NAMES.get(field, field)
            made[field] = entry.get(name) if field in _OPTIONAL else entry[name]
    return kind(**made)


def _content(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What messages and schedules have in common."""
    return {
        "headers": _headers(entry.get("header")),
        "body": _body(entry, "body"),
        "labels": tuple(entry.get("labels", ())),
        "flow_control": _flow_control(entry),
    }


def _dead_letter(entry: Mapping[str, Any]) -> dict[str, Any]:
    status, response = entry["responseStatus"], None
    if status:
        headers, body = _headers(entry.get("responseHeader")), _body(entry, "responseBody")
        response = Response(status, headers=headers, body=body)
    return {**_content(entry), "response": response}


def _schedule(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_content(entry),
        "paused": entry["isPaused"],
        "delay_ms": _ms(entry.get("delay")),
        "timeout_ms": _ms(entry.get("timeout")),
        "last_ms": entry.get("lastScheduleTime"),
        "next_ms": entry.get("nextScheduleTime"),
        "last_states": entry.get("lastScheduleStates", {}),
    }


def _event(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Every body in the event log is base64."""
    status, response = entry.get("responseStatus"), None
    if status is not None:
        body = b64decode(entry.get("responseBody", ""))
        response = Response(status, headers=_headers(entry.get("responseHeader")), body=body)
    return {
        **_content(entry),
        "body": b64decode(entry.get("body", "")),
        "at_ms": entry["time"],
        "next_ms": entry.get("nextDeliveryTime"),
        "response": response,
    }


def _flow_control_key(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": entry["flowControlKey"],
        "paused": entry["isPaused"],
        "waiting": entry["waitListSize"],
        "parallelism": entry["parallelismMax"],
        "active": entry["parallelismCount"],
        "rate": entry["rateMax"],
        "rate_used": entry["rateCount"],
        "period_ms": entry["ratePeriod"] * 1000,
        "pinned_parallelism": entry["isPinnedParallelism"],
        "pinned_rate": entry["isPinnedRate"],
    }


def _url_group(entry: Mapping[str, Any]) -> dict[str, Any]:
    endpoints = tuple(Endpoint(each["url"], each.get("name")) for each in entry["endpoints"])
    return {"endpoints": endpoints, "headers": _headers(entry.get("headers"))}


# The fields of a record that are more than another name of a value in the JSON.
_MADE: Mapping[type[Record], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    Message: _content,
    DeadLetter: _dead_letter,
    Schedule: _schedule,
    Event: _event,
    FlowControlKey: _flow_control_key,
    UrlGroup: _url_group,
}


def _headers(values_by_name: Mapping[str, list[str]] | None) -> Headers:
    return Headers([(name, value) for name, values in (values_by_name or {}).items() for value in values])


def _body(entry: Mapping[str, Any], name: str) -> bytes:
    encoded = entry.get(f"{name}Base64")
    text: str = entry.get(name, "")
    return text.encode() if encoded is None else b64decode(encoded)


def _flow_control(entry: Mapping[str, Any]) -> FlowControl | None:
    if "flowControlKey" not in entry:
        return None
    found = FlowControl(key=entry["flowControlKey"])
    if "parallelism" in entry:
        found["parallelism"] = entry["parallelism"]
    if "rate" in entry:
        found["rate"], found["period"] = entry["rate"], entry["period"]
    return found


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
