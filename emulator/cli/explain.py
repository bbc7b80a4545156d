"""`svc-emulator explain`: why a message is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.colours import print_lines
from emulator.cli.control import Control, json_option, on_world, show_json

_COLOURS = {"delivered": "green", "failed": "red", "canceled": "yellow", "held": "yellow", "backoff": "yellow"}


@click.command(epilog="Example: svc-emulator explain msg_7YoJx1yPUjzXeVKidtK2Cr2ErPibtvEg9A87ggFqehgRSzhds8Kig")
@click.argument("id")
@json_option
@on_world
def explain(control: Control, /, *, as_json: bool, **arguments: str) -> None:
    """Tell why the message ID is where it is: what made it, held it, answered it, delayed it and ended it."""
    answer = control.call("GET", f"messages/{quote(arguments['id'], safe='')}/explain")
    if as_json:
        show_json(answer)
        return
    print_lines(explanation_lines(answer))


def explanation_lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """The message, the sentence about it, and a line for each reason: when, what about, and what."""
    yield f"{explanation['message_id']} to {explanation['url']}"
    yield click.style(explanation["summary"], bold=True)
    yield ""
    reasons = explanation["reasons"]
    width = max(len(reason["kind"]) for reason in reasons)
    for reason in reasons:
        kind = click.style(f"{reason['kind'].replace('_', ' '):{width}}", fg=_COLOURS.get(reason["kind"]))
        yield f"{reason['at']}  {kind}  {reason['text']}"
