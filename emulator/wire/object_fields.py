"""Reading the fields of a JSON object one by one; a refusal names the field by its path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from emulator.core.errors import InvalidInput
from emulator.wire.fields import read_field
from emulator.wire.json_fields import (
    MAX_EXACT,
    Json,
    joined,
    kind_of,
    read_choice,
    read_integer,
    read_object,
    read_text,
)

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)

# Turns a value at a path into something typed. Raises: InvalidInput.
Read = Callable[[Json, str], T]


class Fields:
    """The fields of the object at `path`, which has none but the known ones. Raises: InvalidInput."""

    def __init__(self, value: Json, path: str, known: Sequence[str]) -> None:
        self.given = read_object(value, path, known)
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def at(self, key: str) -> str:
        """The path of a field."""
        return joined(self.path, key)

    def get(self, key: str, read: Read[T], default: D) -> T | D:
        """A field that may be missing."""
        return read(self.given[key], self.at(key)) if key in self.given else default

    def need(self, key: str, read: Read[T], missing: str = "is missing") -> T:
        """A field that must be there; `missing` is the reason of the refusal otherwise."""
        if key not in self.given:
            raise InvalidInput(self.at(key), missing)
        return read(self.given[key], self.at(key))


# -- what a field may hold --------------------------------------------------------------------


def integer(minimum: int, maximum: int = MAX_EXACT) -> Read[int]:
    """A whole number; both ends included."""
    return lambda value, path: read_integer(value, path, minimum, maximum)


def one_of(choices: type[E]) -> Read[E]:
    """A value of the enumeration."""
    return lambda value, path: choices(read_choice(value, path, tuple(choices)))


def parsed(parse: Callable[[str], str], kind: Callable[[str], T]) -> Read[T]:
    """A text that follows a grammar; `parse` raises Malformed for any other."""
    return lambda value, path: kind(read_field(path, read_text(value, path), parse))


def boolean(value: Json, path: str) -> bool:
    """`true` or `false`, and nothing that stands for one. Raises: InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(path, f"expected true or false, got {kind_of(value)}")
    return value


def encoded_text(value: Json, path: str) -> bytes:
    """A text, which may be empty, in UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(path, f"expected a text, got {kind_of(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(path, "holds half a surrogate pair, expected Unicode text") from None
