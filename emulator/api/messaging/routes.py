"""The messaging API: publish, batch, schedules, URL groups, queues, messages, history, keys.

A handler reads the request into a command, submits it, and shows the reply; nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer, Endpoint, Request
from emulator.core import commands
from emulator.core.errors import Forbidden, NotFound, Unauthenticated
from emulator.core.model import (
    AccountId,
    DeadLetterId,
    Destination,
    FlowKey,
    MessageId,
    MessageOptions,
    QueueName,
    ScheduleId,
)
from emulator.core.rules.flow_keys import flow_key as find_flow_key
from emulator.core.rules.limits import check_account_is_active, daily_quota, default_retries
from emulator.core.rules.options import not_applied_in_a_queue
from emulator.core.rules.retention import events_since_ms, is_readable
from emulator.core.state_view import AccountView
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, Page
from emulator.wire import names
from emulator.wire.credentials import bearer_token
from emulator.wire.dialect import Dialect
from emulator.wire.error_body import quota_headers
from emulator.wire.messaging import bodies as json_bodies
from emulator.wire.messaging import filters, flow_requests, views
from emulator.wire.messaging import options as message_options
from emulator.wire.messaging.destinations import read_destination
from emulator.wire.messaging.options import RequestKind, read_options
from emulator.wire.parts import RequestParts
from emulator.wire.reasons import not_applied
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A messaging call by an account of a world."""

    request: Request
    dialect: Dialect
    world: World
    account_id: AccountId

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def book(self) -> AccountView:
        return self.world.state.accounts[self.account_id]

    @property
    def name(self) -> str:
        """The path parameter that names what the call is about."""
        return self.request.path_parameters["name"]

    @property
    def flow_key(self) -> FlowKey:
        """The flow control key before an action: all between the path's fixed parts, as a key may hold slashes."""
        return names.read_flow_key(self.request.raw_rest(2).rpartition("/")[0])


def endpoints(worlds: Worlds) -> dict[str, Endpoint[Call]]:
    """Every path of the API with its operations (D-055); the destination of a publish is the rest of the raw path."""
    dialect = worlds.dialect

    async def open_publish(request: Request) -> Call:
        token = bearer_token(request.parts, dialect)
        caller = None if token is None else worlds.by_token(token)
        if caller is None:
            raise Unauthenticated("unable to authenticate: invalid token")
        # D-053
        if caller.is_read_only and request.parts.method != "GET":
            raise Forbidden("the read-only token cannot publish, create or change anything")
        check_account_is_active(caller.world.state.accounts[caller.account_id].account)
        return Call(request=request, dialect=dialect, world=caller.world, account_id=caller.account_id)

    async def open_call(request: Request) -> Call:
        call = await open_publish(request)
        # What has come due comes first. A publish need not wait for it here: submitting sees to that.
        await call.world.current_state()
        call.world.count_call(call.account_id)
        return call

    return {
        path: Endpoint(dialect, open_publish if path in _WITHOUT_BURST_LIMIT else open_call, handlers)
        for path, handlers in _OPERATIONS.items()
    }


# -- publish, enqueue, batch ------------------------------------------------------------------


async def publish(call: Call) -> Response:
    return await _publish(call, fixed_segments=2, kind=RequestKind.PUBLISH, queue=None)


async def enqueue(call: Call) -> Response:
    queue = names.read_queue_name(call.request.raw_segment(2), field="queue")
    return await _publish(call, fixed_segments=3, kind=RequestKind.ENQUEUE, queue=queue)


async def _publish(call: Call, *, fixed_segments: int, kind: RequestKind, queue: QueueName | None) -> Response:
    parts = call.parts
    item = commands.PublishItem(
        destination=read_destination(call.request.raw_rest(fixed_segments), parts.raw_query, call.dialect),
        body=parts.body,
        options=read_options(parts, call.dialect, kind=kind),
        caller_ip=parts.client_ip,
        queue=queue,
    )
    _log_what_a_queue_ignores(call, item.destination, item.options, item.queue)
    reply = await call.world.submit(commands.Publish(account_id=call.account_id, item=item))
    deduplicated = all(message.deduplicated for message in reply.messages)
    status = 202 if deduplicated and reply.messages else 200
    return Answer(views.publish_reply(reply), status, _daily_quota(call))


