"""`/_emulator/when`: when an expression fires, and when attempts are made, as `svc-emulator when` tells it."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute, Pairs, query_of
from emulator.core.errors import InvalidInput
from emulator.core.record import Record
from emulator.wire.when import MAX_COUNT, MAX_RETRIES, attempts_of, firings_of


class FiringsQuery(Record):
    """A cron expression, the instant after which its firings are listed, and how many."""

    expression: str
    start_ms: int
    count: int


class RetriesQuery(Record):
    """A retry delay, None for the default backoff; how many retries; the instant of the first attempt."""

    retry_delay: str | None
    retries: int
    start_ms: int


def read_firings(pairs: Pairs, now_ms: int) -> FiringsQuery:
    """`expression`, `from` (without it now) and `count` (10). Raises: InvalidInput. Source: D-437."""
    given = query_of(pairs, "expression", "from", "count")
    expression, start_ms = given.text("expression"), given.instant_ms("from")
    if expression is None:
        raise InvalidInput("expression", "missing, expected a cron expression such as 0 9 * * *")
    return FiringsQuery(
        expression=expression,
        start_ms=now_ms if start_ms is None else start_ms,
        count=given.integer("count", 1, MAX_COUNT, 10),
    )


def read_attempts(pairs: Pairs, now_ms: int) -> RetriesQuery:
    """`retry_delay`, `retries` (3) and `from` (without it now). Raises: InvalidInput. Source: D-437."""
    given = query_of(pairs, "retry_delay", "retries", "from")
    start_ms = given.instant_ms("from")
    return RetriesQuery(
        retry_delay=given.text("retry_delay"),
        retries=given.integer("retries", 0, MAX_RETRIES, 3),
        start_ms=now_ms if start_ms is None else start_ms,
    )


async def tell_firings(call: ControlCall) -> Response:
    state = await call.world.current_state()
    asked = read_firings(call.parts.query, state.now_ms)
    # A thousand firings of a rare date take a quarter of a second, which other calls need not wait for.
    return Answer(await asyncio.to_thread(firings_of, asked.expression, asked.start_ms, asked.count))


async def tell_attempts(call: ControlCall) -> Response:
    state = await call.world.current_state()
    asked = read_attempts(call.parts.query, state.now_ms)
    return Answer(attempts_of(asked.retry_delay, asked.retries, asked.start_ms))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/when/firings", tell_firings, OWN_QUERY),
    ControlRoute("GET", "/_emulator/when/attempts", tell_attempts, OWN_QUERY),
)
