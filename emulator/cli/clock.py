"""`svc-emulator clock`: the virtual clock of a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from emulator.cli.control import Control, json_option, on_world, show_json
from emulator.cli.values import Duration, Instant, Rate
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso

_max_deliveries = click.option(
    "--max-deliveries", type=click.IntRange(min=1), help="Stop after so many deliveries. Default: a million."
)


@click.group(epilog="Example: svc-emulator clock advance 1d")
def clock() -> None:
    """Show and move the virtual clock of a running server."""


@clock.command(epilog="Example: svc-emulator clock show --json")
@json_option
@on_world
def show(control: Control, *, as_json: bool) -> None:
    """Show where the clock stands, how it goes, and what comes next."""
    _show_status(control.call("GET", "clock"), as_json=as_json)


@clock.command(epilog="Example: svc-emulator clock advance 2d3h")
@click.argument("duration", type=Duration())
@_max_deliveries
@json_option
@on_world
def advance(control: Control, *, duration: int, max_deliveries: int | None, as_json: bool) -> None:
    """Move the clock ahead by DURATION, such as 1d2h30m, doing all due work on the way."""
    body = _given(by=duration, max_deliveries=max_deliveries)
    _show_report(control.call("POST", "clock/advance", body, doing="advancing"), as_json=as_json)


@clock.command("set", epilog="Example: svc-emulator clock set 2026-12-31T23:59:00Z")
@click.argument("instant", type=Instant())
@json_option
@on_world
def set_(control: Control, *, instant: int, as_json: bool) -> None:
    """Set the clock to INSTANT, ISO 8601. Ahead it does the work on the way; back only in an unused world."""
    _show_status(control.call("PUT", "clock", {"now": instant}, doing="advancing"), as_json=as_json)


@clock.command("next", epilog="Example: svc-emulator clock next")
@json_option
@on_world
def next_(control: Control, *, as_json: bool) -> None:
    """Jump to the next instant at which something is due, and do it."""
    _show_report(control.call("POST", "clock/next", doing="advancing"), as_json=as_json)


@clock.command(epilog="Example: svc-emulator clock drain --horizon 30d")
@click.option("--horizon", type=Duration(), help="Go no further than this. Default: 30d.")
@_max_deliveries
@json_option
@on_world
def drain(control: Control, *, horizon: int | None, max_deliveries: int | None, as_json: bool) -> None:
    """Run until nothing is due but future firings of schedules."""
    body = _given(horizon=horizon, max_deliveries=max_deliveries)
    _show_report(control.call("POST", "clock/drain", body, doing="draining"), as_json=as_json)


@clock.command(epilog="Example: svc-emulator clock rate 60")
@click.argument("rate", type=Rate())
@json_option
@on_world
def rate(control: Control, *, rate: float, as_json: bool) -> None:
    """Let time pass at RATE: 0 or frozen, 1 or realtime, 60 for a virtual minute a second."""
    _show_status(control.call("PUT", "clock", {"rate": rate}), as_json=as_json)


def _given(**values: int | None) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def status_text(status: Mapping[str, Any]) -> str:
    """Where a clock stands and how it goes, from its JSON."""
    match status["rate"]:
        case 0:
            return f"frozen at {status['now']}"
        case 1:
            return f"real time, {status['now']}"
        case rate:
            return f"{rate:g} times real time, {status['now']}"


def _show_status(status: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(status)
        return
    click.echo(f"clock: {status_text(status)}")
    if status["next_due_ms"] is None:
        click.echo("next due: nothing")
    else:
        wait_ms = max(0, status["next_due_ms"] - status["now_ms"])
        click.echo(f"next due: {iso(status['next_due_ms'])} (in {format_duration(wait_ms)})")
    click.echo(f"messages: {status['pending']} pending, {status['in_flight']} in flight")


def _show_report(report: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(report)
        return
    passed_ms = report["to_ms"] - report["from_ms"]
    click.echo(f"clock: {report['from']} -> {report['to']} ({format_duration(passed_ms)} in {report['wall_ms']} ms)")
    click.echo(
        f"deliveries: {report['deliveries']} ({report['succeeded']} succeeded, {report['failed']} failed); "
        f"messages created: {report['messages_created']}; schedules fired: {report['schedules_fired']}"
    )
    if "stopped" in report:
        click.echo(f"stopped early by {report['stopped'].replace('_', ' ')}")
    if "idle" in report:
        click.echo("idle: nothing is due" if report["idle"] else "not idle: more is due later")
