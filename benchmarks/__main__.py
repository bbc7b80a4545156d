"""Measure the emulator and print one table.

Machines are shared and differ, so what counts are ratios: against a floor measured in the same run,
or against another checkout of the project that is measured in turns with this one. Alone, each
figure is the best of a few rounds. Compared, it is the median one, and the ratio is the median of
those of the pairs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import measuring, starting
from benchmarks.checkouts import HERE, Checkout, NoCheckout
from benchmarks.figures import Figure, ratio_text
from benchmarks.rows import ROWS


def main() -> int:
    arguments = _arguments()
    wanted: Sequence[str] = arguments.rows or [name for name, row in ROWS.items() if not row.is_long]
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    try:
        other = None if arguments.against is None else Checkout.at(arguments.against)
    except NoCheckout as error:
        print(error, file=sys.stderr)
        return 2
    starting.warm_up(HERE)
    if other is None:
        _print_alone(wanted, arguments.rounds)
    else:
        starting.warm_up(other)
        _print_compared(wanted, other, arguments.rounds)
    return 0


def _arguments() -> argparse.Namespace:
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
    return parser.parse_args()


def _print_alone(wanted: Sequence[str], rounds: int | None) -> None:
    print(f"| {'what':44} | {'figure':72} | {'target':25} | |\n|---|---|---|---|")
    for name in wanted:
        row = ROWS[name]
        for figure in measuring.best(row, HERE, rounds or row.rounds):
            target = "(no target)" if figure.target is None else figure.target.text(figure.unit)
            verdict = "ok" if figure.is_met else "MISSED"
            print(f"| {figure.what:44} | {figure.text:72} | {target:25} | {verdict} |", flush=True)


def _print_compared(wanted: Sequence[str], other: Checkout, rounds: int | None) -> None:
    print(f"this:  {HERE.path}\nother: {other.path}\n")
    titles = f"| {'what':44} | {'this':>18} | {'other':>18} | {'this/floor':>10} | {'other/floor':>11} |"
    print(f"{titles} this/other | of the pairs |\n|---|---|---|---|---|---|---|")
    for name in wanted:
        row = ROWS[name]
        for found in measuring.compare(row, HERE, other, rounds or row.rounds):
            ours, theirs, ratios = found.ours, found.theirs, found.ratios
            print(
                f"| {found.what:44} | {ours.unit.text(ours.value):>18} | {theirs.unit.text(theirs.value):>18} "
                f"| {_to_floor(ours):>10} | {_to_floor(theirs):>11} "
                f"| {found.ratio:10.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
                flush=True,
            )


def _to_floor(figure: Figure) -> str:
    return "" if figure.to_floor is None else ratio_text(figure.to_floor)


if __name__ == "__main__":
    sys.exit(main())
