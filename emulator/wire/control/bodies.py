"""The control API's JSON, both ways: request bodies into records, records into answers.

Times and durations are read as text or as milliseconds, and answered as milliseconds in fields
that end in `_ms`, beside an ISO 8601 twin where a person reads. What is wrong is refused with the
path of the value at fault, and unknown keys are wrong (D-127). Unlike on the messaging API, a
field without a value is null.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping

from emulator.core.errors import InvalidInput
from emulator.core.model import Plan
from emulator.queries.history import Delivery, DeliveryQuery, Page
from emulator.queries.reports import (
    DEFAULT_HORIZON_MS,
    DEFAULT_MAX_DELIVERIES,
    AdvanceReport,
    AdvanceRequest,
    ClockChange,
    ClockStatus,
    Credentials,
    DrainRequest,
    ResetRequest,
    WorldRequest,
)
from emulator.wire.control.rules import read_rule as read_rule
from emulator.wire.control.rules import rule_view as rule_view
from emulator.wire.control.rules import values_by_name

# Callers find everything of the control API's JSON here; instants and rules have modules of their own.
from emulator.wire.instants import EARLIEST_VIRTUAL_MS
from emulator.wire.instants import iso as iso
from emulator.wire.instants import read_instant_ms as read_instant_ms
from emulator.wire.json_fields import (
    MAX_EXACT,
    Json,
    kind_of,
    read_choice,
    read_duration_ms,
    read_instant,
    read_integer,
    read_number,
    read_object,
    read_text,
)
from emulator.wire.redaction import redact_headers, redacted_text

MAX_LIMIT = 1000
# Beyond these a rate is a slip of the finger, and arithmetic on it loses its meaning.
MIN_RATE = 1e-6
MAX_RATE = 1e6

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WORLD_KEYS = ("id", "seed", "epoch", "rate", "fixtures", "plan")
_DELIVERY_PARAMETERS = ("url", "message_id", "outcome", "limit", "cursor", "redact")
_OUTCOMES = {"succeeded": "succeeded", "delivered": "succeeded", "failed": "failed"}


# -- the clock --------------------------------------------------------------------------------


def read_clock_change(value: Json) -> ClockChange:
    """The body of a change of the clock: `rate`, `now` or both. Raises: InvalidInput."""
    given = read_object(value, "", ("rate", "now"))
    if not given:
        raise InvalidInput("rate", "expected rate, now or both")
    return ClockChange(
        rate=_read_rate(given["rate"]) if "rate" in given else None,
        now_ms=_read_virtual(given["now"], "now") if "now" in given else None,
    )


def read_advance(value: Json) -> AdvanceRequest:
    """The body of a clock advance: `by` or `to`, and how many attempts it may make. Raises: InvalidInput."""
    given = read_object(value, "", ("by", "to", "max_deliveries"))
    if ("by" in given) == ("to" in given):
        found = "both" if "by" in given else "neither"
        raise InvalidInput("to" if "by" in given else "by", f"expected exactly one of by and to, got {found}")
    return AdvanceRequest(
        by_ms=read_duration_ms(given["by"], "by") if "by" in given else None,
        to_ms=read_instant(given["to"], "to") if "to" in given else None,
        max_deliveries=_read_max_deliveries(given),
    )


def read_drain(value: Json) -> DrainRequest:
    """The body of a drain, which may be missing (null). Raises: InvalidInput."""
    given = read_object({} if value is None else value, "", ("horizon", "max_deliveries"))
    return DrainRequest(
        horizon_ms=read_duration_ms(given["horizon"], "horizon") if "horizon" in given else DEFAULT_HORIZON_MS,
        max_deliveries=_read_max_deliveries(given),
    )


def clock_view(status: ClockStatus) -> dict[str, Json]:
    """Where the clock stands; a whole rate is shown as an integer."""
    return {
        "now": iso(status.now_ms),
        "now_ms": status.now_ms,
        "rate": int(status.rate) if status.rate.is_integer() else status.rate,
        "next_due_ms": status.next_due_ms,
        "pending": status.pending,
        "in_flight": status.in_flight,
    }


def advance_view(report: AdvanceReport) -> dict[str, Json]:
    """What an advance did; `stopped` only if something ended it early, `idle` only for a drain."""
    view: dict[str, Json] = {
        "from": iso(report.from_ms),
        "from_ms": report.from_ms,
        "to": iso(report.to_ms),
        "to_ms": report.to_ms,
        "deliveries": report.deliveries,
        "succeeded": report.succeeded,
        "failed": report.failed,
        "schedules_fired": report.schedules_fired,
        "messages_created": report.messages_created,
        "wall_ms": report.wall_ms,
    }
    if report.stopped is not None:
        view["stopped"] = report.stopped
    if report.idle is not None:
        view["idle"] = report.idle
    return view


def _read_virtual(value: Json, path: str) -> int:
    """An instant that a virtual clock can show. Raises: InvalidInput."""
    instant_ms = read_instant(value, path)
    if instant_ms < EARLIEST_VIRTUAL_MS:
        raise InvalidInput(path, "expected an instant after 1970-01-01T00:00:00Z")
    return instant_ms


def _read_rate(value: Json) -> float:
    rate = read_number(value, "rate")
    if rate != 0 and not MIN_RATE <= rate <= MAX_RATE:
        raise InvalidInput(
            "rate", f"expected 0 (frozen), 1 (real time) or a number from {MIN_RATE:f} to {MAX_RATE:.0f}"
        )
    return rate


def _read_max_deliveries(given: Mapping[str, Json]) -> int:
    if "max_deliveries" not in given:
        return DEFAULT_MAX_DELIVERIES
    return read_integer(given["max_deliveries"], "max_deliveries", 1)


# -- worlds and snapshots ---------------------------------------------------------------------


def read_world(value: Json) -> WorldRequest:
    """The body that makes a world, which may be missing (null). Raises: InvalidInput."""
    given = read_object({} if value is None else value, "", _WORLD_KEYS)
    return WorldRequest(
        id=_read_name(given["id"], "id") if "id" in given else None,
        seed=read_integer(given["seed"], "seed", -MAX_EXACT) if "seed" in given else None,
        epoch_ms=_read_virtual(given["epoch"], "epoch") if "epoch" in given else None,
        rate=_read_rate(given["rate"]) if "rate" in given else None,
        fixtures=_read_fixtures(given),
        plan=Plan(read_choice(given["plan"], "plan", tuple(Plan))) if "plan" in given else None,
    )


def read_reset(value: Json) -> ResetRequest:
    """The body of a reset, which may be missing (null). Raises: InvalidInput."""
    return ResetRequest(fixtures=_read_fixtures(read_object({} if value is None else value, "", ("fixtures",))))


def read_snapshot_name(value: Json) -> str:
    """The body that saves a snapshot: its name. Raises: InvalidInput."""
    given = read_object(value, "", ("name",))
    if "name" not in given:
        raise InvalidInput("name", "missing, expected the snapshot's name")
    return _read_name(given["name"], "name")


def world_view(world_id: str, credentials: Credentials, clock: ClockStatus) -> dict[str, Json]:
    """A world: its id, what opens it, and its clock."""
    return {"id": world_id, "credentials": credentials_view(credentials), "clock": clock_view(clock)}


def credentials_view(credentials: Credentials) -> dict[str, Json]:
    """All that a client needs to use a world."""
    return {
        "queue": {
            "account_id": credentials.account_id,
            "token": credentials.token,
            "read_only_token": credentials.read_only_token,
            "current_signing_key": credentials.current_signing_key,
            "next_signing_key": credentials.next_signing_key,
        },
        "management": {"username": credentials.username, "password": credentials.password},
        "search_index_ids": list(credentials.search_index_ids),
        "vector_index_ids": list(credentials.vector_index_ids),
    }


def _read_name(value: Json, path: str) -> str:
    """A name that can stand in a URL path and name a file (D-128)."""
    name = read_text(value, path)
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            path, "expected at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first"
        )
    return name


def _read_fixtures(given: Mapping[str, Json]) -> Mapping[str, Json] | None:
    if "fixtures" not in given:
        return None
    fixtures = given["fixtures"]
    if not isinstance(fixtures, Mapping):
        raise InvalidInput("fixtures", f"expected an object, got {kind_of(fixtures)}")
    return fixtures


# -- the delivery journal ---------------------------------------------------------------------


def delivery_query(pairs: Iterable[tuple[str, str]]) -> DeliveryQuery:
    """The query of the delivery journal; empty parameters count as absent. Raises: InvalidInput.

    `outcome` is succeeded or failed; `delivered` is taken for succeeded.
    """
    given = read_parameters(pairs, _DELIVERY_PARAMETERS)
    outcome = given.get("outcome")
    if outcome is not None:
        outcome = _OUTCOMES[read_choice(outcome, "outcome", tuple(_OUTCOMES))]
    return DeliveryQuery(
        limit=_read_limit(given["limit"]) if "limit" in given else DeliveryQuery().limit,
        cursor=given.get("cursor"),
        url=given.get("url"),
        message_id=given.get("message_id"),
        outcome=outcome,
    )


def read_redact(pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether the journal is asked to hide what its messages redact: `redact=true`. Raises: InvalidInput."""
    given = [text.lower() for name, text in pairs if name == "redact"]
    if not given:
        return False
    return read_choice(given[-1], "redact", ("true", "false")) == "true"


