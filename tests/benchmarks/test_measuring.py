"""Which of several measurements counts, and in which order two checkouts are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import measuring
from benchmarks.checkouts import Checkout
from tests.benchmarks.measured import rate, row_of, seconds

ONE = Checkout(path=Path("one"))
OTHER = Checkout(path=Path("other"))


def test_best_of_the_rounds_is_that_of_each_figure_by_itself() -> None:
    row = row_of([rate(300), seconds(4)], [rate(400, floor=2000), seconds(3)], [rate(200), seconds(5)])
    # The rate of the second round is higher, and so was the floor.
    assert [figure.value for figure in measuring.best(row, ONE, 3)] == [300, 3]


def test_checkouts_are_measured_in_turns_and_the_second_begins_the_next_round() -> None:
    seen: list[Checkout] = []
    row = row_of(*[[seconds(1)]] * 6, seen=seen)
    measuring.compare(row, ONE, OTHER, 3)
    assert seen == [ONE, OTHER, OTHER, ONE, ONE, OTHER]


def test_comparison_is_the_median_of_the_ratios_of_pairs() -> None:
    # In order of measurement: ours 1, theirs 2; theirs 8, ours 2; ours 3, theirs 3.
    row = row_of(*[[seconds(value)] for value in (1, 2, 8, 2, 3, 3)])
    (found,) = measuring.compare(row, ONE, OTHER, 3)
    assert found.ratios == [0.25, 0.5, 1.0]
    assert (found.ratio, found.ours.value, found.theirs.value) == (0.5, 2, 3)


def test_figure_that_one_checkout_lacks_is_left_out() -> None:
    row = row_of([seconds(1), rate(5)], [seconds(2)])
    assert [found.what for found in measuring.compare(row, ONE, OTHER, 1)] == ["month"]


@pytest.mark.parametrize("is_there", [True, False])
def test_checkout_is_a_folder_with_the_program(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "emulator").mkdir()
    if is_there:
        (tmp_path / "emulator" / "__main__.py").touch()
        assert Checkout.at(str(tmp_path)).commit == tmp_path.name
    else:
        with pytest.raises(Exception, match=r"is no checkout of this project, it has no emulator/__main__\.py"):
            Checkout.at(str(tmp_path))
