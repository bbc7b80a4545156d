"""Messages and their log: publish, enqueue and batch, chat completions, look up, cancel, list what happened.

Publishes are limited by the daily quota, not by the limit of calls a second.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.endpoint import PASSED_ON, Answer
from emulator.api.messaging import PUBLISH, READ, WRITE, MessagingCall, MessagingRoute
from emulator.api.refused import keep_refused_item
from emulator.core.commands import CancelMessage, Publish, PublishBatch, PublishItem
from emulator.core.errors import Conflict, NotFound
from emulator.core.model.messages import Accepted, AttemptOutcome, CreatedBy, Message
from emulator.core.model.options import MessageOptions
from emulator.core.record import MessageId, QueueName
from emulator.core.rules.callbacks import decompressed
from emulator.core.rules.limits import events_since_ms, is_readable
from emulator.core.state import delivered_message
from emulator.queries.history import DeliveryQuery
from emulator.wire import filters, names
from emulator.wire.error_body import quota_headers
from emulator.wire.messaging import chat, requests, views
from emulator.wire.messaging.options import RequestKind
from emulator.wire.messaging.requests import options_beside_a_batch, read_publish, with_invoker
from emulator.wire.reasons import BESIDE_A_BATCH
from emulator.wire.urls import LLM, read_batch_destination
from emulator.worlds.world import World


async def publish(call: MessagingCall) -> Response:
    return await _publish(call, fixed_segments=2, kind=RequestKind.PUBLISH, queue=None)


async def enqueue(call: MessagingCall) -> Response:
    queue = names.read_queue_name(call.request.raw_segment(2))
    return await _publish(call, fixed_segments=3, kind=RequestKind.ENQUEUE, queue=queue)


async def _publish(call: MessagingCall, *, fixed_segments: int, kind: RequestKind, queue: QueueName | None) -> Response:
    destination = call.request.raw_rest(fixed_segments)
    item = read_publish(call.parts, call.dialect, destination, kind=kind, log_note=call.log_note, queue=queue)
    call.warn_of_ignored_options(item.destination, item.options, item.queue)
    item = call.traced(call.marked_if_of_real_time(item))
    reply = await call.world.submit(Publish(account_id=call.account_id, item=with_invoker(item, call.dialect)))
    call.note_deduplicated(reply.accepted)
    status = 202 if reply.accepted.is_deduplicated else 200
    return Answer(views.accepted(reply.accepted), status, quota_headers(reply.quota))


async def batch(call: MessagingCall) -> Response:
    call.warn_of_ignored(options_beside_a_batch(call.parts, call.dialect), BESIDE_A_BATCH)
    items = requests.read_batch(call.parts.body, call.dialect, call.parts.client_ip, call.log_note)
    for item in items:
        if isinstance(item, PublishItem):
            call.warn_of_ignored_options(item.destination, item.options, item.queue)
    marked = tuple(
        call.traced(call.marked_if_of_real_time(each)) if isinstance(each, PublishItem) else each for each in items
    )
    reply = await call.world.submit(PublishBatch(account_id=call.account_id, items=marked))
    for number, each in enumerate(reply.items, 1):
        if isinstance(each, Accepted):
            call.note_deduplicated(each)
        else:
            keep_refused_item(call.world, call.parts, call.account_id, number, each, call.dialect)
    return Answer(views.batch_reply(reply.items, call.dialect), headers=quota_headers(reply.quota))


# -- chat completions -------------------------------------------------------------------------
# Chat completions: the service's own language model, asked and answered in one call (D-312).


async def complete(call: MessagingCall) -> Response:
    parts = call.parts
    wants_stream = chat.read_wants_stream(parts.body)
    item = PublishItem(
        destination=read_batch_destination(LLM, call.dialect),
        body=parts.body,
        options=MessageOptions(max_retries=0, content_type="application/json"),
        caller_ip=parts.client_ip,
    )
    outcome = await publish_and_wait(
        call.world, Publish(account_id=call.account_id, item=call.traced(item), created_by=CreatedBy.CHAT)
    )
    if outcome.response is None:
        return Answer({"error": f"the model could not be asked: {outcome.error}"}, 502)
    answer = decompressed(outcome.response, ())
    if answer.is_truncated:
        # Half of a completion is none (D-790).
        return Answer({"error": "the model's answer is longer than 1 MiB unpacked, and so is not kept whole"}, 502)
    if wants_stream:
        answer = chat.as_stream(answer)
    return PassedOn(answer.body, answer.status, dict(chat.passed_on(answer.headers)))


# How often somebody who waits for a message looks whether the world still works.
_PATIENCE_S = 1.0


async def publish_and_wait(world: World, command: Publish) -> AttemptOutcome:
    """Publish one message and wait until it has ended; how it did, by its last attempt.

    On a frozen clock a rule's latency passes only when somebody moves the clock. Raises Refused
    as `submit`; Conflict if the message ends without an answer, or the world is reset or removed.
    """
    generation = world.generation
    with world.watches.watch() as watch:
        [published] = (await world.submit(command)).accepted.messages
        while published.message_id in world.state.messages and generation == world.generation:
            world.driver.check()
            await watch.wait(_PATIENCE_S)
    if generation == world.generation:
        await world.driver.commit()
        last = DeliveryQuery(message_id=published.message_id, limit=1, latest_first=True)
        for delivery in (await world.history.deliveries(last)).items:
            return delivery.outcome
    raise Conflict(f"message {published.message_id} has ended without an answer")


class PassedOn(Response):
    """What somebody else has answered, so that a status of 4xx is no refusal of ours."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PASSED_ON] = True
        await super().__call__(scope, receive, send)


# -- look one up, cancel one or many ----------------------------------------------------------


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


async def list_events(call: MessagingCall, *, maximum: int, keys: tuple[str, ...]) -> Response:
    account = call.owner.account
    query = filters.read_event_query(call.parts, call.dialect, call.account_id, maximum=maximum)
    query = replace(query, since_ms=events_since_ms(account, call.state.now_ms), newest=account.max_events_size)
    trim = filters.read_trim(call.parts, call.dialect)
    if filters.groups_by_message(call.parts, call.dialect):
        return Answer(views.grouped_events_page(await call.world.history.events_by_message(query), trim))
    return Answer(views.events_page(await call.world.history.events(query), *keys, trim=trim))


# The destination is the rest of the raw path, because a decoded path has lost the URL's own percent escapes.
ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/publish/{destination:path}", publish, PUBLISH),
    MessagingRoute("POST", "/v2/enqueue/{queueName}/{destination:path}", enqueue, PUBLISH),
    MessagingRoute("POST", "/v2/batch", batch, PUBLISH),
    MessagingRoute("POST", "/llm/v1/chat/completions", complete, WRITE),
    MessagingRoute("DELETE", "/v2/messages", cancel_messages, WRITE),
    MessagingRoute("GET", "/v2/messages/{name}", get_message, READ),
    MessagingRoute("DELETE", "/v2/messages/{name}", cancel_message, WRITE),
    MessagingRoute("GET", "/v2/events", partial(list_events, maximum=filters.MAX_EVENTS, keys=("events",)), READ),
    MessagingRoute("GET", "/v2/logs", partial(list_events, maximum=filters.MAX_LOGS, keys=("logs", "events")), READ),
)
