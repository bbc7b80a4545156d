"""Which rows are measured, by what the command line says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.rows import ROWS, NoRow, chosen

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
        (["ready", "speed"], False, r"no such row: speed; there are ready, import"),
        (["million"], True, r"no such row in short: million; there are ready, publish"),
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
