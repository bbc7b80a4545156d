"""`/_emulator/clock`: where the clock stands, and moving it."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.control.worlds import view_of
from emulator.api.endpoint import Answer
from emulator.wire.control.clock import advance_view, clock_view, read_advance, read_clock_change, read_drain


async def get_clock(call: ControlCall) -> Response:
    return Answer(clock_view(await call.world.clock.status()))


async def set_clock(call: ControlCall) -> Response:
    change = read_clock_change(call.body)
    return Answer(clock_view(await call.world.clock.set(change)))


async def advance(call: ControlCall) -> Response:
    request = read_advance(call.body)
    return Answer(advance_view(await call.world.advance(request)))


async def advance_to_next(call: ControlCall) -> Response:
    return Answer(advance_view(await call.world.clock.advance_to_next()))


async def undo(call: ControlCall) -> Response:
    world = call.world
    await call.worlds.undo(world)
    return Answer(await view_of(world))


async def drain(call: ControlCall) -> Response:
    request = read_drain(call.body)
    return Answer(advance_view(await call.world.clock.drain(request)))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/clock", get_clock, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/clock", set_clock, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/advance", advance, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/undo", undo, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/next", advance_to_next, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/drain", drain, WORLD_ONLY),
)
