"""Instants of the virtual clock as text, for the control API and for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from emulator.core.errors import Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.rules import clock

# What ISO 8601 can show: the years 1 to 9999.
MIN_INSTANT_MS = -62_135_596_800_000
MAX_INSTANT_MS = clock.LATEST_MS
EARLIEST_VIRTUAL_MS = clock.EARLIEST_MS

_EXPECTED = "expected an ISO 8601 time such as 2026-01-01T00:00:00Z, or integer milliseconds"
# As many digits as every reader of numbers takes.
_NUMBER = re.compile(r"[0-9]{1,18}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_UTC = _EPOCH.replace(tzinfo=None)
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
    return clock.check_clock_instant(read_instant_ms(value))


def number_or_text(text: str) -> int | str:
    """What stands for milliseconds where there are texts only: a run of digits is the number it looks like."""
    return int(text) if _NUMBER.fullmatch(text) else text


# Cached: what happens at one instant is told with it many times.
@lru_cache(maxsize=1024)
def iso(instant_ms: int) -> str:
    """An instant as `2026-01-01T00:00:00.000Z`. Raises: ValueError outside the years 1 to 9999."""
    if not MIN_INSTANT_MS <= instant_ms <= MAX_INSTANT_MS:
        raise ValueError(f"{instant_ms} ms is outside the years 1 to 9999")
    return (_EPOCH_UTC + timedelta(milliseconds=instant_ms)).isoformat(timespec="milliseconds") + "Z"


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