def _log_what_a_queue_ignores(
    call: Call, destination: Destination, options: MessageOptions, queue: QueueName | None, *, keeps_delay: bool = False
) -> None:
    """The service applies none of these to a queued message; nobody should have to find that out (D-021)."""
    if queue is None and options.queue is None:
        return
    names = [
        call.dialect.rename_field_at_fault(name) for name in not_applied_in_a_queue(options, keeps_delay=keeps_delay)
    ]
    if names:
        logger.warning("%s (to %s)", not_applied(names), destination.text)


def _daily_quota(call: Call) -> dict[str, str]:
    """What is left of the day, on every answer to a call that counts against it (D-028)."""
    quota = daily_quota(call.book, call.world.state.now_ms)
    return dict(quota_headers(quota.limit, quota.remaining, quota.reset_s, daily=True))


async def batch(call: Call) -> Response:
    items = json_bodies.read_batch(call.parts.body, call.dialect, call.parts.client_ip)
    for item in items:
        if isinstance(item, commands.PublishItem):
            _log_what_a_queue_ignores(call, item.destination, item.options, item.queue)
    replies = await call.world.submit(commands.PublishBatch(account_id=call.account_id, items=items))
    return Answer(views.batch_reply(replies, call.dialect), headers=_daily_quota(call))


# -- messages ---------------------------------------------------------------------------------


async def get_message(call: Call) -> Response:
    progress = call.world.state.messages.get(MessageId(call.name))
    if progress is not None and progress.message.account_id == call.account_id:
        return Answer(views.message(progress.message))
    ended = await call.world.history.ended_message(call.account_id, MessageId(call.name))
    if ended is None or not is_readable(ended.ended_ms, call.world.state.now_ms):
        raise NotFound(f"message {call.name} not found")
    return Answer(views.message(ended.message))


async def cancel_message(call: Call) -> Response:
    command = commands.CancelMessage(account_id=call.account_id, message_id=MessageId(call.name))
    await call.world.submit(command)
    return Answer(views.cancelled(1))


async def cancel_messages(call: Call) -> Response:
    wanted = filters.read_cancellation(call.parts, call.dialect)
    command = commands.CancelMessages(account_id=call.account_id, wanted=wanted.wanted, count=wanted.count)
    return Answer(views.cancelled(await call.world.submit(command)))


# -- schedules --------------------------------------------------------------------------------


async def write_schedule(call: Call) -> Response:
    parts = call.parts
    command = commands.WriteSchedule(
        account_id=call.account_id,
        schedule_id=message_options.read_schedule_id(parts, call.dialect),
        cron=message_options.read_cron(parts, call.dialect),
        destination=read_destination(call.request.raw_rest(2), parts.raw_query, call.dialect),
        body=parts.body,
        options=read_options(parts, call.dialect, kind=RequestKind.SCHEDULE),
        caller_ip=parts.client_ip,
    )
    _log_what_a_queue_ignores(call, command.destination, command.options, None, keeps_delay=True)
    return Answer(views.schedule_created(await call.world.submit(command)))


async def list_schedules(call: Call) -> Response:
    return Answer([views.schedule(each, default_retries(call.book.account)) for each in call.book.schedules.values()])


async def get_schedule(call: Call) -> Response:
    progress = call.book.schedules.get(ScheduleId(call.name))
    if progress is None:
        raise NotFound(f"schedule {call.name} not found")
    return Answer(views.schedule(progress, default_retries(call.book.account)))


async def delete_schedule(call: Call) -> Response:
    await call.world.submit(commands.DeleteSchedule(account_id=call.account_id, schedule_id=ScheduleId(call.name)))
    return Answer()


async def pause_schedule(call: Call) -> Response:
    return await _set_schedule_paused(call, paused=True)


async def resume_schedule(call: Call) -> Response:
    return await _set_schedule_paused(call, paused=False)


