"""What an account's plan permits. Each check raises before anything has changed, or returns nothing.

A refusal names the limit and its number (D-042).
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from emulator.core.errors import Forbidden, InvalidInput, LimitReached, OverLimit, PayloadTooLarge, QuotaExceeded
from emulator.core.language.calendar import DAY_MS
from emulator.core.model.messages import DailyQuota
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import Account, Plan
from emulator.core.record import Record
from emulator.core.state import AccountView

DEFAULT_RETRIES = {Plan.FREE: 3, Plan.PAID: 5}


def default_retries(account: Account) -> int:
    """Retries of a message that names none: 3 on the free plan, 5 on paid ones (interface document; D-005)."""
    return min(DEFAULT_RETRIES[account.type], account.max_retries)


def timeout_ms(account: Account, wanted_ms: int | None) -> int:
    """How long an attempt may take: what the message wants, and at most what the account allows."""
    limit_ms = _milliseconds(account.timeout)
    return limit_ms if wanted_ms is None else min(limit_ms, wanted_ms)


# Kept, so that all messages of an account have one number, not each its own.
@lru_cache(maxsize=64)
def _milliseconds(seconds: int) -> int:
    return seconds * 1000


def check_account_is_active(account: Account) -> None:
    """A suspended or inactive account may do nothing (D-029)."""
    if not account.active or account.state not in ("active", "passive"):
        raise Forbidden(f"account {account.id} is {account.state if account.active else 'not active'}")


def check_message_size(account: Account, size: int) -> None:
    """A body of so many bytes against the plan. Raises PayloadTooLarge."""
    if size > account.max_message_size:
        raise PayloadTooLarge(f"quota maxMessageSize exceeded, current limit: {account.max_message_size}")


def check_options(account: Account, options: MessageOptions, now_ms: int) -> None:
    """The per-message limits: delay and retries, those of the callbacks too; and no delayed callback."""
    limit_ms = account.max_delay * 1000
    if options.not_before_ms is not None:
        if options.not_before_ms - now_ms > limit_ms:
            raise InvalidInput("Svc-Not-Before", f"quota maxDelay exceeded, current limit: {account.max_delay}")
    elif options.delay_ms is not None and options.delay_ms > limit_ms:
        raise InvalidInput("Svc-Delay", f"quota maxDelay exceeded, current limit: {account.max_delay}")
    _check_retries(account, "Svc-Retries", options.max_retries)
    _check_callbacks(account, "Svc", options)


def _check_callbacks(account: Account, beginning: str, options: MessageOptions) -> None:
    """Also of a callback that has no URL here (D-074)."""
    for suffix, callback, alone in (
        ("Callback", options.callback, options.callback_settings),
        ("Failure-Callback", options.failure_callback, options.failure_callback_settings),
    ):
        settings = alone if callback is None else callback.options
        if settings is None:
            continue
        name = f"{beginning}-{suffix}"
        # Interface document: a message with a delayed callback is rejected at insertion (D-007).
        if settings.delay_ms:
            raise InvalidInput(f"{name}-Delay", "a callback cannot be delayed, expected no delay or 0s")
        if settings.not_before_ms is not None:
            raise InvalidInput(f"{name}-Not-Before", "a callback cannot be delayed")
        _check_retries(account, f"{name}-Retries", settings.max_retries)
        _check_callbacks(account, name, settings)


def _check_retries(account: Account, field: str, retries: int | None) -> None:
    if retries is not None and retries > account.max_retries:
        raise OverLimit(field, f"quota maxRetries exceeded, current limit: {account.max_retries}")


def check_daily_quota(owner: AccountView, now_ms: int, adding: int) -> None:
    """The hard daily limit of messages; the day ends at midnight UTC of the virtual clock (D-028)."""
    used = messages_today(owner, now_ms)
    limit = owner.account.max_requests_per_day_hard
    if used + adding > limit:
        raise QuotaExceeded(
            f"quota maxRequestsPerDay exceeded, current limit: {limit}",
            limit=limit,
            remaining=max(0, limit - used),
            reset_s=_next_midnight_s(now_ms),
            daily=True,
        )


def messages_today(owner: AccountView, now_ms: int) -> int:
    """How many messages the account has made on the present day of UTC."""
    return owner.usage_count if owner.usage_day == now_ms // DAY_MS else 0


def check_count(name: str, present: int, limit: int) -> None:
    """A limit on how many of something an account may have: `present` exist already."""
    if present >= limit:
        raise LimitReached(f"quota {name} exceeded, current limit: {limit}")


class BurstWindow(Record):
    """The second in which calls are being counted, by the virtual and by the wall clock."""

    virtual_s: int
    began_wall_ms: int
    count: int


def counts_calls(account: Account, *, is_frozen: bool) -> bool:
    """Whether calls count against the limit a second (D-032).

    On a frozen clock no second ends by itself, so there only a limit counts that a test or a fixture set.
    """
    return account.burst_limit_is_set or not is_frozen


def count_call(window: BurstWindow | None, account: Account, now_ms: int, wall_ms: int) -> BurstWindow:
    """Count one call against the limit of calls a second. Raises QuotaExceeded.

    The second is one of the virtual clock; where that is frozen, one of the wall clock ends
    the count as well, because a frozen test must be able to poll (D-032).
    """
    virtual_s = now_ms // 1000
    if window is None or virtual_s != window.virtual_s or not 0 <= wall_ms - window.began_wall_ms < 1000:
        window = BurstWindow(virtual_s=virtual_s, began_wall_ms=wall_ms, count=0)
    limit = account.max_requests_per_second
    if window.count >= limit:
        raise QuotaExceeded(
            f"quota maxRequestsPerSecond exceeded, current limit: {limit}",
            limit=limit,
            remaining=0,
            reset_s=virtual_s + 1,
            daily=False,
        )
    return replace(window, count=window.count + 1)


def daily_quota(owner: AccountView, now_ms: int) -> DailyQuota:
    """What an account has left of its soft limit, which is reported and not enforced (D-028)."""
    limit = owner.account.max_requests_per_day
    return DailyQuota(
        limit=limit,
        remaining=max(0, limit - messages_today(owner, now_ms)),
        reset_s=_next_midnight_s(now_ms),
    )


def _next_midnight_s(now_ms: int) -> int:
    return (now_ms // DAY_MS + 1) * 86_400


# -- how long the API shows what is over --------------------------------------------------------

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
