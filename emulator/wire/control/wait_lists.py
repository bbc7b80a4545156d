"""Lists of what messages wait for as JSON: queues, flow control keys, the accounts' global parallelism."""

from __future__ import annotations

from emulator.core.model.messages import HoldKind
from emulator.queries.listings import ListedKey, ListedQueue, Parallelism
from emulator.wire.control.instants import instant_fields
from emulator.wire.json_fields import Json
from emulator.wire.reasons import held_by


def queue_view(listed: ListedQueue) -> dict[str, Json]:
    """A queue with the messages that have its slots and those that are next in line."""
    queue = listed.queue
    return {
        "name": queue.name,
        "account_id": queue.account_id,
        "parallelism": queue.parallelism,
        "paused": queue.paused,
        "lag": listed.lag,
        "holders": list(listed.holders),
        "waiting": listed.waiting_count,
        "next_in_line": list(listed.waiting),
        **instant_fields("created", queue.created_ms),
        **instant_fields("updated", queue.updated_ms),
    }


def flow_key_view(listed: ListedKey) -> dict[str, Json]:
    """A flow control key; `waits` says what keeps the next message from starting, null if nothing does."""
    flow, reason = listed.flow, listed.reason
    return {
        "key": flow.key,
        "account_id": flow.account_id,
        "parallelism": flow.parallelism,
        "rate": flow.rate,
        "period_ms": flow.period_ms,
        "paused": flow.paused,
        "pinned_parallelism": flow.pinned_parallelism,
        "pinned_rate": flow.pinned_rate,
        "active": flow.active,
        "rate_count": listed.rate_count,
        **instant_fields("rate_period_start", flow.window_start_ms or None),
        "lag": listed.lag,
        "waits": None if reason is None else held_by(HoldKind.FLOW_CONTROL, flow.key, reason),
        "waiting": listed.waiting_count,
        "next_in_line": list(listed.waiting),
    }


def parallelism_view(listed: Parallelism) -> dict[str, Json]:
    """An account's limit on attempts under way, and who waits for it."""
    return {
        "account_id": listed.account_id,
        "parallelism": listed.maximum,
        "active": listed.active,
        "waiting": listed.waiting_count,
    }
