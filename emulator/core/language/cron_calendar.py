"""The local times that five cron fields match, from one to the next, whatever a zone's clock does.

A *label* is what the wall clock shows, read as if it were UTC, in whole minutes since the Unix
epoch. A month of days is a bit mask, bit 0 being its first day.
"""

from __future__ import annotations

import functools

from emulator.core.language import calendar
from emulator.core.record import Record

_DAY = calendar.DAY_MINUTES

# The longest wait of any accepted expression is for a 29 February across a century without one: 8
# years. Where both day fields restrict either is enough, so no date has to fall on a day of the week.
_MAX_MONTHS = 9 * 12


class CronCalendar(Record):
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


def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set; there must be one."""
    return (bits & -bits).bit_length() - 1
