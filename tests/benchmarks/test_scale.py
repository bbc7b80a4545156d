"""Tests through a balancer, measured with few of them."""

from __future__ import annotations

import pytest

from benchmarks import scale
from benchmarks.checkouts import HERE


@pytest.mark.slow
@pytest.mark.skipif(scale.HAPROXY is None, reason="HAProxy is not installed")
def test_one_server_and_three_are_measured_behind_the_balancer_of_the_example() -> None:
    figures = list(scale.scale(HERE, tests=4, workers=2))
    assert [each.what.partition(", ")[2] for each in figures[::3]] == [
        "1 server behind a balancer",
        "3 servers behind a balancer",
    ]
    assert [each.count for each in figures] == [4, 0, 0] * 2
    assert all(each.value > 0 for each in figures if "the balancer's" not in each.what)


def test_without_a_balancer_the_row_is_left_out_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(scale.scale(HERE, haproxy=None)) == []
    assert capsys.readouterr().err == "scale: left out, because HAProxy is not installed\n"
