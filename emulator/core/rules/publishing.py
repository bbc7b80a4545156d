"""Accepting messages: publish, enqueue, batch, and what a schedule's firing publishes.

Accepting has two halves. `plan` looks at everything and refuses, changing nothing; `carry_out`
turns a plan into facts and cannot refuse.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from msgspec.structs import replace

from emulator.core.commands import Publish, PublishBatch, PublishItem
from emulator.core.errors import Refused
from emulator.core.message_facts import MessageCreated, PublishDeduplicated
from emulator.core.model.messages import (
    Accepted,
    BatchReply,
    CreatedBy,
    DailyQuota,
    Message,
    PublishedMessage,
    PublishReply,
    Source,
)
from emulator.core.model.options import Destination, DestinationKind, MessageOptions, Method
from emulator.core.model.resources import Endpoint, new_queue
from emulator.core.record import AccountId, GroupName, MessageId, Record, ScheduleId
from emulator.core.record import message_id as make_message_id
from emulator.core.resource_facts import QueueWritten
from emulator.core.rules import limits
from emulator.core.rules.attempts import set_flow_limits
from emulator.core.rules.options import (
    applied_in_a_queue,
    check_answer_is_heard,
    delivered_headers,
    first_delivery_ms,
    not_applied_in_a_queue,
    policy_of,
    with_callback_defaults,
)
from emulator.core.rules.resources import destination_group
from emulator.core.state import AccountView, Decision, StateView, account_state

# -- deduplication ------------------------------------------------------------------------------

DEDUPLICATION_MS = 600_000  # Ten minutes for both kinds (D-023).


def deduplication_key(destination: Destination, body: bytes, options: MessageOptions, endpoint: Endpoint) -> str | None:
    """The key under which a message is deduplicated, or None if it asks for no deduplication.

    The given id wins over the content. The content is the destination as named, the body, the
    content type and the forwarded headers. Each endpoint of a group has keys of its own.
    """
    if options.deduplication_id is not None:
        text = f"id:{options.deduplication_id}"
    elif options.content_deduplication:
        digest = hashlib.sha256()
        texts = [destination.kind.value, destination.text, options.content_type or ""]
        for name, value in sorted((name.lower(), value) for name, value in options.forwarded):
            texts += [name, value]
        for part in (body, *(text.encode("utf-8", "surrogatepass") for text in texts)):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        text = f"content:{digest.hexdigest()}"
    else:
        return None
    if destination.kind is not DestinationKind.GROUP:
        return text
    # Two endpoints may share a URL as long as their names differ.
    return f"{text}@{endpoint.name or ''}@{endpoint.url}"


# -- publishing ---------------------------------------------------------------------------------


class PublishPlan(Record):
    """A publish that nothing speaks against: one message to create for each endpoint."""

    account_id: AccountId
    item: PublishItem
    options: MessageOptions
    url_group: GroupName | None
    endpoints: tuple[Endpoint, ...]
    schedule_id: ScheduleId | None
    created_by: CreatedBy
    not_applied: tuple[str, ...]


def publish(state: StateView, command: Publish) -> Decision[PublishReply]:
    accepted = yield from carry_out(state, plan(state, command.account_id, command.item, created_by=command.created_by))
    return PublishReply(accepted=accepted, quota=quota(state, command.account_id))


def publish_batch(state: StateView, command: PublishBatch) -> Decision[BatchReply]:
    results: list[Accepted | Refused] = []
    for item in command.items:
        if isinstance(item, Refused):
            results.append(item)
            continue
        try:
            planned = plan(state, command.account_id, item, created_by=CreatedBy.BATCH)
        except Refused as refusal:
            results.append(refusal)
            continue
        results.append((yield from carry_out(state, planned)))
    return BatchReply(items=tuple(results), quota=quota(state, command.account_id))


def quota(state: StateView, account_id: AccountId) -> DailyQuota:
    """Where a publish has left the account's quota."""
    return limits.daily_quota(account_state(state, account_id), state.now_ms)


