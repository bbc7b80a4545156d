"""Accepting messages: publish, enqueue, batch, and what a schedule's firing publishes.

Accepting has two halves. `plan` looks at everything and refuses, changing nothing; `carry_out`
turns a plan into facts and cannot refuse.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from emulator.core.commands import Publish, PublishBatch, PublishItem
from emulator.core.decision import Decision, account_state
from emulator.core.errors import Refused
from emulator.core.facts import MessageCreated, PublishDeduplicated, QueueWritten
from emulator.core.identifiers import message_id as make_message_id
from emulator.core.model.messages import BriefMessage, CreatedBy, Message
from emulator.core.model.names import AccountId, GroupName, MessageId, ScheduleId
from emulator.core.model.options import DestinationKind, MessageOptions, Method
from emulator.core.model.resources import Endpoint
from emulator.core.record import Record
from emulator.core.replies import Accepted, BatchReply, DailyQuota, Published, PublishReply
from emulator.core.rules import deduplication, limits
from emulator.core.rules.attempts import bring_limits
from emulator.core.rules.options import (
    applied_in_a_queue,
    check_answer_is_heard,
    delivered_headers,
    first_delivery_ms,
    not_applied_in_a_queue,
    with_defaults,
)
from emulator.core.rules.queues import new_queue
from emulator.core.rules.url_groups import destination_group
from emulator.core.state_view import AccountView, StateView

_RARE_OPTIONS = ("retry_delay", "callback", "failure_callback", "labels", "redaction", "flow_control")


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
    return PublishReply(accepted=accepted, quota=_quota(state, command.account_id))


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
    return BatchReply(items=tuple(results), quota=_quota(state, command.account_id))


def _quota(state: StateView, account_id: AccountId) -> DailyQuota:
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
        options = with_defaults(options, group.defaults)
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
    yield from bring_limits(state, planned.account_id, planned.options.flow_control)
    published: list[Published] = []
    for endpoint in planned.endpoints:
        published.append((yield from _create(state, owner, planned, endpoint)))
    return Accepted(is_group=planned.url_group is not None, messages=tuple(published))


def _rare_fields(planned: PublishPlan, endpoint: Endpoint) -> dict[str, Any]:
    """The fields of a message that most have no value in; empty for those."""
    item, options = planned.item, planned.options
    found: dict[str, Any] = {}
    for name in _RARE_OPTIONS:
        value = getattr(options, name)
        if value is not None and value != ():
            found[name] = value
    if planned.url_group is not None:
        found |= {"url_group": planned.url_group, "endpoint_name": endpoint.name}
    if item.queue is not None:
        found["queue"] = item.queue
    if planned.schedule_id is not None:
        found["schedule_id"] = planned.schedule_id
    if item.destination.kind is DestinationKind.API:
        found["api"] = item.destination.text.removeprefix("api/")
    if planned.not_applied:
        found["not_applied"] = planned.not_applied
    return found


def _create(state: StateView, owner: AccountView, planned: PublishPlan, endpoint: Endpoint) -> Decision[Published]:
    item, options = planned.item, planned.options
    key = deduplication.key_of(item.destination, item.body, options, endpoint)
    if key is not None:
        earlier = deduplication.earlier_message(owner, key, state.now_ms)
        if earlier is not None:
            yield PublishDeduplicated(message_id=earlier, at_ms=state.now_ms)
            return Published(message_id=earlier, url=endpoint.url, deduplicated=True)
    account = owner.account
    now_ms = state.now_ms
    number = state.counters.messages + 1
    rare = _rare_fields(planned, endpoint)
    message = (Message if rare else BriefMessage)(
        message_id=MessageId(make_message_id(state.event_key, number)),
        number=number,
        account_id=planned.account_id,
        created_ms=now_ms,
        not_before_ms=first_delivery_ms(options, now_ms),
        url=endpoint.url,
        method=options.method or Method.POST,
        headers=delivered_headers(options),
        body=item.body,
        max_retries=limits.default_retries(account) if options.max_retries is None else options.max_retries,
        timeout_ms=limits.timeout_ms(account, options.timeout_ms),
        caller_ip=item.caller_ip,
        created_by=planned.created_by,
        **rare,
    )
    yield MessageCreated(
        message=message, deduplication_key=key, deduplicate_until_ms=now_ms + deduplication.WINDOW_MS if key else 0
    )
    return Published(message_id=message.message_id, url=endpoint.url, deduplicated=False)