def delivery_view(delivery: Delivery, *, redact: bool) -> dict[str, Json]:
    """One attempt: what was sent and what came back, exactly, or with the message's redaction applied."""
    message, outcome = delivery.message, delivery.outcome
    headers, body = outcome.request_headers, message.body
    if redact and message.redaction is not None:
        headers = redact_headers(headers, message.redaction)
        body = redacted_text(body).encode() if body and message.redaction.body else body
    response: dict[str, Json] | None = None
    if outcome.response is not None:
        response = {
            "status": outcome.response.status,
            "headers": values_by_name(outcome.response.headers),
            **_content(outcome.response.body),
        }
    return {
        "seq": delivery.seq,
        "at": iso(delivery.at_ms),
        "at_ms": delivery.at_ms,
        "created_ms": message.created_ms,
        "message_id": message.message_id,
        "attempt": delivery.attempt,
        "method": message.method.value,
        "url": message.url,
        "headers": values_by_name(headers),
        **_content(body),
        "via": outcome.via.value,
        "response": response,
        "error": outcome.error,
        "duration_ms": delivery.finished_ms - delivery.at_ms,
    }


def deliveries_page(page: Page[Delivery], *, redact: bool) -> dict[str, Json]:
    """A page of the delivery journal; the cursor of the last page is null."""
    return {"deliveries": [delivery_view(entry, redact=redact) for entry in page.items], "cursor": page.cursor}


def _content(body: bytes) -> dict[str, Json]:
    """A body as text, or as base64 if it is not UTF-8; the other one is null."""
    try:
        return {"body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": b64encode(body).decode()}


def _read_limit(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidInput("limit", f"expected an integer from 1 to {MAX_LIMIT}")
    return int(text)


def read_parameters(pairs: Iterable[tuple[str, str]], known: tuple[str, ...]) -> dict[str, str]:
    """The query parameters of an operation. `world` belongs to every operation and is read elsewhere."""
    given: dict[str, str] = {}
    for name, text in pairs:
        if name == "world":
            continue
        if name not in known:
            raise InvalidInput(name, f"unknown, expected one of {', '.join(known)}")
        if name in given:
            raise InvalidInput(name, "expected only once")
        if text:
            given[name] = text
    return given
