"""Triggers: runs that are started by anybody with a token."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import PUBLISH, MessagingCall, MessagingRoute
from emulator.core.commands import TriggerRuns
from emulator.core.replies import TriggeredRun
from emulator.wire.workflow import requests, views


async def trigger(call: MessagingCall) -> Response:
    destination = call.request.raw_rest(2)
    command = requests.read_trigger(call.parts, call.dialect, call.account_id, destination, call.tell_of_unused)
    [run] = await _start(call, command)
    return Answer(views.triggered(run))


async def trigger_batch(call: MessagingCall) -> Response:
    command = requests.read_triggers(call.parts, call.dialect, call.account_id, call.tell_of_unused)
    return Answer([views.triggered(run) for run in await _start(call, command)], 201)


async def _start(call: MessagingCall, command: TriggerRuns) -> tuple[TriggeredRun, ...]:
    for item in command.items:
        call.warn_of_unused_queue(item.destination, item.queue or item.options.queue)
    return await call.world.submit(command)


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/trigger/{destination:path}", trigger, PUBLISH),
    MessagingRoute("POST", "/v2/batch/trigger", trigger_batch, PUBLISH),
)
