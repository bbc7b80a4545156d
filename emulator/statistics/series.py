"""Statistics of queue accounts and of indexes: which stretches of time they show, and their numbers.

An account's numbers are what was recorded from the world's beginning on, and what its profile
invents before; an index's are invented throughout (D-193). The interface document names the
fields; `wire/management/statistics.py` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec.structs import astuple

from emulator.core.errors import InvalidInput
from emulator.core.language.calendar import DAY_MINUTES, MINUTE_MS, Month, month_of
from emulator.core.language.text import excerpt
from emulator.core.model.resources import Account, IndexType, Plan
from emulator.core.record import Record
from emulator.statistics.synthetic import (
    IndexCourse,
    IndexProfile,
    Latency,
    QueueProfile,
    counted,
    latency,
    queue_so_far,
)

# The days that the daily series of an index show; the last is today (D-194).
INDEX_DAYS = 5

# -- periods ----------------------------------------------------------------------------------


class Period(Record):
    """A value of the query parameter `period`: so many points, each of `step` minutes."""

    name: str
    step: int
    points: int


PERIODS = {
    period.name: period
    for period in (
        Period(name="1h", step=1, points=60),
        Period(name="3h", step=3, points=60),
        Period(name="12h", step=12, points=60),
        Period(name="1d", step=24, points=60),
        Period(name="3d", step=72, points=60),
        Period(name="7d", step=168, points=60),
        Period(name="30d", step=180, points=240),
    )
}
DEFAULT_PERIOD = PERIODS["1h"]


def read_period(text: str | None) -> Period:
    """The period a request asks for; none, or an empty one, is an hour (D-190). Raises: InvalidInput."""
    if not text:
        return DEFAULT_PERIOD
    period = PERIODS.get(text)
    if period is None:
        raise InvalidInput("period", f"expected one of {', '.join(PERIODS)}, got {excerpt(text)}")
    return period


class Window(Record):
    """The points of a period that ends now, in minutes since the Unix epoch (D-191).

    A point covers the `step` minutes that end with its own; the last one's own minute is the
    one it is now.
    """

    now_ms: int
    period: Period

    @property
    def last_minute(self) -> int:
        return self.now_ms // MINUTE_MS

    @property
    def end_minute(self) -> int:
        """The first minute that no point covers."""
        return self.last_minute + 1

    @property
    def first_minute(self) -> int:
        """The first minute that the first point covers."""
        return self.end_minute - self.period.step * self.period.points

    @property
    def minutes(self) -> range:
        """The minute of each point."""
        step = self.period.step
        return range(self.first_minute + step - 1, self.end_minute, step)

    @property
    def boundaries(self) -> range:
        """Where the points begin, and where the last one ends."""
        return range(self.first_minute, self.end_minute + 1, self.period.step)

    @property
    def today(self) -> int:
        return self.last_minute // DAY_MINUTES

    @property
    def month(self) -> Month:
        return month_of(self.today)


# -- queue accounts ---------------------------------------------------------------------------


class Usage(Record):
    """What passed through an account in a stretch of time.

    `created` counts the messages that were taken in, callbacks among them, as the daily quota
    does; the other metrics are the entries of the event log with the same names. `bytes` is what
    the attempts carried: the bodies and the headers of both directions (D-192).
    """

    created: int = 0
    active: int = 0
    delivered: int = 0
    error: int = 0
    retry: int = 0
    failed: int = 0
    canceled: int = 0
    bytes: int = 0


USAGE_FIELDS = Usage.__struct_fields__
NO_USAGE = Usage()


U = TypeVar("U", bound=Record)


def usage_of(kind: type[U], counts: Sequence[int]) -> U:
    """Counts in the order of the record's fields."""
    return kind(**dict(zip(kind.__struct_fields__, counts, strict=True)))


def together(one: Usage, other: Usage) -> Usage:
    """The sum of two, field by field."""
    if one is NO_USAGE or other is NO_USAGE:
        return one if other is NO_USAGE else other
    return usage_of(Usage, tuple(map(sum, zip(astuple(one), astuple(other), strict=True))))


class Recorded(Record, Generic[U]):
    """What was recorded: by point of a window (0 is the first) and by day; nothing where there was nothing."""

    points: Mapping[int, U]
    days: Mapping[int, U]


