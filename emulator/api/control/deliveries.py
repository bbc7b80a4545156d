"""`/_emulator/deliveries`: the delivery journal; `/_emulator/timeline`: the same in rows."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.deliveries import delivery_view, read_delivery_query
from emulator.wire.control.instants import dropped_view
from emulator.wire.control.parameters import read_redact
from emulator.wire.control.timeline import read_timeline_query, timeline_row


async def list_deliveries(call: ControlCall) -> Response:
    query, redact = read_delivery_query(call.parts.query), read_redact(call.parts.query)
    await call.world.current_state()
    history = call.world.history
    page = await history.deliveries(query)
    return Answer(
        {
            "deliveries": [delivery_view(each, redact=redact) for each in page.items],
            "cursor": page.cursor,
            **({"dropped": dropped_view(history.dropped)} if history.dropped.seq else {}),
        }
    )


async def list_timeline(call: ControlCall) -> Response:
    query = read_timeline_query(call.parts.query)
    await call.world.current_state()
    page = await call.world.history.deliveries(query)
    return Answer({"rows": [timeline_row(each) for each in page.items], "cursor": page.cursor})


async def clear_deliveries(call: ControlCall) -> Response:
    await call.world.history.clear_deliveries()
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/deliveries", list_deliveries, OWN_QUERY),
    ControlRoute("GET", "/_emulator/timeline", list_timeline, OWN_QUERY),
    ControlRoute("DELETE", "/_emulator/deliveries", clear_deliveries, OWN_QUERY),
)
