"""`svc-emulator queues`, `flow-control` and `groups`: what messages wait for, and where they are fanned out to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from emulator.cli.control import Control, on_world
from emulator.cli.output import answered, end_of, table
from emulator.wire.durations import format_duration


def _line(row: Mapping[str, Any]) -> str:
    """Who waits: how many, and the next ones."""
    if not row["waiting"]:
        return "nobody"
    first = " ".join(end_of(message_id) for message_id in row["next_in_line"][:3])
    return f"{row['waiting']}: {first}{' ...' if row['waiting'] > 3 else ''}"


def _state(row: Mapping[str, Any]) -> str:
    return click.style("paused", fg="yellow") if row["paused"] else "runs"


def _queue_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (each["name"], _state(each), f"{len(each['holders'])}/{each['parallelism']}", str(each["lag"]), _line(each))
        for each in answer["queues"]
    ]
    yield from table(("NAME", "STATE", "SLOTS", "LAG", "WAITING"), rows, "no queues")


@click.command(epilog="Example: svc-emulator queues --json")
@answered(_queue_lines)
@on_world
def queues(control: Control) -> Any:
    """List the queues: paused or not, messages, who waits.

    All accounts' queues, with the slots that are taken and the messages that have not ended.
    """
    return control.call("GET", "queues")


def _key_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (each["key"], _state(each), _parallelism(each), _rate(each), str(each["lag"]), _line(each))
        for each in answer["keys"]
    ]
    yield from table(("KEY", "STATE", "PARALLELISM", "RATE", "LAG", "WAITING"), rows, "no flow control keys")
    for each in answer["global"]:
        if each["active"] or each["waiting"]:
            taken = f"{each['active']} of {each['parallelism']} attempts under way, {each['waiting']} wait"
            yield f"account {each['account_id']}: {taken}"


def _parallelism(key: Mapping[str, Any]) -> str:
    if key["parallelism"] is None:
        return str(key["active"])
    return f"{key['active']}/{key['parallelism']}{' pinned' if key['pinned_parallelism'] else ''}"


def _rate(key: Mapping[str, Any]) -> str:
    if key["rate"] is None:
        return ""
    per = f"{key['rate_count']}/{key['rate']} per {format_duration(key['period_ms'])}"
    return per + (" pinned" if key["pinned_rate"] else "")


@click.command("flow-control", epilog="Example: svc-emulator flow-control")
@answered(_key_lines)
@on_world
def flow_control(control: Control) -> Any:
    """List the flow control keys: limits, use, who waits."""
    return control.call("GET", "flow-control")


def _group_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for group in answer["url_groups"]:
        for number, endpoint in enumerate(group["endpoints"] or [{"name": None, "url": "no endpoints"}]):
            rows.append((group["name"] if number == 0 else "", endpoint["name"] or "", endpoint["url"]))
    yield from table(("NAME", "ENDPOINT", "URL"), rows, "no URL groups")


@click.command(epilog="Example: svc-emulator groups")
@answered(_group_lines)
@on_world
def groups(control: Control) -> Any:
    """List the URL groups of all accounts with their endpoints."""
    return control.call("GET", "url-groups")