def plan(
    state: StateView,
    account_id: AccountId,
    item: PublishItem,
    schedule_id: ScheduleId | None = None,
    created_by: CreatedBy = CreatedBy.PUBLISH,
) -> PublishPlan:
    """Check one publish against the account and its plan. Raises Refused; changes nothing."""
    owner = account_state(state, account_id)
    account = owner.account
    limits.check_account_is_active(account)
    options = item.options
    group_name: GroupName | None = None
    if item.destination.kind is DestinationKind.GROUP:
        group_name = GroupName(item.destination.text)
        group = destination_group(owner, group_name)
        options = with_callback_defaults(options, group.defaults)
        endpoints = group.endpoints
    else:
        endpoints = (Endpoint(url=item.destination.url or item.destination.text, name=None),)
    queue = item.queue or options.queue
    keeps_delay = schedule_id is not None
    not_applied = not_applied_in_a_queue(options, queue, keeps_delay=keeps_delay)
    if queue is not None:
        options = applied_in_a_queue(options, keeps_delay=keeps_delay)
        if queue not in owner.queues:
            limits.check_count("maxQueues", len(owner.queues), account.max_queues)
    limits.check_message_size(account, len(item.body))
    limits.check_options(account, options, state.now_ms)
    if created_by is not CreatedBy.CHAT:
        check_answer_is_heard(item.destination, options)
    limits.check_daily_quota(owner, state.now_ms, len(endpoints))
    return PublishPlan(
        account_id=account_id,
        item=replace(item, queue=queue) if queue is not item.queue else item,
        options=options,
        url_group=group_name,
        endpoints=endpoints,
        schedule_id=schedule_id,
        created_by=created_by,
        not_applied=not_applied,
    )


def carry_out(state: StateView, planned: PublishPlan) -> Decision[Accepted]:
    """Create the planned messages, leaving out duplicates of earlier ones."""
    owner = state.accounts[planned.account_id]
    queue = planned.item.queue
    if queue is not None and queue not in owner.queues:
        yield QueueWritten(queue=new_queue(planned.account_id, queue, state.now_ms))
    yield from set_flow_limits(state, planned.account_id, planned.options.flow_control)
    published: list[PublishedMessage] = []
    for endpoint in planned.endpoints:
        published.append((yield from _create(state, owner, planned, endpoint)))
    return Accepted(is_group=planned.url_group is not None, messages=tuple(published))


@lru_cache(maxsize=1024)
def _source(
    caller_ip: str,
    created_by: CreatedBy,
    url_group: GroupName | None,
    endpoint_name: str | None,
    schedule_id: ScheduleId | None,
    api: str | None,
    not_applied: tuple[str, ...],
    real_not_before_ms: int | None,
    traceparent: str | None,
) -> Source:
    """One object for all messages that come from the same."""
    return Source(
        caller_ip=caller_ip,
        created_by=created_by,
        url_group=url_group,
        endpoint_name=endpoint_name,
        schedule_id=schedule_id,
        api=api,
        not_applied=not_applied,
        real_not_before_ms=real_not_before_ms,
        traceparent=traceparent,
    )


def _create(
    state: StateView, owner: AccountView, planned: PublishPlan, endpoint: Endpoint
) -> Decision[PublishedMessage]:
    item, options = planned.item, planned.options
    key = deduplication_key(item.destination, item.body, options, endpoint)
    if key is not None:
        earlier = owner.deduplications.get(key)
        if earlier is not None and state.now_ms < earlier[1]:
            yield PublishDeduplicated(message_id=earlier[0], at_ms=state.now_ms)
            return PublishedMessage(message_id=earlier[0], url=endpoint.url, deduplicated=True)
    account = owner.account
    now_ms = state.now_ms
    number = state.counters.messages + 1
    message = Message(
        message_id=MessageId(make_message_id(state.event_key, number)),
        number=number,
        account_id=planned.account_id,
        created_ms=now_ms,
        not_before_ms=first_delivery_ms(options, now_ms),
        url=endpoint.url,
        method=options.method or Method.POST,
        headers=delivered_headers(options),
        body=item.body,
        policy=policy_of(
            options,
            max_retries=limits.default_retries(account) if options.max_retries is None else options.max_retries,
            timeout_ms=limits.timeout_ms(account, options.timeout_ms),
            queue=item.queue,
        ),
        source=_source(
            item.caller_ip,
            planned.created_by,
            planned.url_group,
            None if planned.url_group is None else endpoint.name,
            planned.schedule_id,
            item.destination.api,
            planned.not_applied,
            options.not_before_ms if item.is_near_real_time else None,
            item.traceparent,
        ),
    )
    yield MessageCreated(
        message=message, deduplication_key=key, deduplicate_until_ms=now_ms + DEDUPLICATION_MS if key else 0
    )
    return PublishedMessage(message_id=message.message_id, url=endpoint.url, deduplicated=False)
