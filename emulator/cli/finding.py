"""What a person may write for an id: the id, the end of one, or a URL or label that only one thing has (D-342)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from emulator.cli.control import Control
from emulator.cli.failures import Failure
from emulator.cli.output import end_of

Row = Mapping[str, Any]

# An end of fewer characters is met by chance too often.
_LEAST = 4
# At most so many candidates are named.
_SHOWN = 10


class NothingFound(Failure):
    """Nothing is meant by what was written."""


message_argument = click.argument("message", metavar="ID")


def is_message_id(text: str) -> bool:
    """Whether this is written as the id of a message, from its beginning."""
    return text.startswith("msg_")


def find_message(control: Control, text: str) -> str:
    """The id of the message that is meant. Raises Failure for none, and for several with their names."""
    # History may have dropped one whose whole id is known: what it is needed for says so.
    return text if is_message_id(text) else str(message_row(control, text)["message_id"])


def message_row(control: Control, text: str) -> Row:
    """The entry of the message in the list of messages. Raises Failure."""

    dropped = ""

    def search(name: str, value: str) -> Sequence[Row]:
        nonlocal dropped
        answer = control.call("GET", "messages", query={name: value, "limit": str(_SHOWN + 1)})
        if "dropped" in answer:
            dropped = f"; history up to {answer['dropped']['until']} is not kept any more (--keep-history)"
        found: Sequence[Row] = answer["messages"]
        return found

    found = _searched(text, search)
    return _one("message", text, found, _message_candidate, hint=f"{dropped} (messages --text finds parts)")


def find_dead_letter(control: Control, text: str) -> Row:
    """The entry of the dead letter that is meant: by its id, its message's, the URL or a label. Raises Failure."""

    def search(name: str, value: str) -> Sequence[Row]:
        query = {name: value, "limit": str(_SHOWN + 1)}
        found: Sequence[Row] = control.call("GET", "dead-letters", query=query)["dead_letters"]
        whole = [each for each in found if value in (each["dead_letter_id"], each["message_id"])]
        return whole or found

    return _one("dead letter", text, _searched(text, search), _dead_letter_candidate)


def find_schedule(control: Control, text: str) -> Row:
    """The entry of the schedule that is meant: by its id, its destination or a label. Raises Failure."""
    schedules = control.call("GET", "schedules")["schedules"]
    # With its account in front of it, an id is like no other.
    found = [each for each in schedules if text in (each["schedule_id"], _schedule_name(each))]
    if not found and len(text) >= _LEAST:
        found = [each for each in schedules if _schedule_name(each).endswith(text)]
    if not found:
        found = [each for each in schedules if text == each["destination"] or text in each["labels"]]
    return _one("schedule", text, found, _schedule_candidate)


def find_rule(control: Control, text: str) -> Row:
    """The destination rule that is meant: by its id, or by the URL that it matches. Raises Failure."""
    rules = control.call("GET", "destinations")["destinations"]
    found = [each for each in rules if text == each["id"]]
    if not found:
        ends = len(text) >= _LEAST
        found = [each for each in rules if (ends and each["id"].endswith(text)) or text == each["match"]["url"]]
    return _one("destination rule", text, found, lambda rule: f"{rule['id']}  {rule['match']['url']}")


def _searched(text: str, search: Callable[[str, str], Sequence[Row]]) -> Sequence[Row]:
    """By the end of an id, else by a URL, else by a label: the first that finds anything."""
    names = ["url"] if "://" in text else ["label"]
    if len(text) >= _LEAST and "://" not in text:
        names = ["id", *names]
    for name in names:
        found = search(name, text)
        if found:
            return found
    return ()


def _one(noun: str, text: str, found: Sequence[Row], candidate: Callable[[Row], str], *, hint: str = "") -> Row:
    """The only one that was found. Raises NothingFound, and Failure for several."""
    if not found:
        short = f" (the end of an id needs {_LEAST} characters)" if len(text) < _LEAST else ""
        raise NothingFound(f"no {noun} has an id that ends in {text!r}, or that as its URL or label{short}{hint}")
    if len(found) > 1:
        more = ["and more"] if len(found) > _SHOWN else []
        several = f"more than {_SHOWN}" if more else str(len(found))
        raise Failure(f"{text!r} may be any of {several} {noun}s:", *map(candidate, found[:_SHOWN]), *more)
    return found[0]


def _message_candidate(row: Row) -> str:
    labels = "".join(f" [{label}]" for label in row["labels"])
    return f"{end_of(row['message_id'])} {row['created']} {row['state']} {row['url']}{labels}"


def _dead_letter_candidate(row: Row) -> str:
    return f"{row['dead_letter_id']} {row['failed']} {row['url']} (message {end_of(row['message_id'])})"


def _schedule_name(row: Row) -> str:
    return f"{row['account_id']}/{row['schedule_id']}"


def _schedule_candidate(row: Row) -> str:
    return f"{_schedule_name(row)} to {row['destination']} at {row['cron']}"
