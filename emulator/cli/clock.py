"""`svc-emulator clock`: the virtual clock of a running server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec

import click

from emulator.cli.advancing import INTERRUPTED, shown_steps
from emulator.cli.control import Control, on_world
from emulator.cli.options import Duration, Instant, Rate
from emulator.cli.output import answered
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso

P = ParamSpec("P")

_max_deliveries = click.option(
    "--max-deliveries", type=click.IntRange(min=1), help="Stop after so many deliveries. Default: a million."
)


@click.group(epilog="Example: svc-emulator clock advance 1d")
def clock() -> None:
    """Show and move the virtual clock of a running server."""


def status_text(status: Mapping[str, Any]) -> str:
    """The instant and the rate of a clock, from its JSON."""
    match status["rate"]:
        case 0:
            return f"frozen at {status['now']}"
        case 1:
            return f"real time, {status['now']}"
        case rate:
            return f"{rate:g} times real time, {status['now']}"


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


def _report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    passed_ms = report["to_ms"] - report["from_ms"]
    yield f"clock: {report['from']} -> {report['to']} ({format_duration(passed_ms)} in {report['wall_ms']} ms)"
    yield (
        f"deliveries: {report['deliveries']} ({report['succeeded']} succeeded, {report['failed']} failed); "
        f"messages created: {report['messages_created']}; schedules fired: {report['schedules_fired']}"
    )
    if report.get("stopped") == INTERRUPTED:
        yield f"interrupted: the clock stands at {report['to']}; the rest of the way is not lost, advance again"
    elif "stopped" in report:
        yield f"stopped early by {report['stopped'].replace('_', ' ')}"
    if "idle" in report:
        yield "idle: nothing is due" if report["idle"] else "not idle: more is due later"


@clock.command(epilog="Example: svc-emulator clock show --json")
@answered(_status_lines)
@on_world
def show(control: Control) -> Any:
    """Show where the clock stands, how it goes, and what comes next."""
    return control.call("GET", "clock")


def _exit_if_interrupted(command: Callable[P, Any]) -> Callable[P, None]:
    """Ends a command with the exit code of Ctrl-C, if its report says that it was."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if command(*args, **kwargs).get("stopped") == INTERRUPTED:
            raise click.exceptions.Exit(130)

    return run


_undoable = click.option(
    "--undoable", is_flag=True, help="Keep the world as it is now, so that `clock undo` returns to it."
)


@clock.command(epilog="Example: svc-emulator clock advance 2d3h")
@_exit_if_interrupted
@click.argument("duration", type=Duration())
@_max_deliveries
@_undoable
@answered(_report_lines)
@on_world
def advance(control: Control, *, duration: int, max_deliveries: int | None, undoable: bool) -> Any:
    """Move the clock ahead by DURATION, such as 1d2h30m.

    All due work on the way is done. On a terminal a long one shows how far it is. Ctrl-C ends it between
    two steps: the clock stands where it is then, and nothing is lost.
    """
    # One that can be taken back has to be a single one.
    if undoable or not sys.stderr.isatty():
        wanted = _given(by=duration, max_deliveries=max_deliveries, undoable=undoable or None)
        return control.call("POST", "clock/advance", wanted, doing="advancing")
    with shown_steps(duration) as steps:
        return steps.advance(control, duration, max_deliveries)


@clock.command(epilog="Example: svc-emulator clock undo")
@answered(lambda world: _status_lines(world["clock"]))
@on_world
def undo(control: Control) -> Any:
    """Take the last undoable advance back.

    All that has happened since goes with it. Once more, and the advance before is taken back.
    """
    return control.call("POST", "clock/undo")


@clock.command("set", epilog="Example: svc-emulator clock set 2026-12-31T23:59:00Z")
@click.argument("instant", type=Instant())
@answered(_status_lines)
@on_world
def set_(control: Control, *, instant: int) -> Any:
    """Set the clock to INSTANT, ISO 8601. Ahead it does the work on the way; back only in an unused world."""
    return control.call("PUT", "clock", {"now": instant}, doing="advancing")


@clock.command("next", epilog="Example: svc-emulator clock next")
@_undoable
@answered(_report_lines)
@on_world
def next_(control: Control, *, undoable: bool) -> Any:
    """Jump to the next instant at which something is due, and do it."""
    return control.call("POST", "clock/next", _given(undoable=undoable or None), doing="advancing")


@clock.command(epilog="Example: svc-emulator clock drain --horizon 30d")
@click.option("--horizon", type=Duration(), help="Go no further than this. Default: 30d.")
@_max_deliveries
@_undoable
@answered(_report_lines)
@on_world
def drain(control: Control, *, horizon: int | None, max_deliveries: int | None, undoable: bool) -> Any:
    """Run until nothing is due but future firings of schedules."""
    wanted = _given(horizon=horizon, max_deliveries=max_deliveries, undoable=undoable or None)
    return control.call("POST", "clock/drain", wanted, doing="draining")


@clock.command(epilog="Example: svc-emulator clock rate 60")
@click.argument("rate", type=Rate())
@answered(_status_lines)
@on_world
def rate(control: Control, *, rate: float) -> Any:
    """Let time pass at RATE, by itself.

    0 or frozen, 1 or realtime, 60 for a virtual minute a second.
    """
    return control.call("PUT", "clock", {"rate": rate})


def _given(**values: int | None) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}
