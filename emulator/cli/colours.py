"""Where colours are shown: on a terminal, unless its user wants none."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click


def print_lines(lines: Iterable[str]) -> None:
    """Print styled lines, without their style where that would be in the way."""
    # NO_COLOR is a convention between all programs of a terminal, not a setting of ours.
    color = False if os.environ.get("NO_COLOR") else None
    for line in lines:
        click.echo(line, color=color)
