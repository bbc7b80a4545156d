"""The queries that ask when an expression fires, and when attempts are made."""

from __future__ import annotations

from emulator.core.errors import InvalidInput
from emulator.core.record import Record
from emulator.wire.control.parameters import Pairs, read_parameters
from emulator.wire.fields import parse_number, read_field
from emulator.wire.instants import number_or_text
from emulator.wire.json_fields import read_clock_instant
from emulator.wire.meanings import MAX_COUNT, MAX_RETRIES


class FiringsAsked(Record):
    """A cron expression, the instant after which its firings are told, and how many."""

    expression: str
    start_ms: int
    count: int


class AttemptsAsked(Record):
    """A retry delay, None for the default backoff; how many retries; the instant of the first attempt."""

    retry_delay: str | None
    retries: int
    start_ms: int


def read_firings(pairs: Pairs, now_ms: int) -> FiringsAsked:
    """`expression`, `from` (without it now) and `count` (10). Raises: InvalidInput. Source: D-437."""
    given = read_parameters(pairs, ("expression", "from", "count"))
    if "expression" not in given:
        raise InvalidInput("expression", "missing, expected a cron expression such as 0 9 * * *")
    return FiringsAsked(
        expression=given["expression"],
        start_ms=_start_ms(given, now_ms),
        count=_number(given, "count", 10, 1, MAX_COUNT),
    )


def read_attempts(pairs: Pairs, now_ms: int) -> AttemptsAsked:
    """`retry_delay`, `retries` (3) and `from` (without it now). Raises: InvalidInput. Source: D-437."""
    given = read_parameters(pairs, ("retry_delay", "retries", "from"))
    return AttemptsAsked(
        retry_delay=given.get("retry_delay"),
        retries=_number(given, "retries", 3, 0, MAX_RETRIES),
        start_ms=_start_ms(given, now_ms),
    )


def _start_ms(given: dict[str, str], now_ms: int) -> int:
    return read_clock_instant(number_or_text(given["from"]), "from") if "from" in given else now_ms


def _number(given: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    if name not in given:
        return default
    return read_field(name, given[name], lambda text: parse_number(text, "an integer", least, most, digits=6))
