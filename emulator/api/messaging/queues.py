"""Queues: create, change, look up, pause, resume, delete."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import DeleteQueue, SetQueuePaused
from emulator.core.rules.queues import queue
from emulator.wire.messaging import bodies, views
from emulator.wire.names import read_queue_name


async def list_queues(call: MessagingCall) -> Response:
    return Answer([views.queue(each, call.owner.queue_lag[each.name]) for each in call.owner.queues.values()])


async def get_queue(call: MessagingCall) -> Response:
    found = queue(call.state, call.account_id, read_queue_name(call.name))
    return Answer(views.queue(found, call.owner.queue_lag[found.name]))


async def upsert_queue(call: MessagingCall) -> Response:
    return await call.carry_out(bodies.read_queue(call.parts.body, call.account_id))


async def delete_queue(call: MessagingCall) -> Response:
    return await call.carry_out(DeleteQueue(account_id=call.account_id, name=read_queue_name(call.name)))


async def pause_queue(call: MessagingCall) -> Response:
    return await _set_paused(call, paused=True)


async def resume_queue(call: MessagingCall) -> Response:
    return await _set_paused(call, paused=False)


async def _set_paused(call: MessagingCall, *, paused: bool) -> Response:
    name = read_queue_name(call.name)
    return await call.carry_out(SetQueuePaused(account_id=call.account_id, name=name, paused=paused))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/queues", list_queues, READ),
    MessagingRoute("POST", "/v2/queues", upsert_queue, WRITE),
    MessagingRoute("GET", "/v2/queues/{name}", get_queue, READ),
    MessagingRoute("DELETE", "/v2/queues/{name}", delete_queue, WRITE),
    MessagingRoute("POST", "/v2/queues/{name}/pause", pause_queue, WRITE),
    MessagingRoute("POST", "/v2/queues/{name}/resume", resume_queue, WRITE),
)
