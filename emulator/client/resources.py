"""What the service keeps, as records: its JSON of messages, schedules, queues, URL groups and dead letters.

Times are epoch ms of the virtual clock, durations ms; a field that does not apply is None.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
from httpx import Headers

from emulator.client.publishing import FlowControl
from emulator.client.records import Content, Response
from emulator.core.record import Record


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


class DeadLetter(Message):
    """A message whose last attempt has failed; `response` is None if none came."""

    dead_letter_id: str
    response: Response | None


class MessageStatus(Record):
    """A message of the world, and where it stands.

    `state` is PENDING, HELD, ACTIVE, RETRYING, DELIVERED, FAILED or CANCELED. `attempts` counts
    those that were begun, of at most `max_attempts`. `next_ms` is when the next one is due, `waits` what
    holds it up; `last_status`, `last_error` and `last_result` tell of the last attempt that came back.
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


class Queue(Record):
    """A queue; `lag` counts its messages that have not ended."""

    name: str
    parallelism: int
    paused: bool
    lag: int
    created_ms: int
    updated_ms: int


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


# -- reading ----------------------------------------------------------------------------------


def read_message(entry: Mapping[str, Any]) -> Message:
    """A message of the service's JSON."""
    return Message(**_message(entry))


def read_dead_letter(entry: Mapping[str, Any]) -> DeadLetter:
    """A dead letter of the service's JSON."""
    status, response = entry["responseStatus"], None
    if status:
        headers, body = _headers(entry.get("responseHeader")), _body(entry, "responseBody")
        response = Response(status, headers=headers, body=body)
    return DeadLetter(**_message(entry), dead_letter_id=entry["dlqId"], response=response)


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "message_id": entry["messageId"],
        "url": entry["url"],
        "method": entry["method"],
        "max_retries": entry["maxRetries"],
        "created_ms": entry["createdAt"],
        "not_before_ms": entry["notBefore"],
        "url_group": entry.get("topicName"),
        "endpoint": entry.get("endpointName"),
        "schedule_id": entry.get("scheduleId"),
        "caller_ip": entry.get("callerIP"),
        **_common(entry),
    }


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What messages and schedules have in common."""
    return {
        "headers": _headers(entry.get("header")),
        "body": _body(entry, "body"),
        "retry_delay": entry.get("retryDelayExpression"),
        "labels": tuple(entry.get("labels", ())),
        "queue": entry.get("queueName"),
        "callback": entry.get("callback"),
        "failure_callback": entry.get("failureCallback"),
        "flow_control": _flow_control(entry),
    }


def read_status(entry: Mapping[str, Any]) -> MessageStatus:
    """A message of the control API's list."""
    return msgspec.convert(entry, MessageStatus)


def read_schedule(entry: Mapping[str, Any]) -> Schedule:
    """A schedule of the service's JSON."""
    return Schedule(
        schedule_id=entry["scheduleId"],
        cron=entry["cron"],
        destination=entry["destination"],
        paused=entry["isPaused"],
        method=entry["method"],
        retries=entry["retries"],
        delay_ms=_ms(entry.get("delay")),
        timeout_ms=_ms(entry.get("timeout")),
        created_ms=entry["createdAt"],
        last_ms=entry.get("lastScheduleTime"),
        next_ms=entry.get("nextScheduleTime"),
        last_states=entry.get("lastScheduleStates", {}),
        error=entry.get("error"),
        **_common(entry),
    )


def read_queue(entry: Mapping[str, Any]) -> Queue:
    """A queue of the service's JSON."""
    return Queue(
        name=entry["name"],
        parallelism=entry["parallelism"],
        paused=entry["paused"],
        lag=entry["lag"],
        created_ms=entry["createdAt"],
        updated_ms=entry["updatedAt"],
    )


def read_url_group(entry: Mapping[str, Any]) -> UrlGroup:
    """A URL group of the service's JSON."""
    return UrlGroup(
        name=entry["name"],
        endpoints=tuple(Endpoint(each["url"], each.get("name")) for each in entry["endpoints"]),
        headers=_headers(entry.get("headers")),
        created_ms=entry["createdAt"],
        updated_ms=entry["updatedAt"],
    )


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
