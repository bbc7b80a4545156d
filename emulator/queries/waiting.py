"""What is due and waits for something without an instant: a slot, a paused queue or key, an answer (D-211)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from emulator.core.model.messages import HoldKind, HoldReason, Message, Phase
from emulator.core.model.names import MessageId, QueueName
from emulator.core.model.resources import FlowState
from emulator.core.record import Record
from emulator.core.rules import flow_control
from emulator.core.state_view import AccountView, StateView, subject_of
from emulator.core.wait_list import WaitList

# At most so many of the messages in the way are listed.
MAX_HOLDERS = 10


class Held(Record):
    """A due message that waits, `position` 1 being the next to start.

    `maximum` is the limit it waits for, per `period_ms` if that is a rate, and `holders` are the
    first of the messages that have what it waits for. `earliest_ms` is the first instant at which a
    rate can let it through; None where no instant is known.
    """

    message: Message
    kind: HoldKind
    name: str
    reason: HoldReason
    since_ms: int
    position: int
    length: int
    maximum: int | None
    holders: tuple[MessageId, ...]
    period_ms: int | None = None
    earliest_ms: int | None = None


class UnderWay(Record):
    """An attempt that was sent and has no answer yet; it ends with its timeout at the latest."""

    message: Message
    attempt: int
    since_ms: int


Waiting = Held | UnderWay


def waits(state: StateView) -> Iterator[Waiting]:
    """What waits without an instant: attempts under way, then the wait lists of each account, each in its order."""
    on_key: dict[str, list[MessageId]] = defaultdict(list)
    for progress in state.messages.values():
        if progress.phase is Phase.ACTIVE:
            message = progress.message
            if progress.holds_key_slot and message.flow_control is not None:
                on_key[subject_of(message.account_id, message.flow_control.key)].append(message.message_id)
            if progress.outcome is None:
                yield UnderWay(message=message, attempt=progress.retried + 1, since_ms=progress.started_ms)
    for owner in state.accounts.values():
        for name, wait_list in owner.queue_wait_lists.items():
            yield from _in_queue(state, owner, name, wait_list)
        for key, wait_list in owner.flow_wait_lists.items():
            holders = tuple(on_key.get(subject_of(owner.account.id, key), ()))
            yield from _on_key(state, owner.flow_keys[key], wait_list, holders)
        yield from _in_list(
            state, HoldKind.GLOBAL, "", owner.global_wait_list, maximum=owner.account.max_global_parallelism
        )


def waiting_for_slots(state: StateView) -> int:
    """How many due messages start as soon as others end; not those that wait for a rate, or for somebody to resume."""
    count = 0
    for owner in state.accounts.values():
        count += len(owner.global_wait_list)
        for name, wait_list in owner.queue_wait_lists.items():
            if wait_list and not ((queue := owner.queues.get(name)) is not None and queue.paused):
                count += len(wait_list)
        for key, wait_list in owner.flow_wait_lists.items():
            if wait_list:
                reason = flow_control.reason_to_hold(owner.flow_keys[key], state.now_ms)
                count += len(wait_list) if reason is HoldReason.PARALLELISM else 0
    return count


def _in_queue(state: StateView, owner: AccountView, name: QueueName, wait_list: WaitList) -> Iterator[Held]:
    queue = owner.queues.get(name)
    is_paused = queue is not None and queue.paused
    yield from _in_list(
        state,
        HoldKind.QUEUE,
        name,
        wait_list,
        reason=HoldReason.PAUSED if is_paused else HoldReason.PARALLELISM,
        maximum=None if queue is None else queue.parallelism,
        holders=tuple(owner.queue_slots[name]),
    )


def _on_key(state: StateView, flow: FlowState, wait_list: WaitList, holders: tuple[MessageId, ...]) -> Iterator[Held]:
    # What the key says now: it may have been paused or pinned since the messages joined.
    reason = flow_control.reason_to_hold(flow, state.now_ms) or HoldReason.PARALLELISM
    for held in _in_list(
        state,
        HoldKind.FLOW_CONTROL,
        flow.key,
        wait_list,
        reason=reason,
        maximum=flow.rate if reason is HoldReason.RATE else flow.parallelism,
        holders=holders if reason is HoldReason.PARALLELISM else (),
    ):
        if reason is HoldReason.RATE:
            yield replace(held, period_ms=flow.period_ms, earliest_ms=_earliest_ms(flow, held.position))
        else:
            yield held


def _earliest_ms(flow: FlowState, position: int) -> int | None:
    """When a rate can let the message at a position through, if nothing else is in its way."""
    if not flow.rate:
        return None
    periods = 1 + (position - 1) // flow.rate
    return flow.window_start_ms + periods * flow.period_ms


def _in_list(
    state: StateView,
    kind: HoldKind,
    name: str,
    wait_list: WaitList,
    *,
    reason: HoldReason = HoldReason.PARALLELISM,
    maximum: int | None,
    holders: tuple[MessageId, ...] = (),
) -> Iterator[Held]:
    for position, message_id in enumerate(wait_list, start=1):
        progress = state.messages[message_id]
        yield Held(
            message=progress.message,
            kind=kind,
            name=name,
            reason=reason,
            since_ms=progress.due_ms,
            position=position,
            length=len(wait_list),
            maximum=maximum,
            # A retry waits with the slot in hand.
            holders=tuple(each for each in holders[: MAX_HOLDERS + 1] if each != message_id)[:MAX_HOLDERS],
        )
