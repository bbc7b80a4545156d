"""`svc-emulator dead-letters`: list, retry and delete messages that have failed for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_world
from emulator.cli.failures import WrongUsage
from emulator.cli.finding import Row, find_dead_letter
from emulator.cli.groups import ListingGroup
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
    if answer["cursor"]:
        yield click.style("there are older ones: --limit lists more", dim=True)


@dead_letters.command("list", epilog="Example: svc-emulator dead-letters list --label nightly")
@click.option("--to", "destination", metavar="GLOB", help="Only messages to such URLs; * stands for any characters.")
@click.option("--label", metavar="LABEL", help="Only messages that have this label.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The newest so many.")
@answered(_listed)
@on_world
def list_(control: Control, /, *, destination: str | None, **wanted: Any) -> Any:
    """List the dead letters of all accounts, the newest last."""
    wanted["url"] = destination
    return control.call("GET", "dead-letters", query={name: str(value) for name, value in wanted.items() if value})


def _retried(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer["retried"]:
        yield f"dead letter {each['dead_letter_id']} is published again as {each['message_id']}"
    if not answer["retried"]:
        yield "no dead letters"


@dead_letters.command(epilog="Example: svc-emulator dead-letters retry --all")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="All that there are now.")
@answered(_retried)
@on_world
def retry(control: Control, *, ids: tuple[str, ...], all_: bool) -> Any:
    """Publish dead letters again, each as a new message.

    ID is that of the dead letter or of its message, the end of either, or a URL or label that no other has.
    """
    retried = []
    for letter in _meant(control, ids, is_all=all_):
        path = f"/v2/dlq/retry/{quote(letter['dead_letter_id'])}"
        made = control.of_service("POST", path, letter["account_id"])
        retried.append({"dead_letter_id": letter["dead_letter_id"], "message_id": made["messageId"]})
    return {"retried": retried}


def _deleted(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"{counted(len(answer['deleted']), 'dead letter')} deleted"


@dead_letters.command(epilog="Example: svc-emulator dead-letters delete EPibtvEg")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="All that there are now.")
@answered(_deleted)
@on_world
def delete(control: Control, *, ids: tuple[str, ...], all_: bool) -> Any:
    """Delete dead letters; ID as for `retry`."""
    letters = _meant(control, ids, is_all=all_)
    for letter in letters:
        control.of_service("DELETE", f"/v2/dlq/{quote(letter['dead_letter_id'])}", letter["account_id"])
    return {"deleted": [letter["dead_letter_id"] for letter in letters]}


def _meant(control: Control, ids: Sequence[str], *, is_all: bool) -> Sequence[Row]:
    """The dead letters that were named, the oldest first. Raises WrongUsage, and Failure before anything is done."""
    if is_all == bool(ids):
        raise WrongUsage("expected ids of dead letters, or --all")
    if ids:
        found = {letter["dead_letter_id"]: letter for letter in (find_dead_letter(control, each) for each in ids)}
        return list(found.values())
    letters: list[Row] = []
    cursor: str | None = ""
    while cursor is not None:
        page = control.call("GET", "dead-letters", query={"limit": "1000", "cursor": cursor})
        letters += page["dead_letters"]
        cursor = page["cursor"]
    return letters[::-1]
