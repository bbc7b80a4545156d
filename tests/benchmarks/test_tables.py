"""The tables that the benchmarks print."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import tables
from benchmarks.figures import Figure
from benchmarks.measuring import Comparison
from tests.benchmarks.measured import rate, seconds


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_of_one_checkout_shows_targets_and_which_are_missed() -> None:
    lines = list(tables.of_figures([rate(600), seconds(3, limit=2.7), seconds(1, what="other")], for_readme=False))
    assert [cells(line) for line in lines[2:]] == [
        ["publish", "0.60 of the floor (600 of 1,000 a second)", "at least 0.5 of the floor", "ok"],
        ["month", "3.00 s (14,400 firings a second)", "at most 2.70 s", "MISSED"],
        ["other", "1.00 s (43,200 firings a second)", "(no target)", "ok"],
    ]


def test_table_of_two_checkouts_shows_both_ratios() -> None:
    pairs = [(rate(600), rate(300, floor=900)), (rate(500), rate(250)), (rate(550), rate(220))]
    lines = list(tables.of_comparisons([Comparison(pairs=pairs)], other="8069334", for_readme=False))
    titles = ["what", "this", "8069334", "this/floor", "other/floor", "this/other", "of the pairs"]
    assert cells(lines[0]) == titles
    assert [cells(line) for line in lines[2:]] == [
        ["publish", "550 a second", "250 a second", "0.55", "0.25", "2.00", "2.00 to 2.50"]
    ]


def test_table_for_the_readme_has_the_figures_with_a_target_and_nothing_else() -> None:
    lines = list(tables.of_figures([rate(600), seconds(1)], for_readme=True))
    assert lines == ["| what | figure |", "|---|---|", "| publish | 0.60 of the floor (600 of 1,000 a second) |"]
    pairs = [[(rate(600), rate(300))], [(seconds(1), seconds(2))]]
    compared = tables.of_comparisons((Comparison(pairs=each) for each in pairs), other="8069334", for_readme=True)
    assert list(compared) == [
        "| what | figure | of that of 8069334 |",
        "|---|---|---|",
        "| publish | 0.60 of the floor (600 of 1,000 a second) | 2.00 |",
    ]


def test_line_is_printed_as_soon_as_its_figure_is_there() -> None:
    """A run takes minutes; what came before a failure is on the screen."""

    def found() -> Iterator[Figure]:
        yield rate(600)
        raise RuntimeError

    lines = tables.of_figures(found(), for_readme=True)
    assert [next(lines) for _ in range(3)][2].startswith("| publish | 0.60")
