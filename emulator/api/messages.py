"""Messages and their log: look one up, cancel one or many, list what happened to them."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import CancelMessage
from emulator.core.errors import NotFound
from emulator.core.model.messages import Message
from emulator.core.record import MessageId
from emulator.core.rules.limits import events_since_ms, is_readable
from emulator.core.state import delivered_message
from emulator.wire import filters
from emulator.wire.messaging import views


async def get_message(call: MessagingCall) -> Response:
    return Answer(views.message(await _message(call, MessageId(call.name))))


async def _message(call: MessagingCall, message_id: MessageId) -> Message:
    """A live message, or one that has ended a short while ago. Raises NotFound."""
    progress = call.state.messages.get(message_id)
    if progress is not None and progress.message.account_id == call.account_id:
        return delivered_message(call.state, progress.message)
    ended = await call.world.history.ended_message(call.account_id, message_id)
    if ended is None or not is_readable(ended.ended_ms, call.state.now_ms):
        raise NotFound("message", message_id)
    return ended.message


async def cancel_message(call: MessagingCall) -> Response:
    await call.world.submit(CancelMessage(account_id=call.account_id, message_id=MessageId(call.name)))
    return Answer(views.cancelled(1))


async def cancel_messages(call: MessagingCall) -> Response:
    command = filters.read_cancellation(call.parts, call.dialect, call.account_id)
    return Answer(views.cancelled(await call.world.submit(command)))


# -- the event log, under its name and its older one ------------------------------------------


async def list_events(call: MessagingCall) -> Response:
    return await _list_events(call, maximum=filters.MAX_EVENTS, keys=("events",))


async def list_logs(call: MessagingCall) -> Response:
    return await _list_events(call, maximum=filters.MAX_LOGS, keys=("logs", "events"))


async def _list_events(call: MessagingCall, *, maximum: int, keys: tuple[str, ...]) -> Response:
    account = call.owner.account
    query = filters.read_event_query(call.parts, call.dialect, call.account_id, maximum=maximum)
    query = replace(query, since_ms=events_since_ms(account, call.state.now_ms), newest=account.max_events_size)
    trim = filters.read_trim(call.parts, call.dialect)
    if filters.groups_by_message(call.parts, call.dialect):
        return Answer(views.grouped_events_page(await call.world.history.events_by_message(query), trim))
    return Answer(views.events_page(await call.world.history.events(query), *keys, trim=trim))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("DELETE", "/v2/messages", cancel_messages, WRITE),
    MessagingRoute("GET", "/v2/messages/{name}", get_message, READ),
    MessagingRoute("DELETE", "/v2/messages/{name}", cancel_message, WRITE),
    MessagingRoute("GET", "/v2/events", list_events, READ),
    MessagingRoute("GET", "/v2/logs", list_logs, READ),
)
