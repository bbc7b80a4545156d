"""Statistics as JSON: the two shapes of the interface document, and the smaller ones made of the same numbers.

Every field is always there. A dialect renames one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from emulator.core.language.calendar import DAY_MS, MINUTE_MS, weekday
from emulator.statistics.series import (
    INDEX_DAYS,
    IndexStatistics,
    IndexSummary,
    QueueStatistics,
    Throughput,
    Usage,
    Window,
    WorkflowStatistics,
    WorkflowUsage,
)
from emulator.statistics.synthetic import Latency
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json
from emulator.wire.times import iso

_Number: TypeAlias = "int | float"

# The series of message counts; the interface document does not show them all (D-195).
_QUEUE_METRICS = ("created", "active", "delivered", "error", "retry", "failed", "canceled")
_WORKFLOW_METRICS = ("canceled", "started", "success", "failed")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def queue_statistics_view(
    statistics: QueueStatistics, workflows: WorkflowStatistics, dialect: Dialect
) -> dict[str, Json]:
    """The statistics of a queue account (interface document, Queue statistics). Amounts are dollars."""
    window = statistics.window
    days, xs = window.month.days, _point_times(window)
    daily = _daily_times(window, days)
    return {
        "days": _weekdays(days),
        "daily_requests": [
            {"x": x, "y": usage.created, "workflow_message": of_runs.messages, "workflow_run": of_runs.started}
            for x, usage, of_runs in zip(daily, statistics.days, workflows.days, strict=True)
        ],
        "daily_billings": _series(daily, (billing / 1000 for billing in statistics.billings)),
        "daily_bandwidths": _series(daily, (usage.bytes for usage in statistics.days)),
        "daily_used": _series(xs, (usage.created for usage in statistics.points)),
        "daily_used_workflow": _series(xs, (usage.messages for usage in workflows.points)),
        dialect.wire_name("daily_queue_messages"): _metrics(_QUEUE_METRICS, xs, statistics.points),
        "daily_workflow_messages": _metrics(_WORKFLOW_METRICS, xs, workflows.points),
        "dlq_message_count": statistics.dlq_message_count,
        "daily_bandwidth_used": _series(xs, (usage.bytes for usage in statistics.points)),
        "total_monthly_billing": statistics.total_billing / 1000,
    }


def index_statistics_view(statistics: IndexStatistics) -> dict[str, Json]:
    """The statistics of a vector index, and of a search index (interface document, Vector index statistics).

    Latencies are milliseconds, the cost is dollars.
    """
    window = statistics.window
    days = range(window.today - INDEX_DAYS + 1, window.today + 1)
    daily, xs = _daily_times(window, days), _point_times(window)
    today, month = statistics.days[-1], statistics.month
    return {
        "days": _weekdays(days),
        "pending_index_count": statistics.pending,
        "current_vector_count": statistics.vectors[-1],
        "daily_query_count": today.queries,
        "daily_update_count": today.updates,
        "daily_rerank_count": today.reranks,
        "monthly_query_count": month.queries,
        "monthly_update_count": month.updates,
        "monthly_rerank_count": month.reranks,
        "monthly_bandwidth_usage": month.bytes,
        "storage_usage": statistics.sizes[-1],
        "monthly_cost": statistics.cost / 1000,
        "daily_query_requests": _series(daily, (usage.queries for usage in statistics.days)),
        "daily_update_requests": _series(daily, (usage.updates for usage in statistics.days)),
        "daily_rerank_requests": _series(daily, (usage.reranks for usage in statistics.days)),
        "daily_bandwidths": _series(daily, (usage.bytes for usage in statistics.days)),
        "query_throughput": _series(xs, (usage.queries for usage in statistics.points)),
        "update_throughput": _series(xs, (usage.updates for usage in statistics.points)),
        "vector_count": _series(xs, statistics.vectors),
        "data_size": _series(xs, statistics.sizes),
        **_latencies("query", xs, statistics.query_latency),
        **_latencies("update", xs, statistics.update_latency),
        **_latencies("embeds", xs, statistics.embeds_latency),
        **_latencies("rerank", xs, statistics.rerank_latency),
    }


def throughput_view(throughput: Throughput) -> list[Json]:
    """The `throughput_vector` of a search index."""
    return _series(_point_times(throughput.window), throughput.points)


def index_summary_view(summary: IndexSummary) -> dict[str, Json]:
    """The sum of several indexes in the month so far; the amount is dollars."""
    return {
        "record_count": summary.record_count,
        "request": summary.request,
        "bandwidth": summary.bandwidth,
        "storage": summary.storage,
        "billing": summary.billing / 1000,
        "rerank_count": summary.rerank_count,
    }


def _metrics(names: Sequence[str], xs: Sequence[str], points: Sequence[Usage] | Sequence[WorkflowUsage]) -> list[Json]:
    return [{"id": name, "data_points": _series(xs, (getattr(usage, name) for usage in points))} for name in names]


def _latencies(name: str, xs: Sequence[str], latencies: Sequence[Latency]) -> dict[str, Json]:
    return {
        f"{name}_latency_mean": _series(xs, (latency.mean_us / 1000 for latency in latencies)),
        f"{name}_latency_99": _series(xs, (latency.p99_us / 1000 for latency in latencies)),
    }


def _series(xs: Sequence[str], ys: Iterable[_Number]) -> list[Json]:
    return [{"x": x, "y": y} for x, y in zip(xs, ys, strict=True)]


def _weekdays(days: range) -> list[Json]:
    return [_WEEKDAYS[weekday(day)] for day in days]


def _point_times(window: Window) -> list[str]:
    """`2026-01-01 17:34:00.000 +0000 UTC` for each point: whole minutes, three digits of a fraction."""
    return [_time(minute * MINUTE_MS, "") for minute in window.minutes]


def _daily_times(window: Window, days: range) -> list[str]:
    """Each day at the time of day of the request, to the nanosecond; the clock knows milliseconds (D-194)."""
    past_midnight_ms = window.now_ms % DAY_MS
    return [_time(day * DAY_MS + past_midnight_ms, "000000") for day in days]


def _time(at_ms: int, finer: str) -> str:
    return f"{iso(at_ms)[:-1].replace('T', ' ')}{finer} +0000 UTC"
