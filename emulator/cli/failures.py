"""How a command fails: one line on standard error, and an exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import IO, Any

import click

from emulator.server.terminals import printable

_LONGEST = 1000


class Failure(click.ClickException):
    """A command cannot go on."""

    exit_code = 1

    def __init__(self, message: str, *more: str) -> None:
        """Each is one line."""
        self.lines = tuple(" ".join(line.split()) for line in (message, *more))
        super().__init__(self.lines[0])

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            click.echo(f"svc-emulator: {printable(_shortened(line))}", file=file or sys.stderr)


def _shortened(line: str) -> str:
    """A line that can be read: what was given, and is quoted in it, may be as long as an argument can be."""
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST // 2]}[...]{line[-_LONGEST // 2 :]}"


def failure_of_fixtures(problems: Sequence[str], file: str) -> Failure:
    """All that is wrong in a fixtures file; of several problems, the last line says how to look again."""
    hint = [f"{len(problems)} problems (look again with svc-emulator fixtures check {shlex.quote(file)})"]
    return Failure(*problems, *(hint if len(problems) > 1 else ()))


class WrongUsage(Failure):
    """A command was called in a way that can never work."""

    exit_code = 2
