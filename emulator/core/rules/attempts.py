"""Attempts: who may start, and who starts next.

A due message whose destination is held waits for that alone (D-785). Any other passes the queue it
was enqueued to (D-043), then its flow control key, then the account's global parallelism (D-066).
Where it cannot pass it joins that wait list, by ticket.
"""

from __future__ import annotations

from msgspec import convert
from msgspec.structs import replace

from emulator.core.commands import HoldDestination, ReleaseDestination
from emulator.core.message_facts import AttemptStarted, AttemptWithdrawn, DeliveryPostponed, MessageHeld
from emulator.core.model.messages import (
    HeldDestination,
    Hold,
    HoldKind,
    HoldReason,
    Message,
    QueueSlot,
    destination_origin,
)
from emulator.core.model.options import FlowControl
from emulator.core.model.resources import FlowState
from emulator.core.record import AccountId, FlowKey, MessageId, QueueName
from emulator.core.resource_facts import (
    DestinationHeld,
    DestinationReleased,
    FlowKeyChanged,
    QueueSlotReleased,
    QueueSlotTaken,
)
from emulator.core.rules import destination_rules
from emulator.core.state import AccountView, Decision, StateView

# -- flow control -------------------------------------------------------------------------------


def reason_to_hold(flow: FlowState, now_ms: int) -> HoldReason | None:
    """Why the key cannot let another message through now, or None if it can.

    Active means that a call was made and its answer is not there yet; every dispatch, a retry
    too, counts against the rate of the period it falls in (D-024).
    """
    if flow.paused:
        return HoldReason.PAUSED
    if flow.parallelism is not None and flow.active >= flow.parallelism:
        return HoldReason.PARALLELISM
    if flow.rate is not None and rate_count(flow, now_ms) >= flow.rate:
        return HoldReason.RATE
    return None


def rate_count(flow: FlowState, now_ms: int) -> int:
    """Dispatches in the rate period that holds `now_ms`; a period that has ended counts nothing."""
    is_over = now_ms >= flow.window_start_ms + flow.period_ms
    return 0 if flow.rate is None or is_over else flow.rate_count


def flow_changed(flow: FlowState, **changes: object) -> FlowKeyChanged:
    """The fact that gives a key these limits, and leaves the others."""
    return convert(replace(flow, **changes), FlowKeyChanged, from_attributes=True)


def limits_by_message(flow: FlowState | None, wanted: FlowControl, account_id: AccountId) -> FlowKeyChanged | None:
    """What the newest message of a key makes of its limits; pinned ones stay (D-025). None: no change."""
    present = flow or FlowState(key=wanted.key, account_id=account_id)
    limits: dict[str, int | None] = {}
    if not present.pinned_parallelism:
        limits["parallelism"] = wanted.parallelism
    if not present.pinned_rate:
        limits |= {"rate": wanted.rate, "period_ms": wanted.period_ms}
    is_same = all(getattr(present, name) == value for name, value in limits.items())
    return None if flow is not None and is_same else flow_changed(present, **limits)


TIMEOUT_ERROR = "timeout: no response in time"

# -- starting ---------------------------------------------------------------------------------


def deliver(state: StateView, message_id: MessageId) -> Decision[None]:
    """A delivery's instant has come: its attempt starts or is held, unless a rule puts it back (D-422)."""
    if state.rules:
        due_ms = destination_rules.postponed_until_ms(state, state.messages[message_id])
        if due_ms is not None:
            yield DeliveryPostponed(message_id=message_id, due_ms=due_ms)
            return
    yield from start_or_hold(state, message_id)


