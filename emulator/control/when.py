"""`/_emulator/when`: when an expression fires, and when attempts are made, as `svc-emulator when` shows it."""

from __future__ import annotations

import asyncio

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.control.records import TWIN, Instant, InstantMs, LocalTime, PositiveNumber, View, WholeNumber
from emulator.core.errors import InvalidInput
from emulator.core.language.calendar import LATEST_MS
from emulator.wire.query_reader import control_query
from emulator.wire.when import MAX_COUNT, MAX_RETRIES, firings, read_ladder, read_schedule


class ToldFiring(View):
    """One firing."""

    at: Instant = TWIN  #: When it fires.
    at_ms: InstantMs
    local: LocalTime  #: The same as the clock of the zone shows it, with its offset.
    explanation: str | None  #: What changes of the zone's clock do to this firing; null if nothing.


class ToldFirings(View, rename={"from_": "from"}):
    """A cron expression with its firings after an instant."""

    cron: str  #: The expression as it was given.
    time_zone: str  #: The zone whose clock it follows.
    from_: Instant = TWIN  #: The instant after which the firings are listed.
    from_ms: InstantMs
    firings: tuple[ToldFiring, ...]  #: The firings, the earliest first.


class ToldAttempt(View):
    """One attempt."""

    attempt: PositiveNumber  #: Its number, from 1.
    at: Instant = TWIN  #: When it is made, if the first is made at `from`.
    at_ms: InstantMs
    after_ms: WholeNumber  #: How long after the first attempt, in milliseconds.
    delay_ms: WholeNumber  #: How long after the attempt before, in milliseconds; 0 for the first.
    arithmetic: str  #: How the delay comes about.


class ToldAttempts(View):
    """The attempts of a message that fails every time."""

    retry_delay: str | None  #: The expression of the delay; null stands for the default backoff.
    attempts: tuple[ToldAttempt, ...]  #: The attempts in order.


def told_firings(expression: str, start_ms: int, count: int) -> ToldFirings:
    """So many firings of an expression after an instant. Raises InvalidInput for `expression`. Source: D-430."""
    schedule = read_schedule(expression)
    return ToldFirings(
        cron=schedule.text,
        time_zone=schedule.time_zone,
        from_ms=start_ms,
        firings=tuple(
            ToldFiring(at_ms=each.at_ms, local=each.local, explanation=each.explanation)
            for each in firings(schedule, start_ms, count)
        ),
    )


def told_attempts(retry_delay: str | None, retries: int, start_ms: int) -> ToldAttempts:
    """The attempts by a retry delay, None for the default backoff, the first at an instant.

    Raises InvalidInput for `retry_delay`, and for `from`. Source: D-431.
    """
    steps = read_ladder(retry_delay, retries)
    if start_ms + steps[-1].after_ms > LATEST_MS:
        raise InvalidInput("from", "expected an instant from which the attempts end in the year 9999 at the latest")
    return ToldAttempts(
        retry_delay=retry_delay,
        attempts=tuple(
            ToldAttempt(
                attempt=each.attempt,
                at_ms=start_ms + each.after_ms,
                after_ms=each.after_ms,
                delay_ms=each.delay_ms,
                arithmetic=each.arithmetic,
            )
            for each in steps
        ),
    )


async def tell_firings(call: ControlCall) -> ToldFirings:
    """`expression`, `from` (without it now) and `count` (10). Raises: InvalidInput. Source: D-437."""
    state = await call.world.current_state()
    given = control_query(call.parts.query, "expression", "from", "count")
    expression, start_ms = given.text("expression"), given.instant_ms("from")
    if expression is None:
        raise InvalidInput("expression", "missing, expected a cron expression such as 0 9 * * *")
    count = given.integer("count", 1, MAX_COUNT, 10)
    # A thousand firings of a rare date take a quarter of a second, which other calls need not wait for.
    return await asyncio.to_thread(told_firings, expression, state.now_ms if start_ms is None else start_ms, count)


async def tell_attempts(call: ControlCall) -> ToldAttempts:
    """`retry_delay`, `retries` (3) and `from` (without it now). Raises: InvalidInput. Source: D-437."""
    state = await call.world.current_state()
    given = control_query(call.parts.query, "retry_delay", "retries", "from")
    start_ms, retry_delay = given.instant_ms("from"), given.text("retry_delay")
    retries = given.integer("retries", 0, MAX_RETRIES, 3)
    return told_attempts(retry_delay, retries, state.now_ms if start_ms is None else start_ms)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/when/firings", tell_firings, OWN_QUERY),
    ControlRoute("GET", "/_emulator/when/attempts", tell_attempts, OWN_QUERY),
)
