"""`/_emulator/flow-control`: the flow control keys of all accounts, and their global parallelism."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.queries import listings
from emulator.wire.control.wait_lists import flow_key_view, parallelism_view


async def list_flow_keys(call: ControlCall) -> Response:
    state = await call.world.current_state()
    return Answer(
        {
            "keys": [flow_key_view(each) for each in listings.flow_keys(state)],
            "global": [parallelism_view(each) for each in listings.parallelism(state)],
        }
    )


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/flow-control", list_flow_keys, WORLD_ONLY),)
