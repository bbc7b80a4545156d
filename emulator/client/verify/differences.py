"""The differences between an expected and an actual value, as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import fullmatch
from typing import Any

from emulator.core.language.text import near

# How much of a value is shown, and where a difference in a long text is shown from.
_SHOWN = 60
_BEFORE = 15


@dataclass(frozen=True, slots=True)
class Partial:
    """A JSON value of which only a part is expected; see `partial`."""

    value: Any


def partial(value: Mapping[str, Any] | Sequence[Any]) -> Any:
    """Of JSON objects only the keys that are given are expected, at any depth: for `verify(body_json=partial(...))`.

        emulator.verify(url, body_json=partial({"user": {"id": 7}}))

    A list has to have all of its items, each of which may be a part. Raises TypeError for what is no object or list.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Mapping | Sequence):
        raise TypeError(f"partial: expected a mapping or a list, got {value!r}")
    return Partial(value)


def _part_of(value: Any) -> Any:
    return Partial(value) if isinstance(value, Mapping | list | tuple) else value


def json_differences(expected: Any, got: Any, path: str = "$") -> Iterator[str]:
    """What differs between two JSON values, by path: `$.user.id: expected 7, got 8`. Nothing if they are equal.

    1 equals 1.0 and nothing else; a tuple is a list; what is no JSON type is asked whether it equals.
    """
    if isinstance(expected, Partial):
        if isinstance(expected.value, Mapping) and isinstance(got, dict):
            wanted = {key: _part_of(value) for key, value in expected.value.items()}
            yield from _objects(wanted, got, path, is_partial=True)
            return
        expected = expected.value if isinstance(expected.value, Mapping) else [*map(_part_of, expected.value)]
    if isinstance(expected, Mapping):
        if isinstance(got, dict):
            yield from _objects(expected, got, path)
            return
    elif isinstance(expected, list | tuple):
        if isinstance(got, list):
            yield from _lists(expected, got, path)
            return
    elif isinstance(expected, str) and isinstance(got, str):
        if expected != got:
            yield f"{path}: {text_difference(expected, got)}"
        return
    elif (
        isinstance(expected, bool) is isinstance(got, bool) or not isinstance(expected, int | float | None)
    ) and expected == got:
        return
    yield f"{path}: expected {shown(expected)}, got {shown(got)}"


def _objects(expected: Mapping[Any, Any], got: dict[str, Any], path: str, *, is_partial: bool = False) -> Iterator[str]:
    unexpected = [key for key in got if key not in expected]
    for key, value in expected.items():
        if key in got:
            yield from json_differences(value, got[key], _joined(path, key))
        else:
            hint = "".join(f"; there is {json.dumps(each)}" for each in near(str(key), unexpected))
            yield f"{_joined(path, key)}: missing, expected {shown(value)}{hint}"
    for key in () if is_partial else unexpected:
        yield f"{_joined(path, key)}: unexpected, got {shown(got[key])}"


def _lists(expected: Sequence[Any], got: list[Any], path: str) -> Iterator[str]:
    if len(expected) != len(got):
        yield f"{path}: expected a list of {len(expected)}, got one of {len(got)}"
    for index in range(max(len(expected), len(got))):
        where = f"{path}[{index}]"
        if index >= len(got):
            yield f"{where}: missing, expected {shown(expected[index])}"
        elif index >= len(expected):
            yield f"{where}: unexpected, got {shown(got[index])}"
        else:
            yield from json_differences(expected[index], got[index], where)


def bytes_difference(expected: bytes, got: bytes) -> str:
    """What differs between two bodies, as text if both are."""
    try:
        return text_difference(expected.decode(), got.decode())
    except UnicodeDecodeError:
        at = first_difference(expected, got)
        return (
            f"expected {len(expected)} bytes, got {len(got)}, which differ from byte {at} on: "
            f"expected {expected[at : at + 10]!r}, got {got[at : at + 10]!r}"
        )


def text_difference(expected: str, got: str) -> str:
    """Both texts; of long ones, the part where the difference begins."""
    at = first_difference(expected, got)
    if max(len(expected), len(got)) <= _SHOWN:
        return f"expected {shown(expected)}, got {shown(got)}"
    sizes = "" if len(expected) == len(got) else f" ({len(expected)} and {len(got)} characters long)"
    return f"expected {_excerpt(expected, at)}, got {_excerpt(got, at)}: they differ from character {at} on{sizes}"


def first_difference(expected: Sequence[object], got: Sequence[object]) -> int:
    """The index of the first difference; the length of the shorter one if it begins the other."""
    places = enumerate(zip(expected, got, strict=False))
    return next((place for place, (left, right) in places if left != right), min(len(expected), len(got)))


def shown(value: Any) -> str:
    """A value as JSON in one line, or as Python shows it if it is no JSON; long ones are cut."""
    value = value.value if isinstance(value, Partial) else value
    try:
        text = _json(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _excerpt(text: str, at: int) -> str:
    begin = max(0, at - _BEFORE)
    part = text[begin : at + _SHOWN - _BEFORE]
    left = "..." if begin else ""
    right = "..." if at + _SHOWN - _BEFORE < len(text) else ""
    return f"{left}{_json(part)}{right}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Escape what a terminal cannot show, such as half a surrogate pair.
    return text if text.isprintable() else json.dumps(value)


def _joined(path: str, key: object) -> str:
    return f"{path}.{key}" if fullmatch(r"\w+", str(key)) else f"{path}[{json.dumps(str(key))}]"
