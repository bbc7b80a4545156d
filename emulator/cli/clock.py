"""`svc-emulator clock`: the virtual clock of a running server, and an advance in steps (D-343)."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec

import click

from emulator.cli.control import Control, shown
from emulator.cli.listings import find_message
from emulator.cli.options import Duration, Instant, Rate
from emulator.cli.output import CommandFailed, WrongUsage, status_text
from emulator.server.logs import runs_for_agent
from emulator.wire.times import format_duration, iso

P = ParamSpec("P")

_max_deliveries = click.option(
    "--max-deliveries", type=click.IntRange(min=1), help="Stop after so many deliveries. Default: a million."
)


@click.group(epilog="Example: svc-emulator clock advance 1d")
def clock() -> None:
    """Show and move the virtual clock of a running server."""


def _status_lines(status: Mapping[str, Any]) -> Iterator[str]:
    yield f"clock: {status_text(status)}"
    if status["next_due_ms"] is None:
        yield "next due: nothing"
    else:
        wait_ms = max(0, status["next_due_ms"] - status["now_ms"])
        yield f"next due: {iso(status['next_due_ms'])} (in {format_duration(wait_ms)})"
    yield f"messages: {status['pending']} pending, {status['in_flight']} in flight"
    if status.get("slipped_ms"):
        yield f"slipped: {format_duration(status['slipped_ms'])} lost at this rate, as too much came due"
    yield from _held_lines(status)


def _held_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """What is held, and what frees it."""
    for destination in answer.get("held", ()):
        yield f"{destination['why']} (svc-emulator explain {destination['message_id']})"


_NOT_REACHED = {
    "horizon": "not reached: the horizon came first (--horizon goes further)",
    "nothing_due": "not reached: nothing is due any more that could make it so",
}


def _report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    passed_ms = report["to_ms"] - report["from_ms"]
    yield f"clock: {report['from']} -> {report['to']} ({format_duration(passed_ms)} in {report['wall_ms']} ms)"
    yield (
        f"deliveries: {report['deliveries']} ({report['succeeded']} succeeded, {report['failed']} failed); "
        f"messages created: {report['messages_created']}; schedules fired: {report['schedules_fired']}"
    )
    if report.get("stopped") in _NOT_REACHED:
        yield _NOT_REACHED[report["stopped"]]
    elif report.get("stopped") == INTERRUPTED:
        yield f"interrupted: the clock stands at {report['to']}; the rest of the way is not lost, advance again"
    elif "stopped" in report:
        yield f"stopped early by {report['stopped'].replace('_', ' ')}"
    if "idle" in report:
        yield "idle: nothing is due" if report["idle"] else "not idle: more is due later"
    yield from _held_lines(report)


@clock.command(epilog="Example: svc-emulator clock show --json")
@shown(_status_lines)
def show(control: Control) -> Any:
    """Show the virtual time, its rate, and what is due next."""
    return control.call("GET", "clock")


def _exit_if_interrupted(command: Callable[P, Any]) -> Callable[P, None]:
    """Ends a command with the exit code of Ctrl-C, if its report says that it was.

    Raises CommandFailed for a condition that is not so.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        report = command(*args, **kwargs)
        if report.get("stopped") == INTERRUPTED:
            raise click.exceptions.Exit(130)
        if report.get("reached") is False:
            raise CommandFailed("the condition was not reached", next="svc-emulator upcoming")

    return run


_undoable = click.option(
    "--undoable", is_flag=True, help="Keep the world as it is now, so that `clock undo` returns to it."
)


