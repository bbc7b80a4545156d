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

from emulator.cli.failures import WrongUsage
from emulator.version import VERSION

# Every command with the module that holds it, in the order in which the help lists them.
_MODULES = {
    "serve": "emulator.cli.serve",
    "demo": "emulator.cli.demo.command",
    "env": "emulator.cli.env",
    "health": "emulator.cli.health",
    "clock": "emulator.cli.clock",
    "tail": "emulator.cli.tail",
    "upcoming": "emulator.cli.upcoming",
    "explain": "emulator.cli.explain",
    "when": "emulator.cli.when",
    "messages": "emulator.cli.messages",
    "show": "emulator.cli.messages",
    "cancel": "emulator.cli.messages",
    "deliveries": "emulator.cli.deliveries",
    "schedules": "emulator.cli.schedules",
    "queues": "emulator.cli.queues",
    "flow-control": "emulator.cli.queues",
    "groups": "emulator.cli.queues",
    "dead-letters": "emulator.cli.dead_letters",
    "destinations": "emulator.cli.destinations",
    "refused": "emulator.cli.refused",
    "worlds": "emulator.cli.worlds",
    "reset": "emulator.cli.worlds",
    "snapshot": "emulator.cli.snapshot",
    "db": "emulator.cli.db",
    "fixtures": "emulator.cli.fixtures",
    "contract": "emulator.cli.contract",
    "check": "emulator.cli.check",
}


class Program(click.Group):
    """A group that imports its commands when needed, and reports errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:  # as click declares it
        # Not every system's encoding has every character, above all in a pipe of Windows.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # as click declares it
        with _told_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with _told_in_one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        where = "" if error.ctx is None else f" (see {error.ctx.command_path} --help)"
        raise WrongUsage(f"{error.format_message().removesuffix('.')}{where}") from error
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
