"""`/_emulator/refused`: the calls that were answered with 4xx, and what was probably meant."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.refused_calls import deduplicated_view, read_refused_query, refused_call_view


async def list_refused(call: ControlCall) -> Response:
    limit = read_refused_query(call.parts.query)
    calls = call.world.refused_calls
    return Answer(
        {
            "refused": [refused_call_view(each) for each in calls.latest(limit)],
            "deduplicated": [deduplicated_view(each) for each in calls.latest_deduplicated(limit)],
        }
    )


async def clear_refused(call: ControlCall) -> Response:
    call.world.refused_calls.clear()
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/refused", list_refused, OWN_QUERY),
    ControlRoute("DELETE", "/_emulator/refused", clear_refused, WORLD_ONLY),
)
