"""Publish, enqueue and batch: calls that the daily quota limits, not the limit of calls a second."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import PUBLISH, MessagingCall, MessagingRoute
from emulator.core.commands import Publish, PublishBatch, PublishItem
from emulator.core.model.names import QueueName
from emulator.core.replies import Accepted
from emulator.wire import names
from emulator.wire.error_body import quota_headers
from emulator.wire.messaging import bodies, views
from emulator.wire.messaging.invocations import with_invoker
from emulator.wire.messaging.options import RequestKind
from emulator.wire.messaging.publishes import options_beside_a_batch, read_publish
from emulator.wire.reasons import BESIDE_A_BATCH


async def publish(call: MessagingCall) -> Response:
    return await _publish(call, fixed_segments=2, kind=RequestKind.PUBLISH, queue=None)


async def enqueue(call: MessagingCall) -> Response:
    queue = names.read_queue_name(call.request.raw_segment(2))
    return await _publish(call, fixed_segments=3, kind=RequestKind.ENQUEUE, queue=queue)


async def _publish(call: MessagingCall, *, fixed_segments: int, kind: RequestKind, queue: QueueName | None) -> Response:
    destination = call.request.raw_rest(fixed_segments)
    item = read_publish(call.parts, call.dialect, destination, kind=kind, tell=call.tell_of_unused, queue=queue)
    call.warn_of_ignored_options(item.destination, item.options, item.queue)
    reply = await call.world.submit(Publish(account_id=call.account_id, item=with_invoker(item, call.dialect)))
    call.note_deduplicated(reply.accepted)
    status = 202 if reply.accepted.is_deduplicated else 200
    return Answer(views.accepted(reply.accepted), status, quota_headers(reply.quota))


async def batch(call: MessagingCall) -> Response:
    call.warn_of_ignored(options_beside_a_batch(call.parts, call.dialect), BESIDE_A_BATCH)
    items = bodies.read_batch(call.parts.body, call.dialect, call.parts.client_ip, call.tell_of_unused)
    for item in items:
        if isinstance(item, PublishItem):
            call.warn_of_ignored_options(item.destination, item.options, item.queue)
    reply = await call.world.submit(PublishBatch(account_id=call.account_id, items=items))
    for each in reply.items:
        if isinstance(each, Accepted):
            call.note_deduplicated(each)
    return Answer(views.batch_reply(reply.items, call.dialect), headers=quota_headers(reply.quota))


# The destination is the rest of the raw path, because a decoded path has lost the URL's own percent escapes.
ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/publish/{destination:path}", publish, PUBLISH),
    MessagingRoute("POST", "/v2/enqueue/{queueName}/{destination:path}", enqueue, PUBLISH),
    MessagingRoute("POST", "/v2/batch", batch, PUBLISH),
)
