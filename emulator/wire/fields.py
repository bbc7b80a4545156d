"""Parsing a named value: a refusal names the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.excerpts import excerpt

V = TypeVar("V")
T = TypeVar("T")


def read_field(name: str, value: V, parse: Callable[[V], T]) -> T:
    """The parsed value. Raises: InvalidInput that names the field of a malformed one."""
    try:
        return parse(value)
    except Malformed as malformed:
        raise InvalidInput(name, malformed.reason) from None


def parse_number(text: str, what: str, least: int, most: int, *, digits: int) -> int:
    """A number in plain digits, at most so many of them. Raises: Malformed, which says what was expected."""
    if not (text.isascii() and text.isdigit()) or len(text) > digits or not least <= int(text) <= most:
        raise Malformed(f"expected {what} from {least} to {most}, got {excerpt(text)}")
    return int(text)
