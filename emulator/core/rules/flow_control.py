"""Which due messages a flow control key lets through, and what its limits become."""

from __future__ import annotations

from emulator.core.facts import FlowKeyChanged
from emulator.core.model import AccountId, FlowControl, FlowState, HoldReason

DEFAULT_PERIOD_MS = 1000


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


def updated_by_message(flow: FlowState | None, wanted: FlowControl, account_id: AccountId) -> FlowKeyChanged | None:
    """What the newest message of a key makes of its limits; pinned ones stay (D-025). None: no change."""
    if flow is None:
        return FlowKeyChanged(
            account_id=account_id,
            key=wanted.key,
            parallelism=wanted.parallelism,
            rate=wanted.rate,
            period_ms=wanted.period_ms,
            paused=False,
            pinned_parallelism=False,
            pinned_rate=False,
        )
    parallelism = flow.parallelism if flow.pinned_parallelism else wanted.parallelism
    rate = flow.rate if flow.pinned_rate else wanted.rate
    period_ms = flow.period_ms if flow.pinned_rate else wanted.period_ms
    if (parallelism, rate, period_ms) == (flow.parallelism, flow.rate, flow.period_ms):
        return None
    return FlowKeyChanged(
        account_id=flow.account_id,
        key=flow.key,
        parallelism=parallelism,
        rate=rate,
        period_ms=period_ms,
        paused=flow.paused,
        pinned_parallelism=flow.pinned_parallelism,
        pinned_rate=flow.pinned_rate,
    )
