"""Query parameters of the flow control endpoints: search, pin and unpin.

Source: interface document, "Flow control", for `search`; pin and unpin are not shown there and
follow the public service (D-084).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.excerpts import excerpt
from emulator.wire import durations, flow_values
from emulator.wire.message_options import parse_boolean
from emulator.wire.parts import RequestParts

T = TypeVar("T")

_DIGITS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Limits to fix; None leaves one as it is."""

    parallelism: int | None
    rate: int | None
    period_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpin:
    """Which limits to release again."""

    parallelism: bool
    rate: bool


def read_search(parts: RequestParts) -> str | None:
    """The text that the keys to list contain, None for all keys."""
    return _last(parts, "search")


def read_pin(parts: RequestParts) -> Pin:
    """The limits to pin. Raises: InvalidInput naming the parameter. Source: D-084."""
    period_s = _parsed(parts, "period", durations.parse_period_s)
    pin = Pin(
        parallelism=_parsed(parts, "parallelism", _parse_limit),
        rate=_parsed(parts, "rate", _parse_limit),
        period_ms=None if period_s is None else period_s * 1000,
    )
    if pin.parallelism is None and pin.rate is None and pin.period_ms is None:
        raise InvalidInput("parallelism", "expected at least one of parallelism, rate and period")
    return pin


def read_unpin(parts: RequestParts) -> Unpin:
    """The limits to unpin, none by default. Raises: InvalidInput naming the parameter. Source: D-084."""
    return Unpin(
        parallelism=_parsed(parts, "parallelism", parse_boolean) or False,
        rate=_parsed(parts, "rate", parse_boolean) or False,
    )


def _last(parts: RequestParts, wanted: str) -> str | None:
    """The value of a parameter, the last one if it is repeated; an empty one counts as absent."""
    value = ""
    for name, text in parts.query:
        if name == wanted:
            value = text
    return value or None


def _parsed(parts: RequestParts, name: str, parse: Callable[[str], T]) -> T | None:
    text = _last(parts, name)
    if text is None:
        return None
    try:
        return parse(text)
    except Malformed as malformed:
        raise InvalidInput(name, malformed.reason) from None


def _parse_limit(text: str) -> int:
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= flow_values.MAX_LIMIT:
        raise Malformed(f"expected a number from 1 to {flow_values.MAX_LIMIT}, got {excerpt(text)}")
    return int(text)
