"""Benchmarks: figures, rows, tables, the plot."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import measuring, plot, publishing, scale, servers, tables, uncounted
from benchmarks.__main__ import main
from benchmarks.checkouts import HERE, Checkout
from benchmarks.figures import Figure, Target, Unit
from benchmarks.measuring import Comparison
from benchmarks.rows import ROWS, NoRow, Row, chosen
from tests.benchmarks.measured import growing, rate, row_of, seconds

# -- which rows are measured, by what the command line says ----------------------------------------


README = Path(__file__).parent.parent.parent / "README.md"


def test_without_names_all_rows_but_the_long_ones_are_measured() -> None:
    assert chosen(None) == [row for row in ROWS.values() if not row.is_long]
    assert chosen(["million", "ready"]) == [ROWS["million"], ROWS["ready"]]


def test_short_rows_are_measured_once_with_less() -> None:
    found = chosen(None, is_short=True)
    assert [row.measure for row in found] == [row.short for row in ROWS.values() if row.short]
    assert {row.rounds for row in found} == {1}


@pytest.mark.parametrize(
    ("names", "is_short", "message"),
    [
        (["ready", "speed"], False, r"no such row: speed; there are per-test, firing"),
        (["million"], True, r"no such row in short: million; there are firing, python"),
    ],
    ids=["unknown", "no-short-form"],
)
def test_row_that_is_not_there_is_named(names: list[str], is_short: bool, message: str) -> None:
    with pytest.raises(NoRow, match=message):
        chosen(names, is_short=is_short)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "no such row: speed"),
        (["ready", "--plot", "growth.svg"], "--plot shows the row growth"),
        (["--short", "--plot", "growth.svg"], "--plot shows the row growth"),
        (["--short", "--readme"], "not allowed with"),
        (["--against", "nowhere"], "nowhere: is no checkout of this project"),
    ],
    ids=["unknown-row", "plot-of-another", "plot-of-short", "two-forms", "no-checkout"],
)
def test_wrong_usage_ends_with_2_before_anything_is_measured(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_readme_shows_the_printed_table_and_the_plot() -> None:
    text = README.read_text("utf-8")
    lines = text.split("<!-- speed -->")[1].split("<!-- /speed -->")[0].strip().splitlines()
    assert lines[0].startswith("| what | figure |")
    assert len(lines) > 20
    assert "](docs/growth.svg)" in text


# -- figures: how they read, and whether they reach their targets ----------------------------------


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


# -- the tables that the benchmarks print ----------------------------------------------------------


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


# -- the plot of growth with work ------------------------------------------------------------------


CHECKED_IN = Path(__file__).parent.parent.parent / "docs" / "growth.svg"


SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_line_goes_through_each_step_from_nothing_done_to_the_last() -> None:
    picture = plot.svg([plot.Line(figure=growing(50, 100, 75))])
    circles = [
        (float(each.get("cx", "")), float(each.get("cy", "")))
        for each in ElementTree.fromstring(picture).iter(f"{SVG}circle")
    ]
    # 56 to 656 across, 252 for 0 up to 44 for 100.
    assert circles == [(56, 148), (356, 44), (656, 96)]
    assert 'd="M56.0 148.0L356.0 44.0L656.0 96.0"' in picture


def test_axes_begin_at_nothing_and_have_round_numbers() -> None:
    found = texts(plot.svg([plot.Line(figure=growing(*[72.0] * 10, 88.5))]))
    assert found[0] == "Cost of a delivery in µs of CPU, by how many deliveries there were before"
    assert found[1:7] == ["0", "20", "40", "60", "80", "100"]
    assert found[7:13] == ["0", "200,000", "400,000", "600,000", "800,000", "1,000,000"]


def test_two_checkouts_are_two_named_lines_on_the_same_axes() -> None:
    picture = plot.svg([plot.Line(figure=growing(50, 50), name="this"), plot.Line(figure=growing(90, 95), name="<x>")])
    assert texts(picture)[-2:] == ["this", "<x>"]
    assert 'class="line line0"' in picture
    assert 'class="line line1"' in picture


@pytest.mark.parametrize(("most", "distance"), [(88.5, 20), (100, 20), (121, 50), (1_036_800, 200_000), (4, 1)])
def test_ticks_are_at_most_six_and_round(most: float, distance: float) -> None:
    assert plot.tick(most) == distance


def test_picture_of_the_readme_is_one_that_this_makes() -> None:
    """Read in light and in dark, and as small as a picture in a checkout should be."""
    picture = CHECKED_IN.read_text("utf-8")
    assert re.findall(r"<style>.*</style>", picture, re.DOTALL) == re.findall(
        r"<style>.*</style>", plot.svg([plot.Line(figure=growing(1, 1))]), re.DOTALL
    )
    assert "prefers-color-scheme: dark" in picture
    assert picture.count("<circle") == 11
    assert len(picture) < 6000


# -- which of several measurements counts, and in which order two checkouts are measured -----------


ONE = Checkout(path=Path("one"))


OTHER = Checkout(path=Path("other"))


def test_best_of_the_rounds_is_that_of_each_figure_by_itself() -> None:
    """Of a ratio it is the median: the floor alone may have been disturbed."""
    row = row_of([rate(300), seconds(4)], [rate(400, floor=2000), seconds(3)], [rate(250, floor=500), seconds(5)])
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


def test_row_that_one_checkout_lacks_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def measure(checkout: Checkout) -> Iterator[Figure]:
        if checkout is OTHER:
            raise subprocess.CalledProcessError(1, "python")
        yield seconds(1)

    assert measuring.compare(Row(measure=measure), ONE, OTHER, 2) == []
    assert capsys.readouterr().err == (
        f"month: left out, {OTHER.commit} lacks something of it: Command 'python' returned non-zero exit status 1.\n"
    )


@pytest.mark.slow
def test_a_suite_is_measured_on_workers_behind_one_server() -> None:
    figures = list(scale.workers(HERE, tests=2, counts=[1]))
    assert [each.what for each in figures] == [
        "2 tests on 1 worker, one server",
        "the server's CPU of 2 tests on 1 worker, one server",
        "the workers' CPU of 2 tests on 1 worker, one server",
    ]
    assert [each.value > 0 for each in figures] == [True] * 3


@pytest.mark.slow
def test_what_counting_costs_is_measured_beside_a_server_that_counts_nothing() -> None:
    figures = list(publishing.telemetry(HERE, starts=1, requests=20))
    assert [each.what for each in figures] == [
        "ready, CPU, with metrics off",
        "resident when idle, with metrics off",
        "publish over HTTP, with metrics off, CPU",
    ]
    assert all(each.value > 0 and each.floor for each in figures[:2])
    assert {each.beside for each in figures} == {"without counting"}


@pytest.mark.slow
def test_a_server_that_counts_nothing_is_the_emulator_and_has_no_counts() -> None:
    with servers.emulator(HERE, program=Path(uncounted.__file__)) as emulator:
        answer = emulator.client.post("/v2/publish/https://app.test/", headers=emulator.token)
        assert answer.status_code == 200
        # What shows them does not find what has counted them.
        assert "metrics need" in emulator.client.get("/_emulator/metrics").json()["error"]


@pytest.mark.parametrize("is_there", [True, False])
def test_checkout_is_a_folder_with_the_program(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "emulator").mkdir()
    if is_there:
        (tmp_path / "emulator" / "__main__.py").touch()
        assert Checkout.at(str(tmp_path)).commit == tmp_path.name
    else:
        with pytest.raises(Exception, match=r"is no checkout of this project, it has no emulator/__main__\.py"):
            Checkout.at(str(tmp_path))


# -- tests through a balancer, measured with few of them -------------------------------------------


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
