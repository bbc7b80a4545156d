"""Invented usage: what accounts and indexes did before their world began.

Nothing of it is stored. Every number follows from a profile's key, the name of a series and the
minute it belongs to, so the same seed gives the same history, however it is asked for. Counts
are defined by the total since midnight; a point of a series is the difference
between two such sums, and therefore all sums of points agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate

from emulator.core.language.calendar import DAY_MINUTES, is_weekend
from emulator.core.record import Record

# How an hour compares with the peak, by its distance from it: a day's bell, in percent.
_BELL = (100, 97, 90, 80, 68, 55, 42, 30, 20, 12, 5, 1, 0, 1, 5, 12, 20, 30, 42, 55, 68, 80, 90, 97)
_DAYS_TO_HALF_GROWTH = 180
_QUIET_WEEKEND_ONE_IN = 7
# An ordinary first day; fine enough that no two days look alike.
_LEVEL = 1_000_000

# What one stretch of time adds to each of several counts that belong together.
Counts = tuple[int, ...]
# The counts from midnight of a day to a minute of it, which may be the day's last and 1440.
SoFar = Callable[[int, int], Counts]


class Rhythm(Record):
    """How often something happens: on an ordinary day, and what makes days and hours differ.

    `base` is an ordinary first day. `growth` is what the level has gained in percent in the long
    run. `weekend`, `night` and `spike` are percentages of an ordinary day and of the peak hour;
    a day is a spike one time in `spike_one_in`. No day has more than `limit`.
    """

    series: str
    base: int
    growth: int
    weekend: int
    night: int
    peak_hour: int
    noise: int
    spike: int
    spike_one_in: int
    limit: int


class _Hours(Record):
    """A day in hours: the weight of each, and of those before it together; the last is all of them."""

    weights: tuple[int, ...]
    before: tuple[int, ...]


class UsageCurve:
    """The course of one count over time. It remembers what it has worked out for a day or an hour."""

    def __init__(self, key: bytes, rhythm: Rhythm, first_day: int) -> None:
        self._key = key
        self._rhythm = rhythm
        self._first_day = first_day
        self._totals: dict[int, int] = {}
        self._hours: dict[int, _Hours] = {}
        self._minutes: dict[int, bytes] = {}

    def on_day(self, day: int) -> int:
        """The count of a whole day; 0 before the first."""
        total = self._totals.get(day)
        if total is None:
            total = self._totals[day] = self._total(day)
        return total

    def so_far(self, day: int, minute: int, total: int) -> int:
        """How much of a day's total is reached at a minute of the day."""
        if minute >= DAY_MINUTES:
            return total
        hour, past = divmod(minute, 60)
        hours = self._hours.get(day)
        if hours is None:
            hours = self._hours[day] = self._hours_of(day)
        if past == 0:
            return total * hours.before[hour] // hours.before[24]
        minutes = self._minutes_of(day * 24 + hour)
        whole = _minutes_weigh(minutes)
        share = hours.before[hour] * whole + hours.weights[hour] * _minutes_weigh(minutes[:past])
        return total * share // (hours.before[24] * whole)

    def _total(self, day: int) -> int:
        rhythm = self._rhythm
        age = day - self._first_day
        if age < 0 or rhythm.base == 0:
            return 0
        random = digest(self._key, rhythm.series, "day", day)
        noise = int.from_bytes(random[:2], "big")
        level = _LEVEL + rhythm.growth * (_LEVEL // 100) * age // (age + _DAYS_TO_HALF_GROWTH)
        level = level * (100 * 65_535 + rhythm.noise * (2 * noise - 65_535)) // (100 * 65_535)
        if is_weekend(day):
            level = level * rhythm.weekend // 100
            # Monday opens the week, so Saturday and Sunday share its number.
            if digest(self._key, rhythm.series, "week", (day + 3) // 7)[0] % _QUIET_WEEKEND_ONE_IN == 0:
                level //= 4
        elif random[2] % rhythm.spike_one_in == 0:
            level = level * rhythm.spike // 100
        return min(rhythm.base * level // _LEVEL, rhythm.limit)

    def _hours_of(self, day: int) -> _Hours:
        rhythm = self._rhythm
        noise = digest(self._key, rhythm.series, "hours", day)
        weights = tuple(
            (rhythm.night * 100 + (100 - rhythm.night) * _BELL[(hour - rhythm.peak_hour) % 24]) * (384 + noise[hour])
            for hour in range(24)
        )
        return _Hours(weights=weights, before=tuple(accumulate(weights, initial=0)))

    def _minutes_of(self, hour: int) -> bytes:
        """What the minutes of an hour weigh more than the least that one weighs."""
        found = self._minutes.get(hour)
        if found is None:
            found = self._minutes[hour] = digest(self._key, self._rhythm.series, "minutes", hour)[:60]
        return found


def _minutes_weigh(minutes: bytes) -> int:
    """What some minutes weigh together."""
    return 64 * len(minutes) + sum(minutes)


def digest(key: bytes, series: str, what: str, number: int) -> bytes:
    """64 bytes that differ for every series and bucket."""
    return blake2b(f"{series}/{what}/{number}".encode(), key=key, person=b"history").digest()


def counted(so_far: SoFar, boundaries: Sequence[int]) -> list[Counts]:
    """What was counted from each boundary to the next. Boundaries are minutes, in order."""
    found: list[Counts] = []
    last_day, minute = divmod(boundaries[0], DAY_MINUTES)
    last = so_far(last_day, minute)
    for boundary in boundaries[1:]:
        day, minute = divmod(boundary, DAY_MINUTES)
        now = so_far(day, minute)
        gained = tuple(after - before for after, before in zip(now, last, strict=True))
        for whole in range(last_day, day):
            gained = tuple(map(sum, zip(gained, so_far(whole, DAY_MINUTES), strict=True)))
        found.append(gained)
        last_day, last = day, now
    return found


def spread(count: int, size: int) -> int:
    """The size of `count` things of about `size` bytes each: it grows with every one, and never evenly."""
    return count * size + (count * 2_654_435_761 % 4_294_967_296) * size // 4_294_967_296


# -- queue accounts ---------------------------------------------------------------------------


class QueueProfile(Record):
    """What an account did before its world began: how many messages, and how they went, per 10,000.

    `failing` and `erring` are those of an ordinary day; a day of trouble has ten times as many.
    """

    key: bytes
    first_day: int
    requests: Rhythm
    canceled: int
    failing: int
    erring: int
    trouble_one_in: int
    message_bytes: int


def queue_so_far(profile: QueueProfile) -> SoFar:
    """The counts of an account, in the order of `statistics.USAGE_FIELDS`.

    A message that is taken in is delivered, fails or is canceled at once here; each failure is
    an error, and so is each attempt that is made again.
    """
    course = UsageCurve(profile.key, profile.requests, profile.first_day)
    trouble: dict[int, int] = {}

    def so_far(day: int, minute: int) -> Counts:
        created = course.so_far(day, minute, course.on_day(day))
        times = trouble.get(day)
        if times is None:
            is_trouble = digest(profile.key, "trouble", "day", day)[0] % profile.trouble_one_in == 0
            times = trouble[day] = 10 if is_trouble else 1
        canceled = created * profile.canceled // 10_000
        attempted = created - canceled
        failed = attempted * profile.failing * times // 10_000
        retries = attempted * profile.erring * times // 10_000
        active = attempted + retries
        return (
            created,
            active,
            attempted - failed,
            failed + retries,
            retries,
            failed,
            canceled,
            spread(active, profile.message_bytes),
        )

    return so_far


# -- search and vector indexes ----------------------------------------------------------------


class IndexProfile(Record):
    """What an index is used for, and how it grows: to half of `vectors` in `half_days`.

    `vectors` over `half_days` is the most that a day adds, which `updates.limit` must allow.
    Latencies are typical means, in microseconds; 0 for an unused index.
    """

    key: bytes
    first_day: int
    queries: Rhythm
    updates: Rhythm
    reranks: Rhythm
    vectors: int
    half_days: int
    vector_bytes: int
    query_bytes: int
    update_bytes: int
    query_latency_us: int
    update_latency_us: int
    embeds_latency_us: int
    rerank_latency_us: int


class IndexCourse:
    """An index over time: its counts (queries, updates, reranks, bytes) and its vectors."""

    def __init__(self, profile: IndexProfile) -> None:
        self._profile = profile
        self._queries = UsageCurve(profile.key, profile.queries, profile.first_day)
        self._updates = UsageCurve(profile.key, profile.updates, profile.first_day)
        self._reranks = UsageCurve(profile.key, profile.reranks, profile.first_day)

    def so_far(self, day: int, minute: int) -> Counts:
        """Queries, updates, reranks and bytes from midnight on."""
        profile = self._profile
        queries = self._queries.so_far(day, minute, self._queries.on_day(day))
        updates = self._updates_so_far(day, minute)
        reranks = self._reranks.so_far(day, minute, self._reranks.on_day(day))
        size = spread(queries, profile.query_bytes) + spread(updates, profile.update_bytes)
        return queries, updates, reranks, size

    def vectors_at(self, boundary: int) -> int:
        """How many vectors there are at the beginning of a minute. They come with the updates of their day."""
        day, minute = divmod(boundary, DAY_MINUTES)
        at_midnight = self._vectors_at_midnight(day)
        added = self._vectors_at_midnight(day + 1) - at_midnight
        if added == 0 or minute == 0:
            return at_midnight
        return at_midnight + added * self._updates_so_far(day, minute) // self._updates_on(day)

    def _updates_so_far(self, day: int, minute: int) -> int:
        return self._updates.so_far(day, minute, self._updates_on(day))

    def _updates_on(self, day: int) -> int:
        """Changes of vectors, and the vectors that are new."""
        added = self._vectors_at_midnight(day + 1) - self._vectors_at_midnight(day)
        return min(self._updates.on_day(day) + added, self._profile.updates.limit)

    def _vectors_at_midnight(self, day: int) -> int:
        age = max(0, day - self._profile.first_day)
        return self._profile.vectors * age // (age + self._profile.half_days)


class Latency(Record):
    """Microseconds: the mean, and the 99th percentile, which lies well above it."""

    mean_us: int
    p99_us: int


def latency(profile: IndexProfile, series: str, typical_us: int, minute: int) -> Latency:
    """The latency of a kind of request at a minute: slow drift from hour to hour, and a little unrest.

    It is a gauge: while there are no requests it keeps its value (D-199).
    """
    if typical_us == 0 or minute // DAY_MINUTES < profile.first_day:
        return Latency(mean_us=0, p99_us=0)
    hour, past = divmod(minute, 60)
    this, following = digest(profile.key, series, "latency", hour), digest(profile.key, series, "latency", hour + 1)
    drift = (this[0] * (60 - past) + following[0] * past) // 60
    tail = (this[1] * (60 - past) + following[1] * past) // 60
    load = _BELL[(hour - profile.queries.peak_hour) % 24]
    unrest = minute * 2_654_435_761 % 4_294_967_296 >> 26
    mean_us = typical_us * (7_000 + 2_500 * load // 100 + 10 * drift + 8 * unrest) // 10_000
    return Latency(mean_us=mean_us, p99_us=mean_us * (170 + tail + unrest) // 100 + 1)
