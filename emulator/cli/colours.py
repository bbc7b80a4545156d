"""Where colours are shown: on a terminal, unless its user wants none."""

from __future__ import annotations

from collections.abc import Iterable

import click

from emulator.server.terminals import wants_colours


def print_lines(lines: Iterable[str]) -> None:
    """Print styled lines, without their style where that would be in the way."""
    color = None if wants_colours() else False
    for line in lines:
        click.echo(line, color=color)
