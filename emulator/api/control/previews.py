"""`/_emulator/upcoming` and `explain`: what is due later, and why a message or a schedule is where it is."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.core.model.names import MessageId, ScheduleId
from emulator.wire.control.explanations import explanation_view
from emulator.wire.control.schedule_explanations import schedule_explanation_view
from emulator.wire.control.upcoming import read_upcoming, upcoming_view


async def list_upcoming(call: ControlCall) -> Response:
    query = read_upcoming(call.parts.query)
    await call.world.current_state()
    return Answer(upcoming_view(await call.world.previews.upcoming(query)))


async def explain_message(call: ControlCall) -> Response:
    await call.world.current_state()
    explanation = await call.world.previews.explain(MessageId(call.name))
    return Answer(explanation_view(explanation, call.dialect))


async def explain_schedule(call: ControlCall) -> Response:
    await call.world.current_state()
    return Answer(schedule_explanation_view(call.world.previews.explain_schedule(ScheduleId(call.name))))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/upcoming", list_upcoming, OWN_QUERY),
    ControlRoute("GET", "/_emulator/messages/{name}/explain", explain_message, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/schedules/{name}/explain", explain_schedule, WORLD_ONLY),
)
