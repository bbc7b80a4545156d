"""The clock as JSON: what is read, what is refused and by which name, and what is answered."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.queries.reports import AdvanceReport, AdvanceRequest, ClockChange, ClockStatus, DrainRequest
from emulator.wire.control.clock import advance_view, clock_view, read_advance, read_clock_change, read_drain
from emulator.wire.json_fields import Json

STATUS = ClockStatus(now_ms=1_767_225_600_000, rate=0.0, next_due_ms=None, pending=0, in_flight=0)
STATUS_VIEW = {
    "now": "2026-01-01T00:00:00.000Z",
    "now_ms": 1_767_225_600_000,
    "rate": 0,
    "next_due_ms": None,
    "pending": 0,
    "in_flight": 0,
    "slipped_ms": 0,
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(STATUS, STATUS_VIEW, id="frozen"),
        pytest.param(
            replace(STATUS, rate=60.0, next_due_ms=1_767_225_601_000, pending=2, in_flight=1),
            {**STATUS_VIEW, "rate": 60, "next_due_ms": 1_767_225_601_000, "pending": 2, "in_flight": 1},
            id="running",
        ),
        pytest.param(replace(STATUS, rate=0.5), {**STATUS_VIEW, "rate": 0.5}, id="slow"),
    ],
)
def test_clock_view(status: ClockStatus, expected: dict[str, Json]) -> None:
    assert json.dumps(clock_view(status)) == json.dumps(expected)


REPORT = AdvanceReport(
    from_ms=1_767_225_600_000,
    to_ms=1_767_312_000_000,
    deliveries=3,
    succeeded=2,
    failed=1,
    schedules_fired=1,
    messages_created=2,
    wall_ms=7,
    stopped=None,
    idle=None,
)
REPORT_VIEW = {
    "from": "2026-01-01T00:00:00.000Z",
    "from_ms": 1_767_225_600_000,
    "to": "2026-01-02T00:00:00.000Z",
    "to_ms": 1_767_312_000_000,
    "deliveries": 3,
    "succeeded": 2,
    "failed": 1,
    "schedules_fired": 1,
    "messages_created": 2,
    "wall_ms": 7,
}


@pytest.mark.parametrize(
    ("report", "more"),
    [
        pytest.param(REPORT, {}, id="advance"),
        pytest.param(replace(REPORT, stopped="max_deliveries"), {"stopped": "max_deliveries"}, id="stopped"),
        pytest.param(replace(REPORT, idle=False), {"idle": False}, id="drain"),
    ],
)
def test_advance_view(report: AdvanceReport, more: dict[str, Json]) -> None:
    assert advance_view(report) == {**REPORT_VIEW, **more}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"rate": 0}, ClockChange(rate=0.0, now_ms=None), id="freeze"),
        pytest.param({"rate": 0.5, "now": 5}, ClockChange(rate=0.5, now_ms=5), id="both"),
        pytest.param({"now": "1970-01-02"}, ClockChange(rate=None, now_ms=86_400_000), id="now"),
    ],
)
def test_clock_change_is_read(document: Json, expected: ClockChange) -> None:
    assert read_clock_change(document) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"by": "1d2h30m"}, AdvanceRequest(by_ms=95_400_000, to_ms=None), id="by"),
        pytest.param({"by": 0}, AdvanceRequest(by_ms=0, to_ms=None), id="by-nothing"),
        pytest.param({"to": "1970-01-01T00:00:01Z"}, AdvanceRequest(by_ms=None, to_ms=1000), id="to"),
        pytest.param(
            {"by": "1s", "max_deliveries": 1}, AdvanceRequest(by_ms=1000, to_ms=None, max_deliveries=1), id="at-most"
        ),
    ],
)
def test_advance_is_read(document: Json, expected: AdvanceRequest) -> None:
    assert read_advance(document) == expected
    assert AdvanceRequest(by_ms=1, to_ms=None).max_deliveries == 1_000_000


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, DrainRequest(horizon_ms=2_592_000_000, max_deliveries=1_000_000), id="no-body"),
        pytest.param({}, DrainRequest(horizon_ms=2_592_000_000), id="empty"),
        pytest.param({"horizon": "1h"}, DrainRequest(horizon_ms=3_600_000), id="horizon"),
        pytest.param({"max_deliveries": 5}, DrainRequest(max_deliveries=5), id="at-most"),
    ],
)
def test_drain_is_read(document: Json, expected: DrainRequest) -> None:
    assert read_drain(document) == expected


@pytest.mark.parametrize(
    ("reader", "document", "field"),
    [
        pytest.param(read_clock_change, None, "body", id="clock-null"),
        pytest.param(read_clock_change, {}, "rate", id="clock-empty"),
        pytest.param(read_clock_change, {"rate": "1"}, "rate", id="rate-is-text"),
        pytest.param(read_clock_change, {"rate": True}, "rate", id="rate-true"),
        pytest.param(read_clock_change, {"rate": -1}, "rate", id="rate-negative"),
        pytest.param(read_clock_change, {"rate": float("nan")}, "rate", id="rate-nan"),
        pytest.param(read_clock_change, {"rate": 10**400}, "rate", id="rate-huge"),
        pytest.param(read_clock_change, {"rate": 1e-300}, "rate", id="rate-tiny"),
        pytest.param(read_clock_change, {"now": "today"}, "now", id="now"),
        pytest.param(read_clock_change, {"now": 1.5}, "now", id="now-fraction"),
        pytest.param(read_clock_change, {"now": True}, "now", id="now-true"),
        pytest.param(read_clock_change, {"speed": 1}, "speed", id="clock-unknown"),
        pytest.param(read_advance, {}, "by", id="advance-empty"),
        pytest.param(read_advance, {"by": "1d", "to": 5}, "to", id="by-and-to"),
        pytest.param(read_advance, {"by": "tomorrow"}, "by", id="by"),
        pytest.param(read_advance, {"by": -1}, "by", id="by-negative"),
        pytest.param(read_advance, {"by": None}, "by", id="by-null"),
        pytest.param(read_advance, {"to": ""}, "to", id="to"),
        pytest.param(read_advance, {"by": 1, "max_deliveries": 0}, "max_deliveries", id="at-most-0"),
        pytest.param(read_advance, {"by": 1, "max": 1}, "max", id="advance-unknown"),
        pytest.param(read_drain, {"horizon": []}, "horizon", id="horizon"),
        pytest.param(read_drain, [], "body", id="drain-list"),
    ],
)
def test_body_that_is_wrong_names_the_field(reader: object, document: Json, field: str) -> None:
    """D-127."""
    assert callable(reader)
    with pytest.raises(InvalidInput) as caught:
        reader(document)
    assert caught.value.field == field
