"""`/_emulator/schedules`: the schedules of all accounts."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.queries import listings
from emulator.wire.control.schedules import read_firings, schedule_view


async def list_schedules(call: ControlCall) -> Response:
    count = read_firings(call.parts.query)
    state = await call.world.current_state()
    return Answer({"schedules": [schedule_view(each) for each in listings.schedules(state, count)]})


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/schedules", list_schedules, OWN_QUERY),)
