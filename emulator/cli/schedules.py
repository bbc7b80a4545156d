"""`svc-emulator schedules`: list, pause, resume and delete the schedules of a running server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.finding import find_schedule
from emulator.cli.listings import ListingGroup, firing_line
from emulator.cli.output import answered, table

_argument = click.argument("schedule", metavar="ID")


@click.group(cls=ListingGroup, epilog="Example: svc-emulator schedules pause daily-report")
def schedules() -> None:
    """List, pause, resume and delete schedules. Alone it lists them."""


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    found = answer["schedules"]
    rows = [
        (
            each["schedule_id"],
            each["cron"],
            each["destination"],
            click.style("paused", fg="yellow") if each["paused"] else each["next"],
            _last(each),
        )
        for each in found
    ]
    yield from table(("ID", "CRON", "DESTINATION", "NEXT", "LAST"), rows, "no schedules")
    for each in found:
        if each["firings"]:
            yield ""
            yield f"{each['schedule_id']} ({each['time_zone']}):"
            yield from (f"  {firing_line(firing, each['time_zone'])}" for firing in each["firings"])


def _last(schedule: Mapping[str, Any]) -> str:
    if schedule["last"] is None:
        return "not yet"
    if schedule["error"]:
        return f"{schedule['last']} {click.style(schedule['error'], fg='red')}"
    states = ", ".join(dict.fromkeys(schedule["last_messages"].values())) or "deduplicated"
    return f"{schedule['last']} {states.lower().replace('_', ' ')}"


@schedules.command("list", epilog="Example: svc-emulator schedules list --firings 10")
@click.option("--firings", type=click.IntRange(0, 100), help="Also the next so many firings of each, in its zone.")
@answered(_listed)
@on_world
def list_(control: Control, *, firings: int | None) -> Any:
    """List the schedules with their last and next firings."""
    return control.call("GET", "schedules", query={"firings": str(firings)} if firings else None)


def _changed(schedule: Mapping[str, Any]) -> Iterator[str]:
    then = "is paused" if schedule["paused"] else f"fires next at {schedule['next']}"
    yield f"schedule {schedule['schedule_id']} to {schedule['destination']} {then}"


@schedules.command(epilog="Example: svc-emulator schedules pause daily-report")
@_argument
@answered(_changed)
@on_world
def pause(control: Control, *, schedule: str) -> Any:
    """Pause the schedule ID: it does not fire before it is resumed."""
    return _act(control, schedule, "PATCH", "/pause")


@schedules.command(epilog="Example: svc-emulator schedules resume daily-report")
@_argument
@answered(_changed)
@on_world
def resume(control: Control, *, schedule: str) -> Any:
    """Resume the schedule ID. What it would have fired meanwhile is not made up for."""
    return _act(control, schedule, "PATCH", "/resume")


def _deleted(schedule: Mapping[str, Any]) -> Iterator[str]:
    yield f"schedule {schedule['schedule_id']} to {schedule['destination']} deleted"


@schedules.command(epilog="Example: svc-emulator schedules delete daily-report")
@_argument
@answered(_deleted)
@on_world
def delete(control: Control, *, schedule: str) -> Any:
    """Delete the schedule ID. Messages that it has made go on."""
    return _act(control, schedule, "DELETE", "")


def _act(control: Control, text: str, method: str, action: str) -> Any:
    """Call an operation of the schedule that is meant; its entry afterwards, or as it was if it is gone."""
    found = find_schedule(control, text)
    account_id, schedule_id = found["account_id"], found["schedule_id"]
    control.of_service(method, f"/v2/schedules/{quote(schedule_id)}{action}", account_id)
    for each in control.call("GET", "schedules")["schedules"]:
        if (each["account_id"], each["schedule_id"]) == (account_id, schedule_id):
            return each
    return found
