"""Cron expressions against an oracle that goes from minute to minute."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.core.language import cron
from tests.core.language.cron.firings import DAY_MS, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One field of a random expression, and the values it means."""

    text: str
    values: frozenset[int]

    @property
    def is_unrestricted(self) -> bool:
        return not {"*", "?", "*/1", "?/1"}.isdisjoint(self.text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A random expression, and a slow way to ask whether a local time matches it."""

    minute: Part
    hour: Part
    day: Part
    month: Part
    weekday: Part

    @property
    def text(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    def matches(self, local: datetime) -> bool:
        on_day, on_weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        either = not self.day.is_unrestricted and not self.weekday.is_unrestricted
        return (
            local.minute in self.minute.values
            and local.hour in self.hour.values
            and local.month in self.month.values
            and (on_day or on_weekday if either else on_day and on_weekday)
        )


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> Part:
    first, last = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.integers(1, high + 2))
    choices = [
        Part(text=f"{first}", values=frozenset({first})),
        Part(text=f"{first}-{last}", values=frozenset(range(first, last + 1))),
        Part(text=f"{first}-{last}/{step}", values=frozenset(range(first, last + 1, step))),
        Part(text=f"{first}/{step}", values=frozenset(range(first, high + 1, step))),
        Part(text=f"*/{step}", values=frozenset(range(low, high + 1, step))),
        Part(text="?", values=frozenset(range(low, high + 1))),
    ]
    return draw(st.sampled_from(choices))


@st.composite
def parts(draw: st.DrawFn, low: int, high: int) -> Part:
    if draw(st.booleans()):
        return Part(text="*", values=frozenset(range(low, high + 1)))
    chosen = draw(st.lists(items(low, high), min_size=1, max_size=3))
    return Part(text=",".join(item.text for item in chosen), values=frozenset().union(*(i.values for i in chosen)))


# Some day up to the 29th, so that the date comes whatever the month.
days_of_month = parts(1, 31).filter(lambda part: min(part.values) <= 29)
specs = st.builds(
    Spec, minute=parts(0, 59), hour=parts(0, 23), day=days_of_month, month=parts(1, 12), weekday=parts(0, 6)
)


def all_firings(schedule: cron.CronSchedule, start: datetime, end: datetime) -> list[datetime]:
    """Every firing from `start` to before `end`."""
    found: list[datetime] = []
    instant_ms = int(start.timestamp()) * 1000 - 1
    while (instant_ms := schedule.next_after(instant_ms)) < int(end.timestamp()) * 1000:
        found.append(datetime.fromtimestamp(instant_ms / 1000, UTC))
    return found


@given(specs, st.datetimes(min_value=datetime(1960, 1, 1), max_value=datetime(2110, 1, 1)))
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_agrees_with_looking_at_every_minute(spec: Spec, moment: datetime) -> None:
    start = moment.replace(second=0, microsecond=0, tzinfo=UTC)
    minutes = [start + timedelta(minutes=passed) for passed in range(2 * 24 * 60)]
    expected = [minute for minute in minutes if spec.matches(minute)]
    assert all_firings(cron.parse(spec.text), start, start + timedelta(days=2)) == expected


@given(days_of_month, parts(1, 12), parts(0, 6), st.datetimes(datetime(2, 1, 1), datetime(9990, 1, 1)))
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_agrees_with_looking_at_every_day(day: Part, month: Part, weekday: Part, moment: datetime) -> None:
    midnight = Part(text="0", values=frozenset({0}))
    spec = Spec(minute=midnight, hour=midnight, day=day, month=month, weekday=weekday)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    days = [start + timedelta(days=passed) for passed in range(800)]
    expected = [moment for moment in days if spec.matches(moment)]
    assert all_firings(cron.parse(spec.text), start, start + timedelta(days=800)) == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a zone's offset, and the minutes around it with what the local clock shows."""

    zone: str
    instant: str

    @property
    def start(self) -> datetime:
        return datetime.fromisoformat(self.instant).replace(tzinfo=UTC) - timedelta(hours=30)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=60)


CHANGES = (
    Change(zone="America/New_York", instant="2024-03-10 07:00"),
    Change(zone="America/New_York", instant="2024-11-03 06:00"),
    Change(zone="Europe/Dublin", instant="2024-10-27 01:00"),
    Change(zone="Australia/Lord_Howe", instant="2024-04-06 15:00"),
    Change(zone="Australia/Lord_Howe", instant="2024-10-05 15:30"),
    Change(zone="Asia/Beirut", instant="2024-03-30 22:00"),
    Change(zone="Africa/Cairo", instant="2014-06-26 21:00"),
    Change(zone="Pacific/Apia", instant="2011-12-30 10:00"),
    Change(zone="Pacific/Kwajalein", instant="1969-09-30 13:00"),
    Change(zone="Antarctica/Troll", instant="2024-03-31 01:00"),
)


@functools.cache
def shown_around(change: Change) -> tuple[tuple[datetime, datetime, tuple[datetime, ...]], ...]:
    """Every minute around a change, its local time without zone, and the local times that the clock passes in it first.

    Those are one as a rule, none where it shows them again, and a gap's behind one.
    """
    zone, start = ZoneInfo(change.zone), change.start - timedelta(days=2)
    found, highest = [], start.astimezone(zone).replace(tzinfo=None)
    for minute in (start + timedelta(minutes=passed) for passed in range(1, (2 * 24 + 60) * 60)):
        local = minute.astimezone(zone).replace(tzinfo=None)
        passed = max(0, (local - highest) // timedelta(minutes=1))
        if minute >= change.start:
            found.append((minute, local, tuple(highest + timedelta(minutes=step) for step in range(1, passed + 1))))
        highest = max(highest, local)
    return tuple(found)


def slow_firings(spec: Spec, change: Change) -> list[datetime]:
    found: list[datetime] = []
    for minute, local, passed in shown_around(change):
        if not passed:
            fires = spec.hour.text.startswith(("*", "?")) and spec.matches(local)
        elif spec.minute.text.startswith(("*", "?")):
            fires = spec.matches(local)
        else:
            fires = any(map(spec.matches, passed))
        if fires:
            found.append(minute)
    return found


@given(specs, st.sampled_from(CHANGES))
@settings(deadline=None, max_examples=100)
@pytest.mark.slow
def test_agrees_with_watching_the_clock_through_a_change(spec: Spec, change: Change) -> None:
    """D-011."""
    schedule = cron.parse(f"CRON_TZ={change.zone} {spec.text}")
    assert all_firings(schedule, change.start, change.end) == slow_firings(spec, change)


@given(
    specs,
    st.sampled_from(["Europe/Paris", "America/Santiago", "Africa/Casablanca", "Asia/Tehran", "Australia/Lord_Howe"]),
    st.integers(at("1900-01-01 00:00"), at("2200-01-01 00:00")),
    st.integers(1, 400 * DAY_MS),
)
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_later_questions_never_have_earlier_answers(spec: Spec, zone: str, instant_ms: int, passed_ms: int) -> None:
    schedule = cron.parse(f"CRON_TZ={zone} {spec.text}")
    firing, later = schedule.next_after(instant_ms), schedule.next_after(instant_ms + passed_ms)
    assert instant_ms < firing <= later
    assert firing == later or firing <= instant_ms + passed_ms
    assert schedule.next_after(firing - 1) == firing
