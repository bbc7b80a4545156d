"""Query parameters of the flow control endpoints: search, pin and unpin.

Source: interface document, "Flow control", for `search`; pin and unpin are not shown there and
follow the public service (D-084). As everywhere, a parameter without a value counts as absent, and
one given twice is refused (D-072).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record
from emulator.wire import durations
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.messaging import flow_values
from emulator.wire.messaging.options import parse_boolean
from emulator.wire.parts import RequestParts

T = TypeVar("T")

_DIGITS = re.compile(r"[0-9]{1,10}")


class Pin(Record):
    """Limits to fix; None leaves one as it is."""

    parallelism: int | None
    rate: int | None
    period_ms: int | None


class Unpin(Record):
    """Which limits to release again."""

    parallelism: bool
    rate: bool


def read_search(parts: RequestParts) -> str:
    """The text that the keys to list contain; any key contains the empty one. Raises InvalidInput."""
    values = [text for name, text in parts.query if name == "search" and text]
    if len(values) > 1:
        raise InvalidInput("search", "expected this parameter only once")
    return values[0] if values else ""


def read_pin(parts: RequestParts, dialect: Dialect) -> Pin:
    """The limits to pin. Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-084."""
    given = _given(parts, dialect, ("parallelism", "rate", "period"))
    pin = Pin(
        parallelism=_read(given, "parallelism", _parse_limit),
        rate=_read(given, "rate", _parse_limit),
        period_ms=_read(given, "period", _parse_period_ms),
    )
    if pin.parallelism is None and pin.rate is None and pin.period_ms is None:
        raise InvalidInput("parallelism", "expected at least one of parallelism, rate and period")
    return pin


def read_unpin(parts: RequestParts, dialect: Dialect) -> Unpin:
    """The limits to unpin, none by default.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-084.
    """
    given = _given(parts, dialect, ("parallelism", "rate"))
    return Unpin(
        parallelism=_read(given, "parallelism", parse_boolean) or False,
        rate=_read(given, "rate", parse_boolean) or False,
    )


def _given(parts: RequestParts, dialect: Dialect, known: tuple[str, ...]) -> dict[str, str]:
    """The parameters that have a value. A misspelt one must not leave a limit as it is without a word."""
    given: dict[str, str] = {}
    for name, text in parts.query:
        if dialect.is_own_parameter(name):
            continue
        if name not in known:
            raise InvalidInput(name, f"unknown parameter, expected {' or '.join(known)}")
        if text and name in given:
            raise InvalidInput(name, "expected this parameter only once")
        if text:
            given[name] = text
    return given


def _read(given: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    return read_field(name, given[name], parse) if name in given else None


def _parse_period_ms(text: str) -> int:
    return durations.parse_period_s(text) * 1000


def _parse_limit(text: str) -> int:
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= flow_values.MAX_LIMIT:
        raise Malformed(f"expected a number from 1 to {flow_values.MAX_LIMIT}, got {excerpt(text)}")
    return int(text)
