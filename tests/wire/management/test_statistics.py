"""The shapes of statistics: every field of the interface document, and exact types and times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.statistics.series import (
    DEFAULT_PERIOD,
    PERIODS,
    IndexStatistics,
    IndexSummary,
    IndexUsage,
    Period,
    QueueStatistics,
    Throughput,
    Usage,
    Window,
    WorkflowStatistics,
    WorkflowUsage,
)
from emulator.statistics.synthetic import Latency
from emulator.wire import dialect
from emulator.wire.statistics import index_statistics_view, index_summary_view, queue_statistics_view, throughput_view

# Thu, 26 Feb 2026 18:33:05.244 UTC
NOW_MS = 1_772_130_785_244

INTEGERS = {
    "pending_index_count": 3,
    "current_vector_count": 59,
    "daily_query_count": 14,
    "daily_update_count": 24,
    "monthly_query_count": 100,
    "monthly_update_count": 200,
    "monthly_bandwidth_usage": 400,
    "storage_usage": 236,
    "daily_rerank_count": 34,
    "monthly_rerank_count": 300,
}
DAILY = ("daily_update_requests", "daily_query_requests", "daily_bandwidths", "daily_rerank_requests")
COUNTED = ("query_throughput", "update_throughput", "vector_count", "data_size")
LATENCIES = tuple(
    f"{kind}_latency_{what}" for kind in ("query", "update", "embeds", "rerank") for what in ("mean", "99")
)


def index(period: Period = DEFAULT_PERIOD) -> IndexStatistics:
    count = period.points
    latencies = tuple(Latency(mean_us=1_000 + place, p99_us=2_500 + place) for place in range(count))
    return IndexStatistics(
        window=Window(now_ms=NOW_MS, period=period),
        points=tuple(IndexUsage(queries=place, updates=2, reranks=1, bytes=9) for place in range(count)),
        days=tuple(
            IndexUsage(queries=10 + day, updates=20 + day, reranks=30 + day, bytes=40 + day) for day in range(5)
        ),
        month=IndexUsage(queries=100, updates=200, reranks=300, bytes=400),
        vectors=tuple(range(count)),
        sizes=tuple(4 * place for place in range(count)),
        query_latency=latencies,
        update_latency=latencies,
        embeds_latency=latencies,
        rerank_latency=latencies,
        pending=3,
        cost=1_250,
    )


def queue(period: Period = DEFAULT_PERIOD) -> QueueStatistics:
    usage = Usage(created=1, active=2, delivered=3, error=4, retry=5, failed=6, canceled=7, bytes=8)
    return QueueStatistics(
        window=Window(now_ms=NOW_MS, period=period),
        points=(usage,) * period.points,
        days=(usage,) * 26 + (Usage(),) * 2,
        billings=(5_806,) * 26 + (0,) * 2,
        dlq_message_count=4,
    )


def workflows(period: Period = DEFAULT_PERIOD) -> WorkflowStatistics:
    usage = WorkflowUsage(messages=11, started=12, success=13, failed=14, canceled=15)
    return WorkflowStatistics(points=(usage,) * period.points, days=(usage,) * 26 + (WorkflowUsage(),) * 2)


def queue_view(period: Period = DEFAULT_PERIOD, name: str = "svc") -> dict[str, Any]:
    view = queue_statistics_view(queue(period), workflows(period), dialect.load(name))
    return json.loads(json.dumps(view))  # type: ignore[no-any-return]


def index_view(period: Period = DEFAULT_PERIOD) -> dict[str, Any]:
    return json.loads(json.dumps(index_statistics_view(index(period))))  # type: ignore[no-any-return]


# -- queue accounts ---------------------------------------------------------------------------


def test_queue_statistics_have_the_documents_fields_and_the_dialects_name_of_one() -> None:
    view, upstash = queue_view(), queue_view(name="upstash")
    upstash["daily_queue_messages"] = upstash.pop("daily_qstash_messages")
    assert upstash == view
    assert set(view) == {
        *("days", "daily_requests", "daily_billings", "daily_bandwidths", "daily_used", "daily_used_workflow"),
        *("daily_queue_messages", "daily_workflow_messages", "dlq_message_count", "daily_bandwidth_used"),
        "total_monthly_billing",
    }


def test_days_of_a_queue_account_are_the_month() -> None:
    """1 February 2026 is a Sunday, and so begins and ends this month with whole weeks."""
    view = queue_view()
    assert view["days"] == ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] * 4
    assert len(view["daily_requests"]) == len(view["daily_billings"]) == len(view["daily_bandwidths"]) == 28


def test_daily_points_carry_the_time_of_the_request_to_the_nanosecond() -> None:
    """D-194."""
    view = queue_view()
    assert view["daily_requests"][0] == {
        "x": "2026-02-01 18:33:05.244000000 +0000 UTC",
        "y": 1,
        "workflow_message": 11,
        "workflow_run": 12,
    }
    assert view["daily_requests"][27]["x"] == "2026-02-28 18:33:05.244000000 +0000 UTC"
    assert view["daily_requests"][27]["y"] == 0
    assert view["daily_bandwidths"][25] == {"x": "2026-02-26 18:33:05.244000000 +0000 UTC", "y": 8}


def test_billings_are_dollars() -> None:
    view = queue_view()
    assert view["daily_billings"][0]["y"] == 5.806
    assert view["total_monthly_billing"] == 150.956
    assert isinstance(view["total_monthly_billing"], float)


@pytest.mark.parametrize(("name", "begins"), [("1h", "2026-02-26 17:34"), ("30d", "2026-01-27 21:33")])
def test_points_of_the_period_are_whole_minutes(name: str, begins: str) -> None:
    period = PERIODS[name]
    view = queue_view(period)
    series = [view["daily_used"], view["daily_used_workflow"], view["daily_bandwidth_used"]]
    series += [
        each["data_points"] for name in ("daily_queue_messages", "daily_workflow_messages") for each in view[name]
    ]
    assert {len(each) for each in series} == {period.points}
    assert {each[0]["x"] for each in series} == {f"{begins}:00.000 +0000 UTC"}
    assert {each[-1]["x"] for each in series} == {"2026-02-26 18:33:00.000 +0000 UTC"}
    assert all(point.keys() == {"x", "y"} for each in series for point in each)


def test_every_metric_has_its_series() -> None:
    """D-195."""
    view = queue_view()
    assert [(series["id"], series["data_points"][0]["y"]) for series in view["daily_queue_messages"]] == [
        ("created", 1),
        ("active", 2),
        ("delivered", 3),
        ("error", 4),
        ("retry", 5),
        ("failed", 6),
        ("canceled", 7),
    ]
    assert [(series["id"], series["data_points"][0]["y"]) for series in view["daily_workflow_messages"]] == [
        ("canceled", 15),
        ("started", 12),
        ("success", 13),
        ("failed", 14),
    ]
    assert view["daily_used"][0]["y"] == 1
    assert view["daily_bandwidth_used"][0]["y"] == 8
    assert view["dlq_message_count"] == 4


# -- indexes ----------------------------------------------------------------------------------


def test_index_statistics_have_the_documents_fields_counts_as_integers_and_a_cost_as_a_float() -> None:
    view = index_view()
    assert set(view) == {"days", "monthly_cost", *INTEGERS, *DAILY, *COUNTED, *LATENCIES}
    assert {name: view[name] for name in INTEGERS} == INTEGERS
    assert all(type(view[name]) is int for name in INTEGERS)
    assert view["monthly_cost"] == 1.25
    assert isinstance(view["monthly_cost"], float)


def test_days_of_an_index_are_the_last_five() -> None:
    """D-194."""
    view = index_view()
    assert view["days"] == ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday"]
    assert [point["y"] for point in view["daily_query_requests"]] == [10, 11, 12, 13, 14]
    assert [point["y"] for point in view["daily_update_requests"]] == [20, 21, 22, 23, 24]
    assert [point["y"] for point in view["daily_rerank_requests"]] == [30, 31, 32, 33, 34]
    assert [point["y"] for point in view["daily_bandwidths"]] == [40, 41, 42, 43, 44]
    assert view["daily_query_requests"][0]["x"] == "2026-02-22 18:33:05.244000000 +0000 UTC"


def test_index_series_have_the_points_of_the_period_and_latencies_in_milliseconds() -> None:
    view = index_view(PERIODS["30d"])
    assert {len(view[name]) for name in (*COUNTED, *LATENCIES)} == {240}
    assert {view[name][0]["y"] for name in LATENCIES if name.endswith("mean")} == {1.0}
    assert {view[name][59]["y"] for name in LATENCIES if name.endswith("99")} == {2.559}
    assert {view[name][-1]["x"] for name in (*COUNTED, *LATENCIES)} == {"2026-02-26 18:33:00.000 +0000 UTC"}


def test_throughput_is_a_series() -> None:
    """D-200."""
    window = Window(now_ms=NOW_MS, period=DEFAULT_PERIOD)
    assert throughput_view(Throughput(window=window, points=tuple(range(60))))[59] == {
        "x": "2026-02-26 18:33:00.000 +0000 UTC",
        "y": 59,
    }


def test_a_summary_has_six_numbers() -> None:
    summary = IndexSummary(record_count=1, request=2, bandwidth=3, storage=4, billing=5_500, rerank_count=6)
    assert index_summary_view(summary) == {
        "record_count": 1,
        "request": 2,
        "bandwidth": 3,
        "storage": 4,
        "billing": 5.5,
        "rerank_count": 6,
    }


# -- times ------------------------------------------------------------------------------------
