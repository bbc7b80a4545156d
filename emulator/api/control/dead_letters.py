"""`/_emulator/dead-letters`: the dead letters of all accounts."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.messages import dead_letter_view, read_dead_letter_query


async def list_dead_letters(call: ControlCall) -> Response:
    query = read_dead_letter_query(call.parts.query)
    state = await call.world.current_state()
    page = await call.world.history.dead_letters(query)
    return Answer({"dead_letters": [dead_letter_view(each, state) for each in page.items], "cursor": page.cursor})


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/dead-letters", list_dead_letters, OWN_QUERY),)
