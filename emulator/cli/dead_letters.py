"""`svc-emulator dead-letters`: list, retry and delete messages that have failed for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.finding import Row, find_dead_letter
from emulator.cli.listings import ListingGroup, asked, chosen, every, label_option, limit_option, older, to_option
from emulator.cli.output import answered, counted, end_of, table


@click.group("dead-letters", cls=ListingGroup, epilog="Example: svc-emulator dead-letters retry EPibtvEg")
def dead_letters() -> None:
    """List, retry and delete messages that have failed for good. Alone it lists them."""


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (each["dead_letter_id"], each["failed"], end_of(each["message_id"]), each["url"], each["last_result"])
        for each in reversed(answer["dead_letters"])
    ]
    yield from table(("ID", "FAILED", "MESSAGE ENDS", "DESTINATION", "LAST"), rows, "no dead letters")
    yield from older(answer)


@dead_letters.command("list", epilog="Example: svc-emulator dead-letters list --label nightly")
@to_option("messages")
@label_option
@limit_option
@answered(_listed)
@on_world
def list_(control: Control, /, **wanted: Any) -> Any:
    """List the dead letters of all accounts, the newest last."""
    return control.call("GET", "dead-letters", query=asked(wanted))


_chosen = chosen("dead letters", all_help="All that there are now.")


def _retried(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["retried"]:
        yield f"dead letter {each['dead_letter_id']} is published again as {each['message_id']}"
    if not answer["retried"]:
        yield "no dead letters"


@dead_letters.command(epilog="Example: svc-emulator dead-letters retry --all")
@_chosen
@answered(_retried)
@on_world
def retry(control: Control, *, ids: tuple[str, ...]) -> Any:
    """Publish dead letters again, each as a new message.

    ID is that of the dead letter or of its message, the end of either, or a URL or label that no other has.
    """
    retried = []
    for letter in _meant(control, ids):
        path = f"/v2/dlq/retry/{quote(letter['dead_letter_id'])}"
        made = control.of_service("POST", path, letter["account_id"])
        retried.append({"dead_letter_id": letter["dead_letter_id"], "message_id": made["messageId"]})
    return {"retried": retried}


def _deleted(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"{counted(len(answer['deleted']), 'dead letter')} deleted"


@dead_letters.command(epilog="Example: svc-emulator dead-letters delete EPibtvEg")
@_chosen
@answered(_deleted)
@on_world
def delete(control: Control, *, ids: tuple[str, ...]) -> Any:
    """Delete dead letters; ID as for `retry`."""
    letters = _meant(control, ids)
    for letter in letters:
        control.of_service("DELETE", f"/v2/dlq/{quote(letter['dead_letter_id'])}", letter["account_id"])
    return {"deleted": [letter["dead_letter_id"] for letter in letters]}


def _meant(control: Control, ids: Sequence[str]) -> Sequence[Row]:
    """The dead letters that were named, all without ids, the oldest first. Raises Failure before anything is done."""
    if ids:
        found = {letter["dead_letter_id"]: letter for letter in (find_dead_letter(control, each) for each in ids)}
        return list(found.values())
    return every(control, "dead-letters", "dead_letters")[::-1]