async def _set_schedule_paused(call: Call, *, paused: bool) -> Response:
    """The same for POST, as the service says, and PATCH, as its clients do (D-039)."""
    command = commands.SetSchedulePaused(account_id=call.account_id, schedule_id=ScheduleId(call.name), paused=paused)
    await call.world.submit(command)
    return Answer()


# -- URL groups -------------------------------------------------------------------------------


async def list_url_groups(call: Call) -> Response:
    return Answer([views.url_group(group) for group in call.book.groups.values()])


async def get_url_group(call: Call) -> Response:
    group = call.book.groups.get(names.read_group_name(call.name))
    if group is None:
        raise NotFound(f"topic {call.name} not found")
    return Answer(views.url_group(group))


async def delete_url_group(call: Call) -> Response:
    name = names.read_group_name(call.name)
    await call.world.submit(commands.DeleteUrlGroup(account_id=call.account_id, name=name))
    return Answer()


async def set_group_defaults(call: Call) -> Response:
    """Answers the group's record (D-057)."""
    name = names.read_group_name(call.name)
    given = json_bodies.read_group_defaults(call.parts.body, call.dialect)
    await call.world.submit(
        commands.SetGroupDefaults(account_id=call.account_id, name=name, headers=given.headers, defaults=given.options)
    )
    return Answer(views.url_group(call.book.groups[name]))


async def add_endpoints(call: Call) -> Response:
    name = names.read_group_name(call.name)
    endpoints = json_bodies.read_endpoints(call.parts.body)
    await call.world.submit(commands.UpsertEndpoints(account_id=call.account_id, name=name, endpoints=endpoints))
    return Answer()


async def remove_endpoints(call: Call) -> Response:
    name = names.read_group_name(call.name)
    selectors = json_bodies.read_endpoint_selectors(call.parts.body)
    await call.world.submit(commands.RemoveEndpoints(account_id=call.account_id, name=name, selectors=selectors))
    return Answer()


# -- queues -----------------------------------------------------------------------------------


async def list_queues(call: Call) -> Response:
    return Answer([views.queue(queue, call.book.queue_lag[queue.name]) for queue in call.book.queues.values()])


async def get_queue(call: Call) -> Response:
    name = names.read_queue_name(call.name)
    queue = call.book.queues.get(name)
    if queue is None:
        raise NotFound(f"queue {name} not found")
    return Answer(views.queue(queue, call.book.queue_lag[name]))


async def upsert_queue(call: Call) -> Response:
    given = json_bodies.read_queue(call.parts.body)
    await call.world.submit(
        commands.UpsertQueue(
            account_id=call.account_id, name=given.name, parallelism=given.parallelism, paused=given.paused
        )
    )
    return Answer()


async def delete_queue(call: Call) -> Response:
    name = names.read_queue_name(call.name)
    await call.world.submit(commands.DeleteQueue(account_id=call.account_id, name=name))
    return Answer()


async def pause_queue(call: Call) -> Response:
    return await _set_queue_paused(call, paused=True)


async def resume_queue(call: Call) -> Response:
    return await _set_queue_paused(call, paused=False)


async def _set_queue_paused(call: Call, *, paused: bool) -> Response:
    name = names.read_queue_name(call.name)
    await call.world.submit(commands.SetQueuePaused(account_id=call.account_id, name=name, paused=paused))
    return Answer()


# -- flow control -----------------------------------------------------------------------------


async def list_flow_keys(call: Call) -> Response:
    """A bare list; the search is a part of the key, in its very letters (D-059)."""
    search = flow_requests.read_search(call.parts)
    book, now_ms = call.book, call.world.state.now_ms
    return Answer(
        [
            views.flow_key(flow, len(book.flow_wait_lists[key]), now_ms)
            for key, flow in book.flow_keys.items()
            if search is None or search in key
        ]
    )


async def get_flow_key(call: Call) -> Response:
    key = names.read_flow_key(call.request.raw_rest(2))
    flow = find_flow_key(call.world.state, call.account_id, key)
    return Answer(views.flow_key(flow, len(call.book.flow_wait_lists[key]), call.world.state.now_ms))


async def pause_flow_key(call: Call) -> Response:
    return await _set_flow_paused(call, paused=True)


