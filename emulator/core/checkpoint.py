"""A whole state as plain records: what the journal stores and a restart begins with.

Restoring a checkpoint gives the same state, timers and wait lists in the same order, in time
proportional to what is pending.
"""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.model.messages import DeadLetter, Duplicate, HeldDestination, Progress
from emulator.core.model.resources import (
    Account,
    DestinationRule,
    FlowState,
    Queue,
    ScheduleProgress,
    SearchIndex,
    TeamMember,
    UrlGroup,
    VectorIndex,
)
from emulator.core.model.workflows import WorkflowRun
from emulator.core.record import MessageId, QueueName, Record, RunId
from emulator.core.state import AccountState, Counters, State
from emulator.core.timers import Timer, WaitList


class DeduplicationCheckpoint(Record):
    """A key that publishes are answered by, and until when."""

    key: str
    message_id: MessageId
    until_ms: int


class QueueCheckpoint(Record):
    """The messages of a queue name, kept apart from the queue's record: they may outlast a deleted queue."""

    name: QueueName
    lag: int
    slots: tuple[tuple[MessageId, int], ...]


class AccountCheckpoint(Record):
    """An account and all that belongs to it, its live messages excepted."""

    account: Account
    active: int
    usage_day: int
    usage_count: int
    schedules: tuple[ScheduleProgress, ...]
    groups: tuple[UrlGroup, ...]
    queues: tuple[Queue, ...]
    queue_loads: tuple[QueueCheckpoint, ...]
    flow_keys: tuple[FlowState, ...]
    deduplications: tuple[DeduplicationCheckpoint, ...]
    dead_letters: tuple[DeadLetter, ...]
    runs: tuple[WorkflowRun, ...] = ()
    ended_runs: tuple[WorkflowRun, ...] = ()
    ended_depths: tuple[tuple[RunId, int], ...] = ()


class Checkpoint(Record):
    """`event_key` is empty in databases of before it: their worlds keep the one key they had."""

    key: bytes
    now_ms: int
    counters: Counters
    accounts: tuple[AccountCheckpoint, ...]
    messages: tuple[Progress, ...]
    rules: tuple[DestinationRule, ...]
    timers: tuple[Timer, ...]
    timer_sequence: int
    search_indexes: tuple[SearchIndex, ...] = ()
    vector_indexes: tuple[VectorIndex, ...] = ()
    team: tuple[TeamMember, ...] = ()
    event_key: bytes = b""
    duplicates: tuple[Duplicate, ...] = ()
    held_destinations: tuple[HeldDestination, ...] = ()


def capture(state: State) -> Checkpoint:
    """The state as it is now."""
    return Checkpoint(
        key=state.key,
        now_ms=state.now_ms,
        counters=replace(state.counters),
        accounts=tuple(_capture_account(owner) for owner in state.accounts.values()),
        messages=tuple(state.messages.values()),
        rules=tuple(state.rules.values()),
        timers=tuple(state.timers),
        timer_sequence=state.timers.sequence,
        search_indexes=tuple(state.search_indexes.values()),
        vector_indexes=tuple(state.vector_indexes.values()),
        team=state.team,
        event_key=state.event_key,
        duplicates=tuple(state.duplicates.values()),
        held_destinations=tuple(state.held_destinations.values()),
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
        queue_loads=tuple(
            QueueCheckpoint(name=name, lag=lag, slots=tuple(owner.queue_slots[name].items()))
            for name, lag in owner.queue_lag.items()
        ),
        flow_keys=tuple(owner.flow_keys.values()),
        deduplications=tuple(
            DeduplicationCheckpoint(key=key, message_id=message_id, until_ms=until_ms)
            for key, (message_id, until_ms) in owner.deduplications.items()
        ),
        dead_letters=tuple(owner.dead_letters.values()),
        runs=tuple(owner.runs.values()),
        ended_runs=tuple(owner.ended_runs.values()),
        ended_depths=tuple(owner.ended_depths.items()),
    )


def restore(checkpoint: Checkpoint) -> State:
    """A new state that continues exactly where the checkpoint was captured."""
    state = State(
        key=checkpoint.key,
        event_key=checkpoint.event_key,
        now_ms=checkpoint.now_ms,
        accounts=[each.account for each in checkpoint.accounts],
    )
    state.counters = replace(checkpoint.counters)
    for each in checkpoint.accounts:
        _restore_account(state.accounts[each.account.id], each)
    for progress in checkpoint.messages:
        message = progress.message
        state.messages[message.message_id] = progress
        if message.run is not None:
            of_run = state.accounts[message.account_id].run_messages.setdefault(message.run.run_number, {})
            of_run[message.message_id] = None
        if progress.dispatch.hold is not None:
            owner = state.accounts[message.account_id]
            owner.wait_list(progress.dispatch.hold).join(message.message_id, progress.dispatch.ticket)
    state.rules = {rule.rule_id: rule for rule in checkpoint.rules}
    for duplicate in checkpoint.duplicates:
        state.add_duplicate(duplicate)
    state.held_destinations = {held.origin: held for held in checkpoint.held_destinations}
    state.search_indexes = {index.id: index for index in checkpoint.search_indexes}
    state.vector_indexes = {index.id: index for index in checkpoint.vector_indexes}
    state.team = checkpoint.team
    state.timers.restore(checkpoint.timers, checkpoint.timer_sequence)
    return state


def _restore_account(owner: AccountState, checkpoint: AccountCheckpoint) -> None:
    owner.active = checkpoint.active
    owner.usage_day = checkpoint.usage_day
    owner.usage_count = checkpoint.usage_count
    owner.schedules = {progress.schedule.schedule_id: progress for progress in checkpoint.schedules}
    owner.groups = {group.name: group for group in checkpoint.groups}
    owner.queues = {queue.name: queue for queue in checkpoint.queues}
    for each in checkpoint.queue_loads:
        owner.queue_wait_lists[each.name] = WaitList()
        owner.queue_slots[each.name] = dict(each.slots)
        owner.queue_lag[each.name] = each.lag
    for flow in checkpoint.flow_keys:
        owner.flow_keys[flow.key] = flow
        owner.flow_wait_lists[flow.key] = WaitList()
    owner.deduplications = {each.key: (each.message_id, each.until_ms) for each in checkpoint.deduplications}
    owner.dead_letters = {letter.dead_letter_id: letter for letter in checkpoint.dead_letters}
    owner.runs = {run.run_id: run for run in checkpoint.runs}
    owner.ended_runs = {run.number: run for run in checkpoint.ended_runs}
    owner.ended_depths = dict(checkpoint.ended_depths)
    waiting = sorted((waiter.number, waiter.event_id, run.run_id) for run in checkpoint.runs for waiter in run.waiters)
    for number, event_id, run_id in waiting:
        owner.waiting_runs.setdefault(event_id, {})[number] = run_id
