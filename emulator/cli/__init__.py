"""The command line: `svc-emulator`; it may import client and what lies below it.

A command's module is imported when the command is run or its help is asked for, because a server
has to be there at once and needs none of the others.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator
from typing import Any

import click

from emulator.cli.output import WrongUsage
from emulator.core.language.text import near
from emulator.version import VERSION

# Every command with the module that holds it, under the headings of the help.
SECTIONS = {
    "Start": {
        "serve": "emulator.cli.serve",
        "dev": "emulator.cli.serve",
        "demo": "emulator.cli.demo",
        "env": "emulator.cli.env",
        "health": "emulator.cli.health",
    },
    "Move time": {
        "clock": "emulator.cli.clock",
        "upcoming": "emulator.cli.upcoming",
        "when": "emulator.cli.upcoming",
    },
    "See what happened, and why": {
        "tail": "emulator.cli.tail",
        "messages": "emulator.cli.messages",
        "show": "emulator.cli.messages",
        "explain": "emulator.cli.messages",
        "deliveries": "emulator.cli.messages",
        "runs": "emulator.cli.runs",
        "dead-letters": "emulator.cli.resources",
        "schedules": "emulator.cli.resources",
        "queues": "emulator.cli.resources",
        "flow-control": "emulator.cli.resources",
        "groups": "emulator.cli.resources",
        "refused": "emulator.cli.messages",
    },
    "Change things": {
        "publish": "emulator.cli.messages",
        "cancel": "emulator.cli.messages",
        "notify": "emulator.cli.runs",
        "redeliver": "emulator.cli.messages",
        "destinations": "emulator.cli.destinations",
        "worlds": "emulator.cli.worlds",
        "reset": "emulator.cli.worlds",
        "snapshot": "emulator.cli.worlds",
    },
    "Coding agents": {
        "agent": "emulator.cli.agents",
        "mcp": "emulator.cli.agents",
    },
    "Check": {
        "check": "emulator.cli.check",
        "contract": "emulator.cli.contract",
        "fixtures": "emulator.cli.check",
        "db": "emulator.cli.check",
    },
}
_MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}
# Commands that no list shows: other spellings of those above.
_UNLISTED = {"qstash": "emulator.cli.serve"}

# What every command says of itself in a list of 80 columns.
_LONGEST_HELP = 62


class Program(click.Group):
    """A group that imports its commands when needed, and reports errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name) or _UNLISTED.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, each.get_short_help_str(_LONGEST_HELP)) for name, each in found if each is not None],
                    # The same column under every heading.
                    col_spacing=2 + max(map(len, _MODULES)) - max(map(len, names)),
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_command = args[0] in _MODULES or args[0] in _UNLISTED
        if not is_command and not args[0].startswith("-") and (close := near(args[0], _MODULES)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:  # as click declares it
        # Some encodings lack characters, above all in a pipe of Windows.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # as click declares it
        with _refusals_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with _refusals_in_one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _refusals_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        usage = "svc-emulator --help" if error.ctx is None else f"{error.ctx.command_path} --help"
        where = "" if error.ctx is None else f" (see {usage})"
        raise WrongUsage(f"{error.format_message().removesuffix('.')}{where}", next=usage) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: svc-emulator demo",
)
@click.version_option(VERSION, prog_name="svc-emulator", message="%(prog)s %(version)s")
def main() -> None:
    """A local emulator of an HTTP message-scheduling service, with a clock you control.

    Start with `svc-emulator demo`: it needs nothing and shows everything. Exit codes: 0 success,
    1 a failure while running, 2 wrong usage.
    """
