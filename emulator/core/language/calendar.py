"""Days and months of the calendar in UTC, as whole numbers.

A day is counted from 1970-01-01, and every integer is one: arithmetic around the first and the
last year that can be written needs no special case.
"""

from __future__ import annotations

from emulator.core.record import Record

MINUTE_MS = 60_000
DAY_MS = 86_400_000
DAY_MINUTES = 1_440

_SATURDAY = 5


class CivilDate(Record):
    """A date of the Gregorian calendar; month and day begin at 1."""

    year: int
    month: int
    day: int


class Month(Record):
    """A month by its first day and the number of its days."""

    first_day: int
    length: int

    @property
    def days(self) -> range:
        return range(self.first_day, self.first_day + self.length)


def civil_date(day: int) -> CivilDate:
    """The date of a day, in the Gregorian calendar throughout."""
    # Years begin in March here, so that the leap day is the last of its year; an era is 400 years.
    era, day_of_era = divmod(day + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return CivilDate(
        year=era * 400 + year_of_era + (1 if month <= 2 else 0),
        month=month,
        day=day_of_year - (153 * shifted + 2) // 5 + 1,
    )


def month_of(day: int) -> Month:
    """The month a day lies in."""
    first_day = day - civil_date(day).day + 1
    # No month has more than 31 days, so this lies in the next one and tells how far.
    return Month(first_day=first_day, length=32 - civil_date(first_day + 31).day)


def weekday(day: int) -> int:
    """0 for Monday to 6 for Sunday."""
    return (day + 3) % 7


def is_weekend(day: int) -> bool:
    """Whether a day is a Saturday or a Sunday."""
    return weekday(day) >= _SATURDAY
