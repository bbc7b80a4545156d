"""A value under a name: what is wrong with the value is reported with the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed

V = TypeVar("V")
T = TypeVar("T")


def read_field(name: str, value: V, parse: Callable[[V], T]) -> T:
    """The parsed value. Raises: InvalidInput that names the field of a malformed one."""
    try:
        return parse(value)
    except Malformed as malformed:
        raise InvalidInput(name, malformed.reason) from None
