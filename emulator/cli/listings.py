"""What commands that list one kind of thing have in common: filters, pages, and the choice of some or all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import click

from emulator.cli.control import Control
from emulator.cli.failures import WrongUsage

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
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The newest so many."
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


def every(control: Control, path: str, name: str, **wanted: str) -> list[Mapping[str, Any]]:
    """All entries that match, in the order of the control API, page after page."""
    found: list[Mapping[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = control.call("GET", path, query=asked({"limit": 1000, "cursor": cursor, **wanted}))
        found += page[name]
        cursor = page["cursor"]
    return found


def firing_line(firing: Mapping[str, Any], time_zone: str) -> str:
    """When a schedule fires: in UTC, and in its own time zone where that is another."""
    local = "" if time_zone == "UTC" else f"  {click.style(firing['local'], fg='cyan')}"
    return f"{firing['at']}{local}"


def older(answer: Mapping[str, Any]) -> Iterator[str]:
    """The line below a page of the newest entries that others came before."""
    if answer["cursor"]:
        yield click.style("there are older ones: --limit lists more", dim=True)
