"""`/_emulator/queues`, `flow-control` and `url-groups`: what messages wait for, and URL groups, of all accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import asdict

from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import TWIN, Count, HeaderValues, Instant, InstantMs, PositiveNumber, Text, View
from emulator.core.model.messages import HoldKind
from emulator.core.record import AccountId, MessageId
from emulator.core.rules.attempts import rate_count, reason_to_hold
from emulator.core.state import StateView, subject_of
from emulator.queries.history import waiting_to_leave
from emulator.wire.messaging import views
from emulator.wire.reasons import held_by

# At most so many of the messages that wait for a queue or a key are named.
MAX_WAITING = 10


class ListedQueue(View):
    """A queue in a list."""

    name: Text  #: The queue.
    account_id: AccountId  #: The queue account it belongs to.
    parallelism: PositiveNumber  #: How many of its messages may be under way at once.
    paused: bool  #: Whether it is paused.
    lag: Count  #: How many of its messages have not ended.
    holders: tuple[MessageId, ...]  #: The messages that have its slots, ten of them at most.
    waiting: Count  #: How many messages are due and wait for a slot.
    next_in_line: tuple[MessageId, ...]  #: The first ten of them.
    created: Instant = TWIN  #: When it was made.
    created_ms: InstantMs
    updated: Instant = TWIN  #: When it was changed last.
    updated_ms: InstantMs


class ListedFlowKey(View):
    """A flow control key in a list."""

    key: Text  #: The key.
    account_id: AccountId  #: The queue account it belongs to.
    parallelism: Count | None  #: How many of its messages may be under way at once; null if nothing has set that.
    rate: Count | None  #: How many may start in a period; null if nothing has set that.
    period_ms: Annotated[int, Meta(ge=1)]  #: The period of the rate, in milliseconds.
    paused: bool  #: Whether it is paused.
    pinned_parallelism: bool  #: Whether messages leave its parallelism as it is.
    pinned_rate: bool  #: Whether messages leave its rate and period as they are.
    active: Count  #: How many of its messages are under way.
    rate_count: Count  #: How many have started in this period.
    rate_period_start: Instant | None = TWIN  #: When this period began; null before the first.
    rate_period_start_ms: InstantMs | None
    lag: Count  #: How many of its messages have not ended.
    waits: str | None  #: What keeps the next message from starting; null if nothing does.
    waiting: Count  #: How many messages are due and wait for it.
    next_in_line: tuple[MessageId, ...]  #: The first ten of them.


class GlobalParallelism(View):
    """The limit on an account's attempts under way."""

    account_id: AccountId  #: The queue account.
    parallelism: Annotated[int, Meta(ge=1)]  #: The limit.
    active: Count  #: How many attempts are under way.
    waiting: Count  #: How many messages wait for it.


class ListedEndpoint(View):
    """An endpoint of a URL group."""

    name: str | None  #: The name of the endpoint.
    url: Text  #: Where it is.


class ListedUrlGroup(View):
    """A URL group in a list."""

    name: Text  #: The group.
    account_id: AccountId  #: The queue account it belongs to.
    endpoints: tuple[ListedEndpoint, ...]  #: Its endpoints, in their order.
    headers: HeaderValues  #: Its default headers, with what its messages would hide hidden.
    created: Instant = TWIN  #: When it was made.
    created_ms: InstantMs
    updated: Instant = TWIN  #: When it was changed last.
    updated_ms: InstantMs


class QueueList(View):
    """All queues of a world."""

    queues: tuple[ListedQueue, ...]


class FlowKeyList(View):
    """All flow control keys of a world, and the global parallelism of its accounts."""

    keys: tuple[ListedFlowKey, ...]
    global_: tuple[GlobalParallelism, ...] = field(name="global")


class UrlGroupList(View):
    """All URL groups of a world."""

    url_groups: tuple[ListedUrlGroup, ...]


async def list_queues(call: ControlCall) -> QueueList:
    state = await call.world.current_state()
    queues = (
        ListedQueue(
            **asdict(queue),
            lag=owner.queue_lag[name],
            holders=tuple(islice(owner.queue_slots[name], MAX_WAITING)),
            waiting=len(owner.queue_wait_lists[name]),
            next_in_line=tuple(islice(owner.queue_wait_lists[name], MAX_WAITING)),
        )
        for owner in state.accounts.values()
        for name, queue in owner.queues.items()
    )
    return QueueList(queues=tuple(queues))


async def list_flow_keys(call: ControlCall) -> FlowKeyList:
    state = await call.world.current_state()
    # An attempt counts as under way once it has left.
    not_left = waiting_to_leave(state, call.world.driver.outbox.waiting_to_leave())
    parallelism = (
        GlobalParallelism(
            account_id=owner.account.id,
            parallelism=owner.account.max_global_parallelism,
            active=owner.active - not_left[owner.account.id],
            waiting=len(owner.global_wait_list),
        )
        for owner in state.accounts.values()
    )
    return FlowKeyList(keys=tuple(_flow_keys(state, not_left)), global_=tuple(parallelism))


def _flow_keys(state: StateView, not_left: Mapping[str, int]) -> Iterator[ListedFlowKey]:
    lags = Counter(
        subject_of(progress.message.account_id, progress.message.policy.flow_control.key)
        for progress in state.messages.values()
        if progress.message.policy.flow_control is not None
    )
    for owner in state.accounts.values():
        for key, flow in owner.flow_keys.items():
            subject, waiting = subject_of(owner.account.id, key), owner.flow_wait_lists[key]
            reason = reason_to_hold(flow, state.now_ms)
            yield ListedFlowKey(
                key=flow.key,
                account_id=flow.account_id,
                parallelism=flow.parallelism,
                rate=flow.rate,
                period_ms=flow.period_ms,
                paused=flow.paused,
                pinned_parallelism=flow.pinned_parallelism,
                pinned_rate=flow.pinned_rate,
                active=flow.active - not_left[subject],
                rate_count=rate_count(flow, state.now_ms),
                rate_period_start_ms=flow.window_start_ms or None,
                lag=lags[subject],
                waits=None if reason is None else held_by(HoldKind.FLOW_CONTROL, flow.key, reason),
                waiting=len(waiting),
                next_in_line=tuple(islice(waiting, MAX_WAITING)),
            )


async def list_url_groups(call: ControlCall) -> UrlGroupList:
    state = await call.world.current_state()
    groups = (
        ListedUrlGroup(
            name=group.name,
            account_id=group.account_id,
            endpoints=tuple(ListedEndpoint(**asdict(each)) for each in group.endpoints),
            headers=views.default_headers(group),
            created_ms=group.created_ms,
            updated_ms=group.updated_ms,
        )
        for owner in state.accounts.values()
        for group in owner.groups.values()
    )
    return UrlGroupList(url_groups=tuple(groups))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/queues", list_queues, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/flow-control", list_flow_keys, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/url-groups", list_url_groups, WORLD_ONLY),
)
