"""When a schedule fires: five-field cron expressions in a time zone.

    spec  = [ ( "CRON_TZ=" | "TZ=" ) zone blank ] minute hour day-of-month month day-of-week
    field = item { "," item }
    item  = ( "*" | "?" | value [ "-" value ] ) [ "/" step ]

croniter reads the fields, behind a check that is stricter than its own; finding the firings is
ours, because the rules at daylight-saving changes are (D-011) and because a fast-forward takes
millions of steps.

All calculation is in whole minutes since the Unix epoch, on two scales: a *minute* is real (UTC),
a *label* is what the wall clock of the zone shows, read as if it were UTC. A month of days is a
bit mask, bit 0 being its first day.

Source: interface document, Svc-Cron, and "Limits" 2 (resolution of one minute). The
grammar is not shown there and follows the robfig/cron parser (D-012).
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

from emulator.core.errors import Malformed
from emulator.core.language import calendar
from emulator.core.language.calendar import MINUTE_MS
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record

MAX_LENGTH = 256
MAX_ZONE_LENGTH = 64

_DAY = calendar.DAY_MINUTES

# The longest wait of any accepted expression is for a 29 February across a century without one: 8
# years. Where both day fields restrict either is enough, so no date has to fall on a day of the week.
_MAX_MONTHS = 9 * 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """A checked cron expression; two of them are equal when their texts are.

    `text` is the expression as given, trimmed, its time zone prefix included; `time_zone` is the
    zone's name, `UTC` when none was given.
    """

    text: str
    time_zone: str
    calendar: _Calendar = field(compare=False, repr=False)
    # Nothing to convert in UTC.
    zone: ZoneInfo | None = field(compare=False, repr=False)

    def next_after(self, instant_ms: int) -> int:
        """The first firing strictly after an instant, always on a whole minute.

        Where the zone's clock is put forward, firings in the hour that does not exist happen once,
        at the first minute after it. Where it is put back, they happen at the first of the two
        passes only. An expression whose minutes are a wildcard fires on every real minute that
        matches instead: in both passes, and without a substitute for what was skipped.

        Units: epoch ms in and out. Raises: nothing. Source: D-011.
        """
        minute = instant_ms // MINUTE_MS
        if self.zone is None:
            return self.calendar.next_label(minute) * MINUTE_MS
        return _next_minute(self.calendar, self.zone, minute + 1) * MINUTE_MS

    @property
    def fires_every_minute(self) -> bool:
        """Whether the minutes are a wildcard, so that real minutes count and not what the clock shows (D-011)."""
        return self.calendar.every_minute

    def next_label(self, label: int) -> int:
        """The first local time after another one that the fields match, whatever the clock of the zone does.

        Units: minutes since the epoch as the zone's clock shows them, read as if it were UTC.
        """
        return self.calendar.next_label(label)

    def offset_minutes(self, instant_ms: int) -> int:
        """How many minutes the zone's clock is ahead of UTC at an instant; negative west of it."""
        return 0 if self.zone is None else _offset_at(self.zone, instant_ms // MINUTE_MS)


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
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z][A-Za-z0-9_+-]*){0,2}")

# Names that some systems' databases add: the machine's own zone, and copies that count leap seconds.
_MACHINE_ZONES = re.compile(r"(?:localtime|posixrules|posix/.*|right/.*)", re.IGNORECASE)


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
    zone = _load_zone(name)
    return CronSchedule(text=text, time_zone=name, calendar=_compile(fields), zone=zone)


@functools.lru_cache(maxsize=1024)
def _load_zone(name: str) -> ZoneInfo | None:
    """The zone of that name, None for plain UTC. Its data is read once per process."""
    if name == "UTC":
        return None
    if len(name) <= MAX_ZONE_LENGTH and _ZONE_NAME.fullmatch(name) and not _MACHINE_ZONES.fullmatch(name):
        try:
            # From the package, never from the machine's own files: those differ from machine to machine.
            with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
                return ZoneInfo.from_file(file, key=name)
        except (ValueError, OSError):
            pass  # no such file, a file of another kind, or a folder such as `Europe`
    raise Malformed(
        f"provided bad location {excerpt(name)}: expected a name of the IANA time zone database such as Europe/Berlin"
    )


