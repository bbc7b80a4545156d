"""`/_emulator/queues`: the queues of all accounts."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.queries import listings
from emulator.wire.control.wait_lists import queue_view


async def list_queues(call: ControlCall) -> Response:
    state = await call.world.current_state()
    return Answer({"queues": [queue_view(each) for each in listings.queues(state)]})


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/queues", list_queues, WORLD_ONLY),)
