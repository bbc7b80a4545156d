"""`/_emulator/when`: when an expression fires, and when attempts are made, as `svc-emulator when` tells it."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.meanings import read_attempts, read_firings
from emulator.wire.meanings import attempts_of, firings_of


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
