"""How a command fails: one line on standard error, and an exit code."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from emulator.server.terminals import printable


class Failure(click.ClickException):
    """A command cannot go on."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"svc-emulator: {printable(self.message)}", file=file or sys.stderr)


class WrongUsage(Failure):
    """A command was called in a way that can never work."""

    exit_code = 2
