"""`/_emulator/upcoming` and `explain`: what is due later, and why a message is where it is."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import ControlCall, Route
from emulator.api.endpoint import Answer
from emulator.core.model import MessageId
from emulator.wire.control.explanations import explanation_view
from emulator.wire.control.upcoming import read_upcoming, upcoming_view


async def list_upcoming(call: ControlCall) -> Response:
    query = read_upcoming(call.parts.query)
    state = await call.world.current_state()
    return Answer(upcoming_view(await call.world.previews.upcoming(state, query)))


async def explain_message(call: ControlCall) -> Response:
    state = await call.world.current_state()
    explanation = await call.world.previews.explain(state, MessageId(call.name))
    return Answer(explanation_view(explanation, call.dialect))


ROUTES = (
    Route("/upcoming", {"GET": list_upcoming}, reads_query=True),
    Route("/messages/{name}/explain", {"GET": explain_message}),
)