def start_or_hold(state: StateView, message_id: MessageId) -> Decision[None]:
    """A message is due: start its next attempt, or put it in the first wait list it cannot pass."""
    progress = state.messages[message_id]
    message = progress.message
    owner = state.accounts[message.account_id]
    if state.held_destinations and destination_origin(message.url) in state.held_destinations:
        yield from _hold_for_destination(state, message)
        return
    if message.policy.queue is not None:
        reason = _queue_holds(owner, message.policy.queue, message)
        if reason is not None:
            # A queue delivers in the order of acceptance, so its tickets are the message numbers.
            hold = Hold(kind=HoldKind.QUEUE, name=message.policy.queue, reason=reason)
            yield MessageHeld(message_id=message_id, hold=hold, ticket=message.number, at_ms=state.now_ms)
            return
        if message_id not in owner.queue_slots[message.policy.queue]:
            yield QueueSlotTaken(message_id=message_id, account_id=message.account_id, queue=message.policy.queue)
    hold_at = _held_by_key(state, owner, message) or _held_globally(owner, message_id)
    if hold_at is not None:
        before = progress.dispatch.hold
        waited_here = before is not None and before.kind in (HoldKind.FLOW_CONTROL, HoldKind.GLOBAL)
        ticket = progress.dispatch.ticket if waited_here else state.counters.tickets + 1
        yield MessageHeld(message_id=message_id, hold=hold_at, ticket=ticket, at_ms=state.now_ms)
        return
    yield AttemptStarted(
        message_id=message_id,
        number=progress.dispatch.retried + 1,
        at_ms=state.now_ms,
        answer=destination_rules.answer_for(state, progress) if state.rules else None,
    )


def _queue_holds(owner: AccountView, name: QueueName, message: Message) -> HoldReason | None:
    queue = owner.queues.get(name)
    if queue is None:
        return None  # The queue was deleted; what was in flight then may still retry.
    if queue.paused:
        return HoldReason.PAUSED
    slots = owner.queue_slots[name]
    # A free slot means that nobody waits: whatever frees one admits those that wait before the next message is due.
    if message.message_id in slots or len(slots) < queue.parallelism:
        return None
    return HoldReason.PARALLELISM


def _held_by_key(state: StateView, owner: AccountView, message: Message) -> Hold | None:
    if message.policy.flow_control is None:
        return None
    key = message.policy.flow_control.key
    reason = reason_to_hold(owner.flow_keys[key], state.now_ms)
    # The instant at which a rate period ends may deliver others before its timer admits those that wait.
    if reason is None and owner.flow_wait_lists[key].first not in (None, message.message_id):
        reason = HoldReason.PARALLELISM
    return None if reason is None else Hold(kind=HoldKind.FLOW_CONTROL, name=key, reason=reason)


def _held_globally(owner: AccountView, message_id: MessageId) -> Hold | None:
    has_slot = owner.active < owner.account.max_global_parallelism
    if has_slot and owner.global_wait_list.first in (None, message_id):
        return None
    return Hold(kind=HoldKind.GLOBAL, name="", reason=HoldReason.PARALLELISM)


# -- destinations that are held ---------------------------------------------------------------


def hold_destination(state: StateView, command: HoldDestination) -> Decision[None]:
    """Hold a destination that is part of a loop. Everything else continues, in the slots of what it gives back."""
    held = HeldDestination(
        origin=command.origin,
        since_ms=state.now_ms,
        limit=command.limit,
        cause=command.cause,
        message_id=command.message_id,
    )
    yield DestinationHeld(held=held)
    withdrawn = [state.messages[message_id].message for message_id in command.withdrawn]
    for message in withdrawn:
        yield AttemptWithdrawn(message_id=message.message_id)
        yield from _hold_for_destination(state, message)
    if command.message_id not in command.withdrawn:
        # It may wait already: for its queue, its key or its account.
        yield from _hold_for_destination(state, state.messages[command.message_id].message)
    for message in withdrawn:
        yield from admit_waiting(state, message)


def _hold_for_destination(state: StateView, message: Message) -> Decision[None]:
    hold = Hold(kind=HoldKind.DESTINATION, name=destination_origin(message.url), reason=HoldReason.LOOP)
    yield MessageHeld(message_id=message.message_id, hold=hold, ticket=message.number, at_ms=state.now_ms)
    slot = _slot_of(message)
    if slot is not None and slot.message_id in state.accounts[message.account_id].queue_slots[slot.queue]:
        # Its queue continues without it, with what goes elsewhere.
        yield QueueSlotReleased(message_id=slot.message_id, account_id=message.account_id, queue=slot.queue)
        yield from admit_from_queue(state, message.account_id, slot.queue)


