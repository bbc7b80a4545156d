"""`svc-emulator explain`: why a message is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.output import answered

_COLOURS = {"delivered": "green", "failed": "red", "canceled": "yellow", "held": "yellow", "backoff": "yellow"}
_COLOURS |= {"refused": "red", "would_be_refused": "red", "paused": "yellow"}


def explanation_lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """The message or schedule, the sentence about it, and a line for each reason: when, what about, and what."""
    if "schedule_id" in explanation:
        yield f"{explanation['schedule_id']} to {explanation['destination']}"
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
    """Tell why the message or schedule ID is where it is.

    Of a message: what made it, held it, answered it, delayed it and ended it. Of a schedule: what came of
    its last firing, when it fires next, and whether that would be refused as things are.
    """
    kind = "messages" if id.startswith("msg_") else "schedules"
    return control.call("GET", f"{kind}/{quote(id, safe='')}/explain")