class QueueStatistics(Record):
    """The statistics of a queue account. `days` and `billings` (thousandths of a dollar) cover the month."""

    window: Window
    points: tuple[Usage, ...]
    days: tuple[Usage, ...]
    billings: tuple[int, ...]
    dlq_message_count: int

    @property
    def total_billing(self) -> int:
        """Thousandths of a dollar for the month so far."""
        return sum(self.billings)


class Invented(Record):
    """An account's usage before its world began: `profile` gives it up to the minute `end_minute`.

    `account` is the record the account began with: later changes of its plan do not change the past.
    """

    profile: QueueProfile
    account: Account
    end_minute: int


def queue_statistics(
    window: Window, recorded: Recorded[Usage], invented: Invented, account: Account, dlq_message_count: int
) -> QueueStatistics:
    """Put together what was recorded and what is invented, and what the days of the month cost."""
    month = window.month
    midnights = [day * DAY_MINUTES for day in (*month.days, month.first_day + month.length)]
    days = [
        together(usage, recorded.days.get(day, NO_USAGE))
        for day, usage in zip(month.days, _invented_usage(invented, midnights), strict=True)
    ]
    points = [
        together(usage, recorded.points.get(index, NO_USAGE))
        for index, usage in enumerate(_invented_usage(invented, window.boundaries))
    ]
    # The plan of today counts from the day it was chosen on, that of the beginning before (D-197).
    changed_on = max(invented.end_minute // DAY_MINUTES, account.last_plan_upgrade_time // 86_400)
    billings = [
        _billing(account if day >= changed_on else invented.account, day, month, usage) if day <= window.today else 0
        for day, usage in zip(month.days, days, strict=True)
    ]
    return QueueStatistics(
        window=window,
        points=tuple(points),
        days=tuple(days),
        billings=tuple(billings),
        dlq_message_count=dlq_message_count,
    )


def _invented_usage(invented: Invented, boundaries: Sequence[int]) -> list[Usage]:
    end = invented.end_minute
    if boundaries[0] >= end:
        return [NO_USAGE] * (len(boundaries) - 1)
    until = [boundary for boundary in boundaries if boundary < end]
    after = len(boundaries) - len(until)
    if after:
        until.append(end)
    usage = [usage_of(Usage, counts) for counts in counted(queue_so_far(invented.profile), until)]
    return usage + [NO_USAGE] * (after - 1)


def _billing(account: Account, day: int, month: Month, usage: Usage) -> int:
    """What a day costs, in thousandths of a dollar: nothing, a day's part of the price, or by the message."""
    if account.type is Plan.FREE or day < account.creation_time // 86_400:
        return 0
    if account.reserved_type:
        price = round(account.reserved_price * 1000)
        past = day - month.first_day
        # Rounded so that the days of a month add up to the price exactly.
        return round(price * (past + 1) / month.length) - round(price * past / month.length)
    # A dollar buys 100,000 messages.
    return usage.created // 100


# -- search and vector indexes ----------------------------------------------------------------


class IndexUsage(Record):
    """What passed through an index in a stretch of time."""

    queries: int
    updates: int
    reranks: int
    bytes: int


class IndexStatistics(Record):
    """The statistics of an index. `days` are its last five, `month` is the current one up to now.

    `vectors` and `sizes` hold one value for each point of the window, as of the end of the point.
    `cost` is in thousandths of a dollar.
    """

    window: Window
    points: tuple[IndexUsage, ...]
    days: tuple[IndexUsage, ...]
    month: IndexUsage
    vectors: tuple[int, ...]
    sizes: tuple[int, ...]
    query_latency: tuple[Latency, ...]
    update_latency: tuple[Latency, ...]
    embeds_latency: tuple[Latency, ...]
    rerank_latency: tuple[Latency, ...]
    pending: int
    cost: int


def index_statistics(window: Window, profile: IndexProfile, type_: IndexType) -> IndexStatistics:
    """The statistics of an index at the end of a window."""
    course = IndexCourse(profile)
    # Today ends with the present minute.
    days = (*(day * DAY_MINUTES for day in range(window.today - INDEX_DAYS + 1, window.today + 1)), window.end_minute)
    points = _index_usage(course, window.boundaries)
    vectors = tuple(course.vectors_at(boundary) for boundary in window.boundaries[1:])
    sizes = tuple(count * profile.vector_bytes for count in vectors)
    month = _index_usage(course, (window.month.first_day * DAY_MINUTES, window.end_minute))[0]
    return IndexStatistics(
        window=window,
        points=points,
        days=_index_usage(course, days),
        month=month,
        vectors=vectors,
        sizes=sizes,
        query_latency=_latencies(window, profile, "query", profile.query_latency_us),
        update_latency=_latencies(window, profile, "update", profile.update_latency_us),
        embeds_latency=_latencies(window, profile, "embeds", profile.embeds_latency_us),
        rerank_latency=_latencies(window, profile, "rerank", profile.rerank_latency_us),
        # A third of the newest updates has not reached the index yet.
        pending=_index_usage(course, (window.last_minute, window.end_minute))[0].updates // 3,
        cost=_index_cost(type_, window, month, sizes[-1]),
    )


class Throughput(Record):
    """Queries and updates together, for each point of a window: the `throughput_vector` of a search index."""

    window: Window
    points: tuple[int, ...]


def throughput(window: Window, profile: IndexProfile) -> Throughput:
    """The throughput of an index at the points of a window."""
    usages = _index_usage(IndexCourse(profile), window.boundaries)
    return Throughput(window=window, points=tuple(usage.queries + usage.updates for usage in usages))


def _index_usage(course: IndexCourse, boundaries: Sequence[int]) -> tuple[IndexUsage, ...]:
    return tuple(
        IndexUsage(queries=queries, updates=updates, reranks=reranks, bytes=size)
        for queries, updates, reranks, size in counted(course.so_far, boundaries)
    )


def _latencies(window: Window, profile: IndexProfile, series: str, typical_us: int) -> tuple[Latency, ...]:
    return tuple(latency(profile, series, typical_us, minute) for minute in window.minutes)


def _index_cost(type_: IndexType, window: Window, month: IndexUsage, stored: int) -> int:
    """What the month has cost so far, in thousandths of a dollar (D-198).

    By usage: 40 cents for 100,000 requests, a dollar for 1,000 reranks, 25 cents for a gigabyte
    that is stored. A fixed plan costs 60 dollars, day by day.
    """
    match type_:
        case IndexType.FREE:
            return 0
        case IndexType.PAYG:
            return (month.queries + month.updates) // 250 + month.reranks + stored * 250 // 1_000_000_000
        case IndexType.FIXED:
            return 60_000 * (window.today - window.month.first_day + 1) // window.month.length


class IndexSummary(Record):
    """The statistics of several indexes together, for the month so far; `billing` in thousandths of a dollar."""

    record_count: int
    request: int
    bandwidth: int
    storage: int
    billing: int
    rerank_count: int


def summary(indexes: Sequence[IndexStatistics]) -> IndexSummary:
    """The sum of several series."""
    return IndexSummary(
        record_count=sum(index.vectors[-1] for index in indexes),
        request=sum(index.month.queries + index.month.updates for index in indexes),
        bandwidth=sum(index.month.bytes for index in indexes),
        storage=sum(index.sizes[-1] for index in indexes),
        billing=sum(index.cost for index in indexes),
        rerank_count=sum(index.month.reranks for index in indexes),
    )


# -- runs and steps -----------------------------------------------------------------------------
# Statistics of an account's workflow runs: only what was recorded, nothing is invented (D-391).


class WorkflowUsage(Record):
    """What happened in runs in a stretch of time: messages that were made, runs that began or ended."""

    messages: int = 0
    started: int = 0
    success: int = 0
    failed: int = 0
    canceled: int = 0


WORKFLOW_FIELDS = WorkflowUsage.__struct_fields__
_NO_WORKFLOW_USAGE = WorkflowUsage()


class WorkflowStatistics(Record):
    """The usage at each point of a window, and on each day of its month."""

    points: tuple[WorkflowUsage, ...]
    days: tuple[WorkflowUsage, ...]


def workflow_statistics(window: Window, recorded: Recorded[WorkflowUsage]) -> WorkflowStatistics:
    """What was recorded at the points of a window and on the days of its month."""
    return WorkflowStatistics(
        points=tuple(recorded.points.get(index, _NO_WORKFLOW_USAGE) for index in range(window.period.points)),
        days=tuple(recorded.days.get(day, _NO_WORKFLOW_USAGE) for day in window.month.days),
    )
