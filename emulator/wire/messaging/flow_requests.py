"""Query parameters of the flow control endpoints: search, pin and unpin.

Source: interface document, "Flow control", for `search`; pin and unpin are not shown there and
follow the public service (D-084). As everywhere, a parameter without a value counts as absent, and
one given twice is refused (D-072).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from emulator.core.commands import PinFlow, UnpinFlow
from emulator.core.errors import InvalidInput
from emulator.core.model.names import AccountId, FlowKey
from emulator.wire import durations
from emulator.wire.dialect import Dialect
from emulator.wire.fields import parse_number, read_field
from emulator.wire.messaging import flow_values
from emulator.wire.messaging.option_values import parse_boolean
from emulator.wire.parts import RequestParts

T = TypeVar("T")


def read_search(parts: RequestParts) -> str:
    """The text that the keys to list contain; any key contains the empty one. Raises InvalidInput."""
    values = [text for name, text in parts.query if name == "search" and text]
    if len(values) > 1:
        raise InvalidInput("search", "expected this parameter only once")
    return values[0] if values else ""


def read_pin(parts: RequestParts, dialect: Dialect, account_id: AccountId, key: FlowKey) -> PinFlow:
    """The limits to pin. Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-084."""
    given = _given(parts, dialect, ("parallelism", "rate", "period"))
    pin = PinFlow(
        account_id=account_id,
        key=key,
        parallelism=_read(given, "parallelism", _parse_limit),
        rate=_read(given, "rate", _parse_limit),
        period_ms=_read(given, "period", _parse_period_ms),
    )
    if pin.parallelism is None and pin.rate is None and pin.period_ms is None:
        raise InvalidInput("parallelism", "expected at least one of parallelism, rate and period")
    return pin


def read_unpin(parts: RequestParts, dialect: Dialect, account_id: AccountId, key: FlowKey) -> UnpinFlow:
    """The limits to unpin, none by default.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-084.
    """
    given = _given(parts, dialect, ("parallelism", "rate"))
    return UnpinFlow(
        account_id=account_id,
        key=key,
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
    return parse_number(text, "a number", 1, flow_values.MAX_LIMIT, digits=10)
