"""Days and months of the calendar in UTC, as whole numbers.

A day is counted from 1970-01-01, and every integer is one: arithmetic around the first and the
last year that can be written needs no special case.
"""

from __future__ import annotations

import errno
import functools
import re
from bisect import bisect_left
from calendar import isleap
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.core.errors import Malformed
from emulator.core.language.text import excerpt
from emulator.core.record import Record

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MINUTE_MS = 60_000
DAY_MS = 86_400_000
DAY_MINUTES = 1_440
# The days of the months of a leap year.
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_SATURDAY = 5


class Month(Record):
    """One month of one year, from its first day on. As bit masks have it, weekdays count from Sunday here."""

    number: int
    first_day: int
    length: int
    first_weekday: int
    all_days: int

    @property
    def days(self) -> range:
        return range(self.first_day, self.first_day + self.length)


@functools.lru_cache(maxsize=8192)
def month_of(day: int) -> Month:
    """The month a day lies in, in the Gregorian calendar throughout."""
    # Years begin in March here, so that the leap day is the last of its year; an era is 400 years.
    era, day_of_era = divmod(day + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    first_day = day - day_of_year + (153 * shifted + 2) // 5
    number = shifted + 3 if shifted < 10 else shifted - 9
    is_short = number == 2 and not isleap(era * 400 + year_of_era + 1)
    length = LONGEST_MONTHS[number - 1] - is_short
    return Month(
        number=number,
        first_day=first_day,
        length=length,
        first_weekday=(weekday(first_day) + 1) % 7,
        all_days=(1 << length) - 1,
    )


def weekday(day: int) -> int:
    """0 for Monday to 6 for Sunday."""
    return (day + 3) % 7


def is_weekend(day: int) -> bool:
    """Whether a day is a Saturday or a Sunday."""
    return weekday(day) >= _SATURDAY


# -- a calendar for cron ------------------------------------------------------------------------
# The local times that five cron fields match, from one to the next, whatever a zone's clock does.
#
# A *label* is what the wall clock shows, read as if it were UTC, in whole minutes since the Unix
# epoch. A month of days is a bit mask, bit 0 being its first day.

# The longest wait of any accepted expression is for a 29 February across a century without one: 8
# years. Where both day fields restrict either is enough, so no date has to fall on a day of the week.
_MAX_MONTHS = 9 * 12


class CronCalendar(Record):
    """The fields of an expression as bit masks, bit 0 being each field's lowest value.

    `weekday_patterns[w]` marks the days with a matching day of the week in a month that begins on
    weekday `w` (0 is Sunday). `either_day`: both day fields restrict, so that one of them is
    enough; otherwise both have to match. `every_minute`: the minute field is a wildcard, so that what the
    clock skips is lost. `every_hour`: the hour field is, so that an hour that comes twice counts twice (D-011).
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekday_patterns: tuple[int, ...]
    either_day: bool
    every_minute: bool
    every_hour: bool

    def next_label(self, label: int) -> int:
        """The first matching label after `label`, whatever the clock of a zone does."""
        label += 1
        day, minute_of_day = divmod(label, DAY_MINUTES)
        month = month_of(day)
        if self._days_in(month) >> (day - month.first_day) & 1:
            hour, minute = divmod(minute_of_day, 60)
            hours = self.hours >> hour
            if hours & 1 and (minutes := self.minutes >> minute):
                return label + _lowest(minutes)
            if hours := hours & ~1:
                return day * DAY_MINUTES + (hour + _lowest(hours)) * 60 + _lowest(self.minutes)
        return self._next_day(day + 1) * DAY_MINUTES + _lowest(self.hours) * 60 + _lowest(self.minutes)

    def _next_day(self, day: int) -> int:
        month = month_of(day)
        for _ in range(_MAX_MONTHS):
            if days := self._days_in(month) >> (day - month.first_day):
                return day + _lowest(days)
            day = month.first_day + month.length
            month = month_of(day)
        raise AssertionError("parse refused every date that never comes")

    def _days_in(self, month: Month) -> int:
        if not self.months >> (month.number - 1) & 1:
            return 0
        weekdays = self.weekday_patterns[month.first_weekday]
        days = self.days | weekdays if self.either_day else self.days & weekdays
        return days & month.all_days


def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set; there must be one."""
    return (bits & -bits).bit_length() - 1


# -- time zones ---------------------------------------------------------------------------------
# At which real minute a zone's clock shows a local time that a cron expression matches.
#
# A *minute* is real (UTC), a *label* is what the wall clock of the zone shows, read as if it were UTC;
# both in whole minutes since the Unix epoch.

MAX_ZONE_LENGTH = 64
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z][A-Za-z0-9_+-]*){0,2}")

