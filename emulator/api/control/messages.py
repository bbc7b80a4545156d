"""`/_emulator/messages`: all messages of a world, live and ended."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.instants import dropped_view
from emulator.wire.control.messages import message_view, read_message_query


async def list_messages(call: ControlCall) -> Response:
    query = read_message_query(call.parts.query)
    await call.world.current_state()
    page = await call.world.listings.messages(query)
    dropped = call.world.history.dropped
    return Answer(
        {
            "messages": [message_view(each) for each in page.items],
            "cursor": page.cursor,
            **({"dropped": dropped_view(dropped)} if dropped.seq else {}),
        }
    )


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/messages", list_messages, OWN_QUERY),)
