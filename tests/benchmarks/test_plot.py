"""The plot of growth with work."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import plot
from tests.benchmarks.measured import growing

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
