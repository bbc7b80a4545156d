"""`svc-emulator publish`, `messages`, `show`, `explain`, `deliveries` and so on: messages, and what became of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import click

from emulator.cli import listings
from emulator.cli.control import Control, shown
from emulator.cli.destinations import read_headers
from emulator.cli.listings import NothingFound, asked, is_message_id, is_run, limit_option
from emulator.cli.output import (
    CommandFailed,
    Listing,
    Row,
    WrongUsage,
    counted,
    end_of,
    status_of,
    styled_state,
    styled_status,
)
from emulator.cli.runs import cancel_run, content_type_of, run_line, run_lines, run_shown
from emulator.server.logs import printable
from emulator.worlds.calls import MAX_LIMIT as MOST_REFUSED

# So much of a body is shown, in characters of text or in bytes.
_TEXT_SHOWN = 4_000
_BYTES_SHOWN = 256
_BYTES_A_LINE = 16

_argument = click.argument("message", metavar="ID")


def _last(row: Row) -> str:
    """The result of the last attempt, and what the message waits for."""
    last = row["last_status"] or row["last_error"]
    waits = row["waits"] or (f"next at {row['next']}" if row["next"] else "")
    return "; ".join(str(each) for each in (last, waits) if each)


_MESSAGES = Listing(
    "messages",
    "no messages",
    {
        "ID ENDS": lambda row: end_of(row["message_id"]),
        "CREATED": "created",
        "STATE": lambda row: styled_state(row["state"]),
        "TRIES": "{attempts}/{max_attempts}",
        "DESTINATION": "{method} {url}",
        "LAST": _last,
    },
    newest_first=True,
)


@click.command(epilog="Example: svc-emulator messages --state failed --to 'https://api.example.com/*'")
@listings.to_option("messages")
@click.option(
    "--state", metavar="STATE", help="live, ended, or some of pending, held, active, retrying, delivered, ..."
)
@listings.label_option
@click.option("--schedule", metavar="ID", help="Only messages of this schedule.")
@click.option("--queue", metavar="NAME", help="Only messages of this queue.")
@click.option(
    "--text",
    metavar="TEXT",
    help="Only messages with this in their id, URL or a label, or in the id or a label of their run, in any case.",
)
@click.option(
    "--run", metavar="ID", help="Only messages of this workflow run: its id, the end of it, a URL or a label."
)
@limit_option
@shown(_MESSAGES)
def messages(control: Control, /, *, run: str | None, limit: int, **wanted: Any) -> Any:
    """List messages, live and ended, the newest last.

    The end of an id, as the first column has it, is enough for every command that takes one.
    """
    run_id = None if run is None else listings.find_run(control, run)["id"]
    query = asked({**wanted, "run": run_id})
    return control.entries("messages", "messages", query, limit, named={"state": "--state"})


# -- one message --------------------------------------------------------------------------------


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    if "run" in found:
        yield from run_lines(found)
        return
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
    if delivery["took_ms"] is not None:
        took += f", took {delivery['took_ms']} ms of real time"
    result = styled_status(status_of(response), delivery["error"])
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
    for line in _text(text, is_whole=is_whole) if text is not None else _binary(encoded, is_whole=is_whole):
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
@_argument
@click.option("--originals", is_flag=True, help="Show what was sent where the service's logs hide it (Redact-Fields).")
@click.option("--full", is_flag=True, help="Show bodies to their end, however long they are.")
@shown(_shown)
def show(control: Control, *, message: str, full: bool, originals: bool) -> Any:
    """Show a message with its requests and responses, or a run.

    ID is its id, the end of it (four characters or more), or a URL or label that no other message has. Bodies
    that are not text are shown in hexadecimal. `explain` shows why it is in its state. Of a workflow run, by its
    id, its end, URL or label, it shows what `runs show` does.
    """
    row = listings.find_message_or_run(control, message)
    if is_run(row):
        return run_shown(control, row["id"], originals=originals)
    wanted = {"message_id": row["message_id"], "redact": str(not originals).lower()}
    attempts = control.entries("deliveries", "deliveries", wanted)
    return {"message": row, "deliveries": attempts["deliveries"]}


# -- what changes messages ------------------------------------------------------------------------


def _published(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["published"]:
        again = ": published before, nothing is sent (deduplicated)" if each["deduplicated"] else ""
        yield f"{each['message_id']} to {each['url']}{again}"
    if answer["summary"]:
        yield answer["summary"]


@click.command(epilog="Example: svc-emulator publish https://api.example.com/hook --body '{\"user\": 7}' --delay 1h")
@click.argument("destination")
@click.option("--body", default="", metavar="TEXT", help="The body, or @FILE for what a file has. Default: nothing.")
@click.option("--method", metavar="METHOD", help="The method of the delivery. Default: POST.")
@click.option("--delay", metavar="DURATION", help="Deliver it after this time, such as 1h30m.")
@click.option("--not-before", metavar="INSTANT", help="Deliver it at this time, such as 2026-01-02T09:00:00Z.")
@click.option("--retries", type=click.INT, help="Attempts after the first one that fails.")
@click.option(
    "--retry-delay", metavar="EXPRESSION", help="A duration, or an expression such as '1000 * (1 + retried)'."
)
@click.option("--timeout", metavar="DURATION", help="How long an attempt may take.")
@click.option("--label", multiple=True, metavar="LABEL", help="A label of it. Several are possible.")
@click.option("--queue", metavar="NAME", help="Enqueue it there.")
@click.option("--callback", metavar="URL", help="Where each answer is sent.")
@click.option("--failure-callback", metavar="URL", help="Where it is sent that the last attempt has failed.")
@click.option("--deduplication-id", metavar="ID", help="Send nothing if a message had it in the last 10 minutes.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header of the call, such as 'Svc-Forward-X-Tenant: a' or 'Content-Type: text/csv'. Several are possible.",
)
@shown(_published)
def publish(control: Control, /, *, destination: str, body: str, headers: tuple[str, ...], **options: Any) -> Any:
    # D-760.
    """Publish a message to a URL or a URL group.

    It is sent as the world's built-in account does. JSON is sent as such, other text as text/plain, unless --header
    says otherwise.
    """
    credentials = control.call("GET", "credentials")
    content = _body_to_send(body)
    given = _headers_to_send(options, headers, credentials["dialect"]["header_prefix"])
    if content and not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = content_type_of(content)
    queue = options["queue"]
    path = f"/v2/publish/{destination}" if queue is None else f"/v2/enqueue/{quote(queue, safe='')}/{destination}"
    made = control.of_service("POST", path, credentials["queue"]["account_id"], content=content, headers=given)
    published = [
        {
            "message_id": each["messageId"],
            "url": each.get("url", destination),
            "deduplicated": each.get("deduplicated", False),
        }
        for each in (made if isinstance(made, list) else [made])
    ]
    summary = None
    if len(published) == 1:
        summary = control.call("GET", f"messages/{quote(published[0]['message_id'])}/explain")["summary"]
    return {"published": published, "summary": summary}


def _body_to_send(body: str) -> bytes:
    """What is to be sent. Raises WrongUsage for a file that cannot be read."""
    if not body.startswith("@"):
        return body.encode()
    try:
        return Path(body[1:]).read_bytes()
    except OSError as error:
        raise WrongUsage(f"--body: {body[1:]}: {error.strerror}") from error


def _headers_to_send(options: Mapping[str, Any], given: tuple[str, ...], prefix: str) -> dict[str, str]:
    """The service's headers for options, beside those that were given. Raises WrongUsage that names the option."""
    from emulator.client.publishing import PublishOptions, option_headers, queue_of

    read = {name: ", ".join(values) for name, values in read_headers(given).items()}
    wanted = cast(PublishOptions, {name: value for name, value in options.items() if value not in (None, ())})
    try:
        queue_of(wanted)
        wanted.pop("queue", None)
        return option_headers(wanted, PublishOptions.__annotations__, prefix, read)
    except (TypeError, ValueError) as error:
        keyword, colon, text = str(error).partition(":")
        raise WrongUsage(f"--{keyword.replace('_', '-')}{colon}{text}") from error