def release_destination(state: StateView, command: ReleaseDestination) -> Decision[None]:
    """Start what waits for a held destination, each account's messages in the order of their acceptance."""
    if command.origin in state.held_destinations:
        yield from _release(state, command.origin)


def _release(state: StateView, origin: str) -> Decision[None]:
    lists = [owner.destination_wait_lists.get(origin, ()) for owner in state.accounts.values()]
    waiting = [message_id for wait_list in lists for message_id in wait_list]
    yield DestinationReleased(origin=origin)
    for message_id in waiting:
        yield from start_or_hold(state, message_id)


# -- starting those that wait -----------------------------------------------------------------


def _slot_of(message: Message) -> QueueSlot | None:
    """The queue slot that a message holds, or helps to hold as a callback."""
    if message.policy.queue is not None:
        return QueueSlot(queue=message.policy.queue, message_id=message.message_id)
    return message.source.queue_slot


def admit_waiting(state: StateView, message: Message) -> Decision[None]:
    """A message has finished an attempt or ended: start the messages that waited for what it held."""
    if state.held_destinations and message.message_id not in state.messages:
        destination = state.held_destinations.get(destination_origin(message.url))
        if destination is not None and destination.message_id == message.message_id:
            # What its destination was held for is gone (D-786).
            yield from _release(state, destination.origin)
    slot = _slot_of(message)
    if slot is not None:
        held = state.accounts[message.account_id].queue_slots[slot.queue]
        if held.get(slot.message_id) == 0:
            yield QueueSlotReleased(message_id=slot.message_id, account_id=message.account_id, queue=slot.queue)
            yield from admit_from_queue(state, message.account_id, slot.queue)
    if message.policy.flow_control is not None:
        yield from admit_by_key(state, message.account_id, message.policy.flow_control.key)
    yield from admit_globally(state, message.account_id)


def admit_from_queue(state: StateView, account_id: AccountId, name: QueueName) -> Decision[None]:
    """Start as many of a queue's waiting messages as have a slot, first those that hold one already (a retry)."""
    owner = state.accounts[account_id]
    queue = owner.queues.get(name)
    if queue is None or queue.paused:
        return
    waiting = owner.queue_wait_lists[name]
    for message_id in [holder for holder in owner.queue_slots[name] if holder in waiting]:
        yield from start_or_hold(state, message_id)
    while (first := waiting.first) is not None and len(owner.queue_slots[name]) < queue.parallelism:
        yield from start_or_hold(state, first)


def admit_by_key(state: StateView, account_id: AccountId, key: FlowKey) -> Decision[None]:
    """Start as many of the messages waiting for a flow control key as its limits allow now."""
    owner = state.accounts[account_id]
    waiting = owner.flow_wait_lists[key]
    while (first := waiting.first) is not None:
        if reason_to_hold(owner.flow_keys[key], state.now_ms) is not None:
            return
        yield from start_or_hold(state, first)
        if waiting.first == first:
            return


def set_flow_limits(state: StateView, account_id: AccountId, wanted: FlowControl | None) -> Decision[None]:
    """The newest message's limits are its key's from now on, for those that wait already too (D-025)."""
    if wanted is None:
        return
    known = state.accounts[account_id].flow_keys.get(wanted.key)
    change = limits_by_message(known, wanted, account_id)
    if change is not None:
        yield change
        yield from admit_by_key(state, account_id, wanted.key)


def admit_globally(state: StateView, account_id: AccountId) -> Decision[None]:
    """Start as many of the messages waiting for the account as its global parallelism allows now."""
    owner = state.accounts[account_id]
    waiting = owner.global_wait_list
    while (first := waiting.first) is not None and owner.active < owner.account.max_global_parallelism:
        yield from start_or_hold(state, first)
        if waiting.first == first:
            return
