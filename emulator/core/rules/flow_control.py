"""Which due messages a flow control key lets through, and what its limits become."""

from __future__ import annotations

from msgspec import convert
from msgspec.structs import replace

from emulator.core.facts import FlowKeyChanged
from emulator.core.model.messages import HoldReason
from emulator.core.model.names import AccountId
from emulator.core.model.options import FlowControl
from emulator.core.model.resources import FlowState


def reason_to_hold(flow: FlowState, now_ms: int) -> HoldReason | None:
    """Why the key cannot let another message through now, or None if it can.

    Active means that a call was made and its answer is not there yet; every dispatch, a retry
    too, counts against the rate of the period it falls in (D-024).
    """
    if flow.paused:
        return HoldReason.PAUSED
    if flow.parallelism is not None and flow.active >= flow.parallelism:
        return HoldReason.PARALLELISM
    if flow.rate is not None and rate_count(flow, now_ms) >= flow.rate:
        return HoldReason.RATE
    return None


def rate_count(flow: FlowState, now_ms: int) -> int:
    """Dispatches in the rate period that holds `now_ms`; a period that has ended counts nothing."""
    is_over = now_ms >= flow.window_start_ms + flow.period_ms
    return 0 if flow.rate is None or is_over else flow.rate_count


def change(flow: FlowState, **changes: object) -> FlowKeyChanged:
    """The fact that gives a key these limits, and leaves the others."""
    return convert(replace(flow, **changes), FlowKeyChanged, from_attributes=True)


def updated_by_message(flow: FlowState | None, wanted: FlowControl, account_id: AccountId) -> FlowKeyChanged | None:
    """What the newest message of a key makes of its limits; pinned ones stay (D-025). None: no change."""
    present = flow or FlowState(key=wanted.key, account_id=account_id)
    limits: dict[str, int | None] = {}
    if not present.pinned_parallelism:
        limits["parallelism"] = wanted.parallelism
    if not present.pinned_rate:
        limits |= {"rate": wanted.rate, "period_ms": wanted.period_ms}
    is_same = all(getattr(present, name) == value for name, value in limits.items())
    return None if flow is not None and is_same else change(present, **limits)
