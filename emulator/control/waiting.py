"""What is due and waits without an instant: for a slot, a paused queue or key, or an answer (D-211)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, starmap
from typing import Annotated, Literal, assert_never

from msgspec import UNSET, Meta, UnsetType

from emulator.control.records import TWIN, Instant, InstantMs, PositiveNumber, Text, View, of_message
from emulator.core.model.messages import HeldDestination, HoldKind, HoldReason, Phase, Progress
from emulator.core.model.resources import FlowState
from emulator.core.record import AccountId, MessageId, Record
from emulator.core.rules.attempts import reason_to_hold
from emulator.core.state import StateView, subject_of
from emulator.core.timers import WaitList
from emulator.wire.reasons import wait_list_name
from emulator.wire.times import format_duration, iso
from emulator.worlds.world import World

# At most so many of the messages in the way are listed.
MAX_HOLDERS = 10


WaitListKind = Literal["queue", "flow_control", "global", "destination"]


class UpcomingWait(View):
    """Something that is due and waits without an instant."""

    #: What it waits for: a `queue`, a key of `flow_control`, the account's `global` parallelism, a `destination` that
    #: is held, or the answer to an `attempt` that is under way.
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

    kind: WaitListKind
    #: The name of the queue, the key, or the destination's scheme, host and port; null for the global parallelism.
    name: str | None
    reason: HoldReason  #: Why: a pause, parallelism or a rate that is used up, or a loop of the destination.
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
WAIT_LISTS: Mapping[HoldKind, WaitListKind] = {
    HoldKind.QUEUE: "queue",
    HoldKind.FLOW_CONTROL: "flow_control",
    HoldKind.GLOBAL: "global",
    HoldKind.DESTINATION: "destination",
}


def not_left(world: World) -> frozenset[MessageId]:
    """The messages whose attempts have started and wait to leave (D-537)."""
    return frozenset(
        each.message.message_id
        for each in world.driver.outbox.waiting_to_leave()
        if not (each.is_duplicate or each.redelivery)
    )


def waits(state: StateView, not_left: Collection[MessageId] = ()) -> Iterator[UpcomingWait]:
    """What waits without an instant: attempts under way, then the wait lists of each account, each in its order.

    `not_left` are the messages whose attempts have started and not left.
    """
    active = [each for each in state.messages.values() if each.phase is Phase.ACTIVE]
    under_way = ((each, each.message.message_id not in not_left) for each in active if each.dispatch.outcome is None)
    held = (
        (line, position, state.messages[message_id])
        for line in _lines(state, active)
        for position, message_id in enumerate(line.waiting, start=1)
    )
    return chain(starmap(_under_way, under_way), starmap(_held, held))


class _Line(Record):
    """A wait list, what keeps its messages from starting, and which messages have what they wait for."""

    kind: HoldKind
    name: str
    waiting: WaitList
    maximum: int | None
    reason: HoldReason = HoldReason.PARALLELISM
    holders: Sequence[MessageId] = ()
    rate_of: FlowState | None = None  # The key whose rate is used up.
    destination: HeldDestination | None = None  # What is held.


def _lines(state: StateView, active: Sequence[Progress]) -> Iterator[_Line]:
    """The wait lists of all accounts; `active` are the messages with attempts under way."""
    on_key: dict[str, list[MessageId]] = defaultdict(list)
    for message in (each.message for each in active if each.dispatch.holds_key_slot):
        if message.policy.flow_control is not None:
            on_key[subject_of(message.account_id, message.policy.flow_control.key)].append(message.message_id)
    for owner in state.accounts.values():
        for name, waiting in owner.queue_wait_lists.items():
            queue = owner.queues.get(name)
            yield _Line(
                kind=HoldKind.QUEUE,
                name=name,
                waiting=waiting,
                reason=HoldReason.PAUSED if queue is not None and queue.paused else HoldReason.PARALLELISM,
                maximum=None if queue is None else queue.parallelism,
                holders=tuple(owner.queue_slots[name]),
            )
        for key, waiting in owner.flow_wait_lists.items():
            flow = owner.flow_keys[key]
            # What the key says now: it may have been paused or pinned since the messages joined.
            reason = reason_to_hold(flow, state.now_ms) or HoldReason.PARALLELISM
            has_rate = reason is HoldReason.RATE
            yield _Line(
                kind=HoldKind.FLOW_CONTROL,
                name=key,
                waiting=waiting,
                reason=reason,
                maximum=flow.rate if has_rate else flow.parallelism,
                holders=on_key[subject_of(owner.account.id, key)] if reason is HoldReason.PARALLELISM else (),
                rate_of=flow if has_rate else None,
            )
        maximum = owner.account.max_global_parallelism
        yield _Line(kind=HoldKind.GLOBAL, name="", waiting=owner.global_wait_list, maximum=maximum)
        for origin, waiting in owner.destination_wait_lists.items():
            destination = state.held_destinations[origin]
            yield _Line(
                kind=HoldKind.DESTINATION,
                name=origin,
                waiting=waiting,
                maximum=None,
                reason=HoldReason.LOOP,
                holders=(destination.message_id,),
                destination=destination,
            )


def _under_way(progress: Progress, has_left: bool) -> UnderWay:
    attempt, timeout = progress.dispatch.retried + 1, format_duration(progress.message.policy.timeout_ms)
    return UnderWay(
        why=f"attempt {attempt} {f'is under way, for at most {timeout}' if has_left else 'waits to leave'}",
        since_ms=progress.dispatch.started_ms,
        **of_message(progress.message),
        attempt=attempt,
    )


def _held(line: _Line, position: int, progress: Progress) -> Held:
    message, flow = progress.message, line.rate_of
    # A message that waits for a retry keeps its queue slot.
    first = (each for each in line.holders[: MAX_HOLDERS + 1] if each != message.message_id)
    holders = tuple(islice(first, MAX_HOLDERS))
    earliest_ms = None
    if flow is not None and flow.rate:
        # When the rate can let the message through, if nothing else is in its way.
        earliest_ms = flow.window_start_ms + (1 + (position - 1) // flow.rate) * flow.period_ms
    if line.destination is not None:
        why = waits_for_destination(line.destination, message.message_id)
    else:
        why = waits_for(
            wait_list_name(line.kind, line.name),
            line.reason,
            position=position,
            maximum=line.maximum,
            holders=holders,
            period_ms=None if flow is None else flow.period_ms,
            earliest_ms=earliest_ms,
        )
    return Held(
        kind=WAIT_LISTS[line.kind],
        why=why,
        since_ms=progress.due_ms,
        **of_message(message),
        name=line.name or None,
        reason=line.reason,
        position=position,
        length=len(line.waiting),
        holders=holders,
        earliest_ms=earliest_ms,
    )


def waits_for_destination(destination: HeldDestination, message_id: MessageId) -> str:
    """Why a message to a held destination waits, and what ends that."""
    which = "this message" if message_id == destination.message_id else f"message {destination.message_id}"
    return f"{destination.why}; until {which} is deleted, or the world is reset"


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
        case HoldReason.LOOP:
            text = f"{line} is held"
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
