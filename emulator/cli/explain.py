"""`svc-emulator explain`: why a message is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.failures import Failure
from emulator.cli.output import answered

_COLOURS = {"delivered": "green", "failed": "red", "canceled": "yellow", "held": "yellow", "backoff": "yellow"}
_COLOURS |= {"success": "green", "error": "red", "failure_function": "red", "waiting": "yellow"}
_COLOURS |= {"refused": "red", "would_be_refused": "red", "paused": "yellow"}


def explanation_lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """The message, run or schedule, the sentence about it, and a line for each reason: when, what about, and what."""
    if "schedule_id" in explanation:
        yield f"{explanation['schedule_id']} to {explanation['destination']}"
    elif "run_id" in explanation:
        yield f"{explanation['run_id']} at {explanation['url']}"
    else:
        yield f"{explanation['message_id']} to {explanation['url']}"
    yield click.style(explanation["summary"], bold=True)
    yield ""
    reasons = explanation["reasons"]
    width = max(len(reason["kind"]) for reason in reasons)
    for reason in reasons:
        kind = click.style(f"{reason['kind'].replace('_', ' '):{width}}", fg=_COLOURS.get(reason["kind"]))
        yield f"{reason['at']}  {kind}  {reason['text']}"


@click.command(epilog="Example: svc-emulator explain msg_7YoJx1yPUjzXeVKidtK2Cr2ErPibtvEg9A87ggFqehgRSzhds8Kig")
@click.argument("id")
@answered(explanation_lines)
@on_world
def explain(control: Control, *, id: str) -> Any:
    """Tell why the message, workflow run or schedule ID is where it is.

    Of a message: what made it, held it, answered it, delayed it and ended it. Of a schedule: what came of
    its last firing, when it fires next, and whether that would be refused as things are. Of a run: its steps
    with their instants, what it waits for and until when.
    """
    name = quote(id, safe="")
    if id.startswith("msg_"):
        return control.call("GET", f"messages/{name}/explain")
    if id.startswith("wfr_"):
        return control.call("GET", f"runs/{name}/explain")
    try:
        return control.call("GET", f"schedules/{name}/explain")
    except Failure as failure:
        # Clients give runs ids of their own, without any prefix.
        try:
            return control.call("GET", f"runs/{name}/explain")
        except Failure:
            raise failure from None
