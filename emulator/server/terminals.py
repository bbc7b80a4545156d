"""Conventions of terminals, and what may be written to one (D-277)."""

from __future__ import annotations

import os
import re

# What our own styles are made of: bold, dim, colours, and back to normal. Nothing that hides or moves.
_STYLE = re.compile(r"(\x1b\[(?:[0-2]|3[0-79]|9[0-7])m)")


def wants_colours() -> bool:
    """False with the environment variable NO_COLOR, a convention between programs."""
    return not os.environ.get("NO_COLOR")


def printable(text: str) -> str:
    """A text as one line that can be written to a terminal or a log.

    Control characters, line breaks and marks of direction, which could forge lines or rule the
    terminal, are shown as escapes such as `\\x1b`.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_styled(line: str) -> str:
    """The same for a line of our own in which parts have a style."""
    if line.isprintable():
        return line
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(_STYLE.split(line)))