async def resume_flow_key(call: Call) -> Response:
    return await _set_flow_paused(call, paused=False)


async def _set_flow_paused(call: Call, *, paused: bool) -> Response:
    await call.world.submit(commands.SetFlowPaused(account_id=call.account_id, key=call.flow_key, paused=paused))
    return Answer()


async def pin_flow_key(call: Call) -> Response:
    key, pin = call.flow_key, flow_requests.read_pin(call.parts, call.dialect)
    await call.world.submit(
        commands.PinFlow(
            account_id=call.account_id,
            key=key,
            parallelism=pin.parallelism,
            rate=pin.rate,
            period_ms=pin.period_ms,
        )
    )
    return Answer()


async def unpin_flow_key(call: Call) -> Response:
    key, unpin = call.flow_key, flow_requests.read_unpin(call.parts, call.dialect)
    await call.world.submit(
        commands.UnpinFlow(account_id=call.account_id, key=key, parallelism=unpin.parallelism, rate=unpin.rate)
    )
    return Answer()


async def reset_flow_key(call: Call) -> Response:
    return await _reset_flow(call, parallelism=True)


async def reset_flow_rate(call: Call) -> Response:
    return await _reset_flow(call, parallelism=False)


async def _reset_flow(call: Call, *, parallelism: bool) -> Response:
    await call.world.submit(commands.ResetFlow(account_id=call.account_id, key=call.flow_key, parallelism=parallelism))
    return Answer()


async def get_global_parallelism(call: Call) -> Response:
    return Answer(views.global_parallelism(call.book.account.max_global_parallelism, call.book.active))


# -- history ----------------------------------------------------------------------------------


async def list_events(call: Call) -> Response:
    return await _list_events(call, maximum=filters.MAX_EVENTS, keys=("events",))


async def list_logs(call: Call) -> Response:
    return await _list_events(call, maximum=filters.MAX_LOGS, keys=("logs", "events"))


async def _list_events(call: Call, *, maximum: int, keys: tuple[str, ...]) -> Response:
    query = filters.read_event_query(call.parts, call.dialect, call.account_id, maximum=maximum)
    account = call.book.account
    since_ms = events_since_ms(account, call.world.state.now_ms)
    query = replace(query, since_ms=since_ms, newest=account.max_events_size)
    return Answer(views.events_page(await call.world.history.events(query), *keys))


async def list_dead_letters(call: Call) -> Response:
    return Answer(views.dead_letters_page(await _selected(call)))


async def get_dead_letter(call: Call) -> Response:
    page = await call.world.history.dead_letters(_just(call))
    if not page.items:
        raise NotFound(f"dlq message {call.name} not found")
    return Answer(views.dead_letter(page.items[0]))


async def delete_dead_letter(call: Call) -> Response:
    wanted = (DeadLetterId(call.name),)
    await call.world.submit(commands.DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))
    return Answer()


async def delete_dead_letters(call: Call) -> Response:
    """Without ids and filters, one page of all of them (D-061)."""
    page = await _selected(call)
    wanted = tuple(entry.dead_letter_id for entry in page.items)
    count = await call.world.submit(
        commands.DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=False)
    )
    return Answer(views.dead_letters_deleted(count, page.cursor))


async def retry_dead_letter(call: Call) -> Response:
    page = await call.world.history.dead_letters(_just(call))
    if not page.items:
        raise NotFound(f"dlq message {call.name} not found")
    published = await _retry(call, page, strict=True)
    return Answer({"messageId": published[0].message_id}, 201)


async def retry_dead_letters(call: Call) -> Response:
    page = await _selected(call)
    published = await _retry(call, page, strict=False)
    return Answer(views.dead_letters_retried(published, page.cursor), 201)


async def _retry(call: Call, page: Page[DeadLetterEntry], *, strict: bool) -> tuple[commands.Published, ...]:
    entries = tuple(
        commands.DeadLetterContent(dead_letter_id=entry.dead_letter_id, message=entry.message) for entry in page.items
    )
    overrides = read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY)
    return await call.world.submit(
        commands.RetryDeadLetters(account_id=call.account_id, entries=entries, overrides=overrides, strict=strict)
    )


