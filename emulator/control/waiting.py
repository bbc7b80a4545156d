"""What is due and waits without an instant: for a slot, a paused queue or key, or an answer (D-211)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal, assert_never

from msgspec import UNSET, Meta, UnsetType

from emulator.control.records import TWIN, Instant, InstantMs, PositiveNumber, Text, View, of_message
from emulator.core.model.messages import HoldKind, HoldReason, Phase
from emulator.core.model.resources import FlowState
from emulator.core.record import AccountId, MessageId, QueueName
from emulator.core.rules.attempts import reason_to_hold
from emulator.core.state import AccountView, StateView, subject_of
from emulator.core.timers import WaitList
from emulator.wire.reasons import wait_list_name
from emulator.wire.times import format_duration, iso
from emulator.worlds.world import World

# At most so many of the messages in the way are listed.
MAX_HOLDERS = 10


class UpcomingWait(View):
    """Something that is due and waits without an instant."""

    #: What it waits for: a `queue`, a key of `flow_control`, the account's `global` parallelism, or the answer
    #: to an `attempt` that is under way.
    kind: str
    why: Text  #: What it waits for, in one line.
    since: Instant = TWIN  #: When it was due, or the attempt left.
    since_ms: InstantMs
    account_id: AccountId  #: The queue account it belongs to.
    message_id: MessageId  #: The message.
    url: Text  #: The destination of the message.
    #: The workflow run that it is about; only there if it is about one.
    workflow_run_id: Text | UnsetType = UNSET
    step: str | UnsetType | None = UNSET  #: The step of that run; null for the first call and for failure functions.


class Held(UpcomingWait):
    """A due message that waits."""

    kind: Literal["queue", "flow_control", "global"]
    name: str | None  #: The name of the queue, or the key; null for the global parallelism.
    reason: HoldReason  #: Why: a pause, or parallelism or a rate that is used up.
    position: PositiveNumber  #: Its place in the wait list, from 1.
    length: PositiveNumber  #: How long the wait list is.
    #: The first messages that have what it waits for.
    holders: Annotated[tuple[MessageId, ...], Meta(max_length=MAX_HOLDERS)]
    earliest: Instant | None = TWIN  #: The first instant at which a rate can let it through; null where none is known.
    earliest_ms: InstantMs | None


class UnderWay(UpcomingWait):
    """An attempt that has started and has no answer yet; it ends with its timeout at the latest, once it has left."""

    kind: Literal["attempt"] = "attempt"
    attempt: PositiveNumber  #: Which attempt is under way, from 1.


# What holds a message, as JSON names it.
WAIT_LISTS: Mapping[HoldKind, Literal["queue", "flow_control", "global"]] = {
    HoldKind.QUEUE: "queue",
    HoldKind.FLOW_CONTROL: "flow_control",
    HoldKind.GLOBAL: "global",
}


def not_left(world: World) -> frozenset[MessageId]:
    """The messages whose attempts have started and wait to leave (D-537)."""
    return frozenset(
        each.message.message_id
        for each in world.driver.waiting_to_leave()
        if not (each.is_duplicate or each.redelivery)
    )


def waits(state: StateView, not_left: Collection[MessageId] = ()) -> Iterator[UpcomingWait]:
    """What waits without an instant: attempts under way, then the wait lists of each account, each in its order.

    `not_left` are the messages whose attempts have started and not left.
    """
    on_key: dict[str, list[MessageId]] = defaultdict(list)
    for progress in state.messages.values():
        if progress.phase is Phase.ACTIVE:
            message = progress.message
            if progress.dispatch.holds_key_slot and message.policy.flow_control is not None:
                on_key[subject_of(message.account_id, message.policy.flow_control.key)].append(message.message_id)
            if progress.dispatch.outcome is None:
                attempt, timeout = progress.dispatch.retried + 1, format_duration(message.policy.timeout_ms)
                is_waiting = message.message_id in not_left
                where = "waits to leave" if is_waiting else f"is under way, for at most {timeout}"
                yield UnderWay(
                    why=f"attempt {attempt} {where}",
                    since_ms=progress.dispatch.started_ms,
                    **of_message(message),
                    attempt=attempt,
                )
    for owner in state.accounts.values():
        for name, wait_list in owner.queue_wait_lists.items():
            yield from _in_queue(state, owner, name, wait_list)
        for key, wait_list in owner.flow_wait_lists.items():
            holders = tuple(on_key.get(subject_of(owner.account.id, key), ()))
            yield from _on_key(state, owner.flow_keys[key], wait_list, holders)
        yield from _in_list(
            state, HoldKind.GLOBAL, "", owner.global_wait_list, maximum=owner.account.max_global_parallelism
        )


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
    reason = reason_to_hold(flow, state.now_ms) or HoldReason.PARALLELISM
    yield from _in_list(
        state,
        HoldKind.FLOW_CONTROL,
        flow.key,
        wait_list,
        reason=reason,
        maximum=flow.rate if reason is HoldReason.RATE else flow.parallelism,
        holders=holders if reason is HoldReason.PARALLELISM else (),
        rate_of=flow if reason is HoldReason.RATE else None,
    )


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
    rate_of: FlowState | None = None,
) -> Iterator[Held]:
    for position, message_id in enumerate(wait_list, start=1):
        progress = state.messages[message_id]
        # A message that waits for a retry keeps its queue slot.
        in_the_way = tuple(each for each in holders[: MAX_HOLDERS + 1] if each != message_id)[:MAX_HOLDERS]
        earliest_ms = None if rate_of is None else _earliest_ms(rate_of, position)
        yield Held(
            kind=WAIT_LISTS[kind],
            why=waits_for(
                wait_list_name(kind, name),
                reason,
                position=position,
                maximum=maximum,
                holders=in_the_way,
                period_ms=None if rate_of is None else rate_of.period_ms,
                earliest_ms=earliest_ms,
            ),
            since_ms=progress.due_ms,
            **of_message(progress.message),
            name=name or None,
            reason=reason,
            position=position,
            length=len(wait_list),
            holders=in_the_way,
            earliest_ms=earliest_ms,
        )


def waits_for(
    line: str,
    reason: HoldReason,
    *,
    position: int,
    maximum: int | None,
    holders: Sequence[MessageId] = (),
    period_ms: int | None = None,
    earliest_ms: int | None = None,
) -> str:
    """What a waiting message waits for, and its place in the wait list `line`, 1 being the next to start.

    `maximum` is the limit it waits for, per `period_ms` if that is a rate, and `holders` are the first of the
    messages that have what it waits for. `earliest_ms` is the first instant at which a rate can let it through.
    """
    match reason:
        case HoldReason.PAUSED:
            text = f"{line} is paused"
        case HoldReason.RATE:
            assert period_ms is not None
            at = "" if earliest_ms is None else f", this one at {iso(earliest_ms)} at the earliest"
            text = f"{line} lets {maximum} start per {format_duration(period_ms)}{at}"
        case HoldReason.PARALLELISM if maximum is None:
            text = f"{line} lets those before it start first"
        case HoldReason.PARALLELISM:
            more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
            now = f", now {holders[0]}{more}" if holders else ""
            text = f"{line} lets {maximum} through at a time{now}"
        case unknown:
            assert_never(unknown)
    place = "next in line" if position == 1 else f"number {position} in line"
    return f"{text}; it is {place}"
