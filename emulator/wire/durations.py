"""Durations as text: in the headers of clients, in our control API, and for people to read.

Source: interface document, Svc-Delay, Svc-Timeout and "Flow control". What the document does not
show, we chose: units may stand in any order, each at most once; no signs, no decimals (D-088).
"""

from __future__ import annotations

import re
from functools import lru_cache

from emulator.core.errors import Malformed
from emulator.core.language.excerpts import excerpt

_MS_PER_UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TERM = re.compile(r"([0-9]+)(ms|[smhd])")

_UNITS = ("s", "m", "h", "d")
MAX_DIGITS = 15
# As milliseconds, so many digits of seconds are still an integer that every JSON reader keeps exact.
MAX_SECONDS_DIGITS = 12
# The largest integer every JSON reader keeps exact.
MAX_DURATION_MS = 2**53 - 1
MAX_PERIOD_S = 604_800


def parse_duration_ms(text: str) -> int:
    """The length of a duration such as `10s` or `1d10h30m`; zero is allowed.

    Units: milliseconds. Raises: Malformed.
    Source: interface document, Svc-Delay.
    """
    return _sum_of_terms_ms(text, _UNITS)


def parse_seconds_or_duration_ms(text: str) -> int:
    """A bare number of seconds, or a duration as in `parse_duration_ms`.

    Units: milliseconds. Raises: Malformed.
    Source: interface document, Svc-Timeout and "Flow control"; days and bare seconds: D-088.
    """
    trimmed = text.strip()
    if trimmed.isascii() and trimmed.isdigit() and len(trimmed) <= MAX_SECONDS_DIGITS:
        return int(trimmed) * 1000
    return parse_duration_ms(text)


def parse_period_s(text: str) -> int:
    """The period of a flow control rate: a bare number of seconds, or a duration with units s, m, h, d.

    Units: seconds, 1 to 604800 (one week). Raises: Malformed.
    Source: interface document, "Flow control" and "Limits" 4.
    """
    period_s = parse_seconds_or_duration_ms(text) // 1000
    if not 1 <= period_s <= MAX_PERIOD_S:
        raise Malformed(f"expected a period from 1 second to 1 week, got {excerpt(text)}")
    return period_s


def parse_control_duration_ms(value: str | int) -> int:
    """A duration of our own control API: a number of milliseconds, or a text with units ms, s, m, h, d.

    Units: milliseconds. Raises: Malformed.
    """
    if isinstance(value, str):
        return _sum_of_terms_ms(value, tuple(_MS_PER_UNIT))
    # JSON's true and false arrive as integers of Python.
    if isinstance(value, bool) or not 0 <= value <= MAX_DURATION_MS:
        raise Malformed(f"expected milliseconds from 0 to {MAX_DURATION_MS}, or a duration such as 1h30m")
    return value


def format_duration(ms: int) -> str:
    """A duration for people: `1d2h30m`, `10s`, `1.5s`, `250ms`, `0s`."""
    if ms < 0:
        return "-" + format_duration(-ms)
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, rest_ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    whole_s, fraction_ms = divmod(rest_ms, 1000)
    seconds = f"{whole_s}.{fraction_ms:03}".rstrip("0") if fraction_ms else str(whole_s)
    counted = ((days, "d"), (hours, "h"), (minutes, "m"))
    larger = "".join(f"{count}{unit}" for count, unit in counted if count)
    return larger if larger and not rest_ms else f"{larger}{seconds}s"


@lru_cache(maxsize=1024)
def _sum_of_terms_ms(text: str, units: tuple[str, ...]) -> int:
    trimmed = text.strip()
    terms: dict[str, int] = {}
    position = 0
    while position < len(trimmed):
        term = _TERM.match(trimmed, position)
        if term is None or term[2] not in units or term[2] in terms or len(term[1]) > MAX_DIGITS:
            raise _malformed(text, units)
        terms[term[2]] = int(term[1]) * _MS_PER_UNIT[term[2]]
        position = term.end()
    total_ms = sum(terms.values())
    if not terms or total_ms > MAX_DURATION_MS:
        raise _malformed(text, units)
    return total_ms


def _malformed(text: str, units: tuple[str, ...]) -> Malformed:
    return Malformed(
        f"expected a duration such as 10s or 1d10h30m, each of the units {', '.join(units)} at most once, "
        f"got {excerpt(text)}"
    )
