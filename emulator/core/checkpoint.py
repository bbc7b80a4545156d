"""A whole state as plain records: what a checkpoint stores and a restart begins with.

Restoring an image gives the same state, timers and lines in the same order, in time
proportional to what is pending.
"""

from __future__ import annotations

from emulator.core.model import (
    Account,
    DeadLetter,
    DestinationRule,
    FlowKey,
    FlowState,
    HoldKind,
    MessageId,
    Progress,
    Queue,
    QueueName,
    ScheduleProgress,
    SearchIndex,
    TeamMember,
    UrlGroup,
    VectorIndex,
)
from emulator.core.record import Record
from emulator.core.state import State
from emulator.core.state_view import AccountState
from emulator.core.timers import Timer
from emulator.core.wait_list import WaitList


class DeduplicationCheckpoint(Record):
    key: str
    message_id: MessageId
    until_ms: int


class QueueCheckpoint(Record):
    """What a queue name stands for besides its record; it outlives a deleted queue until its last message ends."""

    name: QueueName
    lag: int
    slots: tuple[tuple[MessageId, int], ...]


class AccountCheckpoint(Record):
    account: Account
    active: int
    usage_day: int
    usage_count: int
    schedules: tuple[ScheduleProgress, ...]
    groups: tuple[UrlGroup, ...]
    queues: tuple[Queue, ...]
    queue_books: tuple[QueueCheckpoint, ...]
    flow_keys: tuple[FlowState, ...]
    deduplications: tuple[DeduplicationCheckpoint, ...]
    dead_letters: tuple[DeadLetter, ...]


class CountersCheckpoint(Record):
    messages: int
    schedules: int
    rules: int
    dead_letters: int
    signing_keys: int
    tickets: int
    indexes: int = 0
    account_tokens: int = 0
    index_tokens: int = 0


class Checkpoint(Record):
    key: bytes
    now_ms: int
    counters: CountersCheckpoint
    accounts: tuple[AccountCheckpoint, ...]
    messages: tuple[Progress, ...]
    rules: tuple[DestinationRule, ...]
    timers: tuple[Timer, ...]
    timer_sequence: int
    search_indexes: tuple[SearchIndex, ...] = ()
    vector_indexes: tuple[VectorIndex, ...] = ()
    team: tuple[TeamMember, ...] = ()


def capture(state: State) -> Checkpoint:
    """The state as it is now."""
    counters = state.counters
    return Checkpoint(
        key=state.key,
        now_ms=state.now_ms,
        counters=CountersCheckpoint(
            messages=counters.messages,
            schedules=counters.schedules,
            rules=counters.rules,
            dead_letters=counters.dead_letters,
            signing_keys=counters.signing_keys,
            tickets=counters.tickets,
            indexes=counters.indexes,
            account_tokens=counters.account_tokens,
            index_tokens=counters.index_tokens,
        ),
        accounts=tuple(_capture_account(owner) for owner in state.accounts.values()),
        messages=tuple(state.messages.values()),
        rules=tuple(state.rules.values()),
        timers=tuple(state.timers),
        timer_sequence=state.timers.sequence,
        search_indexes=tuple(state.search_indexes.values()),
        vector_indexes=tuple(state.vector_indexes.values()),
        team=state.team,
    )


def _capture_account(owner: AccountState) -> AccountCheckpoint:
    return AccountCheckpoint(
        account=owner.account,
        active=owner.active,
        usage_day=owner.usage_day,
        usage_count=owner.usage_count,
        schedules=tuple(owner.schedules.values()),
        groups=tuple(owner.groups.values()),
        queues=tuple(owner.queues.values()),
        queue_books=tuple(
            QueueCheckpoint(name=name, lag=lag, slots=tuple(owner.queue_slots[name].items()))
            for name, lag in owner.queue_lag.items()
        ),
        flow_keys=tuple(owner.flow_keys.values()),
        deduplications=tuple(
            DeduplicationCheckpoint(key=key, message_id=message_id, until_ms=until_ms)
            for key, (message_id, until_ms) in owner.deduplications.items()
        ),
        dead_letters=tuple(owner.dead_letters.values()),
    )


def restore(image: Checkpoint) -> State:
    """A new state that goes on exactly where the image was taken."""
    state = State(key=image.key, now_ms=image.now_ms, accounts=[each.account for each in image.accounts])
    counters = state.counters
    counters.messages = image.counters.messages
    counters.schedules = image.counters.schedules
    counters.rules = image.counters.rules
    counters.dead_letters = image.counters.dead_letters
    counters.signing_keys = image.counters.signing_keys
    counters.tickets = image.counters.tickets
    counters.indexes = image.counters.indexes
    counters.account_tokens = image.counters.account_tokens
    counters.index_tokens = image.counters.index_tokens
    for each in image.accounts:
        _restore_account(state.accounts[each.account.id], each)
    for progress in image.messages:
        state.messages[progress.message.message_id] = progress
        _restore_place(state.accounts[progress.message.account_id], progress)
    state.rules = {rule.rule_id: rule for rule in image.rules}
    state.search_indexes = {index.id: index for index in image.search_indexes}
    state.vector_indexes = {index.id: index for index in image.vector_indexes}
    state.team = image.team
    state.timers.restore(image.timers, image.timer_sequence)
    return state


def _restore_account(owner: AccountState, image: AccountCheckpoint) -> None:
    owner.active = image.active
    owner.usage_day = image.usage_day
    owner.usage_count = image.usage_count
    owner.schedules = {progress.schedule.schedule_id: progress for progress in image.schedules}
    owner.groups = {group.name: group for group in image.groups}
    owner.queues = {queue.name: queue for queue in image.queues}
    for each in image.queue_books:
        owner.queue_wait_lists[each.name] = WaitList()
        owner.queue_slots[each.name] = dict(each.slots)
        owner.queue_lag[each.name] = each.lag
    for flow in image.flow_keys:
        owner.flow_keys[flow.key] = flow
        owner.flow_wait_lists[flow.key] = WaitList()
    owner.deduplications = {each.key: (each.message_id, each.until_ms) for each in image.deduplications}
    owner.dead_letters = {letter.dead_letter_id: letter for letter in image.dead_letters}


def _restore_place(owner: AccountState, progress: Progress) -> None:
    """Put a held message back into its line; its ticket is its place."""
    hold = progress.hold
    if hold is None:
        return
    message_id = progress.message.message_id
    if hold.kind is HoldKind.QUEUE:
        owner.queue_wait_lists[QueueName(hold.name)].join(message_id, progress.ticket)
    elif hold.kind is HoldKind.FLOW_CONTROL:
        owner.flow_wait_lists[FlowKey(hold.name)].join(message_id, progress.ticket)
    else:
        owner.global_wait_list.join(message_id, progress.ticket)
