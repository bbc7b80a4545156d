"""Figures: how they read, and whether they reach their targets."""

from __future__ import annotations

import pytest

from benchmarks.figures import Figure, Target, Unit
from tests.benchmarks.measured import rate, seconds


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (rate(430), "0.43 of the floor (430 of 1,000 a second)"),
        (rate(1234, floor=100_000), "0.0123 of the floor (1,234 of 100,000 a second)"),
        (
            Figure(what="batch", value=7705, unit=Unit.PER_SECOND, floor=154_100, target=Target(limit=20_000)),
            "7,705 a second, 0.0500 of the floor (154,100 a second)",
        ),
        (seconds(2.7), "2.70 s (16,000 firings a second)"),
        (Figure(what="ready", value=0.1834, unit=Unit.SECONDS), "0.183 s"),
        (
            Figure(what="backlog", value=0.5, unit=Unit.CPU_SECONDS, count=10_000, things="deliveries"),
            "0.50 s of CPU for 10,000 deliveries (50 µs each)",
        ),
        (
            Figure(what="world", value=1.25, unit=Unit.MILLISECONDS, floor=0.5, beside="a health check"),
            "1.2 ms, 2.50 times a health check (0.5 ms)",
        ),
        (Figure(what="resident", value=1226.4, unit=Unit.MEGABYTES), "1,226 MB"),
    ],
    ids=["rate", "small-ratio", "rate-by-itself", "seconds", "less-than-a-second", "cpu", "beside", "memory"],
)
def test_figure_reads_with_its_unit_and_what_it_is_held_against(figure: Figure, text: str) -> None:
    assert figure.text == text


@pytest.mark.parametrize(
    ("figure", "target", "is_met"),
    [
        (rate(500), "at least 0.5 of the floor", True),
        (rate(499), "at least 0.5 of the floor", False),
        (seconds(2.7, limit=2.7), "at most 2.70 s", True),
        (seconds(2.71, limit=2.7), "at most 2.70 s", False),
        (seconds(1000), "(no target)", True),
        (
            Figure(
                what="a firing",
                value=105,
                unit=Unit.MICROSECONDS,
                floor=100,
                beside="without",
                target=Target(limit=1.05, of_floor=True),
            ),
            "at most 1.05 times without",
            True,
        ),
    ],
    ids=["ratio", "ratio-missed", "seconds", "seconds-missed", "none", "times"],
)
def test_target_is_a_bound_that_more_or_less_may_reach(figure: Figure, target: str, is_met: bool) -> None:
    assert (figure.target_text, figure.is_met) == (target, is_met)
