"""A clock advance in steps, so that a person sees how far it is and can end it (D-343)."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from emulator.cli.control import Control
from emulator.wire.instants import iso

# What a report says that was ended by Ctrl-C, beside the reasons of the server.
INTERRUPTED = "interrupted"

# A step takes about so long, in real time; the first is a small part of the whole way.
_STEP_S = 0.3
_FIRST_PARTS = 512
# However slow the server is, it is not asked more often.
_MOST_PARTS = 2000
# An advance that takes longer shows how far it is.
_SHOWN_AFTER_S = 1.0
_MAX_DELIVERIES = 1_000_000
_COUNTS = ("deliveries", "succeeded", "failed", "schedules_fired", "messages_created", "wall_ms")

Report = Mapping[str, Any]


class Steps:
    """The steps of one advance. `interrupt` ends it after the step that is under way."""

    def __init__(
        self, show: Callable[[Report], None] = lambda report: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`show` is told after every step what has been done so far."""
        self._show = show
        self._clock = clock
        self.is_interrupted = False

    def interrupt(self) -> None:
        self.is_interrupted = True

    def advance(self, control: Control, duration_ms: int, max_deliveries: int | None = None) -> Report:
        """What the server would report of the whole advance. Work is the same in any number of steps.

        Every step ends at an instant with all that is due there done, so none is seen twice or out of its order.
        """
        most = max_deliveries or _MAX_DELIVERIES
        step_ms, smallest_ms = (max(1, duration_ms // parts) for parts in (_FIRST_PARTS, _MOST_PARTS))
        report: dict[str, Any] = {}
        target_ms: int | None = None
        while True:
            began = self._clock()
            # The first goes by a duration: where the clock stands is known from its report.
            ahead = (
                {"by": min(step_ms, duration_ms)}
                if target_ms is None
                else {"to": min(report["to_ms"] + step_ms, target_ms)}
            )
            left = most - report.get("deliveries", 0)
            done = control.call("POST", "clock/advance", {**ahead, "max_deliveries": left})
            report = _joined(report, done)
            target_ms = report["from_ms"] + duration_ms
            self._show(report)
            if "stopped" in report or report["to_ms"] >= target_ms:
                return report
            if report["deliveries"] >= most:
                return {**report, "stopped": "max_deliveries"}
            if self.is_interrupted:
                return {**report, "stopped": INTERRUPTED}
            took_s = self._clock() - began
            if took_s < _STEP_S / 2:
                step_ms *= 2
            elif took_s > _STEP_S * 2:
                step_ms = max(step_ms // 2, smallest_ms)


def _joined(before: Report, after: Report) -> dict[str, Any]:
    if not before:
        return dict(after)
    sums = {name: before[name] + after[name] for name in _COUNTS}
    return {**after, "from": before["from"], "from_ms": before["from_ms"], **sums}


@contextlib.contextmanager
def shown_steps(duration_ms: int) -> Iterator[Steps]:
    """Steps that a person sees on standard error and ends with Ctrl-C; a second Ctrl-C leaves at once."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    text = TextColumn("{task.fields[text]}")
    bar = Progress(BarColumn(bar_width=20), text, TimeElapsedColumn(), console=console, transient=True)
    task = bar.add_task("advancing", total=duration_ms, text="advancing")
    began = time.monotonic()

    def show(report: Report) -> None:
        passed_s = time.monotonic() - began
        rate = report["deliveries"] / max(passed_s, 0.001)
        text = f"{iso(report['to_ms'])}  {report['deliveries']} deliveries, {rate:.0f} a second"
        if steps.is_interrupted:
            text += ", ending"
        bar.update(task, completed=report["to_ms"] - report["from_ms"], text=text)

    steps = Steps(show)
    timer = threading.Timer(_SHOWN_AFTER_S, bar.start)
    timer.daemon = True
    timer.start()
    before = signal.getsignal(signal.SIGINT)

    def interrupt(*_: object) -> None:
        # From now on as ever.
        signal.signal(signal.SIGINT, before)
        steps.interrupt()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield steps
    finally:
        signal.signal(signal.SIGINT, before)
        timer.cancel()
        timer.join()
        bar.stop()
