"""Statistics: series, and those made up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.core.language.calendar import DAY_MINUTES, DAY_MS, MINUTE_MS, is_weekend
from emulator.core.model.resources import IndexType, Plan, VectorIndex
from emulator.core.plans import INDEX_CAPS
from emulator.core.record import IndexId, world_key
from emulator.statistics import profiles
from emulator.statistics.series import (
    DEFAULT_PERIOD,
    PERIODS,
    IndexStatistics,
    IndexUsage,
    Period,
    QueueStatistics,
    Recorded,
    Usage,
    Window,
    index_statistics,
    queue_statistics,
    read_period,
    summary,
    throughput,
    together,
)
from emulator.statistics.synthetic import (
    IndexCourse,
    IndexProfile,
    QueueProfile,
    Rhythm,
    UsageCurve,
    counted,
    latency,
    queue_so_far,
    spread,
)
from tests.harness.simulations import EPOCH_MS, make_account

# -- periods, and numbers that agree with each other whatever the seed, the instant and the period ---


NOTHING_RECORDED = Recorded[Usage](points={}, days={})
seeds = st.integers(-(2**53), 2**53)

# From 1971 to a little before the last instant a clock can show.
instants = st.integers(365 * DAY_MS, 253_402_300_799_999)
ages = st.integers(0, 1_000 * DAY_MS)
periods = st.sampled_from(list(PERIODS.values()))


def window_at(now_ms: int, period: Period = DEFAULT_PERIOD) -> Window:
    return Window(now_ms=now_ms, period=period)


# -- periods ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "step", "points"),
    [
        pytest.param(None, 1, 60, id="none"),
        pytest.param("", 1, 60, id="empty"),
        pytest.param("1h", 1, 60, id="1h"),
        pytest.param("3h", 3, 60, id="3h"),
        pytest.param("12h", 12, 60, id="12h"),
        pytest.param("1d", 24, 60, id="1d"),
        pytest.param("3d", 72, 60, id="3d"),
        pytest.param("7d", 168, 60, id="7d"),
        pytest.param("30d", 180, 240, id="30d"),
    ],
)
def test_a_period_has_its_points_and_steps(text: str | None, step: int, points: int) -> None:
    period = read_period(text)
    assert (period.step, period.points) == (step, points)


@pytest.mark.parametrize("text", ["2h", "1H", " 1h", "60", "1h,3h", "x" * 10_000])
def test_an_unknown_period_is_refused_by_its_name(text: str) -> None:
    """D-190."""
    with pytest.raises(InvalidInput) as refused:
        read_period(text)
    assert refused.value.field == "period"
    assert len(refused.value.text) < 200


def test_the_points_of_a_window_end_with_the_present_minute() -> None:
    """D-191: 13:07:59.999 is in the last minute of the last point, for every period."""
    now_ms = EPOCH_MS + (13 * 60 + 7) * MINUTE_MS + 59_999
    this_minute = EPOCH_MS // MINUTE_MS + 13 * 60 + 7
    for period in PERIODS.values():
        window = window_at(now_ms, period)
        assert len(window.minutes) == period.points
        assert len(window.boundaries) == period.points + 1
        assert window.minutes[-1] == this_minute
        assert window.minutes[1] - window.minutes[0] == period.step
        assert window.boundaries[-1] == this_minute + 1
        assert window.end_minute - window.first_minute == period.step * period.points


@given(instants, periods)
def test_every_minute_of_a_period_belongs_to_one_point(now_ms: int, period: Period) -> None:
    window = window_at(now_ms, period)
    assert window.boundaries[0] == window.first_minute
    for minute, start, end in zip(window.minutes, window.boundaries, window.boundaries[1:], strict=False):
        assert start <= minute == end - 1


# -- indexes ----------------------------------------------------------------------------------


def vector_index(number: int, type_: IndexType, created_ms: int) -> VectorIndex:
    return VectorIndex(
        id=IndexId("index"),
        profile_number=number,
        customer_id="owner@example.com",
        name="name",
        type=type_,
        region="us-east-1",
        creation_time=created_ms // 1000,
    )


def statistics_of(seed: int, index: VectorIndex, epoch_ms: int, window: Window) -> IndexStatistics:
    profile = profiles.vector_index_profile(world_key(seed), index, epoch_ms)
    return index_statistics(window, profile, index.type)


@pytest.mark.slow
@given(seeds, st.integers(1, 50), st.sampled_from(IndexType), instants, ages, ages, periods)
@settings(max_examples=60, deadline=None)
def test_the_numbers_of_an_index_agree(
    seed: int, number: int, type_: IndexType, epoch_ms: int, age_ms: int, passed_ms: int, period: Period
) -> None:
    """The epoch, how old the index was then, and how much time has passed since."""
    index = vector_index(number, type_, max(0, epoch_ms - age_ms))
    now_ms = min(epoch_ms + passed_ms, 253_402_300_799_999)
    window = window_at(now_ms, period)
    found = statistics_of(seed, index, epoch_ms, window)
    assert len(found.points) == len(found.vectors) == len(found.sizes) == period.points
    assert len(found.days) == 5

    # The month so far is the sum of its days, each asked for when it was over.
    days_of_month = [
        statistics_of(seed, index, epoch_ms, window_at((day + 1) * DAY_MS - 1)).days[-1]
        for day in range(window.month.first_day, window.today)
    ]
    for name in ("queries", "updates", "reranks", "bytes"):
        expected = sum(getattr(day, name) for day in days_of_month) + getattr(found.days[-1], name)
        assert getattr(found.month, name) == expected, name

    # A day in points is the day.
    wide = statistics_of(seed, index, epoch_ms, window_at((window.today + 1) * DAY_MS - 1, PERIODS["1d"]))
    for name in ("queries", "updates", "bytes"):
        assert sum(getattr(point, name) for point in wide.points) == getattr(wide.days[-1], name)

    caps = INDEX_CAPS[type_]
    assert all(count <= caps.max_vector_count for count in found.vectors)
    for day in found.days:
        assert caps.max_daily_queries < 0 or day.queries <= caps.max_daily_queries
        assert caps.max_daily_updates < 0 or day.updates <= caps.max_daily_updates
    assert caps.max_monthly_reranks < 0 or found.month.reranks <= caps.max_monthly_reranks
    assert caps.max_monthly_bandwidth < 0 or found.month.bytes <= caps.max_monthly_bandwidth

    assert list(found.vectors) == sorted(found.vectors)
    assert list(found.sizes) == sorted(found.sizes)
    assert (found.sizes[-1] == 0) == (found.vectors[-1] == 0)
    assert 0 <= found.pending <= found.days[-1].updates
    for series in (found.query_latency, found.update_latency, found.embeds_latency, found.rerank_latency):
        assert len(series) == period.points
        assert all(each.mean_us < each.p99_us or each.mean_us == each.p99_us == 0 for each in series)
    assert throughput(window, profiles.vector_index_profile(world_key(seed), index, epoch_ms)).points == tuple(
        point.queries + point.updates for point in found.points
    )


def test_an_index_goes_on_after_the_epoch_and_a_new_one_stays_empty() -> None:
    """D-193."""
    old = vector_index(1, IndexType.PAYG, EPOCH_MS - DAY_MS)
    new = vector_index(2, IndexType.PAYG, EPOCH_MS)
    later = window_at(EPOCH_MS + 40 * DAY_MS, PERIODS["30d"])
    assert min(point.queries for point in statistics_of(1, old, EPOCH_MS, later).points) > 0
    empty = statistics_of(1, new, EPOCH_MS, later)
    assert {*empty.vectors, *empty.sizes, empty.month.queries, empty.month.bytes, empty.cost, empty.pending} == {0}
    assert {each.p99_us for each in empty.query_latency} == {0}


def test_costs_follow_usage_and_plan() -> None:
    """D-198. The second half of the month costs more than the first; a fixed plan costs its days."""
    tenth, twentieth = (window_at(EPOCH_MS + day * DAY_MS - 1) for day in (10, 20))
    created_ms = EPOCH_MS - 100 * DAY_MS
    free, payg, fixed = (vector_index(1, type_, created_ms) for type_ in IndexType)
    assert statistics_of(1, free, EPOCH_MS, twentieth).cost == 0
    assert 0 < statistics_of(1, payg, EPOCH_MS, tenth).cost < statistics_of(1, payg, EPOCH_MS, twentieth).cost
    assert statistics_of(1, fixed, EPOCH_MS, tenth).cost == 19_354
    assert statistics_of(1, fixed, EPOCH_MS, window_at(EPOCH_MS + 31 * DAY_MS - 1)).cost == 60_000


def test_a_summary_adds_indexes_up() -> None:
    window = window_at(EPOCH_MS + 5 * DAY_MS)
    one, other = (
        statistics_of(1, vector_index(number, IndexType.PAYG, EPOCH_MS - 90 * DAY_MS), EPOCH_MS, window)
        for number in (1, 2)
    )
    found = summary((one, other))
    assert found.record_count == one.vectors[-1] + other.vectors[-1]
    assert found.request == sum(each.month.queries + each.month.updates for each in (one, other))
    assert found.bandwidth == one.month.bytes + other.month.bytes
    assert found.storage == one.sizes[-1] + other.sizes[-1]
    assert found.billing == one.cost + other.cost
    assert found.rerank_count == one.month.reranks + other.month.reranks
    assert summary(()).record_count == 0


# -- queue accounts ---------------------------------------------------------------------------


def account_statistics(
    seed: int,
    plan: Plan,
    began_ms: int,
    window: Window,
    *,
    age_ms: int = 200 * DAY_MS,
    recorded: Recorded[Usage] = NOTHING_RECORDED,
) -> QueueStatistics:
    account = make_account(plan=plan, creation_time=max(0, began_ms - age_ms) // 1000, last_plan_upgrade_time=0)
    invented = profiles.before_the_world(world_key(seed), 1, account, began_ms)
    return queue_statistics(window, recorded, invented, account, 0)


@pytest.mark.slow
@given(seeds, st.sampled_from(Plan), instants, ages, st.integers(0, 40 * DAY_MS), periods)
@settings(max_examples=60, deadline=None)
def test_the_numbers_of_an_account_agree(
    seed: int, plan: Plan, began_ms: int, age_ms: int, passed_ms: int, period: Period
) -> None:
    window = window_at(began_ms + passed_ms, period)
    found = account_statistics(seed, plan, began_ms, window, age_ms=age_ms)
    assert len(found.points) == period.points
    assert len(found.days) == len(found.billings) == window.month.length
    for usage in (*found.points, *found.days):
        assert usage.created == usage.delivered + usage.failed + usage.canceled
        assert usage.active == usage.delivered + usage.error
        assert usage.error == usage.failed + usage.retry
    for day, usage, billing in zip(window.month.days, found.days, found.billings, strict=True):
        assert day <= window.today or (usage == Usage() and billing == 0)
        # Nothing is invented for the time that is recorded.
        assert day * DAY_MS <= began_ms or usage == Usage()
        if plan is Plan.FREE:
            assert usage.created <= 1_000
            assert billing == 0
    assert found.total_billing == sum(found.billings)


def test_what_is_invented_ends_where_recording_begins() -> None:
    """In the middle of a day, on a paid plan: the last minute before has usage, the next has none."""
    began_ms = EPOCH_MS + 13 * 60 * MINUTE_MS + 30_000
    before = account_statistics(1, Plan.PAID, began_ms, window_at(began_ms - MINUTE_MS))
    after = account_statistics(1, Plan.PAID, began_ms, window_at(began_ms + 30 * MINUTE_MS))
    assert before.points[-1].created > 0
    assert [point.created for point in after.points[29:]] == [0] * 31
    assert after.points[:29] == before.points[31:]


def test_a_free_account_rests_on_the_day_the_world_begins() -> None:
    """D-196: the whole allowance of that day is there to be used."""
    began_ms = EPOCH_MS + 11 * DAY_MS + 13 * 60 * MINUTE_MS
    found = account_statistics(1, Plan.FREE, began_ms, window_at(began_ms))
    assert found.days[10].created > 0
    assert found.days[11] == Usage()


def test_recorded_usage_is_added_where_it_happened() -> None:
    began_ms = EPOCH_MS + 13 * 60 * MINUTE_MS
    window = window_at(began_ms + 5 * MINUTE_MS)
    live = Usage(created=7, active=5, delivered=5, canceled=2, bytes=900)
    today = window.today
    without = account_statistics(1, Plan.PAID, began_ms, window)
    found = account_statistics(1, Plan.PAID, began_ms, window, recorded=Recorded(points={59: live}, days={today: live}))
    assert found.points[:-1] == without.points[:-1]
    assert found.points[-1] == live
    assert found.days[0] == together(without.days[0], live)
    assert found.days[0].created == without.days[0].created + 7


# -- billing (D-197) --------------------------------------------------------------------------


def test_the_days_of_a_month_come_to_the_reserved_price() -> None:
    for months in range(14):
        last = window_at(EPOCH_MS + months * 30 * DAY_MS)
        last = window_at((last.month.first_day + last.month.length) * DAY_MS - 1)
        found = account_statistics(1, Plan.PAID, EPOCH_MS - 40 * DAY_MS, last)
        assert found.total_billing == 180_000
        assert max(found.billings) - min(found.billings) <= 1
    # Up to today.
    assert account_statistics(1, Plan.PAID, EPOCH_MS, window_at(EPOCH_MS)).total_billing == 5_806


def test_without_a_reserved_plan_messages_are_billed() -> None:
    account = make_account(reserved_type="", reserved_price=0, creation_time=0, last_plan_upgrade_time=0)
    invented = profiles.before_the_world(world_key(1), 1, account, EPOCH_MS + 20 * DAY_MS)
    found = queue_statistics(window_at(EPOCH_MS + 20 * DAY_MS), NOTHING_RECORDED, invented, account, 0)
    assert [billing for billing in found.billings if billing] == [day.created // 100 for day in found.days[:20]]


def test_a_new_plan_is_billed_from_the_day_it_was_chosen() -> None:
    free = make_account(plan=Plan.FREE, creation_time=0, last_plan_upgrade_time=0)
    paid = replace(make_account(creation_time=0), id=free.id, last_plan_upgrade_time=(EPOCH_MS + 9 * DAY_MS) // 1000)
    invented = profiles.before_the_world(world_key(1), 1, free, EPOCH_MS + 2 * DAY_MS)
    found = queue_statistics(window_at(EPOCH_MS + 11 * DAY_MS), NOTHING_RECORDED, invented, paid, 0)
    assert found.billings[:12] == (0,) * 9 + (5_807, 5_806, 5_806)


def test_an_account_costs_nothing_before_it_exists() -> None:
    found = account_statistics(1, Plan.PAID, EPOCH_MS + 10 * DAY_MS, window_at(EPOCH_MS + 10 * DAY_MS), age_ms=DAY_MS)
    assert found.billings[:9] == (0,) * 9
    assert min(found.billings[9:11]) > 0


# -- determinism ------------------------------------------------------------------------------


def test_seeds_and_numbers_differ() -> None:
    window = window_at(EPOCH_MS, PERIODS["1d"])
    indexes = [vector_index(number, IndexType.PAYG, EPOCH_MS - 60 * DAY_MS) for number in (1, 2)]
    found = {
        tuple(point.queries for point in statistics_of(seed, index, EPOCH_MS, window).points)
        for seed in (1, 2)
        for index in indexes
    }
    assert len(found) == 4


def test_a_minute_keeps_its_numbers_while_the_clock_moves_on() -> None:
    index = vector_index(1, IndexType.PAYG, EPOCH_MS - 60 * DAY_MS)
    now = statistics_of(1, index, EPOCH_MS, window_at(EPOCH_MS))
    later = statistics_of(1, index, EPOCH_MS, window_at(EPOCH_MS + 20 * MINUTE_MS))
    assert later.points[:40] == now.points[20:]
    assert later.vectors[:40] == now.vectors[20:]
    assert later.query_latency[:40] == now.query_latency[20:]


# -- invented usage: it adds up however it is cut, and looks like usage ----------------------------


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


def test_nothing_happens_before_the_first_day() -> None:
    before = (FIRST_DAY - 40) * DAY_MINUTES
    assert set(counted(queue_so_far(QUEUE), (before, FIRST_DAY * DAY_MINUTES))[0]) == {0}
    course = IndexCourse(INDEX)
    assert set(counted(course.so_far, (before, FIRST_DAY * DAY_MINUTES))[0]) == {0}
    assert course.vectors_at(FIRST_DAY * DAY_MINUTES) == 0
    assert latency(INDEX, "query", 10_000, before).p99_us == 0


def test_the_shape_has_weekends_growth_spikes_and_quiet_weekends() -> None:
    course = UsageCurve(KEY, RHYTHM, FIRST_DAY)
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
    assert sum(hours) == UsageCurve(KEY, RHYTHM, FIRST_DAY).on_day(day)


@given(keys, days, st.integers(0, 200))
def test_no_day_is_over_its_limit(key: bytes, day: int, limit: int) -> None:
    profile = replace(INDEX, key=key, updates=replace(INDEX.updates, limit=limit), vectors=limit * 25)
    queries, updates, _, _ = counted(IndexCourse(profile).so_far, (day * DAY_MINUTES, (day + 1) * DAY_MINUTES))[0]
    assert updates <= limit
    assert queries == UsageCurve(key, RHYTHM, FIRST_DAY).on_day(day)


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
    course = UsageCurve(KEY, RHYTHM, FIRST_DAY)
    monday = FIRST_DAY + 52
    assert [course.on_day(day) for day in range(monday, monday + 7)] == [10589, 10810, 11794, 10128, 11455, 5321, 5805]
    assert course.so_far(monday, 605, course.on_day(monday)) == 2240
    found = latency(INDEX, "query", 10_000, monday * DAY_MINUTES + 605)
    assert (found.mean_us, found.p99_us) == (11066, 22907)
    # The profiles are drawn from the seed alone.
    index = vector_index(2, IndexType.PAYG, EPOCH_MS - 50 * DAY_MS)
    window = window_at(EPOCH_MS, PERIODS["30d"])
    found_index = statistics_of(5, index, EPOCH_MS, window)
    assert found_index.month == IndexUsage(queries=20, updates=8, reranks=0, bytes=104_288)
    assert found_index.sizes[-1] == 2_798_247_634
    assert account_statistics(5, Plan.PAID, EPOCH_MS, window).points[-1] == Usage(
        created=3891, active=3917, delivered=3850, error=67, retry=46, failed=21, canceled=20, bytes=15_130_750
    )
