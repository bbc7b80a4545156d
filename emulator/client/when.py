"""`emulator.when` and `emulator.attempts`: the instants of a cron expression and of retries, without a server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from emulator.client.arguments import Instant, check_number, check_text, instant
from emulator.client.publishing import Wait, retry_delay_text
from emulator.core.errors import InvalidInput
from emulator.core.record import moment
from emulator.wire.names import read_field
from emulator.wire.times import read_clock_instant_ms
from emulator.wire.when import MAX_COUNT, MAX_RETRIES, firings, read_ladder, read_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One firing of a cron expression.

    `local` is what the clock of its time zone shows, ISO 8601 with the offset; `explanation` says
    what a daylight-saving change did to it, None if none did.
    """

    at: datetime
    local: str
    explanation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a message whose attempts all fail, numbered from 1; `after` counts from the first.

    `delay` is the wait before it, and `arithmetic` says how that came about.
    """

    attempt: int
    after: timedelta
    delay: timedelta
    arithmetic: str


def when(expression: str, start: Instant, *, count: int = 10) -> list[Firing]:
    """When a cron expression fires after an instant, as a schedule would; fewer where the calendar ends.

        >>> firings = when("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28", count=2)
        >>> [firing.local for firing in firings]
        ['2026-03-28T02:30:00+01:00', '2026-03-29T03:00:00+02:00']
        >>> firings[1].explanation.partition(":")[0]
        'the clock goes from 02'

    Raises ValueError that begins with what cannot be meant: `expression`, `start` or `count`.
    """
    # D-430.
    check_text("expression", expression, expected='a cron expression such as "0 9 * * *"')
    check_number("count", count)
    if not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count: expected 1 to {MAX_COUNT}, got {count}")
    try:
        start_ms = read_field("start", instant("start", start), read_clock_instant_ms)
        schedule = read_schedule(expression)
    except InvalidInput as refused:
        raise ValueError(refused.text) from None
    return [
        Firing(at=moment(each.at_ms), local=each.local, explanation=each.explanation)
        for each in firings(schedule, start_ms, count)
    ]


def attempts(retry_delay: Wait | None = None, *, retries: int = 3) -> list[Attempt]:
    """The attempts of a message that all fail, by a retry delay or by the default backoff.

        >>> [str(each.after) for each in attempts("pow(2, retried) * 1000", retries=3)]
        ['0:00:00', '0:00:01', '0:00:03', '0:00:07']

    The delay is a timedelta, `1d2h30m` or an expression in milliseconds, as for `publish`.
    Raises ValueError and TypeError that begin with `retry_delay` or `retries`.
    """
    # D-431.
    check_number("retries", retries)
    if not 0 <= retries <= MAX_RETRIES:
        raise ValueError(f"retries: expected 0 to {MAX_RETRIES}, got {retries}")
    text = None if retry_delay is None else retry_delay_text("retry_delay", retry_delay)
    try:
        steps = read_ladder(text, retries)
    except InvalidInput as refused:
        raise ValueError(refused.text) from None
    return [
        Attempt(
            attempt=each.attempt,
            after=timedelta(milliseconds=each.after_ms),
            delay=timedelta(milliseconds=each.delay_ms),
            arithmetic=each.arithmetic,
        )
        for each in steps
    ]
