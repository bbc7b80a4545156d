"""How long to wait between a failed attempt and the next one.

Three sources, the first that applies wins: a hint in the destination's response, the message's own
expression, the default backoff. What explains a retry afterwards asks for the delay again, with
what was recorded.

Source: interface document, "Delivery rules" 1 and Svc-Retry-Delay; decisions D-014, D-015, D-016.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Sequence
from enum import Enum

from emulator.core.language import expressions
from emulator.core.language.calendar import DAY_MS
from emulator.core.message_facts import RetryScheduled
from emulator.core.model.messages import AttemptOutcome, Message, Progress
from emulator.core.record import Record


class RetryReason(Enum):
    """What decided the delay of a retry; the first four are the names of response headers."""

    RETRY_AFTER = "Retry-After"
    RATE_LIMIT_RESET = "X-RateLimit-Reset"
    RATE_LIMIT_RESET_REQUESTS = "X-RateLimit-Reset-Requests"
    RATE_LIMIT_RESET_TOKENS = "X-RateLimit-Reset-Tokens"
    EXPRESSION = "expression"
    DEFAULT = "default"


class Hint(Record):
    """A readable backoff hint of a response. `delay_ms` is not capped: beyond a day it is not obeyed.

    `value` is the header's value as received.
    """

    delay_ms: int
    reason: RetryReason
    value: str = ""


class RetryDelay(Record):
    """The wait before a retry, from 0 to one day, and what decided it.

    The other fields are the arithmetic, for people: `retried` as it was counted, the `hint` whether
    obeyed or not, and the `expression` with the `value` it came to, if it was asked.
    """

    delay_ms: int
    reason: RetryReason
    retried: int = 0
    hint: Hint | None = None
    expression: str | None = None
    value: float | None = None


# When a response carries several, the first in this order counts (D-014).
_HINTS_IN_ORDER = (
    RetryReason.RETRY_AFTER,
    RetryReason.RATE_LIMIT_RESET,
    RetryReason.RATE_LIMIT_RESET_REQUESTS,
    RetryReason.RATE_LIMIT_RESET_TOKENS,
)


def is_spent(progress: Progress, outcome: AttemptOutcome) -> bool:
    """Whether no retry follows a failed attempt: the message has had all it may have, or the answer forbids one."""
    return outcome.non_retryable or progress.dispatch.retried >= progress.message.policy.max_retries


def next_retry(progress: Progress, outcome: AttemptOutcome, now_ms: int) -> RetryScheduled:
    """The retry that follows a failed attempt, which came back now."""
    message = progress.message
    delay = delay_after(message, outcome, retried=progress.dispatch.retried, now_ms=now_ms)
    return RetryScheduled(
        message_id=message.message_id, at_ms=now_ms, due_ms=now_ms + delay.delay_ms, reason=delay.reason.value
    )


def delay_after(message: Message, outcome: AttemptOutcome, *, retried: int, now_ms: int) -> RetryDelay:
    """The wait after a failed attempt of a message; see `delay_before_retry`."""
    return delay_before_retry(
        expression=message.policy.retry_delay,
        retried=retried,
        response_headers=() if outcome.response is None else outcome.response.headers,
        now_ms=now_ms,
    )


def delay_before_retry(
    *, expression: str | None, retried: int, response_headers: Sequence[tuple[str, str]], now_ms: int
) -> RetryDelay:
    """The wait between a failed attempt and the next, and what decided it.

    `retried` counts the retries made before this one (0 before the first); `response_headers` are
    those of the failed attempt, empty when there was no response; `now_ms` is what a date in them
    is compared with. A hint beyond one day hands over to the default backoff, not to the
    expression; so does an expression whose value is negative or not finite.

    Units: epoch ms in, ms out, fractions cut off. Raises: Malformed for an expression that
    `expressions.parse` refuses, and publish has refused before.
    Source: interface document, "Delivery rules" 1 and Svc-Retry-Delay; decisions D-014, D-015.
    """
    hint = response_hint(response_headers, now_ms)
    if hint is not None and hint.delay_ms <= DAY_MS:
        return RetryDelay(delay_ms=hint.delay_ms, reason=hint.reason, retried=retried, hint=hint)
    value: float | None = None
    if hint is None and expression is not None:
        value = expressions.parse(expression).evaluate(retried)
        if math.isfinite(value) and value >= 0:
            return RetryDelay(
                delay_ms=int(min(value, DAY_MS)),
                reason=RetryReason.EXPRESSION,
                retried=retried,
                expression=expression,
                value=value,
            )
    return RetryDelay(
        delay_ms=default_backoff_ms(retried),
        reason=RetryReason.DEFAULT,
        retried=retried,
        hint=hint,
        expression=expression,
        value=value,
    )


def default_backoff_ms(retried: int) -> int:
    """The exponential backoff: min(86400, e^(2.5 n)) whole seconds before retry n = retried + 1.

    That is 12 s, 2 m 28 s, 30 m 8 s, 6 h 7 m 6 s, and a day for every further retry.

    Units: milliseconds. Source: interface document, Svc-Retry-Delay ("exponential backoff", the
    numbers are not shown); decision D-016.
    """
    # From the fifth retry on it is a day; a larger exponent would only overflow.
    exponent = 2.5 * min(retried + 1, 5)
    return min(86_400, int(math.exp(exponent))) * 1000


def response_hint(response_headers: Sequence[tuple[str, str]], now_ms: int) -> Hint | None:
    """The first readable backoff hint of a response, or None.

    A value is a number of seconds, a date as HTTP writes it (the past means at once), or a Go
    duration such as `6m5s`. A number always counts from now: a Unix timestamp is a hint beyond one
    day. A value in none of the three forms is passed over as though the header were absent.

    Units: epoch ms in, ms out. Raises: nothing.
    Source: interface document, "Delivery rules" 1; decision D-014. The value forms are not shown.
    """
    for reason in _HINTS_IN_ORDER:
        wanted = reason.value.lower()
        for name, value in response_headers:
            if name.lower() == wanted:
                delay_ms = _hinted_delay_ms(value.strip(), now_ms)
                if delay_ms is not None:
                    return Hint(delay_ms=delay_ms, reason=reason, value=value.strip())
    return None


_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_SECONDS = re.compile(_NUMBER)
_NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    # The micro sign, the Greek letter, and the two once more as UTF-8 bytes that were read as Latin-1.
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "\u00c2\u00b5s": 1_000,
    "\u00ce\u00bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DURATION_TERM = re.compile(rf"({_NUMBER})({'|'.join(_NS_PER_UNIT)})")
_HTTP_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<day>[0-9]{2}) (?P<month>[A-Z][a-z]{2}) (?P<year>[0-9]{4}) "
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}) (?:GMT|UTC)"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _hinted_delay_ms(value: str, now_ms: int) -> int | None:
    if _SECONDS.fullmatch(value):
        return _nanoseconds(value, 1_000_000_000) // 1_000_000
    date_ms = _http_date_ms(value)
    if date_ms is not None:
        return max(0, date_ms - now_ms)
    return _go_duration_ms(value)


def _go_duration_ms(value: str) -> int | None:
    """Terms of a number and a unit, in any order, each unit as often as one likes."""
    total_ns = 0
    position = 0
    while position < len(value):
        term = _DURATION_TERM.match(value, position)
        if term is None:
            return None
        total_ns += _nanoseconds(term[1], _NS_PER_UNIT[term[2]])
        position = term.end()
    return total_ns // 1_000_000 if value else None


def _nanoseconds(number: str, ns_per_unit: int) -> int:
    whole, _, fraction = number.partition(".")
    # 16 digits are over a day in every unit, even in ns: cutting off more keeps huge numbers cheap
    # and still beyond a day. 16 digits after the point are below a nanosecond in every unit.
    whole_ns = int(whole.lstrip("0")[:16] or "0") * ns_per_unit
    fraction_ns = int(fraction[:16].ljust(16, "0")) * ns_per_unit // 10_000_000_000_000_000
    return whole_ns + fraction_ns


def _http_date_ms(value: str) -> int | None:
    """The instant of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; the day's name is not checked."""
    match = _HTTP_DATE.fullmatch(value)
    if match is None or match["month"] not in _MONTHS:
        return None
    month = _MONTHS.index(match["month"]) + 1
    year, day = int(match["year"]), int(match["day"])
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    # 60 is a leap second.
    if year < 1 or not 1 <= day <= calendar.monthrange(year, month)[1] or hour > 23 or minute > 59 or second > 60:
        return None
    epoch_s: int = calendar.timegm((year, month, day, hour, minute, second))
    return epoch_s * 1000
