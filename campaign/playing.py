"""One part, round by round, in this process. `python -m campaign` starts it."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from random import Random

from campaign.parts import PARTS
from campaign.rounds import Part, Report, Round


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--round", type=int)
    arguments = parser.parse_args(given)
    repeat = f"python -m campaign {arguments.part} --seed {arguments.seed} --size {arguments.size}"
    numbers = range(arguments.size) if arguments.round is None else [arguments.round]
    report = Report(repeat)
    try:
        play(PARTS[arguments.part], arguments.part, arguments.seed, numbers, report)
    finally:
        # Also where the time was up in the midst of it.
        counted = ", ".join(f"{number} {what}" for what, number in sorted(report.counts.items()))
        print(f"    {counted or 'nothing was done'}")
        for kind, number in report.findings.most_common():
            print(f"    found {number} times: {kind}", flush=True)
    return 1 if report.findings else 0


def play(part: Part, name: str, seed: int, numbers: Sequence[int], report: Report) -> None:
    """Play these rounds. Each has random choices of its own, so that it can be repeated alone."""
    shared: dict[str, bytes] = {}
    for number in numbers:
        report.round = number
        with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
            try:
                part.play(
                    Round(
                        number=number,
                        random=Random(f"{name} {seed} {number}"),
                        folder=Path(folder),
                        report=report,
                        shared=shared,
                    )
                )
            except Exception as error:
                # The edge of the campaign: what a part did not expect is a finding, and the next round begins.
                last = traceback.extract_tb(error.__traceback__)[-1]
                report.found(
                    f"the round broke off: {type(error).__name__}",
                    f"{error} ({Path(last.filename).name}:{last.lineno})",
                )


if __name__ == "__main__":
    # What was started is ended by the `finally` around its start.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
