"""The value of Svc-Flow-Control-Value: `parallelism=N, rate=N, period=<duration>`.

Source: interface document, "Flow control", which does not show the headers that set it. We chose:
any order, each name at most once and in any case, at least one of parallelism and rate (D-083).
"""

from __future__ import annotations

import re

from emulator.core.errors import Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record
from emulator.wire import durations
from emulator.wire.fields import parse_number

DEFAULT_PERIOD_S = 1
MAX_LIMIT = 10**9

_NAMES = ("parallelism", "rate", "period")
_ITEM = re.compile(r"([A-Za-z]+)=(\S+)")


class FlowControlValue(Record):
    """The limits a message brings for its key; None where it sets none. `period_s` belongs to the rate."""

    parallelism: int | None
    rate: int | None
    period_s: int


def parse_flow_control_value(text: str) -> FlowControlValue:
    """The limits in a header value; without a period, the rate counts per second.

    Units: the period in seconds, 1 to 604800. Raises: Malformed.
    Source: interface document, "Flow control" and "Limits" 4.
    """
    given: dict[str, str] = {}
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        name = match[1].lower() if match is not None else ""
        if match is None or name not in _NAMES:
            raise Malformed(f"expected parallelism=N, rate=N, period=<duration>, got {excerpt(item.strip())}")
        if name in given:
            raise Malformed(f"expected {name} only once, got {excerpt(text)}")
        given[name] = match[2]
    if "parallelism" not in given and "rate" not in given:
        raise Malformed(f"expected at least one of parallelism and rate, got {excerpt(text)}")
    return FlowControlValue(
        parallelism=_count("parallelism", given.get("parallelism")),
        rate=_count("rate", given.get("rate")),
        period_s=durations.parse_period_s(given["period"]) if "period" in given else DEFAULT_PERIOD_S,
    )


def _count(name: str, digits: str | None) -> int | None:
    return None if digits is None else parse_number(digits, name, 1, MAX_LIMIT, digits=10)
