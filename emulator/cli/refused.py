"""`svc-emulator refused`: which calls a running server has refused, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from emulator.cli.control import Control, on_world
from emulator.cli.listings import limit_option
from emulator.cli.output import answered, table


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (each["at"], str(each["status"]), f"{each['method']} {each['path']}", click.style(each["error"], fg="red"))
        for each in answer["refused"]
    ]
    yield from table(("AT", "STATUS", "CALL", "WHY"), rows, "no refused calls")


@click.command(epilog="Example: svc-emulator refused --limit 5")
@limit_option
@answered(_listed)
@on_world
def refused(control: Control, *, limit: int) -> Any:
    """List the calls that were answered with 4xx, and why.

    Those of the messaging and management APIs, the newest last.
    """
    return control.call("GET", "refused", query={"limit": str(limit)})