async def _selected(call: Call) -> Page[DeadLetterEntry]:
    """The dead letters that a listing or bulk call means."""
    selection = filters.read_dead_letter_selection(call.parts, call.dialect, call.account_id)
    if selection.is_empty:
        return Page(items=(), cursor=None)
    return await call.world.history.dead_letters(selection.query)


def _just(call: Call) -> DeadLetterQuery:
    """The query for the one dead letter that the path names."""
    return DeadLetterQuery(account_id=call.account_id, count=1, dead_letter_ids=(call.name,))


# -- signing keys -----------------------------------------------------------------------------


async def get_signing_keys(call: Call) -> Response:
    """Where receivers get their keys from (D-058)."""
    return Answer(views.signing_keys(call.book.account.signing_keys))


async def rotate_signing_keys(call: Call) -> Response:
    keys = await call.world.submit(commands.RotateSigningKeys(account_id=call.account_id))
    return Answer(views.signing_keys(keys))


Handler = Callable[[Call], Awaitable[Response]]

# The calls whose number is limited by the day; all others are limited by the second (D-032).
_WITHOUT_BURST_LIMIT = frozenset(
    ("/v2/publish/{destination:path}", "/v2/enqueue/{queue}/{destination:path}", "/v2/batch")
)

_OPERATIONS: Mapping[str, Mapping[str, Handler]] = {
    "/v2/publish/{destination:path}": {"POST": publish},
    "/v2/enqueue/{queue}/{destination:path}": {"POST": enqueue},
    "/v2/batch": {"POST": batch},
    "/v2/messages": {"DELETE": cancel_messages},
    "/v2/messages/{name}": {"GET": get_message, "DELETE": cancel_message},
    "/v2/schedules": {"GET": list_schedules},
    "/v2/schedules/{name}/pause": {"POST": pause_schedule, "PATCH": pause_schedule},
    "/v2/schedules/{name}/resume": {"POST": resume_schedule, "PATCH": resume_schedule},
    "/v2/schedules/{name}": {"GET": get_schedule, "DELETE": delete_schedule, "POST": write_schedule},
    "/v2/schedules/{destination:path}": {"POST": write_schedule},
    "/v2/topics": {"GET": list_url_groups},
    "/v2/topics/{name}": {"GET": get_url_group, "DELETE": delete_url_group, "PATCH": set_group_defaults},
    "/v2/topics/{name}/endpoints": {"POST": add_endpoints, "DELETE": remove_endpoints},
    "/v2/queues": {"GET": list_queues, "POST": upsert_queue},
    "/v2/queues/{name}": {"GET": get_queue, "DELETE": delete_queue},
    "/v2/queues/{name}/pause": {"POST": pause_queue},
    "/v2/queues/{name}/resume": {"POST": resume_queue},
    "/v2/flowControl": {"GET": list_flow_keys},
    "/v2/flowControl/{name:path}/pause": {"POST": pause_flow_key},
    "/v2/flowControl/{name:path}/resume": {"POST": resume_flow_key},
    "/v2/flowControl/{name:path}/pin": {"POST": pin_flow_key},
    "/v2/flowControl/{name:path}/unpin": {"POST": unpin_flow_key},
    "/v2/flowControl/{name:path}/reset": {"POST": reset_flow_key},
    "/v2/flowControl/{name:path}/resetRate": {"POST": reset_flow_rate},
    "/v2/flowControl/{name:path}": {"GET": get_flow_key},
    "/v2/globalParallelism": {"GET": get_global_parallelism},
    "/v2/events": {"GET": list_events},
    "/v2/logs": {"GET": list_logs},
    "/v2/dlq": {"GET": list_dead_letters, "DELETE": delete_dead_letters},
    "/v2/dlq/retry": {"POST": retry_dead_letters},
    "/v2/dlq/retry/{name}": {"POST": retry_dead_letter},
    "/v2/dlq/{name}": {"GET": get_dead_letter, "DELETE": delete_dead_letter},
    "/v2/keys": {"GET": get_signing_keys},
    "/v2/keys/rotate": {"POST": rotate_signing_keys},
    "/v2/rotate": {"POST": rotate_signing_keys},
}
