"""`/_emulator/deliveries`: the delivery journal."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.deliveries import brief_view, delivery_view, read_brief, read_delivery_query
from emulator.wire.control.instants import dropped_view
from emulator.wire.control.parameters import read_redact


async def list_deliveries(call: ControlCall) -> Response:
    pairs = call.parts.query
    query, redact, brief = read_delivery_query(pairs), read_redact(pairs), read_brief(pairs)
    await call.world.current_state()
    history = call.world.history
    page = await history.deliveries(query)
    return Answer(
        {
            "deliveries": [brief_view(each) if brief else delivery_view(each, redact=redact) for each in page.items],
            "cursor": page.cursor,
            **({"dropped": dropped_view(history.dropped)} if history.dropped.seq else {}),
        }
    )


async def clear_deliveries(call: ControlCall) -> Response:
    await call.world.history.clear_deliveries()
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/deliveries", list_deliveries, OWN_QUERY),
    ControlRoute("DELETE", "/_emulator/deliveries", clear_deliveries, OWN_QUERY),
)
