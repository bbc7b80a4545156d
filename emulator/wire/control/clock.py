"""The clock in the control API's JSON.

Times and durations are read as text or as milliseconds, and answered as milliseconds in fields
that end in `_ms`, beside an ISO 8601 twin where a person reads.
"""

from __future__ import annotations

from emulator.core.errors import InvalidInput
from emulator.queries.reports import (
    DEFAULT_HORIZON_MS,
    DEFAULT_MAX_DELIVERIES,
    AdvanceReport,
    AdvanceRequest,
    ClockChange,
    ClockStatus,
    DrainRequest,
)
from emulator.wire.control.instants import fields_of, rate_view
from emulator.wire.json_fields import Json, read_clock_instant, read_duration_ms, read_instant, read_number
from emulator.wire.object_fields import Fields, boolean, integer

# Beyond these a rate is a mistake in typing, and arithmetic with it loses its precision.
MIN_RATE = 1e-6
MAX_RATE = 1e6


def read_clock_change(value: Json) -> ClockChange:
    """The body of a change of the clock: `rate`, `now` or both. Raises: InvalidInput."""
    given = Fields(value, "", ("rate", "now"))
    if not given.given:
        raise InvalidInput("rate", "expected rate, now or both")
    return ClockChange(rate=given.get("rate", read_rate, None), now_ms=given.get("now", read_clock_instant, None))


def read_advance(value: Json) -> AdvanceRequest:
    """The body of a clock advance: `by` or `to`, how many attempts it may make, `undoable`. Raises: InvalidInput."""
    given = Fields(value, "", ("by", "to", "max_deliveries", "undoable"))
    if ("by" in given) == ("to" in given):
        found = "both" if "by" in given else "neither"
        raise InvalidInput("to" if "by" in given else "by", f"expected exactly one of by and to, got {found}")
    return AdvanceRequest(
        by_ms=given.get("by", read_duration_ms, None),
        to_ms=given.get("to", read_instant, None),
        max_deliveries=given.get("max_deliveries", integer(1), DEFAULT_MAX_DELIVERIES),
        undoable=given.get("undoable", boolean, False),
    )


def read_drain(value: Json) -> DrainRequest:
    """The body of a drain, which may be missing (null). Raises: InvalidInput."""
    given = Fields({} if value is None else value, "", ("horizon", "max_deliveries", "undoable"))
    return DrainRequest(
        horizon_ms=given.get("horizon", read_duration_ms, DEFAULT_HORIZON_MS),
        max_deliveries=given.get("max_deliveries", integer(1), DEFAULT_MAX_DELIVERIES),
        undoable=given.get("undoable", boolean, False),
    )


def read_undoable(value: Json) -> bool:
    """The body of a jump to what is due next, which may be missing (null). Raises: InvalidInput."""
    return Fields({} if value is None else value, "", ("undoable",)).get("undoable", boolean, False)


def is_rate(rate: float) -> bool:
    """Whether a clock can go at a rate."""
    return rate == 0 or MIN_RATE <= rate <= MAX_RATE


def read_rate(value: Json, path: str) -> float:
    """How fast a clock goes. Raises: InvalidInput."""
    rate = read_number(value, path)
    if not is_rate(rate):
        raise InvalidInput(path, f"expected 0 (frozen), 1 (real time) or a number from {MIN_RATE:f} to {MAX_RATE:.0f}")
    return rate


def clock_view(status: ClockStatus) -> dict[str, Json]:
    """Where the clock stands."""
    return fields_of(status, "now_ms") | {"rate": rate_view(status.rate)}


def advance_view(report: AdvanceReport) -> dict[str, Json]:
    """What an advance did; `stopped` only if something ended it early, `idle` only for a drain."""
    view = fields_of(report, "from_ms", "to_ms")
    return {name: value for name, value in view.items() if value is not None}
