"""The event log, under its name and its older one."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, MessagingCall, MessagingRoute
from emulator.core.rules.retention import events_since_ms
from emulator.wire.messaging import filters, views


async def list_events(call: MessagingCall) -> Response:
    return await _list_events(call, maximum=filters.MAX_EVENTS, keys=("events",))


async def list_logs(call: MessagingCall) -> Response:
    return await _list_events(call, maximum=filters.MAX_LOGS, keys=("logs", "events"))


async def _list_events(call: MessagingCall, *, maximum: int, keys: tuple[str, ...]) -> Response:
    account = call.owner.account
    query = filters.read_event_query(call.parts, call.dialect, call.account_id, maximum=maximum)
    since_ms = events_since_ms(account, call.state.now_ms)
    page = await call.world.history.events(replace(query, since_ms=since_ms, newest=account.max_events_size))
    return Answer(views.events_page(page, *keys))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/events", list_events, READ),
    MessagingRoute("GET", "/v2/logs", list_logs, READ),
)
