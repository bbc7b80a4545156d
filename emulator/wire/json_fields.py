"""Reading JSON documents strictly: each value by its path, and a refusal that names that path.

A path is written like `respond.status`, `sequence[1].latency`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from emulator.core.errors import InvalidInput
from emulator.core.rules.clock import check_clock_instant
from emulator.wire.durations import parse_control_duration_ms
from emulator.wire.fields import read_field
from emulator.wire.instants import read_instant_ms

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]

# The field that a refusal names when the document as a whole is wrong.
WHOLE = "body"
# The largest integer every JSON reader keeps exact.
MAX_EXACT = 2**53 - 1


def joined(path: str, key: str) -> str:
    """The path of a key of the object at `path`; the document itself is at the empty path."""
    return f"{path}.{key}" if path else key


def read_object(value: Json, path: str, known: Sequence[str]) -> JsonObject:
    """An object that holds no other keys than the known ones. Raises: InvalidInput."""
    if not isinstance(value, Mapping):
        raise InvalidInput(path or WHOLE, f"expected an object, got {kind_of(value)}")
    for key in value:
        if key not in known:
            raise InvalidInput(joined(path, key), f"unknown, expected one of {', '.join(known)}")
    return value


def read_list(value: Json, path: str) -> Sequence[Json]:
    """A list of anything. Raises: InvalidInput."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(path or WHOLE, f"expected a list, got {kind_of(value)}")
    return value


def read_text(value: Json, path: str) -> str:
    """A text that is not empty. Raises: InvalidInput."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(path, f"expected a text, got {kind_of(value)}")
    return value


def read_integer(value: Json, path: str, minimum: int, maximum: int = MAX_EXACT) -> int:
    """A whole number in a range; `true` and `1.0` are none. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(path, f"expected an integer, got {kind_of(value)}")
    if not minimum <= value <= maximum:
        raise InvalidInput(path, f"expected an integer from {minimum} to {maximum}")
    return value


def read_number(value: Json, path: str) -> float:
    """A finite number. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(path, f"expected a number, got {kind_of(value)}")
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        raise InvalidInput(path, f"expected a number of at most {MAX_EXACT}")
    if not math.isfinite(value):
        raise InvalidInput(path, "expected a finite number")
    return float(value)


def read_choice(value: Json, path: str, choices: Sequence[str]) -> str:
    """One of a few texts. Raises: InvalidInput."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(path, f"expected one of {', '.join(choices)}")
    return value


def read_duration_ms(value: Json, path: str) -> int:
    """A duration of the control API: `1d2h30m` or milliseconds. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        given = repr(value) if isinstance(value, float) else kind_of(value)
        raise InvalidInput(path, f"expected a duration such as 1h30m, or whole milliseconds, got {given}")
    return read_field(path, value, parse_control_duration_ms)


def read_instant(value: Json, path: str) -> int:
    """An instant of the control API: ISO 8601 or milliseconds. Raises: InvalidInput."""
    if not isinstance(value, str | int):
        raise InvalidInput(path, f"expected an ISO 8601 time or whole milliseconds, got {kind_of(value)}")
    return read_field(path, value, read_instant_ms)


def read_clock_instant(value: Json, path: str) -> int:
    """As `read_instant`, of those that a virtual clock can show. Raises: InvalidInput."""
    return read_field(path, read_instant(value, path), check_clock_instant)


def kind_of(value: Json) -> str:
    """The type of a value, as an error names it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text" if value else "an empty text"
    return "an object" if isinstance(value, Mapping) else "a list"
