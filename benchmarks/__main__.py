"""Measure the emulator and print one table.

Machines are shared and differ, so what counts are ratios: against a floor measured in the same run,
or against another checkout of the project that is measured in turns with this one. Alone, each
figure is the best of a few rounds, and a ratio to a floor the median one. Compared, it is the median
one, and the ratio is the median of those of the pairs. A target that is missed is shown, and is no
failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import tee
from pathlib import Path

from benchmarks import measuring, plot, starting, tables
from benchmarks.checkouts import HERE, Checkout, NoCheckout
from benchmarks.rows import GROWTH, ROWS, NoRow, Row, chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 whatever the figures are. Wrong usage ends the process with 2."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        other = None if options.against is None else Checkout.at(options.against)
        rows = _rows(options)
    except (NoCheckout, NoRow) as error:
        parser.error(str(error))
    starting.warm_up(HERE)
    if other is None:
        lines = _measured(rows, options)
    else:
        starting.warm_up(other)
        lines = _compared(rows, other, options)
    for line in lines:
        print(line, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    long_rows = ", ".join(name for name, row in ROWS.items() if row.is_long)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"Rows: {', '.join(ROWS)}. Without names all but the long ones ({long_rows}).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="what to measure")
    parser.add_argument("--against", metavar="PATH", help="another checkout of the project")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often, instead of what each row says")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true", help="little of most rows, once: for a look, in less than 40 s")
    form.add_argument("--readme", action="store_true", help="all rows; print the table of the README and nothing else")
    parser.add_argument("--plot", metavar="FILE", help=f"write the growth with work as an SVG; without names, {GROWTH}")
    return parser


def _rows(options: argparse.Namespace) -> list[Row]:
    """Raises NoRow."""
    default: list[str] | None = None
    if options.readme:
        default = list(ROWS)
    elif options.plot and not options.short:
        default = [GROWTH]
    names = options.rows or default
    found = chosen(names, is_short=options.short)
    if options.plot and ROWS[GROWTH] not in found:
        raise NoRow(f"--plot shows the row {GROWTH}, which is not among those to measure")
    return found


def _measured(rows: Sequence[Row], options: argparse.Namespace) -> tables.Lines:
    found = (each for row in rows for each in measuring.best(row, HERE, options.rounds or row.rounds))
    shown, kept = tee(found)
    yield from tables.of_figures(shown, for_readme=options.readme)
    if options.plot:
        _write(options.plot, [plot.Line(figure=each) for each in kept if each.steps])


def _compared(rows: Sequence[Row], other: Checkout, options: argparse.Namespace) -> tables.Lines:
    found = (each for row in rows for each in measuring.compare(row, HERE, other, options.rounds or row.rounds))
    shown, kept = tee(found)
    yield from tables.of_comparisons(shown, other=other.commit, for_readme=options.readme)
    if options.plot:
        pairs = [each for each in kept if each.ours.steps]
        ours = [plot.Line(figure=each.ours, name="this") for each in pairs]
        _write(options.plot, ours + [plot.Line(figure=each.theirs, name=other.commit) for each in pairs])


def _write(path: str, lines: Sequence[plot.Line]) -> None:
    Path(path).write_text(plot.svg(lines), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