@clock.command(epilog="Example: svc-emulator clock advance 2d3h")
@_exit_if_interrupted
@click.argument("duration", required=False)
@click.option(
    "--until",
    metavar="CONDITION",
    help="Advance until this is so, instead of by a duration: an instant, next, idle, dead-letters, 'message ID', "
    "'run ID' or 'deliveries N'.",
)
@click.option("--horizon", type=Duration(), help="With --until, go no further than this. Default: 30d.")
@_max_deliveries
@_undoable
@shown(_report_lines)
def advance(
    control: Control,
    *,
    duration: str | None,
    until: str | None,
    horizon: int | None,
    max_deliveries: int | None,
    undoable: bool,
) -> Any:
    """Move the clock ahead by DURATION (1d2h30m), or --until.

    All due work on the way is done. On a terminal a long one shows how far it is. Ctrl-C ends it between
    two steps: the clock stays at the instant it has reached, and nothing is lost.

    A condition is looked at first and after each instant. A message or a run has ended then, and deliveries are
    those that this advance made. A condition that cannot become true is reported, with exit code 1.
    """
    if until is not None:
        return _advance_until(
            control, until, duration, horizon=horizon, max_deliveries=max_deliveries, undoable=undoable
        )
    if duration is None:
        raise WrongUsage("expected a duration such as 1d2h30m, or --until CONDITION")
    if horizon is not None:
        raise WrongUsage("--horizon: expected only with --until")
    context = click.get_current_context()
    return _advance_by(
        control, Duration().convert(duration, context.command.params[0], context), max_deliveries, undoable
    )


def _advance_until(control: Control, until: str, more: str | None, *, undoable: bool, **limits: int | None) -> Any:
    """`more` is the word behind the condition: `--until message ID` needs no quotes."""
    kind, _, what = until.strip().partition(" ")
    if more is not None:
        if what or kind not in ("message", "run", "deliveries"):
            raise WrongUsage("expected a duration or --until CONDITION, not both")
        what = more
    if kind == "message" and what:
        what = find_message(control, what.strip())
    return _move(control, "advance", until=f"{kind} {what}".strip(), undoable=undoable, **limits)


def _move(control: Control, how: str, *, undoable: bool, **wanted: int | str | None) -> Any:
    body: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    if undoable:
        body["undoable"] = True
    doing = "draining" if how == "drain" else "advancing"
    return control.call("POST", f"clock/{how}", body, doing=doing, named={"until": "--until"})


def _advance_by(control: Control, duration: int, max_deliveries: int | None, undoable: bool) -> Any:
    # One that can be taken back has to be a single one.
    if undoable or not sys.stderr.isatty() or runs_for_agent():
        return _move(control, "advance", by=duration, max_deliveries=max_deliveries, undoable=undoable)
    with shown_steps(duration) as steps:
        return steps.advance(control, duration, max_deliveries)


@clock.command(epilog="Example: svc-emulator clock undo")
@shown(lambda world: _status_lines(world["clock"]))
def undo(control: Control) -> Any:
    """Take the last undoable advance back.

    All that has happened since goes with it. Once more, and the advance before is taken back.
    """
    return control.call("POST", "clock/undo")


@clock.command("set", epilog="Example: svc-emulator clock set 2026-12-31T23:59:00Z")
@click.argument("instant", type=Instant())
@shown(_status_lines)
def set_(control: Control, *, instant: int) -> Any:
    """Set the clock to INSTANT, ISO 8601. Ahead it does the work on the way; back only in an unused world."""
    return control.call("PUT", "clock", {"now": instant}, doing="advancing")


@clock.command("next", epilog="Example: svc-emulator clock next")
@_undoable
@shown(_report_lines)
def next_(control: Control, *, undoable: bool) -> Any:
    """Jump to the next instant at which something is due, and do it."""
    return _move(control, "next", undoable=undoable)


@clock.command(epilog="Example: svc-emulator clock drain --horizon 30d")
@click.option("--horizon", type=Duration(), help="Go no further than this. Default: 30d.")
@_max_deliveries
@_undoable
@shown(_report_lines)
def drain(control: Control, *, horizon: int | None, max_deliveries: int | None, undoable: bool) -> Any:
    """Run until nothing is due but future firings of schedules."""
    return _move(control, "drain", horizon=horizon, max_deliveries=max_deliveries, undoable=undoable)


@clock.command(epilog="Example: svc-emulator clock rate 60")
@click.argument("rate", type=Rate())
@shown(_status_lines)
def rate(control: Control, *, rate: float) -> Any:
    """Let time pass at RATE, by itself.

    0 or frozen, 1 or realtime, 60 for a virtual minute a second.
    """
    return control.call("PUT", "clock", {"rate": rate})


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
        """`show` is called after every step with what has been done so far."""
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
            # The first goes by a duration: the virtual time is known from its report.
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
        # Restore the default: a second Ctrl-C ends the program.
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
