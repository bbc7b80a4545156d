"""How long the API shows what is over: messages that have ended, and the event log."""

from __future__ import annotations

from emulator.core.language.calendar import DAY_MS
from emulator.core.model.accounts import Account

# A message that has ended is still found by its id for a minute of the virtual clock (D-009).
READABLE_AFTER_END_MS = 60_000
# The interface document's bound on event retention, whatever an account's own says (Limits 6; D-002).
MAX_EVENT_RETENTION_DAYS = 14


def readable_until_ms(ended_ms: int) -> int:
    """The first instant at which a message that has ended is no longer found by its id."""
    return ended_ms + READABLE_AFTER_END_MS


def is_readable(ended_ms: int, now_ms: int) -> bool:
    """Whether a message that ended at `ended_ms` is found by its id now."""
    return now_ms < readable_until_ms(ended_ms)


def events_since_ms(account: Account, now_ms: int) -> int:
    """The instant of the oldest events that the account sees now."""
    return now_ms - min(account.retention, MAX_EVENT_RETENTION_DAYS) * DAY_MS