# Names that some systems' databases add: the machine's own zone, and copies that count leap seconds.
_MACHINE_ZONES = re.compile(r"(?:localtime|posixrules|posix/.*|right/.*)", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo | None:
    """The zone of that name, None for plain UTC. Its data is read once per process."""
    if name == "UTC":
        return None
    if len(name) <= MAX_ZONE_LENGTH and _ZONE_NAME.fullmatch(name) and not _MACHINE_ZONES.fullmatch(name):
        try:
            # Only here: it is a third of a megabyte, and many worlds have no zone but UTC.
            from zoneinfo import ZoneInfo

            # From the package, never from the machine's own files: those differ from machine to machine.
            with _files().joinpath(*name.split("/")).open("rb") as file:
                return ZoneInfo.from_file(file, key=name)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # Whether there is such a zone is not known (D-565).
            # no such file, a file of another kind, or a folder such as `Europe`
    raise Malformed(
        f"provided bad location {excerpt(name)}: expected a name of the IANA time zone database such as Europe/Berlin"
    )


@functools.cache
def _files() -> Path:
    # By its path: `importlib.resources` would make every start slower and larger.
    package = find_spec("tzdata")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).with_name("zoneinfo")


# Stretches are found for so many minutes at a time, and remembered.
_BLOCK = 64 * DAY_MINUTES
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


def next_minute(fields: CronCalendar, zone: ZoneInfo, earliest: int) -> int:
    """The first firing at minute `earliest` or later."""
    if fields.every_minute:
        minute = _search(fields, zone, earliest, loses_gaps=True)
        if minute is not None:
            return minute
        # Every match for decades is in a skipped hour. That takes a zone whose clock goes forward on one
        # date of the year; no zone of today does, but its database changes without us. A schedule without
        # a next firing does not exist here, so it fires after the gap.
    minute = _search(fields, zone, earliest, loses_gaps=False)
    if minute is None:
        raise AssertionError("a zone's clock reaches every label in the end")
    return minute


def _search(fields: CronCalendar, zone: ZoneInfo, earliest: int, *, loses_gaps: bool) -> int | None:
    """Go from stretch to stretch until one holds the firing.

    A label fires at the first minute at which the clock has reached it or passed it. That one rule
    gives the minute after a gap, and the first of two passes. With `loses_gaps` a label in a gap does
    not fire; with a wildcard of hours a label fires in both passes.
    """
    for _ in range(_MAX_STRETCHES):
        stretch = _stretch_at(zone, earliest)
        reached = earliest - 1 + stretch.offset
        # Behind a gap the clock has shown less before the stretch than one minute before its first label,
        # behind a repeat more.
        if not loses_gaps and earliest == stretch.start:
            reached = min(stretch.reached, reached)
        if not fields.every_hour and stretch.reached > earliest - 1 + stretch.offset:
            reached = stretch.reached
        label = fields.next_label(reached)
        minute = max(label - stretch.offset, earliest)
        if minute < stretch.end:
            return minute
        # No offset reaches a day. Two days on, the clock cannot show again what it has shown, and no
        # minute before `label - calendar.DAY_MINUTES` shows the label: years of stretches need not be visited.
        is_past_repeats = stretch.end - earliest >= 2 * DAY_MINUTES
        earliest = max(stretch.end, label - DAY_MINUTES) if is_past_repeats else stretch.end
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
    start = block_start - 2 * DAY_MINUTES
    offset = offset_at(zone, start)
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
        following = min(start + DAY_MINUTES, limit)
        if offset_at(zone, following) != offset:
            minutes = range(start, following + 1)
            change = minutes[bisect_left(minutes, True, key=lambda minute: offset_at(zone, minute) != offset)]
            return change, offset_at(zone, change)
        start = following
    return limit, offset


def offset_at(zone: ZoneInfo, minute: int) -> int:
    """The zone's offset at a minute. Seconds, which only offsets of long ago have, are dropped.

    So firings stay on whole minutes: the first one at or after the local time.
    """
    moment = _EPOCH + timedelta(minutes=min(max(minute, _FIRST_MINUTE), _LAST_MINUTE))
    return (moment.astimezone(zone).utcoffset() or timedelta()) // _ONE_MINUTE


# -- the virtual clock --------------------------------------------------------------------------

# Cursors and periods count from the Unix epoch, so a clock shows a later instant.
EARLIEST_MS = 1
# The end of the year 9999, the last that an ISO 8601 time can name.
LATEST_MS = 253_402_300_799_999
# Beyond these a rate is a mistake in typing, and arithmetic with it loses its precision.
MIN_RATE = 1e-6
MAX_RATE = 1e6
# No zone's clock is more than a day ahead of UTC: whatever is listed can be shown in local time too.
LAST_LOCAL_MS = LATEST_MS - 86_400_000


def check_clock_instant(instant_ms: int) -> int:
    """The same instant, if a virtual clock can show it. Raises Malformed."""
    if instant_ms < EARLIEST_MS:
        raise Malformed("expected an instant after 1970-01-01T00:00:00Z")
    if instant_ms > LATEST_MS:
        raise Malformed("expected an instant in the year 9999 at the latest")
    return instant_ms


def is_clock_instant(instant_ms: int) -> bool:
    """Whether a virtual clock can show the instant."""
    return EARLIEST_MS <= instant_ms <= LATEST_MS


def is_rate(rate: float) -> bool:
    """Whether a clock can go at a rate."""
    return rate == 0 or MIN_RATE <= rate <= MAX_RATE
