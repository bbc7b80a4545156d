"""Invented usage: it adds up however it is cut, and looks like usage."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.core.language.calendar import DAY_MINUTES, is_weekend
from emulator.statistics.synthetic import (
    Course,
    IndexCourse,
    IndexProfile,
    QueueProfile,
    Rhythm,
    counted,
    latency,
    queue_so_far,
    spread,
)

KEY = bytes(range(32))
FIRST_DAY = 20_000
RHYTHM = Rhythm(
    series="requests",
    base=10_000,
    growth=50,
    weekend=50,
    night=10,
    peak_hour=14,
    noise=10,
    spike=300,
    spike_one_in=30,
    limit=1 << 40,
)
QUEUE = QueueProfile(
    key=KEY,
    first_day=FIRST_DAY,
    requests=RHYTHM,
    canceled=100,
    failing=50,
    erring=200,
    trouble_one_in=30,
    message_bytes=1_000,
)
INDEX = IndexProfile(
    key=KEY,
    first_day=FIRST_DAY,
    queries=RHYTHM,
    updates=replace(RHYTHM, series="updates", base=500),
    reranks=replace(RHYTHM, series="reranks", base=20),
    vectors=100_000,
    half_days=50,
    vector_bytes=3_000,
    query_bytes=2_000,
    update_bytes=4_000,
    query_latency_us=10_000,
    update_latency_us=8_000,
    embeds_latency_us=30_000,
    rerank_latency_us=100_000,
)

days = st.integers(FIRST_DAY - 3, FIRST_DAY + 3_000)
keys = st.binary(min_size=32, max_size=32)


@given(keys, days, st.lists(st.integers(0, 3 * DAY_MINUTES), max_size=8))
def test_counts_add_up_however_time_is_cut(key: bytes, day: int, cuts: list[int]) -> None:
    so_far = queue_so_far(replace(QUEUE, key=key))
    start, end = day * DAY_MINUTES, (day + 3) * DAY_MINUTES
    boundaries = [start, *sorted(start + cut for cut in cuts), end]
    pieces = counted(so_far, boundaries)
    whole = counted(so_far, (start, end))[0]
    assert tuple(map(sum, zip(*pieces, strict=True))) == whole
    assert all(count >= 0 for piece in pieces for count in piece)


@pytest.mark.slow
@given(keys, days)
def test_every_message_is_accounted_for_in_every_minute(key: bytes, day: int) -> None:
    so_far = queue_so_far(replace(QUEUE, key=key))
    noon = day * DAY_MINUTES + 720
    for created, active, delivered, error, retry, failed, canceled, size in counted(so_far, range(noon, noon + 90)):
        assert created == delivered + failed + canceled
        assert active == delivered + error
        assert error == failed + retry
        assert (size > 0) == (active > 0)


def test_nothing_happens_before_the_first_day() -> None:
    before = (FIRST_DAY - 40) * DAY_MINUTES
    assert set(counted(queue_so_far(QUEUE), (before, FIRST_DAY * DAY_MINUTES))[0]) == {0}
    course = IndexCourse(INDEX)
    assert set(counted(course.so_far, (before, FIRST_DAY * DAY_MINUTES))[0]) == {0}
    assert course.vectors_at(FIRST_DAY * DAY_MINUTES) == 0
    assert latency(INDEX, "query", 10_000, before).p99_us == 0


def test_the_shape_has_weekends_growth_spikes_and_quiet_weekends() -> None:
    course = Course(KEY, RHYTHM, FIRST_DAY)
    totals = {day: course.on_day(day) for day in range(FIRST_DAY, FIRST_DAY + 364)}
    working = sorted(total for day, total in totals.items() if not is_weekend(day))
    resting = sorted(total for day, total in totals.items() if is_weekend(day))
    assert resting[len(resting) // 2] < 0.7 * working[len(working) // 2]
    assert working[-1] > 2 * working[len(working) // 2]
    assert resting[0] < 0.4 * resting[len(resting) // 2]
    first, last = list(totals.values())[:84], list(totals.values())[-84:]
    assert sum(last) > 1.1 * sum(first)
    assert len(set(working)) > 100


def test_the_peak_hour_is_busier_than_the_night() -> None:
    day = FIRST_DAY + 100
    midnight = day * DAY_MINUTES
    hours = [counts[0] for counts in counted(queue_so_far(QUEUE), range(midnight, midnight + DAY_MINUTES + 1, 60))]
    assert hours[14] > 4 * hours[2]
    assert sum(hours) == Course(KEY, RHYTHM, FIRST_DAY).on_day(day)


@given(keys, days, st.integers(0, 200))
def test_no_day_is_over_its_limit(key: bytes, day: int, limit: int) -> None:
    profile = replace(INDEX, key=key, updates=replace(INDEX.updates, limit=limit), vectors=limit * 25)
    queries, updates, _, _ = counted(IndexCourse(profile).so_far, (day * DAY_MINUTES, (day + 1) * DAY_MINUTES))[0]
    assert updates <= limit
    assert queries == Course(key, RHYTHM, FIRST_DAY).on_day(day)


@given(keys, st.integers(0, 2_000 * DAY_MINUTES), st.integers(1, 5_000))
def test_vectors_come_with_updates_and_stay(key: bytes, minute: int, step: int) -> None:
    course = IndexCourse(replace(INDEX, key=key))
    start = FIRST_DAY * DAY_MINUTES + minute
    before, after = course.vectors_at(start), course.vectors_at(start + step)
    assert 0 <= before <= after <= INDEX.vectors
    # Rounding may show a vector a moment before the update that brought it.
    assert after - before <= counted(course.so_far, (start, start + step))[0][1] + 1


@given(keys, st.integers(0, 400 * DAY_MINUTES), st.integers(1, 1_000_000))
def test_the_mean_lies_under_the_percentile(key: bytes, minute: int, typical_us: int) -> None:
    found = latency(replace(INDEX, key=key), "query", typical_us, FIRST_DAY * DAY_MINUTES + minute)
    assert 0 <= found.mean_us < found.p99_us


def test_latency_drifts_and_does_not_jump() -> None:
    """D-199."""
    start = (FIRST_DAY + 30) * DAY_MINUTES
    means = [latency(INDEX, "query", 10_000, start + minute).mean_us for minute in range(600)]
    assert all(abs(after - before) < 2_000 for before, after in pairwise(means))
    assert max(means) - min(means) > 1_000


@given(st.integers(0, 10**9), st.integers(1, 10**5))
def test_sizes_grow_with_every_thing(count: int, size: int) -> None:
    assert spread(count, size) < spread(count + 1, size) <= spread(count, size) + 2 * size


def test_the_same_key_gives_the_same_numbers_everywhere() -> None:
    """These are the numbers of every machine and every version: changing them changes every world's past."""
    course = Course(KEY, RHYTHM, FIRST_DAY)
    monday = FIRST_DAY + 52
    assert [course.on_day(day) for day in range(monday, monday + 7)] == [10589, 10810, 11794, 10128, 11455, 5321, 5805]
    assert course.so_far(monday, 605, course.on_day(monday)) == 2240
    found = latency(INDEX, "query", 10_000, monday * DAY_MINUTES + 605)
    assert (found.mean_us, found.p99_us) == (11066, 22907)
