"""Publish, enqueue and batch, which the daily quota limits, not the limit of calls a second; and chat completions."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.endpoint import PASSED_ON, Answer
from emulator.api.messaging import PUBLISH, WRITE, MessagingCall, MessagingRoute
from emulator.api.refused import keep_refused_item
from emulator.core.commands import Publish, PublishBatch, PublishItem
from emulator.core.errors import Conflict
from emulator.core.model.messages import Accepted, AttemptOutcome, CreatedBy
from emulator.core.model.options import MessageOptions
from emulator.core.record import QueueName
from emulator.core.rules.callbacks import decompressed
from emulator.queries.history import DeliveryQuery
from emulator.wire import names
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
        page = await world.history.deliveries(DeliveryQuery(message_id=published.message_id))
        if page.items:
            return page.items[-1].outcome
    raise Conflict(f"message {published.message_id} has ended without an answer")


class PassedOn(Response):
    """What somebody else has answered, so that a status of 4xx is no refusal of ours."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PASSED_ON] = True
        await super().__call__(scope, receive, send)


# The destination is the rest of the raw path, because a decoded path has lost the URL's own percent escapes.
ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/publish/{destination:path}", publish, PUBLISH),
    MessagingRoute("POST", "/v2/enqueue/{queueName}/{destination:path}", enqueue, PUBLISH),
    MessagingRoute("POST", "/v2/batch", batch, PUBLISH),
    MessagingRoute("POST", "/llm/v1/chat/completions", complete, WRITE),
)
