"""When a schedule fires: five-field cron expressions in a time zone.

    spec  = [ ( "CRON_TZ=" | "TZ=" ) zone blank ] minute hour day-of-month month day-of-week
    field = item { "," item }
    item  = ( "*" | "?" | value [ "-" value ] ) [ "/" step ]

croniter reads the fields, behind a check that is stricter than its own; finding the firings is
ours, because the rules at daylight-saving changes are (D-011) and because a fast-forward takes
millions of steps.

`calendar.py` goes from one matching local time to the next, and finds the real minutes at which a
zone's clock shows them. Both count whole minutes since the Unix epoch.

Source: interface document, Svc-Cron, and "Limits" 2 (resolution of one minute). The
grammar is not shown there and follows the robfig/cron parser (D-012).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.core.errors import Malformed
from emulator.core.language import calendar
from emulator.core.language.calendar import LONGEST_MONTHS, MINUTE_MS, CronCalendar
from emulator.core.language.text import excerpt
from emulator.core.record import Record

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MAX_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """A checked cron expression; two of them are equal when their texts are.

    `text` is the expression as given, trimmed, its time zone prefix included; `time_zone` is the
    zone's name, `UTC` when none was given.
    """

    text: str
    time_zone: str
    calendar: CronCalendar = field(compare=False, repr=False)
    # Nothing to convert in UTC.
    zone: ZoneInfo | None = field(compare=False, repr=False)

    def next_after(self, instant_ms: int) -> int:
        """The first firing strictly after an instant, always on a whole minute.

        Where the zone's clock is put forward, firings in the hour that does not exist happen once,
        at the first minute after it; an expression whose minutes are a wildcard has no substitute for
        what was skipped. Where it is put back, firings happen at the first of the two passes only; an
        expression whose hours are a wildcard fires in both.

        Units: epoch ms in and out. Raises: nothing. Source: D-011.
        """
        minute = instant_ms // MINUTE_MS
        if self.zone is None:
            return self.calendar.next_label(minute) * MINUTE_MS
        return calendar.next_minute(self.calendar, self.zone, minute + 1) * MINUTE_MS

    def offset_minutes(self, instant_ms: int) -> int:
        """How many minutes the zone's clock is ahead of UTC at an instant; negative west of it."""
        return 0 if self.zone is None else calendar.offset_at(self.zone, instant_ms // MINUTE_MS)


def parse(text: str) -> CronSchedule:
    """Check and compile a cron expression.

    Raises: Malformed, for anything but exactly five fields of the grammar above, values out of
    range, an unknown time zone, dates that never come, and texts over 256 characters.
    Source: interface document, Svc-Cron; D-012.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"expected a cron expression of at most {MAX_LENGTH} characters, got {len(text)}")
    return _parse_trimmed(text.strip(" \t\r\n"))


# --- the grammar ------------------------------------------------------------------------------


class _Bounds(Record):
    """What the values of one field may be; both ends included."""

    title: str
    low: int
    high: int
    names: Mapping[str, int]


def _numbered(names: str, first: int) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names.split(), start=first)}


_FIELDS = (
    _Bounds(title="minute", low=0, high=59, names={}),
    _Bounds(title="hour", low=0, high=23, names={}),
    _Bounds(title="day of month", low=1, high=31, names={}),
    _Bounds(title="month", low=1, high=12, names=_numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1)),
    # Sunday is 0 and nothing else: robfig's parser refuses 7 (D-012).
    _Bounds(title="day of week", low=0, high=6, names=_numbered("sun mon tue wed thu fri sat", 0)),
)

_PREFIX = re.compile(r"(?:CRON_)?TZ=(?P<zone>[^ \t]*)(?P<rest>.*)")
_ITEM = re.compile(r"(?:[*?]|(?P<low>[A-Za-z0-9]+)(?:-(?P<high>[A-Za-z0-9]+))?)(?:/(?P<step>[0-9]+))?")


@functools.lru_cache(maxsize=1024)
def _parse_trimmed(text: str) -> CronSchedule:
    if not text:
        raise Malformed("empty spec string, expected exactly 5 fields")
    if not all(" " <= character <= "~" or character == "\t" for character in text):
        raise Malformed(f"expected printable ASCII characters only, found {excerpt(text)}")
    name, spec = "UTC", text
    if prefix := _PREFIX.fullmatch(text):
        name, spec = prefix["zone"], prefix["rest"].strip()
    if spec.startswith("@"):
        raise Malformed(f"expected exactly 5 fields, and no descriptor such as {excerpt(spec)}")
    fields = tuple(spec.split())
    if len(fields) != len(_FIELDS):
        raise Malformed(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    zone = calendar.load_zone(name)
    return CronSchedule(text=text, time_zone=name, calendar=_compile(fields), zone=zone)


def _compile(fields: tuple[str, ...]) -> CronCalendar:
    # Here and not above: it takes 60 ms to import, and most runs have no schedule.
    from croniter import croniter

    checked = (
        ",".join(_checked_item(item, bounds) for item in text.split(","))
        for text, bounds in zip(fields, _FIELDS, strict=True)
    )
    expanded, _ = croniter.expand(" ".join(checked))
    minutes, hours, days, months, weekdays = map(_mask, expanded, _FIELDS)
    minute_text, hour_text, day_text, month_text, weekday_text = fields
    either_day = not _is_unrestricted(day_text) and not _is_unrestricted(weekday_text)
    if not either_day and not _has_a_date(days, months):
        raise Malformed(f"expected a date that exists, found day of month {day_text} in month {month_text}")
    return CronCalendar(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekday_patterns=tuple(
            sum(1 << day for day in range(31) if weekdays >> ((first + day) % 7) & 1) for first in range(7)
        ),
        either_day=either_day,
        # Stepped wildcards too: `*/5` means every fifth minute that really passes (D-011).
        every_minute=minute_text[0] in "*?",
        every_hour=hour_text[0] in "*?",
    )


def _is_unrestricted(text: str) -> bool:
    """Whether a day field restricts nothing, so that the other one alone decides.

    One of its items is `*` or `?`; with a step above 1 it is a restriction like any other (D-012).
    """
    return any(item in ("*", "?", "*/1", "?/1") for item in text.split(","))


def _has_a_date(days: int, months: int) -> bool:
    """Whether one of the days exists in one of the months, in a leap year if need be."""
    return any(days & (1 << length) - 1 for month, length in enumerate(LONGEST_MONTHS) if months >> month & 1)


def _checked_item(item: str, bounds: _Bounds) -> str:
    """One item of a field in digits only, in forms that croniter and robfig/cron read alike.

    They differ on `5-5`, which croniter widens to the whole field, and on `?` with a step. `5/15`
    means `5-59/15`.
    """
    matched = _ITEM.fullmatch(item)
    if matched is None:
        raise Malformed(f"expected *, a value or a range in the {bounds.title} field, found {excerpt(item)}")
    low, high, step = bounds.low, bounds.high, matched["step"]
    if matched["low"] is not None:
        low = _value(matched["low"], bounds)
        if matched["high"] is not None:
            high = _value(matched["high"], bounds)
        elif step is None:
            high = low
    if low > high:
        raise Malformed(
            f"beginning of range ({low}) beyond end of range ({high}): expected them in order "
            f"in the {bounds.title} field, found {excerpt(item)}"
        )
    if step is not None and int(step) == 0:
        raise Malformed(f"step of range should be a positive number: found {excerpt(item)} in the {bounds.title} field")
    return str(low) if low == high else f"{low}-{high}/{int(step or 1)}"


def _value(text: str, bounds: _Bounds) -> int:
    number = bounds.names.get(text.lower(), -1)
    if text.isdigit():
        number = int(text)
    if not bounds.low <= number <= bounds.high:
        names = f" or {'|'.join(bounds.names).upper()}" if bounds.names else ""
        raise Malformed(
            f"expected {bounds.low}-{bounds.high}{names} in the {bounds.title} field, found {excerpt(text)}"
        )
    return number


def _mask(values: Sequence[object], bounds: _Bounds) -> int:
    """The values as bits, bit 0 being the field's lowest value; croniter writes a full field as `*`."""
    if "*" in values:
        return (1 << (bounds.high - bounds.low + 1)) - 1
    return sum(1 << (value - bounds.low) for value in values if isinstance(value, int))
