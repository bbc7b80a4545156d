"""`svc-emulator deliveries`: the attempts of a running server, with what came of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from emulator.cli.control import Control, on_world
from emulator.cli.finding import find_message
from emulator.cli.listings import asked, limit_option, older, to_option
from emulator.cli.output import answered, end_of, styled_status, table


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            each["at"],
            end_of(each["message_id"]),
            str(each["attempt"]),
            f"{each['method']} {each['url']}",
            styled_status(each["response"], each["error"]),
            each["via"],
        )
        for each in reversed(answer["deliveries"])
    ]
    yield from table(("STARTED", "ID ENDS", "TRY", "DESTINATION", "RESULT", "VIA"), rows, "no deliveries")
    yield from older(answer)


@click.command(epilog="Example: svc-emulator deliveries --failed --to 'https://api.example.com/*'")
@to_option("attempts")
@click.option("--message", metavar="ID", help="Only attempts of this message: its id, the end of it, a URL or a label.")
@click.option("--failed", "outcome", flag_value="failed", help="Only attempts that failed.")
@click.option("--succeeded", "outcome", flag_value="succeeded", help="Only attempts that were answered with 2xx.")
@limit_option
@answered(_listed)
@on_world
def deliveries(control: Control, /, *, message: str | None, **wanted: Any) -> Any:
    """List attempts to deliver, the newest last.

    `show ID` has the requests and responses whole.
    """
    message_id = None if message is None else find_message(control, message)
    return control.call("GET", "deliveries", query=asked({**wanted, "message_id": message_id, "order": "latestFirst"}))
