"""Flow control keys and the account's global parallelism."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import ResetFlow, SetFlowPaused
from emulator.core.model.names import FlowKey
from emulator.core.model.resources import FlowState
from emulator.core.rules.flow_keys import flow_key
from emulator.wire.json_fields import Json
from emulator.wire.messaging import flow_requests, views
from emulator.wire.names import read_flow_key


async def list_flow_keys(call: MessagingCall) -> Response:
    """A bare list; the search is a part of the key, in its very letters (D-059)."""
    search = flow_requests.read_search(call.parts)
    return Answer([_view(call, flow) for key, flow in call.owner.flow_keys.items() if search in key])


async def get_flow_key(call: MessagingCall) -> Response:
    key = read_flow_key(call.request.raw_rest(2))
    return Answer(_view(call, flow_key(call.state, call.account_id, key)))


def _view(call: MessagingCall, flow: FlowState) -> Json:
    return views.flow_key(flow, len(call.owner.flow_wait_lists[flow.key]), call.state.now_ms)


def _key(call: MessagingCall) -> FlowKey:
    """The key in front of an action: all between the path's fixed parts, as a key may hold slashes."""
    return read_flow_key(call.request.raw_rest(2).rpartition("/")[0])


async def pause_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(SetFlowPaused(account_id=call.account_id, key=_key(call), paused=True))


async def resume_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(SetFlowPaused(account_id=call.account_id, key=_key(call), paused=False))


async def pin_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(flow_requests.read_pin(call.parts, call.dialect, call.account_id, _key(call)))


async def unpin_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(flow_requests.read_unpin(call.parts, call.dialect, call.account_id, _key(call)))


async def reset_flow_key(call: MessagingCall) -> Response:
    return await call.carry_out(ResetFlow(account_id=call.account_id, key=_key(call), parallelism=True))


async def reset_flow_rate(call: MessagingCall) -> Response:
    return await call.carry_out(ResetFlow(account_id=call.account_id, key=_key(call), parallelism=False))


async def get_global_parallelism(call: MessagingCall) -> Response:
    return Answer(views.global_parallelism(call.owner.account.max_global_parallelism, call.owner.active))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/flowControl", list_flow_keys, READ),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/pause", pause_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/resume", resume_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/pin", pin_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/unpin", unpin_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/reset", reset_flow_key, WRITE),
    MessagingRoute("POST", "/v2/flowControl/{name:path}/resetRate", reset_flow_rate, WRITE),
    MessagingRoute("GET", "/v2/flowControl/{name:path}", get_flow_key, READ),
    MessagingRoute("GET", "/v2/globalParallelism", get_global_parallelism, READ),
)
