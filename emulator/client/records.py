"""What the Python API answers with: the control API's JSON as records."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from httpx import Headers

from emulator.core.model.answers import Via
from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
from emulator.wire.dialect import Environment


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Content):
    """A delivery as a mounted function gets it: exactly what a receiver at `url` would have got."""

    method: str
    url: str
    headers: Headers
    body: bytes


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
    virtual clock; `attempt` counts from 1; `via` says what answered. `error` is set if and only
    if `response` is not. `chaos` says what rules did to it by chance.
    """

    seq: int
    at_ms: int
    created_ms: int
    message_id: str
    attempt: int
    method: str
    url: str
    headers: Headers
    body: bytes
    via: Via
    response: Response | None
    error: str | None
    duration_ms: int
    chaos: Chaos | None = None

    @property
    def at(self) -> datetime:
        """When it started, in UTC."""
        return moment(self.at_ms)

    @property
    def status(self) -> int | None:
        """The status of the response, None without one."""
        return None if self.response is None else self.response.status

    @property
    def succeeded(self) -> bool:
        """Whether the response was a 2xx."""
        return self.response is not None and 200 <= self.response.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The names of a server's dialect that a test may need."""

    name: str
    header_prefix: str
    issuer: str


def moment(instant_ms: int) -> datetime:
    """An instant in UTC. Raises: OverflowError outside the years 1 to 9999."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC)


def read_delivery(entry: Mapping[str, Any]) -> Delivery:
    """A delivery of the control API's JSON."""
    response = entry["response"]
    return Delivery(
        seq=entry["seq"],
        at_ms=entry["at_ms"],
        created_ms=entry["created_ms"],
        message_id=entry["message_id"],
        attempt=entry["attempt"],
        method=entry["method"],
        url=entry["url"],
        headers=_headers(entry["headers"]),
        body=_body(entry),
        via=Via(entry["via"]),
        response=None
        if response is None
        else Response(response["status"], headers=_headers(response["headers"]), body=_body(response)),
        error=entry["error"],
        duration_ms=entry["duration_ms"],
        chaos=Chaos(id=entry["chaos"]["id"], did=entry["chaos"]["did"]) if "chaos" in entry else None,
    )


def _headers(values_by_name: Mapping[str, list[str]]) -> Headers:
    return Headers([(name, value) for name, values in values_by_name.items() for value in values], encoding="utf-8")


def _body(entry: Mapping[str, Any]) -> bytes:
    text: str | None = entry["body"]
    return b64decode(entry["body_base64"]) if text is None else text.encode()


def read_clock(answer: Mapping[str, Any]) -> ClockStatus:
    """Where a clock stands, from the control API's JSON."""
    return msgspec.convert(answer, ClockStatus)


def read_report(answer: Mapping[str, Any]) -> AdvanceReport:
    """What a clock advance did, from the control API's JSON."""
    return msgspec.convert({"stopped": None, "idle": None, **answer}, AdvanceReport)


def read_snapshot(answer: Mapping[str, Any]) -> Snapshot:
    """A snapshot, from the control API's JSON."""
    return msgspec.convert({**answer, "now_ms": answer["created_ms"]}, Snapshot)


def read_credentials(answer: Mapping[str, Any]) -> Credentials:
    """The credentials of a world, from the control API's JSON."""
    return msgspec.convert({**answer, **answer["queue"], **answer["management"]}, Credentials)


def read_env(answer: Mapping[str, Any], url: str) -> dict[str, str]:
    """The variables of a dialect's clients, from the control API's JSON of the credentials."""
    queue, names = answer["queue"], msgspec.convert(answer["environment"], Environment)
    return names.variables(
        url=url,
        token=queue["token"],
        current_signing_key=queue["current_signing_key"],
        next_signing_key=queue["next_signing_key"],
    )
