"""What commands about lists have in common: filters, pages, the choice of some or all, and what is written for an id.

That is the id, the end of it, or a URL or label that only one thing has (D-342).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ParamSpec, TypeVar
from urllib.parse import quote

import click

from emulator.cli.control import Control
from emulator.cli.output import CommandFailed, Row, WrongUsage, end_of

P = ParamSpec("P")
R = TypeVar("R")


class ListingGroup(click.Group):
    """A group whose command `list` is meant where none is named: `schedules` alone is `schedules list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Completion wants the names of all commands.
        if not ctx.resilient_parsing and (
            not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        ):
            args = ["list", *args]
        return super().parse_args(ctx, args)


limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="The newest so many."
)
label_option = click.option("--label", metavar="LABEL", help="Only messages that have this label.")


def to_option(what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The option `--to`, the parameter `destination`, for what goes to URLs like a glob."""
    return click.option(
        "--to", "destination", metavar="GLOB", help=f"Only {what} to such URLs; * stands for any characters."
    )


def chosen(what: str, *, all_help: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Gives a command the argument `ids` and the option `--all`, for which `ids` is empty. Raises WrongUsage for
    neither and for both.
    """

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @click.argument("ids", metavar="[ID]...", nargs=-1)
        @click.option("--all", "is_all", is_flag=True, help=all_help)
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs.pop("is_all") == bool(kwargs["ids"]):
                raise WrongUsage(f"expected ids of {what}, or --all")
            return command(*args, **kwargs)

        return run

    return decorate


def asked(wanted: Mapping[str, object]) -> dict[str, str]:
    """The query for what a command's options want, without those that were not given."""
    # Every command has a `--url`, that of the server.
    return {"url" if name == "destination" else name: str(value) for name, value in wanted.items() if value}


def firing_line(firing: Row, time_zone: str) -> str:
    """When a schedule fires: in UTC, and in its own time zone where that is another."""
    local = "" if time_zone == "UTC" else f"  {click.style(firing['local'], fg='cyan')}"
    return f"{firing['at']}{local}"


# An end of fewer characters is met by chance too often.
_LEAST = 4
# At most so many candidates are named.
_SHOWN = 10


class NothingFound(CommandFailed):
    """Nothing is meant by what was written."""


# The command that lists all that may be meant.
_LISTS = {
    "message": "svc-emulator messages",
    "run": "svc-emulator runs list",
    "message or run": "svc-emulator messages, or svc-emulator runs list",
    "dead letter": "svc-emulator dead-letters list",
    "schedule": "svc-emulator schedules list",
    "destination rule": "svc-emulator destinations list",
}


def is_message_id(text: str) -> bool:
    """Whether this is written as the id of a message, from its beginning."""
    return text.startswith("msg_")


def find_message(control: Control, text: str) -> str:
    """The id of the message that is meant. Raises CommandFailed for none, and for several with their names."""
    # History may have dropped one whose whole id is known: what it is needed for says so.
    return text if is_message_id(text) else str(message_row(control, text)["message_id"])


def message_row(control: Control, text: str) -> Row:
    """The entry of the message in the list of messages. Raises CommandFailed."""

    dropped = ""

    def search(name: str, value: str) -> Sequence[Row]:
        nonlocal dropped
        answer = control.call("GET", "messages", query={name: value, "limit": str(_SHOWN + 1)})
        if "dropped" in answer:
            dropped = f"; history up to {answer['dropped']['until']} is not kept any more (--keep-history)"
        found: Sequence[Row] = answer["messages"]
        return found

    found = _searched(text, search)
    return _one("message", text, found, _candidate, hint=f"{dropped} (messages --text finds parts)")


def find_run(control: Control, text: str) -> Row:
    """The entry of the workflow run that is meant, in the list of runs. Raises CommandFailed."""
    found = _run_of(control, text) or _searched(text, partial(_runs, control))
    return _one("run", text, found, _candidate)


def find_message_or_run(control: Control, text: str) -> Row:
    """The entry of the message or of the workflow run that is meant: a run has `number`. Raises CommandFailed.

    A run is meant before the messages that belong to it, which have its labels.
    """
    if is_message_id(text):
        return message_row(control, text)

    def search(name: str, value: str) -> Sequence[Row]:
        runs = _runs(control, name, value)
        ids = {run["id"] for run in runs}
        limit = 1000 if runs else _SHOWN + 1
        messages = control.call("GET", "messages", query={name: value, "limit": str(limit)})["messages"]
        return [*runs, *(each for each in messages if each.get("workflow_run_id") not in ids)]

    found = _run_of(control, text) or _searched(text, search)
    if found:
        are_runs = {is_run(row) for row in found}
        noun = "message or run" if len(are_runs) == 2 else "run" if True in are_runs else "message"
        return _one(noun, text, found, _candidate)
    try:
        return message_row(control, text)
    except NothingFound as nothing:
        text = nothing.message.replace("no message", "no message or run", 1)
        raise NothingFound(text, next=_LISTS["message or run"]) from nothing


def is_run(row: Row) -> bool:
    """Whether an entry is that of a workflow run, not of a message."""
    return "number" in row


def _runs(control: Control, name: str, value: str) -> Sequence[Row]:
    found: Sequence[Row] = control.call("GET", "runs", query={name: value, "limit": str(_SHOWN + 1)})["runs"]
    return found


# What a run has beyond its entry in a list.
_OF_ONE_RUN = ("summary", "steps", "trials", "waiting", "failure", "failure_function")


def _run_of(control: Control, run_id: str) -> Sequence[Row]:
    """The latest run with this id, however short that is: clients give runs ids of their own."""
    with contextlib.suppress(CommandFailed):
        run = control.call("GET", f"runs/{quote(run_id, safe='')}") if run_id else {}
        return [{name: value for name, value in run.items() if name not in _OF_ONE_RUN}] if "number" in run else []
    return []


def find_dead_letter(control: Control, text: str) -> Row:
    """The entry of the dead letter of an id, a message's or a run's id, a URL or a label. Raises CommandFailed."""

    def search(name: str, value: str) -> Sequence[Row]:
        query = {name: value, "limit": str(_SHOWN + 1)}
        found: Sequence[Row] = control.call("GET", "dead-letters", query=query)["dead_letters"]
        ids = ("dead_letter_id", "message_id", "workflow_run_id")
        whole = [each for each in found if value in (each.get(name) for name in ids)]
        return whole or found

    def candidate(row: Row) -> str:
        of = f"run {row['workflow_run_id']}" if row["kind"] == "run" else f"message {end_of(row['message_id'])}"
        return f"{row['dead_letter_id']} {row['failed']} {row['url']} ({of})"

    return _one("dead letter", text, _searched(text, search), candidate)


def find_schedule(control: Control, text: str) -> Row:
    """The entry of the schedule that is meant: by its id, its destination or a label. Raises CommandFailed."""
    schedules = control.call("GET", "schedules")["schedules"]
    # With its account in front of it, an id is like no other.
    found = [each for each in schedules if text in (each["schedule_id"], _schedule_name(each))]
    if not found and len(text) >= _LEAST:
        found = [each for each in schedules if _schedule_name(each).endswith(text)]
    if not found:
        found = [each for each in schedules if text == each["destination"] or text in each["labels"]]
    return _one("schedule", text, found, lambda row: f"{_schedule_name(row)} to {row['destination']} at {row['cron']}")


def find_rule(control: Control, text: str) -> Row:
    """The destination rule that is meant: by its id, or by the URL that it matches. Raises CommandFailed."""
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
    """The only one that was found. Raises NothingFound, and CommandFailed for several."""
    if not found:
        short = f" (the end of an id needs {_LEAST} characters)" if len(text) < _LEAST else ""
        text = f"no {noun} has an id that ends in {text!r}, or that as its URL or label{short}{hint}"
        raise NothingFound(text, next=_LISTS[noun])
    if len(found) > 1:
        more = ["and more"] if len(found) > _SHOWN else []
        several = f"more than {_SHOWN}" if more else str(len(found))
        raise CommandFailed(
            f"{text!r} may be any of {several} {noun.replace(' or ', 's and ')}s:",
            *map(candidate, found[:_SHOWN]),
            *more,
            next="again with the id of one of them",
        )
    return found[0]


def _candidate(row: Row) -> str:
    """A message or a run that may be meant."""
    labels = "".join(f" [{label}]" for label in row["labels"])
    name = row["id"] if is_run(row) else end_of(row["message_id"])
    return f"{name} {row['created']} {row['state']} {row['url']}{labels}"


def _schedule_name(row: Row) -> str:
    return f"{row['account_id']}/{row['schedule_id']}"
