"""What messages wait for: queues, flow control keys, and the account's global parallelism."""

from __future__ import annotations

from collections import Counter
from functools import partial

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import DeleteQueue, ResetFlow, SetFlowPaused, SetQueuePaused
from emulator.core.model.resources import FlowState
from emulator.core.record import FlowKey
from emulator.core.rules.resources import flow_key, queue
from emulator.core.state import subject_of
from emulator.queries.history import waiting_to_leave
from emulator.wire.json_reader import Json
from emulator.wire.messaging import flow_control, requests, views
from emulator.wire.names import read_flow_key, read_queue_name

# -- queues: create, change, look up, pause, resume, delete -----------------------------------


async def list_queues(call: MessagingCall) -> Response:
    return Answer([views.queue(each, call.owner.queue_lag[each.name]) for each in call.owner.queues.values()])


async def get_queue(call: MessagingCall) -> Response:
    found = queue(call.state, call.account_id, read_queue_name(call.name))
    return Answer(views.queue(found, call.owner.queue_lag[found.name]))


async def upsert_queue(call: MessagingCall) -> Response:
    return await call.carry_out(requests.read_queue(call.parts.body, call.account_id))


async def delete_queue(call: MessagingCall) -> Response:
    return await call.carry_out(DeleteQueue(account_id=call.account_id, name=read_queue_name(call.name)))


async def set_queue_paused(call: MessagingCall, *, paused: bool) -> Response:
    name = read_queue_name(call.name)
    return await call.carry_out(SetQueuePaused(account_id=call.account_id, name=name, paused=paused))


# -- flow control keys and the account's global parallelism -----------------------------------


async def list_flow_keys(call: MessagingCall) -> Response:
    """A bare list; the search is a part of the key, in its very letters (D-059)."""
    search = flow_control.read_search(call.parts)
    not_left = _not_left(call)
    return Answer([_view(call, flow, not_left) for key, flow in call.owner.flow_keys.items() if search in key])


async def get_flow_key(call: MessagingCall) -> Response:
    key = read_flow_key(call.request.raw_rest(2))
    return Answer(_view(call, flow_key(call.state, call.account_id, key), _not_left(call)))


def _not_left(call: MessagingCall) -> Counter[str]:
    # What is counted as under way has left (D-537).
    return waiting_to_leave(call.state, call.world.driver.outbox.waiting_to_leave())


def _view(call: MessagingCall, flow: FlowState, not_left: Counter[str]) -> Json:
    count = flow.active - not_left[subject_of(call.account_id, flow.key)]
    return views.flow_key(flow, count, len(call.owner.flow_wait_lists[flow.key]), call.state.now_ms)


def _key(call: MessagingCall) -> FlowKey:
    """The key in front of an action: all between the path's fixed parts, as a key may hold slashes."""
    return read_flow_key(call.request.raw_rest(2).rpartition("/")[0])


async def set_flow_key_paused(call: MessagingCall, *, paused: bool) -> Response:
    return await call.carry_out(SetFlowPaused(account_id=call.account_id, key=_key(call), paused=paused))


async def pin_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(flow_control.read_pin(call.parts, call.dialect, call.account_id, _key(call)))


async def unpin_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(flow_control.read_unpin(call.parts, call.dialect, call.account_id, _key(call)))


async def reset_flow_key(call: MessagingCall, *, parallelism: bool) -> Response:
    """The attempts that are under way are counted from 0 again, or those of the period."""
    return await call.carry_out(ResetFlow(account_id=call.account_id, key=_key(call), parallelism=parallelism))


async def get_global_parallelism(call: MessagingCall) -> Response:
    count = call.owner.active - _not_left(call)[call.account_id]
    return Answer(views.global_parallelism(call.owner.account.max_global_parallelism, count))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/queues", list_queues, READ),
    MessagingRoute("POST", "/v2/queues", upsert_queue, WRITE),
    MessagingRoute("GET", "/v2/queues/{name}", get_queue, READ),
    MessagingRoute("DELETE", "/v2/queues/{name}", delete_queue, WRITE),
    MessagingRoute("POST", "/v2/queues/{name}/pause", partial(set_queue_paused, paused=True), WRITE),
    MessagingRoute("POST", "/v2/queues/{name}/resume", partial(set_queue_paused, paused=False), WRITE),
    MessagingRoute("GET", "/v2/flowControl", list_flow_keys, READ),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/pause", partial(set_flow_key_paused, paused=True), WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/resume", partial(set_flow_key_paused, paused=False), WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/pin", pin_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/unpin", unpin_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/reset", partial(reset_flow_key, parallelism=True), WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/resetRate", partial(reset_flow_key, parallelism=False), WRITE),
    MessagingRoute("GET", "/v2/flowControl/{name:path}", get_flow_key, READ),
    MessagingRoute("GET", "/v2/globalParallelism", get_global_parallelism, READ),
)
