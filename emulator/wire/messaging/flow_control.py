"""Flow control in requests: the value of its header, and the query parameters of its endpoints."""

from __future__ import annotations

import re

from msgspec.structs import replace

from emulator.core.commands import PinFlow, UnpinFlow
from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.text import excerpt
from emulator.core.model.options import FlowControl
from emulator.core.record import AccountId, FlowKey
from emulator.wire import times
from emulator.wire.dialect import Dialect
from emulator.wire.messaging.option_values import parse_boolean
from emulator.wire.names import parse_number
from emulator.wire.parts import RequestParts
from emulator.wire.query_reader import Query

# -- the header's value: `parallelism=N, rate=N, period=<duration>` ----------------------------
# Source: interface document, "Flow control", which does not show the headers that set it. We chose:
# any order, each name at most once and in any case, at least one of parallelism and rate (D-083).

MAX_LIMIT = 10**9

LIMIT_NAMES = ("parallelism", "rate", "period")
_ITEM = re.compile(r"([A-Za-z]+)=(\S+)")


# A key without limits is counted and limits nothing (D-083).
NO_LIMITS = FlowControl(key=FlowKey(""), parallelism=None, rate=None, period_ms=1000)


def parse_flow_control_value(text: str) -> FlowControl:
    """The limits in a header value, with an empty key; without a period, the rate counts per second.

    A period has 1 to 604800 seconds. Raises: Malformed. Source: interface document, "Flow control" and "Limits" 4.
    """
    given: dict[str, str] = {}
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        name = match[1].lower() if match is not None else ""
        if match is None or name not in LIMIT_NAMES:
            raise Malformed(f"expected parallelism=N, rate=N, period=<duration>, got {excerpt(item.strip())}")
        if name in given:
            raise Malformed(f"expected {name} only once, got {excerpt(text)}")
        given[name] = match[2]
    if "parallelism" not in given and "rate" not in given:
        raise Malformed(f"expected at least one of parallelism and rate, got {excerpt(text)}")
    limits: dict[str, int] = {
        name: _parse_limit(given[name], name) for name in ("parallelism", "rate") if name in given
    }
    if "period" in given:
        limits["period_ms"] = times.parse_period_s(given["period"]) * 1000
    return replace(NO_LIMITS, **limits)


# -- query parameters of the endpoints: search, pin and unpin ---------------------------------
# Source: interface document, "Flow control", for `search`; pin and unpin are not shown there and
# follow the public service (D-084). As everywhere, a parameter without a value counts as absent, and
# one given twice is refused (D-072).


def read_search(parts: RequestParts) -> str:
    """The text that the keys to list contain; any key contains the empty one. Raises InvalidInput."""
    return Query(parts.query).one("search", str, strip=False) or ""


def read_pin(parts: RequestParts, dialect: Dialect, account_id: AccountId, key: FlowKey) -> PinFlow:
    """The limits to pin. Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-084."""
    given = _given(parts, dialect, ("parallelism", "rate", "period"))
    pin = PinFlow(
        account_id=account_id,
        key=key,
        parallelism=given.one("parallelism", _parse_limit),
        rate=given.one("rate", _parse_limit),
        period_ms=given.one("period", lambda text: times.parse_period_s(text) * 1000),
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
        parallelism=given.one("parallelism", parse_boolean) or False,
        rate=given.one("rate", parse_boolean) or False,
    )


def _given(parts: RequestParts, dialect: Dialect, known: tuple[str, ...]) -> Query:
    """The parameters. A misspelt one must not leave a limit as it is without a word."""
    unknown = f"unknown parameter, expected {' or '.join(known)}"
    return Query(parts.query, is_other=dialect.is_own_parameter, known=known, unknown=unknown)


def _parse_limit(text: str, name: str = "a number") -> int:
    return parse_number(text, name, 1, MAX_LIMIT, digits=10)
