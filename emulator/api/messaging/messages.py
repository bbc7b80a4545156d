"""Messages: look one up, cancel one or many."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import CancelMessage
from emulator.core.errors import NotFound
from emulator.core.model.messages import Message
from emulator.core.model.names import MessageId
from emulator.core.rules.retention import is_readable
from emulator.wire.messaging import filters, views


async def get_message(call: MessagingCall) -> Response:
    return Answer(views.message(await _message(call, MessageId(call.name))))


async def _message(call: MessagingCall, message_id: MessageId) -> Message:
    """A live message, or one that has ended a short while ago. Raises NotFound."""
    progress = call.state.messages.get(message_id)
    if progress is not None and progress.message.account_id == call.account_id:
        return progress.message
    ended = await call.world.history.ended_message(call.account_id, message_id)
    if ended is None or not is_readable(ended.ended_ms, call.state.now_ms):
        raise NotFound(f"message {message_id} not found")
    return ended.message


async def cancel_message(call: MessagingCall) -> Response:
    await call.world.submit(CancelMessage(account_id=call.account_id, message_id=MessageId(call.name)))
    return Answer(views.cancelled(1))


async def cancel_messages(call: MessagingCall) -> Response:
    command = filters.read_cancellation(call.parts, call.dialect, call.account_id)
    return Answer(views.cancelled(await call.world.submit(command)))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("DELETE", "/v2/messages", cancel_messages, WRITE),
    MessagingRoute("GET", "/v2/messages/{name}", get_message, READ),
    MessagingRoute("DELETE", "/v2/messages/{name}", cancel_message, WRITE),
)