def _cancelled(row: Row) -> Iterator[str]:
    yield run_line(row) if is_run(row) else f"{row['message_id']} to {row['url']}: {styled_state(row['state'])}"


@click.command(epilog="Example: svc-emulator cancel EPibtvEg")
@_argument
@shown(_cancelled)
def cancel(control: Control, *, message: str) -> Any:
    """Cancel a message or a workflow run that has not ended.

    ID is its id, the end of it (four characters or more), or a URL or label that no other has.
    """
    row = listings.find_message_or_run(control, message)
    if is_run(row):
        return cancel_run(control, row)
    if row["ended"] is not None:
        text = f"message {row['message_id']} has ended: {row['state']} at {row['ended']}"
        raise CommandFailed(text, next=f"svc-emulator explain {row['message_id']}")
    control.of_service("DELETE", f"/v2/messages/{quote(row['message_id'])}", row["account_id"])
    return listings.message_row(control, row["message_id"])


def _redelivered(found: Mapping[str, Any]) -> Iterator[str]:
    if found["delivery"] is None:
        yield f"redelivery {found['redelivery']} is under way: other attempts are in flight, `deliveries` has it later"
    else:
        yield f"redelivery {found['redelivery']} of {found['delivery']['message_id']}"
        yield from _attempt(found["delivery"], is_whole=False)


