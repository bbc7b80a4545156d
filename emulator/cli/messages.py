"""`svc-emulator messages`, `show` and `cancel`: what became of messages, and what was sent and answered."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.failures import Failure
from emulator.cli.finding import message_argument, message_row
from emulator.cli.listings import asked, every, label_option, limit_option, older, to_option
from emulator.cli.output import answered, counted, end_of, styled_state, styled_status, table
from emulator.server.terminals import printable

Row = Mapping[str, Any]

# So much of a body is shown, in characters of text or in bytes.
_TEXT_SHOWN = 4_000
_BYTES_SHOWN = 256
_BYTES_A_LINE = 16


# -- the list -----------------------------------------------------------------------------------


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            end_of(row["message_id"]),
            row["created"],
            styled_state(row["state"]),
            f"{row['attempts']}/{row['max_attempts']}",
            f"{row['method']} {row['url']}",
            _what(row),
        )
        for row in reversed(answer["messages"])
    ]
    yield from table(("ID ENDS", "CREATED", "STATE", "TRIES", "DESTINATION", "LAST"), rows, "no messages")
    yield from older(answer)


def _what(row: Row) -> str:
    """What came of the last attempt, and what the message waits for."""
    last = row["last_status"] or row["last_error"]
    waits = row["waits"] or (f"next at {row['next']}" if row["next"] else "")
    return "; ".join(str(each) for each in (last, waits) if each)


@click.command(epilog="Example: svc-emulator messages --state failed --to 'https://api.example.com/*'")
@to_option("messages")
@click.option(
    "--state", metavar="STATE", help="live, ended, or some of pending, held, active, retrying, delivered, ..."
)
@label_option
@click.option("--schedule", metavar="ID", help="Only messages of this schedule.")
@click.option("--queue", metavar="NAME", help="Only messages of this queue.")
@click.option("--text", metavar="TEXT", help="Only messages with this in their id, URL or a label, in any case.")
@limit_option
@answered(_listed)
@on_world
def messages(control: Control, /, **wanted: Any) -> Any:
    """List messages, live and ended, the newest last.

    The end of an id, as the first column has it, is enough for every command that takes one.
    """
    return control.call("GET", "messages", query=asked(wanted), named={"state": "--state"})


# -- one message --------------------------------------------------------------------------------


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    is_whole = click.get_current_context().params["full"]
    yield from _about(found["message"])
    for delivery in found["deliveries"]:
        yield ""
        yield from _attempt(delivery, is_whole=is_whole)


def _about(row: Row) -> Iterator[str]:
    yield f"{row['message_id']}"
    yield f"{row['method']} {row['url']}"
    ended = f" at {row['ended']}" if row["ended"] else ""
    yield f"{styled_state(row['state'])}{ended}, {row['attempts']} of {counted(row['max_attempts'], 'attempt')}"
    if row["waits"] or row["next"]:
        yield f"waits: {row['waits'] or row['next']}"
    names = {
        "created": f"{row['created']} ({row['created_by'].replace('_', ' ')})",
        "labels": ", ".join(row["labels"]),
        "queue": row["queue"],
        "schedule": row["schedule_id"],
        "URL group": row["url_group"],
        "flow control key": row["flow_control_key"],
        "callback of": row["source_message_id"],
        "dead letter": row["dead_letter_id"],
    }
    for name, value in names.items():
        if value:
            yield f"{name}: {value}"


def _attempt(delivery: Row, *, is_whole: bool) -> Iterator[str]:
    response = delivery["response"]
    took = f" after {delivery['duration_ms']} ms" if delivery["duration_ms"] else ""
    result = styled_status(response, delivery["error"])
    yield click.style(f"attempt {delivery['attempt']} at {delivery['at']} ({delivery['via']})", bold=True)
    yield f"> {delivery['method']} {delivery['url']}"
    yield from _content("> ", delivery, is_whole=is_whole)
    yield f"< {result}{took}"
    if response is not None:
        yield from _content("< ", response, is_whole=is_whole)


def _content(mark: str, content: Row, *, is_whole: bool) -> Iterator[str]:
    for name, values in content["headers"].items():
        for value in values:
            yield f"{mark}{name}: {printable(value)}"
    yield mark.rstrip()
    text, encoded = content["body"], content["body_base64"]
    for line in _text(text, is_whole=is_whole) if encoded is None else _binary(encoded, is_whole=is_whole):
        # What was sent and received has no style, even where it looks like one of ours.
        yield f"{mark}{printable(line)}"


def _text(body: str, *, is_whole: bool) -> Iterator[str]:
    shown = body if is_whole else body[:_TEXT_SHOWN]
    yield from shown.split("\n") if shown else ()
    if len(shown) < len(body):
        yield f"... {len(body)} characters in all: --full shows them"


def _binary(encoded: str, *, is_whole: bool) -> Iterator[str]:
    body = base64.b64decode(encoded)
    shown = body if is_whole else body[:_BYTES_SHOWN]
    for start in range(0, len(shown), _BYTES_A_LINE):
        piece = shown[start : start + _BYTES_A_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{start:08x}  {piece.hex(' '):{3 * _BYTES_A_LINE - 1}}  {text}"
    if len(shown) < len(body):
        yield f"... {len(body)} bytes in all: --full shows them"


@click.command(epilog="Example: svc-emulator show EPibtvEg")
@message_argument
@click.option("--full", is_flag=True, help="Show bodies to their end, however long they are.")
@answered(_shown)
@on_world
def show(control: Control, *, message: str, full: bool) -> Any:
    """Show a message with all its requests and responses.

    ID is its id, the end of it (four characters or more), or a URL or label that no other message has. Bodies
    that are not text are shown in hexadecimal. `explain` tells why it is where it is.
    """
    row = message_row(control, message)
    return {"message": row, "deliveries": every(control, "deliveries", "deliveries", message_id=row["message_id"])}


def _cancelled(row: Row) -> Iterator[str]:
    yield f"{row['message_id']} to {row['url']}: {styled_state(row['state'])}"


@click.command(epilog="Example: svc-emulator cancel EPibtvEg")
@message_argument
@answered(_cancelled)
@on_world
def cancel(control: Control, *, message: str) -> Any:
    """Cancel a message that has not ended, as its account would.

    ID is its id, the end of it (four characters or more), or a URL or label that no other message has.
    """
    row = message_row(control, message)
    if row["ended"] is not None:
        raise Failure(f"message {row['message_id']} has ended: {row['state']} at {row['ended']}")
    control.of_service("DELETE", f"/v2/messages/{quote(row['message_id'])}", row["account_id"])
    return message_row(control, row["message_id"])
