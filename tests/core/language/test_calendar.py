"""Days, months and weekdays against the standard library, and beyond the years it knows."""

from __future__ import annotations

import calendar as standard
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.language.calendar import CivilDate, civil_date, is_weekend, month_of, weekday

UNIX_EPOCH = date(1970, 1, 1).toordinal()


@given(st.dates())
def test_every_date_of_the_calendar(expected: date) -> None:
    day = expected.toordinal() - UNIX_EPOCH
    assert civil_date(day) == CivilDate(year=expected.year, month=expected.month, day=expected.day)
    month = month_of(day)
    assert month.first_day == expected.replace(day=1).toordinal() - UNIX_EPOCH
    assert month.length == standard.monthrange(expected.year, expected.month)[1]
    assert day in month.days
    assert weekday(day) == expected.weekday()
    assert is_weekend(day) == (expected.weekday() >= 5)


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        pytest.param(0, CivilDate(year=1970, month=1, day=1), id="the-first"),
        pytest.param(11_016, CivilDate(year=2000, month=2, day=29), id="a-leap-day-of-a-century"),
        pytest.param(-719_163, CivilDate(year=0, month=12, day=31), id="before-the-year-1"),
        pytest.param(2_932_897, CivilDate(year=10_000, month=1, day=1), id="after-the-year-9999"),
    ],
)
def test_days_that_are_easily_wrong(day: int, expected: CivilDate) -> None:
    assert civil_date(day) == expected