@click.command(epilog="Example: svc-emulator redeliver EPibtvEg")
@click.argument("delivery", metavar="ID")
@click.option("--originals", is_flag=True, help="Show what was sent where the service's logs hide it (Redact-Fields).")
@shown(_redelivered)
def redeliver(control: Control, *, delivery: str, originals: bool) -> Any:
    """Send an attempt again now, signed anew, and show the answer.

    ID is a message (its id, the end of it, a URL or a label), whose last attempt is sent, or the number of an attempt,
    the `seq` of `deliveries --json`. It is a delivery of its own: nothing of the message changes, and no retry,
    callback or dead letter follows.
    """
    if not re.fullmatch("[0-9]{1,15}", delivery):
        message_id = listings.find_message(control, delivery)
        query = {"message_id": message_id, "order": "latestFirst", "limit": "1", "brief": "true"}
        latest = control.call("GET", "deliveries", query=query)["deliveries"]
        if not latest:
            text = f"no attempt of {message_id} was made yet that could be sent again"
            raise CommandFailed(text, next=f"svc-emulator explain {message_id}")
        delivery = str(latest[0]["seq"])
    return control.call("POST", f"deliveries/{delivery}/redeliver", query={"redact": str(not originals).lower()})


_DELIVERIES = Listing(
    "deliveries",
    "no deliveries",
    {
        "STARTED": "at",
        "ID ENDS": lambda row: end_of(row["message_id"]),
        "TRY": "attempt",
        "DESTINATION": "{method} {url}",
        "RESULT": lambda row: styled_status(row["status"], row["error"]),
        "VIA": "via",
    },
    newest_first=True,
)


@click.command(epilog="Example: svc-emulator deliveries --failed --to 'https://api.example.com/*'")
@listings.to_option("attempts")
@click.option("--message", metavar="ID", help="Only attempts of this message: its id, the end of it, a URL or a label.")
@click.option("--failed", "outcome", flag_value="failed", help="Only attempts that failed.")
@click.option("--succeeded", "outcome", flag_value="succeeded", help="Only attempts that were answered with 2xx.")
@limit_option
@shown(_DELIVERIES)
def deliveries(control: Control, /, *, message: str | None, limit: int, **wanted: Any) -> Any:
    """List attempts to deliver, the newest last.

    `show ID` has the requests and responses whole.
    """
    message_id = None if message is None else listings.find_message(control, message)
    query = asked({**wanted, "message_id": message_id, "order": "latestFirst", "redact": "true"})
    if not click.get_current_context().params["as_json"]:
        # The table has no headers and bodies.
        query["brief"] = "true"
    return control.entries("deliveries", "deliveries", query, limit)


_REFUSED = Listing(
    "refused",
    "no refused calls",
    {
        "AT": "at",
        "STATUS": "status",
        "CALL": "{method} {path}",
        "WHY": lambda row: click.style(row["error"], fg="red"),
    },
)


@click.command(epilog="Example: svc-emulator refused --limit 5")
@limit_option
@shown(_REFUSED)
def refused(control: Control, *, limit: int) -> Any:
    """List the calls that were answered with 4xx, and why.

    Those of the messaging and management APIs, the newest last.
    """
    # More are not kept, and the call takes no larger limit.
    return control.call("GET", "refused", query={"limit": str(min(limit, MOST_REFUSED))})


_COLOURS = {"delivered": "green", "failed": "red", "canceled": "yellow", "held": "yellow", "backoff": "yellow"}
_COLOURS |= {"success": "green", "error": "red", "failure_function": "red", "waiting": "yellow"}
_COLOURS |= {"refused": "red", "would_be_refused": "red", "paused": "yellow", "real_time": "yellow"}


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
@shown(explanation_lines)
def explain(control: Control, *, id: str) -> Any:
    """Explain the state of a message, run or schedule.

    ID is its id, the end of it (four characters or more), or a URL or label that no other has; a run is meant
    before its own messages.

    Of a message: what made it, held it, answered it, delayed it and ended it. Of a schedule: the result of
    its last firing, when it fires next, and whether that would be refused as things are. Of a run: its steps
    with their instants, what it waits for and until when.
    """
    kind, found = _resolve(control, id)
    return control.call("GET", f"{kind}/{quote(found, safe='')}/explain")


def _resolve(control: Control, text: str) -> tuple[str, str]:
    """Whether a message, a schedule or a workflow run is meant, and its id. Raises CommandFailed."""
    if is_message_id(text):
        return "messages", text
    # The whole id of a schedule precedes messages that have it as their label.
    if text and any(each["schedule_id"] == text for each in control.call("GET", "schedules")["schedules"]):
        return "schedules", text
    try:
        row = listings.find_message_or_run(control, text)
        return ("runs", row["id"]) if is_run(row) else ("messages", row["message_id"])
    except NothingFound as nothing:
        try:
            return "schedules", str(listings.find_schedule(control, text)["schedule_id"])
        except NothingFound:
            raise NothingFound(
                nothing.message.replace("no message or run", "no message, run or schedule", 1)
            ) from nothing
