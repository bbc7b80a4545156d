"""`/_emulator/clock`: where the clock stands, and moving it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.control.worlds import view_of
from emulator.api.endpoint import Answer
from emulator.core.errors import Conflict
from emulator.queries.reports import AdvanceReport
from emulator.wire.control.clock import (
    advance_view,
    clock_view,
    read_advance,
    read_clock_change,
    read_drain,
    read_undoable,
)
from emulator.wire.instants import iso
from emulator.worlds.world_clock import WorldClock


async def get_clock(call: ControlCall) -> Response:
    return Answer(clock_view(await call.world.clock.status()))


async def set_clock(call: ControlCall) -> Response:
    change = read_clock_change(call.body)
    return Answer(clock_view(await call.world.clock.set(change)))


async def advance(call: ControlCall) -> Response:
    request = read_advance(call.body)
    moving = call.world.move(lambda clock: clock.advance(request), undoable=request.undoable)
    return Answer(advance_view(await _while_wanted(call, moving)))


async def advance_to_next(call: ControlCall) -> Response:
    moving = call.world.move(WorldClock.advance_to_next, undoable=read_undoable(call.body))
    return Answer(advance_view(await _while_wanted(call, moving)))


async def undo(call: ControlCall) -> Response:
    world = call.world
    await call.worlds.undo(world)
    return Answer(await view_of(world))


async def drain(call: ControlCall) -> Response:
    request = read_drain(call.body)
    moving = call.world.move(lambda clock: clock.drain(request), undoable=request.undoable)
    return Answer(advance_view(await _while_wanted(call, moving)))


async def _while_wanted(call: ControlCall, moving: Coroutine[None, None, AdvanceReport]) -> AdvanceReport:
    """A move, for as long as its client waits for it; the clock stops where it has come to then (D-323).

    Raises Conflict, which nobody reads, when the client has gone away.
    """
    loop = asyncio.get_running_loop()
    move, leaving = loop.create_task(moving), loop.create_task(_gone(call))
    try:
        await asyncio.wait((move, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not move.done():
            move.cancel()
            await asyncio.wait((move,))
    finally:
        leaving.cancel()
        move.cancel()
    if move.cancelled():
        raise Conflict(f"the move was given up, the clock stands at {iso(call.world.clock.now_ms)}")
    return move.result()


async def _gone(call: ControlCall) -> None:
    await call.request.gone()


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/clock", get_clock, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/clock", set_clock, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/advance", advance, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/undo", undo, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/next", advance_to_next, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/drain", drain, WORLD_ONLY),
)
