"""`svc-emulator explain`: why a message is where it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.failures import Failure
from emulator.cli.finding import NothingFound, find_message, find_schedule, is_message_id
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
    """Tell why a message, run or schedule is where it is.

    ID is its id, the end of it (four characters or more), or a URL or label that no other has.

    Of a message: what made it, held it, answered it, delayed it and ended it. Of a schedule: what came of
    its last firing, when it fires next, and whether that would be refused as things are. Of a run: its steps
    with their instants, what it waits for and until when.
    """
    kind, found = _meant(control, id)
    return control.call("GET", f"{kind}/{quote(found, safe='')}/explain")


def _meant(control: Control, text: str) -> tuple[str, str]:
    """Whether a message, a schedule or a workflow run is meant, and its id. Raises Failure."""
    if text.startswith("wfr_"):
        return "runs", text
    if text and not is_message_id(text):
        # The whole id of a schedule precedes messages that have it as their label.
        for schedule in control.call("GET", "schedules")["schedules"]:
            if schedule["schedule_id"] == text:
                return "schedules", text
        # Clients give runs ids of their own, without any prefix.
        with contextlib.suppress(Failure):
            control.call("GET", f"runs/{quote(text, safe='')}")
            return "runs", text
    try:
        return "messages", find_message(control, text)
    except NothingFound as nothing:
        try:
            return "schedules", str(find_schedule(control, text)["schedule_id"])
        except NothingFound:
            raise NothingFound(nothing.message.replace("no message", "no message or schedule", 1)) from nothing