def _compile(fields: tuple[str, ...]) -> _Calendar:
    # Here and not above: it takes 60 ms to import, and most runs have no schedule.
    from croniter import croniter

    checked = " ".join(_checked_field(text, bounds) for text, bounds in zip(fields, _FIELDS, strict=True))
    expanded, _ = croniter.expand(checked)
    masks = [_mask(values, bounds) for values, bounds in zip(expanded, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = masks
    minute_text, _, day_text, month_text, weekday_text = fields
    either_day = not _is_unrestricted(day_text) and not _is_unrestricted(weekday_text)
    if not either_day and not _has_a_date(days, months):
        raise Malformed(f"expected a date that exists, found day of month {day_text} in month {month_text}")
    return _Calendar(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekday_patterns=tuple(_weekday_pattern(weekdays, first) for first in range(7)),
        either_day=either_day,
        # Stepped wildcards too: `*/5` means every fifth minute that really passes (D-011).
        every_minute=minute_text[0] in "*?",
    )


def _is_unrestricted(text: str) -> bool:
    """Whether a day field restricts nothing, so that the other one alone decides.

    One of its items is `*` or `?`; with a step above 1 it is a restriction like any other (D-012).
    """
    return any(item in ("*", "?", "*/1", "?/1") for item in text.split(","))


def _has_a_date(days: int, months: int) -> bool:
    """Whether one of the days exists in one of the months, in a leap year if need be."""
    return any(days & (1 << _longest(month)) - 1 for month in range(1, 13) if months >> (month - 1) & 1)


def _checked_field(text: str, bounds: _Bounds) -> str:
    return ",".join(_checked_item(item, bounds) for item in text.split(","))


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


# --- the calendar: from label to label --------------------------------------------------------


class _Calendar(Record):
    """The fields of an expression as bit masks, bit 0 being each field's lowest value.

    `weekday_patterns[w]` marks the days with a matching day of the week in a month that begins on
    weekday `w` (0 is Sunday). `either_day`: both day fields restrict, so that one of them is
    enough; otherwise both have to match. `every_minute`: the minute field is a wildcard.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekday_patterns: tuple[int, ...]
    either_day: bool
    every_minute: bool

    def next_label(self, label: int) -> int:
        """The first matching label after `label`."""
        label += 1
        day, minute_of_day = divmod(label, _DAY)
        month = _month_of(day)
        if self._days_in(month) >> (day - month.first_day) & 1:
            hour, minute = divmod(minute_of_day, 60)
            hours = self.hours >> hour
            if hours & 1 and (minutes := self.minutes >> minute):
                return label + _lowest(minutes)
            if hours := hours & ~1:
                return day * _DAY + (hour + _lowest(hours)) * 60 + _lowest(self.minutes)
        return self._next_day(day + 1) * _DAY + _lowest(self.hours) * 60 + _lowest(self.minutes)

    def _next_day(self, day: int) -> int:
        month = _month_of(day)
        for _ in range(_MAX_MONTHS):
            if days := self._days_in(month) >> (day - month.first_day):
                return day + _lowest(days)
            day = month.first_day + month.length
            month = _month_of(day)
        raise AssertionError("parse refused every date that never comes")

    def _days_in(self, month: _Month) -> int:
        if not self.months >> (month.number - 1) & 1:
            return 0
        weekdays = self.weekday_patterns[month.first_weekday]
        days = self.days | weekdays if self.either_day else self.days & weekdays
        return days & month.all_days


class _Month(Record):
    """One month of one year; `first_day` counts days since the epoch, `first_weekday` from Sunday."""

    number: int
    first_day: int
    length: int
    first_weekday: int
    all_days: int


@functools.lru_cache(maxsize=8192)
def _month_of(day: int) -> _Month:
    """The month in which a day (since the epoch) lies."""
    month = calendar.month_of(day)
    return _Month(
        number=calendar.civil_date(day).month,
        first_day=month.first_day,
        length=month.length,
        first_weekday=(calendar.weekday(month.first_day) + 1) % 7,
        all_days=(1 << month.length) - 1,
    )


def _longest(month: int) -> int:
    """How many days a month has in the years in which it has most."""
    return (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def _weekday_pattern(weekdays: int, first_weekday: int) -> int:
    return sum(1 << day for day in range(31) if weekdays >> ((first_weekday + day) % 7) & 1)


def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set; there must be one."""
    return (bits & -bits).bit_length() - 1


# --- time zones: from label to minute ---------------------------------------------------------

# Stretches are found for so many minutes at a time, and remembered.
_BLOCK = 64 * _DAY
# zoneinfo knows the years 1 to 9999; beyond them the offset stays what it is at the edge.
_FIRST_MINUTE = -1_035_590_000
_LAST_MINUTE = 4_223_368_000
# More than any schedule needs unless all its matches lie in hours that the zone skips.
_MAX_STRETCHES = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MINUTE = timedelta(minutes=1)


class _Stretch(Record):
    """Minutes [start, end) over which a zone keeps its offset, in minutes east of UTC.

    `reached` is the highest label that the zone's clock has shown before `start`.
    """

    start: int
    end: int
    offset: int
    reached: int


def _next_minute(fields: _Calendar, zone: ZoneInfo, earliest: int) -> int:
    """The first firing at minute `earliest` or later."""
    if fields.every_minute:
        minute = _search(fields, zone, earliest, every_minute=True)
        if minute is not None:
            return minute
        # Every match for decades is in a skipped hour. That takes a zone whose clock goes forward on one
        # date of the year; no zone of today does, but its database changes without us. A schedule without
        # a next firing does not exist here, so it fires after the gap.
    minute = _search(fields, zone, earliest, every_minute=False)
    if minute is None:
        raise AssertionError("a zone's clock reaches every label in the end")
    return minute


def _search(fields: _Calendar, zone: ZoneInfo, earliest: int, *, every_minute: bool) -> int | None:
    """Go from stretch to stretch until one holds the firing.

    A label fires at the first minute at which the clock has reached it or passed it. That one rule
    gives the minute after a gap, and the first of two passes. With `every_minute` it fires at every
    minute that shows it.
    """
    for _ in range(_MAX_STRETCHES):
        stretch = _stretch_at(zone, earliest)
        reached = earliest - 1 + stretch.offset
        if not every_minute:
            reached = stretch.reached if earliest == stretch.start else max(stretch.reached, reached)
        label = fields.next_label(reached)
        minute = max(label - stretch.offset, earliest)
        if minute < stretch.end:
            return minute
        # No offset reaches a day. Two days on, the clock cannot show again what it has shown, and no
        # minute before `label - _DAY` shows the label: years of stretches need not be visited.
        is_past_repeats = stretch.end - earliest >= 2 * _DAY
        earliest = max(stretch.end, label - _DAY) if is_past_repeats else stretch.end
    return None


def _stretch_at(zone: ZoneInfo, minute: int) -> _Stretch:
    for stretch in _stretches(zone, minute // _BLOCK):
        if minute < stretch.end:
            return stretch
    raise AssertionError("the stretches of a block cover it")


@functools.lru_cache(maxsize=4096)
def _stretches(zone: ZoneInfo, block: int) -> tuple[_Stretch, ...]:
    """The stretches of one block of minutes, cut at its edges.

    Looks at one minute of each day, so two changes that undo each other within a day go unseen.
    """
    block_start, block_end = block * _BLOCK, (block + 1) * _BLOCK
    # Two days earlier, so that `reached` knows a change shortly before the block.
    start = block_start - 2 * _DAY
    offset = _offset_at(zone, start)
    reached = start - 1 + offset
    stretches: list[_Stretch] = []
    while start < block_end:
        end, following = _end_of_offset(zone, start, offset, block_end)
        if end > block_start:
            visible = max(start, block_start)
            before = reached if visible == start else max(reached, visible - 1 + offset)
            stretches.append(_Stretch(start=visible, end=end, offset=offset, reached=before))
        reached = max(reached, end - 1 + offset)
        start, offset = end, following
    return tuple(stretches)


def _end_of_offset(zone: ZoneInfo, start: int, offset: int, limit: int) -> tuple[int, int]:
    """The first minute after `start` with another offset, and that offset; `limit` if there is none before it."""
    while start < limit:
        following = min(start + _DAY, limit)
        if _offset_at(zone, following) != offset:
            minutes = range(start, following + 1)
            change = minutes[bisect_left(minutes, True, key=lambda minute: _offset_at(zone, minute) != offset)]
            return change, _offset_at(zone, change)
        start = following
    return limit, offset


def _offset_at(zone: ZoneInfo, minute: int) -> int:
    """The zone's offset at a minute. Seconds, which only offsets of long ago have, are dropped.

    So firings stay on whole minutes: the first one at or after the local time.
    """
    moment = _EPOCH + timedelta(minutes=min(max(minute, _FIRST_MINUTE), _LAST_MINUTE))
    return (moment.astimezone(zone).utcoffset() or timedelta()) // _ONE_MINUTE
