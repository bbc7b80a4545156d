"""Durations and instants as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from emulator.core.errors import Malformed
from emulator.core.language import calendar
from emulator.core.language.text import excerpt
from emulator.core.world_setup import KEEP_ALL, Keep

# -- durations --------------------------------------------------------------------------------
# Source: interface document, Svc-Delay, Svc-Timeout and "Flow control". What the document does not
# show, we chose: units may stand in any order, each at most once; decimals, but no signs (D-088).

_MS_PER_UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_TERM = re.compile(r"([0-9]+)(?:\.([0-9]+))?(ms|[smhdw])")

_COUNT = re.compile(r"[1-9][0-9]{0,14}")

_UNITS = ("s", "m", "h", "d")
MAX_DIGITS = 15
# A client writes what its numbers hold, such as 3.3333333333333335s.
MAX_DECIMALS = 20
# As milliseconds, so many digits of seconds are still an integer that every JSON reader keeps exact.
MAX_SECONDS_DIGITS = 12
# The largest integer every JSON reader keeps exact.
MAX_DURATION_MS = 2**53 - 1
MAX_PERIOD_S = 604_800


def parse_duration_ms(text: str) -> int:
    """The length of a duration such as `10s` or `1d10h30m`; zero is allowed.

    Units: milliseconds. Raises: Malformed.
    Source: interface document, Svc-Delay.
    """
    return _sum_of_terms_ms(text, _UNITS)


def parse_seconds_or_duration_ms(text: str) -> int:
    """A bare number of seconds, or a duration as in `parse_duration_ms`.

    Units: milliseconds. Raises: Malformed.
    Source: interface document, Svc-Timeout and "Flow control"; days and bare seconds: D-088.
    """
    trimmed = text.strip()
    if trimmed.isascii() and trimmed.isdigit() and len(trimmed) <= MAX_SECONDS_DIGITS:
        return int(trimmed) * 1000
    return parse_duration_ms(text)


def parse_period_s(text: str) -> int:
    """The period of a flow control rate: a bare number of seconds, or a duration with units s, m, h, d.

    Units: seconds, 1 to 604800 (one week). Raises: Malformed.
    Source: interface document, "Flow control" and "Limits" 4.
    """
    period_s, rest_ms = divmod(parse_seconds_or_duration_ms(text), 1000)
    if rest_ms or not 1 <= period_s <= MAX_PERIOD_S:
        raise Malformed(f"expected a period from 1 second to 1 week, of whole seconds, got {excerpt(text)}")
    return period_s


def parse_control_duration_ms(value: str | int) -> int:
    """A duration of our own control API: a number of milliseconds, or a text with units ms, s, m, h, d, w.

    Units: milliseconds. Raises: Malformed.
    """
    if isinstance(value, str):
        return _sum_of_terms_ms(value, tuple(_MS_PER_UNIT))
    # JSON's true and false arrive as integers of Python.
    if isinstance(value, bool) or not 0 <= value <= MAX_DURATION_MS:
        raise Malformed(f"expected milliseconds from 0 to {MAX_DURATION_MS}, or a duration such as 1h30m")
    return value


def parse_keep(value: str | int) -> Keep:
    """How much of history is kept: `all`, a number of entries, an age such as `30d`, or the two with a comma between.

    Raises: Malformed.
    """
    if value == "all":
        return KEEP_ALL
    parts = str(value).split(",")
    found: dict[str, int] = {}
    for part in parts:
        text = part.strip(" ")
        is_count = _COUNT.fullmatch(text) is not None
        found["entries" if is_count else "age_ms"] = int(text) if is_count else _milliseconds(text)
    if len(found) < len(parts) or not all(found.values()):
        raise Malformed(f"expected 'all', a number of entries or an age such as 30d, got {excerpt(str(value))}")
    return Keep(**found)


def _milliseconds(text: str) -> int:
    """A duration, 0 for what is none."""
    try:
        return parse_control_duration_ms(text)
    except Malformed:
        return 0


def format_duration(ms: int) -> str:
    """A duration for people: `1d2h30m`, `10s`, `1.5s`, `250ms`, `0s`."""
    if ms < 0:
        return "-" + format_duration(-ms)
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, rest_ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    whole_s, fraction_ms = divmod(rest_ms, 1000)
    seconds = f"{whole_s}.{fraction_ms:03}".rstrip("0") if fraction_ms else str(whole_s)
    counted = ((days, "d"), (hours, "h"), (minutes, "m"))
    larger = "".join(f"{count}{unit}" for count, unit in counted if count)
    return larger if larger and not rest_ms else f"{larger}{seconds}s"


@lru_cache(maxsize=1024)
def _sum_of_terms_ms(text: str, units: tuple[str, ...]) -> int:
    trimmed = text.strip()
    terms: dict[str, int] = {}
    position = 0
    while position < len(trimmed):
        term = _TERM.match(trimmed, position)
        if term is None:
            raise _malformed(text, units)
        whole, decimals, unit = term[1], term[2] or "", term[3]
        if unit not in units or unit in terms or len(whole) > MAX_DIGITS or len(decimals) > MAX_DECIMALS:
            raise _malformed(text, units)
        # Rounded up to a whole millisecond, in integers: what is more than nothing stays so.
        terms[unit] = -(-int(whole + decimals) * _MS_PER_UNIT[unit] // 10 ** len(decimals))
        position = term.end()
    total_ms = sum(terms.values())
    if not terms or total_ms > MAX_DURATION_MS:
        raise _malformed(text, units)
    return total_ms


def _malformed(text: str, units: tuple[str, ...]) -> Malformed:
    number = text.strip()
    meant = f", did you mean {number}s?" if re.fullmatch(r"[0-9]{1,12}", number) else ""
    return Malformed(
        f"expected a duration such as 10s or 1d10h30m, each of the units {', '.join(units)} at most once, "
        f"got {excerpt(text)}{meant}"
    )


# -- instants of the virtual clock as text, for the control API and for people ----------------

# What ISO 8601 can show: the years 1 to 9999.
MIN_INSTANT_MS = -62_135_596_800_000
MAX_INSTANT_MS = calendar.LATEST_MS
EARLIEST_VIRTUAL_MS = calendar.EARLIEST_MS

_EXPECTED = "expected an ISO 8601 time such as 2026-01-01T00:00:00Z, or integer milliseconds"
# As many digits as all readers of numbers take.
_NUMBER = re.compile(r"[0-9]{1,18}")
# 1973 in milliseconds, and the year 5138 in seconds.
_LATEST_AS_SECONDS = 100_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_UTC = _EPOCH.replace(tzinfo=None)
_HOUR_MS = 3_600_000
_MS = timedelta(milliseconds=1)
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?)?"
)


def read_instant_ms(value: str | int) -> int:
    """An instant of the control API: ISO 8601, or integer milliseconds since the Unix epoch.

    A time without an offset is UTC; a date alone is its midnight; fractions beyond the millisecond
    are cut off. Only the extended form is read, so no run of digits can be meant as a number.

    Units: epoch ms, in the years 1 to 9999. Raises: Malformed.
    """
    if isinstance(value, str):
        instant_ms = _read_iso_ms(value.strip())
    elif isinstance(value, bool):
        # JSON's true and false arrive as integers of Python.
        raise Malformed(f"{_EXPECTED}, got a boolean")
    else:
        instant_ms = value
    if not MIN_INSTANT_MS <= instant_ms <= MAX_INSTANT_MS:
        raise Malformed("expected a time in the years 1 to 9999")
    return instant_ms


def read_clock_instant_ms(value: str | int) -> int:
    """An instant that a virtual clock can show, in the forms of `read_instant_ms`. Raises: Malformed."""
    return calendar.check_clock_instant(read_instant_ms(value))


def read_epoch_ms(value: int) -> int:
    """A bare number of milliseconds, as a person gives it in Python or in the shell (D-501).

    The control API has small ones too; a person who gives one means Unix seconds. Raises: Malformed.
    """
    if -_LATEST_AS_SECONDS < value < _LATEST_AS_SECONDS:
        seconds = f', did you mean "{iso(value * 1000)}"?' if 0 <= value * 1000 <= MAX_INSTANT_MS else ""
        raise Malformed(f"expected an ISO 8601 time such as 2026-01-01T00:00:00Z, got the number {value}{seconds}")
    return value


def number_or_text(text: str) -> int | str:
    """What stands for milliseconds where there are texts only: a run of digits is the number it looks like."""
    return int(text) if _NUMBER.fullmatch(text) else text


# Cached: one instant is written many times.
@lru_cache(maxsize=1024)
def iso(instant_ms: int) -> str:
    """An instant as `2026-01-01T00:00:00.000Z`. Raises: ValueError outside the years 1 to 9999."""
    if not MIN_INSTANT_MS <= instant_ms <= MAX_INSTANT_MS:
        raise ValueError(f"{instant_ms} ms is outside the years 1 to 9999")
    hours, ms = divmod(instant_ms, _HOUR_MS)
    return f"{_hour(hours)}{ms // 60_000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z"


# Lists of history have thousands of instants, in few hours.
@lru_cache(maxsize=1024)
def _hour(hours: int) -> str:
    return (_EPOCH_UTC + timedelta(hours=hours)).isoformat()[:14]


def local_iso(instant_ms: int, offset_minutes: int) -> str:
    """An instant as a clock shows it that is so far ahead of UTC: `2026-03-29T03:30:00+02:00`.

    Raises: ValueError outside the years 1 to 9999, by that clock too.
    """
    sign = "-" if offset_minutes < 0 else "+"
    hours, minutes = divmod(abs(offset_minutes), 60)
    return f"{iso(instant_ms + offset_minutes * 60_000)[:19]}{sign}{hours:02}:{minutes:02}"


def _read_iso_ms(text: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise Malformed(f"{_EXPECTED}, got {excerpt(text)}")
    year, month, day, hour, minute, second = (int(match[group] or 0) for group in range(1, 7))
    fraction_ms = int((match[7] or "").ljust(3, "0")[:3])
    offset_hours, offset_minutes = int(match[9] or 0), int(match[10] or 0)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise Malformed(f"{_EXPECTED}, got {excerpt(text)}") from None
    if offset_hours > 23 or offset_minutes > 59:
        raise Malformed(f"expected an offset of at most 23:59, got {excerpt(text)}")
    offset_ms = (offset_hours * 60 + offset_minutes) * 60_000
    local_ms = (moment - _EPOCH) // _MS + fraction_ms
    return local_ms + offset_ms if match[8] == "-" else local_ms - offset_ms
