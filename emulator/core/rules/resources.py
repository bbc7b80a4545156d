"""Commands on what is made by name: queues, flow control keys, URL groups."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import (
    DeleteQueue,
    DeleteUrlGroup,
    PinFlow,
    RemoveEndpoints,
    ResetFlow,
    SetFlowPaused,
    SetGroupDefaults,
    SetQueuePaused,
    UnpinFlow,
    UpsertEndpoints,
    UpsertQueue,
)
from emulator.core.errors import InvalidInput, LimitReached, NotFound
from emulator.core.model.options import DestinationKind, MessageOptions
from emulator.core.model.resources import Endpoint, FlowState, Queue, UrlGroup, new_queue
from emulator.core.record import AccountId, FlowKey, GroupName, QueueName
from emulator.core.resource_facts import FlowCountersReset, QueueDeleted, QueueWritten, UrlGroupDeleted, UrlGroupWritten
from emulator.core.rules import attempts, limits
from emulator.core.rules.attempts import admit_by_key, admit_from_queue
from emulator.core.rules.dead_letters import cancel
from emulator.core.state import AccountView, Decision, StateView, account_state, found

# -- queues -------------------------------------------------------------------------------------
# Who may start from a queue is decided in `attempts.py`.


def queue(state: StateView, account_id: AccountId, name: QueueName) -> Queue:
    """Raises NotFound for a queue that the account does not have."""
    return found(account_state(state, account_id).queues, name, "queue")


def upsert_queue(state: StateView, command: UpsertQueue) -> Decision[None]:
    """Create a queue, or change what the command names of one that exists; both may let messages start."""
    owner = account_state(state, command.account_id)
    account = owner.account
    limits.check_account_is_active(account)
    if command.parallelism is not None and command.parallelism > account.max_parallelism:
        raise LimitReached(f"quota maxParallelism exceeded, current limit: {account.max_parallelism}")
    present = owner.queues.get(command.name)
    if present is None:
        limits.check_count("maxQueues", len(owner.queues), account.max_queues)
        present = new_queue(command.account_id, command.name, state.now_ms)
    changed = replace(
        present,
        parallelism=present.parallelism if command.parallelism is None else command.parallelism,
        paused=present.paused if command.paused is None else command.paused,
        updated_ms=state.now_ms,
    )
    yield QueueWritten(queue=changed)
    yield from admit_from_queue(state, command.account_id, command.name)


def set_queue_paused(state: StateView, command: SetQueuePaused) -> Decision[None]:
    """Pause or resume a queue that exists; doing it again changes nothing."""
    present = queue(state, command.account_id, command.name)
    if present.paused != command.paused:
        yield QueueWritten(queue=replace(present, paused=command.paused, updated_ms=state.now_ms))
        yield from admit_from_queue(state, command.account_id, command.name)


def delete_queue(state: StateView, command: DeleteQueue) -> Decision[None]:
    """Delete a queue and drop its messages; deleting one that is not there is no error (D-034)."""
    if command.name not in account_state(state, command.account_id).queues:
        return
    yield QueueDeleted(account_id=command.account_id, name=command.name)
    mine = [
        progress.message.message_id
        for progress in state.messages.values()
        if progress.message.policy.queue == command.name
        and progress.message.account_id == command.account_id
        and not progress.dispatch.cancel_requested
    ]
    yield from cancel(state, mine)


# -- flow control keys --------------------------------------------------------------------------


def flow_key(state: StateView, account_id: AccountId, key: FlowKey) -> FlowState:
    """What a key allows and has let through. Raises NotFound for a key that no message, pin or pause has named yet."""
    return found(account_state(state, account_id).flow_keys, key, "flow control key")


def set_flow_paused(state: StateView, command: SetFlowPaused) -> Decision[None]:
    """Pause or resume a key; a pause makes a new one (D-527). Period and count run on (D-041)."""
    account_id, key = command.account_id, command.key
    if command.paused and key not in account_state(state, account_id).flow_keys:
        yield attempts.flow_changed(FlowState(key=key, account_id=account_id), paused=True)
        return
    flow = flow_key(state, account_id, key)
    if flow.paused != command.paused:
        yield attempts.flow_changed(flow, paused=command.paused)
        yield from admit_by_key(state, account_id, key)


def pin_flow(state: StateView, command: PinFlow) -> Decision[None]:
    """Fix limits against those of later messages; a new key is made. Pinning a rate starts its period again (D-025)."""
    account_id, key = command.account_id, command.key
    flow = account_state(state, account_id).flow_keys.get(key) or FlowState(key=key, account_id=account_id)
    pinned = ("parallelism", "rate", "period_ms")
    limits = {name: value for name in pinned if (value := getattr(command, name)) is not None}
    pins_rate = "rate" in limits or "period_ms" in limits
    yield attempts.flow_changed(
        flow,
        **limits,
        pinned_parallelism=flow.pinned_parallelism or "parallelism" in limits,
        pinned_rate=flow.pinned_rate or pins_rate,
    )
    if pins_rate:
        yield FlowCountersReset(account_id=account_id, key=key, at_ms=state.now_ms, parallelism=False)
    yield from admit_by_key(state, account_id, key)


def unpin_flow(state: StateView, command: UnpinFlow) -> Decision[None]:
    """Let later messages set the limits again; the numbers stay until one does."""
    flow = flow_key(state, command.account_id, command.key)
    yield attempts.flow_changed(
        flow,
        pinned_parallelism=flow.pinned_parallelism and not command.parallelism,
        pinned_rate=flow.pinned_rate and not command.rate,
    )


def reset_flow(state: StateView, command: ResetFlow) -> Decision[None]:
    """Start the rate period again at this instant, with its count at 0, and start those that wait (D-041)."""
    flow_key(state, command.account_id, command.key)
    yield FlowCountersReset(
        account_id=command.account_id, key=command.key, at_ms=state.now_ms, parallelism=command.parallelism
    )
    yield from admit_by_key(state, command.account_id, command.key)


# -- URL groups ---------------------------------------------------------------------------------


def upsert_endpoints(state: StateView, command: UpsertEndpoints) -> Decision[None]:
    """Add endpoints and update those already there; a new name makes a new group."""
    owner = account_state(state, command.account_id)
    limits.check_account_is_active(owner.account)
    group = owner.groups.get(command.name)
    if group is None:
        limits.check_count("maxTopics", len(owner.groups), owner.account.max_topics)
        group = UrlGroup(
            name=command.name,
            account_id=command.account_id,
            endpoints=(),
            headers=(),
            defaults=MessageOptions(),
            created_ms=state.now_ms,
            updated_ms=state.now_ms,
        )
    endpoints = _with(group.endpoints, command.endpoints)
    limit = owner.account.max_endpoints_per_topic
    if len(endpoints) > limit:
        raise LimitReached(f"quota maxEndpointsPerTopic exceeded, current limit: {limit}")
    yield UrlGroupWritten(group=replace(group, endpoints=endpoints, updated_ms=state.now_ms))


def _with(endpoints: tuple[Endpoint, ...], added: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """An endpoint replaces the one of its name, or, when either has no name, the one of its URL (D-036)."""
    result = list(endpoints)
    for endpoint in added:
        index = _index_of(result, endpoint)
        if index is None:
            result.append(endpoint)
        else:
            result[index] = Endpoint(url=endpoint.url, name=endpoint.name or result[index].name)
    return tuple(result)


def _index_of(endpoints: list[Endpoint], wanted: Endpoint) -> int | None:
    for index, present in enumerate(endpoints):
        if wanted.name is not None and present.name == wanted.name:
            return index
    for index, present in enumerate(endpoints):
        if present.url == wanted.url and (present.name is None or wanted.name is None):
            return index
    return None


def remove_endpoints(state: StateView, command: RemoveEndpoints) -> Decision[None]:
    """Remove endpoints by name or URL; the group goes with its last one."""
    group = url_group(state, command.account_id, command.name)
    remaining = group.endpoints
    for selector in command.selectors:
        kept = tuple(
            endpoint
            for endpoint in remaining
            if not (
                (selector.name is None or endpoint.name == selector.name)
                and (selector.url is None or endpoint.url == selector.url)
            )
        )
        if len(kept) == len(remaining):
            wanted = selector.name if selector.name is not None else selector.url
            raise NotFound("endpoint", str(wanted), f" in topic {command.name}")
        remaining = kept
    if remaining:
        yield UrlGroupWritten(group=replace(group, endpoints=remaining, updated_ms=state.now_ms))
    else:
        _check_has_no_schedule(account_state(state, command.account_id), command.name, "endpoints")
        yield UrlGroupDeleted(account_id=command.account_id, name=command.name)


def delete_url_group(state: StateView, command: DeleteUrlGroup) -> Decision[None]:
    """Delete a group, also one that is not there; refused while a schedule publishes to it (D-035)."""
    owner = account_state(state, command.account_id)
    _check_has_no_schedule(owner, command.name, "url_group_name")
    if command.name in owner.groups:
        yield UrlGroupDeleted(account_id=command.account_id, name=command.name)


def _check_has_no_schedule(owner: AccountView, name: GroupName, field: str) -> None:
    """A group stays while a schedule publishes to it (D-035). Raises InvalidInput naming the field."""
    for schedule_id, progress in owner.schedules.items():
        destination = progress.schedule.destination
        if destination.kind is DestinationKind.GROUP and destination.text == name:
            raise InvalidInput(field, f"schedule {schedule_id} publishes to topic {name}, delete it first")


def set_group_defaults(state: StateView, command: SetGroupDefaults) -> Decision[None]:
    """Replace the default headers of a group that exists."""
    group = url_group(state, command.account_id, command.name)
    limits.check_options(account_state(state, command.account_id).account, command.defaults, state.now_ms)
    yield UrlGroupWritten(
        group=replace(group, headers=command.headers, defaults=command.defaults, updated_ms=state.now_ms)
    )


def url_group(state: StateView, account_id: AccountId, name: GroupName) -> UrlGroup:
    """Raises NotFound for a group that the account does not have."""
    return found(account_state(state, account_id).groups, name, "topic")


def destination_group(owner: AccountView, name: GroupName) -> UrlGroup:
    """The group that a publish or a schedule names as its destination (D-262). Raises NotFound."""
    # A URL without its scheme reads as a name.
    return found(owner.groups, name, "topic", "; a URL begins with http:// or https://" if "." in name else "")
