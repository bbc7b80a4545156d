"""`/_emulator/clock`: where the clock stands, and moving it."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import ControlCall, Route
from emulator.api.endpoint import Answer
from emulator.wire.control.clock import advance_view, clock_view, read_advance, read_clock_change, read_drain


async def get_clock(call: ControlCall) -> Response:
    return Answer(clock_view(await call.world.clock.status()))


async def set_clock(call: ControlCall) -> Response:
    change = read_clock_change(call.body)
    return Answer(clock_view(await call.world.clock.set(change)))


async def advance(call: ControlCall) -> Response:
    request = read_advance(call.body)
    return Answer(advance_view(await call.world.clock.advance(request)))


async def advance_to_next(call: ControlCall) -> Response:
    return Answer(advance_view(await call.world.clock.advance_to_next()))


async def drain(call: ControlCall) -> Response:
    request = read_drain(call.body)
    return Answer(advance_view(await call.world.clock.drain(request)))


ROUTES = (
    Route("/clock", {"GET": get_clock, "PUT": set_clock}),
    Route("/clock/advance", {"POST": advance}),
    Route("/clock/next", {"POST": advance_to_next}),
    Route("/clock/drain", {"POST": drain}),
)
