"""What happened to the clock, to accounts, and to what is made by name: schedules, URL groups, queues, keys, rules."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from emulator.core.model.messages import HeldDestination, Message, TimerKind
from emulator.core.model.resources import (
    Account,
    DestinationRule,
    FlowState,
    Queue,
    Schedule,
    ScheduleProgress,
    ScheduleRunState,
    SearchIndex,
    SigningKeys,
    UrlGroup,
)
from emulator.core.record import AccountId, FlowKey, GroupName, IndexId, MessageId, QueueName, RuleId, ScheduleId
from emulator.core.state import AccountState, Fact, State, UnloggedFact, subject_of
from emulator.core.timers import WaitList

# -- the clock and accounts ---------------------------------------------------------------------


class ClockMoved(UnloggedFact):
    """Virtual time is now `now_ms`."""

    now_ms: int

    def apply(self, state: State) -> None:
        state.now_ms = self.now_ms


class AccountChanged(UnloggedFact):
    """An account's record from now on; a change of its state is under way until `settles_ms`."""

    account: Account
    settles_ms: int | None = None

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account.id]
        owner.account = self.account
        arm_dead_letter_expiry(state, owner)
        if self.settles_ms is not None:
            state.timers.arm(TimerKind.ACCOUNT, self.account.id, self.settles_ms)


class AccountSettled(UnloggedFact):
    """The change of the account's state is through: it is no longer in transition."""

    account_id: AccountId

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        owner.account = replace(owner.account, modifying_state="")
        state.timers.disarm(TimerKind.ACCOUNT, self.account_id)


class AccountTokenRotated(UnloggedFact):
    """The account has new credentials; the old ones are invalid."""

    account_id: AccountId
    password: str
    token: str
    read_only_token: str

    def apply(self, state: State) -> None:
        state.counters.account_tokens += 1
        owner = state.accounts[self.account_id]
        owner.account = replace(
            owner.account, password=self.password, token=self.token, read_only_token=self.read_only_token
        )


class SigningKeysRotated(UnloggedFact):
    account_id: AccountId
    keys: SigningKeys

    def apply(self, state: State) -> None:
        state.counters.signing_keys += 1
        owner = state.accounts[self.account_id]
        owner.account = replace(owner.account, signing_keys=self.keys)


class SearchIndexCreated(UnloggedFact):
    index: SearchIndex

    def apply(self, state: State) -> None:
        state.counters.indexes += 1
        state.search_indexes[self.index.id] = self.index


class SearchIndexChanged(UnloggedFact):
    """A search index was renamed, transferred, or given new tokens."""

    index: SearchIndex

    def apply(self, state: State) -> None:
        index = self.index
        if index.token != state.search_indexes[index.id].token:
            state.counters.index_tokens += 1
        state.search_indexes[index.id] = index


class SearchIndexDeleted(UnloggedFact):
    index_id: IndexId

    def apply(self, state: State) -> None:
        del state.search_indexes[self.index_id]


def arm_deduplication_expiry(state: State, owner: AccountState) -> None:
    first = next(iter(owner.deduplications.values()), None)
    due_ms = None if first is None else first[1]
    state.timers.set(TimerKind.DEDUPLICATION_EXPIRY, owner.account.id, due_ms)


def arm_dead_letter_expiry(state: State, owner: AccountState) -> None:
    first = next(iter(owner.dead_letters.values()), None)
    due_ms = None if first is None else first.failed_ms + owner.account.max_dlq_retention_time_milis
    state.timers.set(TimerKind.DEAD_LETTER_EXPIRY, owner.account.id, due_ms)


# -- schedules ----------------------------------------------------------------------------------


class ScheduleWritten(UnloggedFact):
    """A schedule was created, or replaced as a whole."""

    schedule: Schedule
    next_ms: int

    def apply(self, state: State) -> None:
        schedule = self.schedule
        owner = state.accounts[schedule.account_id]
        old = owner.schedules.get(schedule.schedule_id)
        if old is None:
            state.counters.schedules += 1
            owner.schedules[schedule.schedule_id] = ScheduleProgress(schedule=schedule, next_ms=self.next_ms)
        else:
            next_ms = None if old.paused else self.next_ms
            owner.schedules[schedule.schedule_id] = replace(old, schedule=schedule, next_ms=next_ms, error=None)
        if old is None or not old.paused:
            _arm_schedule(state, schedule.account_id, schedule.schedule_id, self.next_ms)


class ScheduleFired(UnloggedFact):
    """A schedule published at `at_ms` (or could not: `error`), and is due again at `next_ms`."""

    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int
    error: str | None

    def apply(self, state: State) -> None:
        schedules = state.accounts[self.account_id].schedules
        schedules[self.schedule_id] = replace(
            schedules[self.schedule_id],
            next_ms=self.next_ms,
            last_fired_ms=self.at_ms,
            last_states=(),
            error=self.error,
        )
        _arm_schedule(state, self.account_id, self.schedule_id, self.next_ms)


class SchedulePaused(UnloggedFact):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int

    def apply(self, state: State) -> None:
        _pause_schedule(state, self.account_id, self.schedule_id, None)


class ScheduleResumed(UnloggedFact):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int

    def apply(self, state: State) -> None:
        _pause_schedule(state, self.account_id, self.schedule_id, self.next_ms)


class ScheduleDeleted(UnloggedFact):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int

    def apply(self, state: State) -> None:
        del state.accounts[self.account_id].schedules[self.schedule_id]
        _arm_schedule(state, self.account_id, self.schedule_id, None)


def _pause_schedule(state: State, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
    """Pause a schedule, or resume it with its next firing at `next_ms`."""
    schedules = state.accounts[account_id].schedules
    schedules[schedule_id] = replace(schedules[schedule_id], paused=next_ms is None, next_ms=next_ms)
    _arm_schedule(state, account_id, schedule_id, next_ms)


def _arm_schedule(state: State, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
    state.timers.set(TimerKind.SCHEDULE, subject_of(account_id, schedule_id), next_ms)


def record_run(owner: AccountState, message: Message, run: ScheduleRunState) -> None:
    """Show the state of a message with the schedule that published it."""
    assert message.source.schedule_id is not None
    progress = owner.schedules.get(message.source.schedule_id)
    if progress is None or message.source.source_message_id is not None:
        return
    message_id = message.message_id
    states = dict(progress.last_states)
    # The record shows the last firing only: not an earlier one, nor a dead letter that is published again (D-038).
    if run is ScheduleRunState.IN_PROGRESS:
        is_of_last_firing = message.created_ms == progress.last_fired_ms and message.source.from_dead_letter is None
    else:
        is_of_last_firing = message_id in states
    if is_of_last_firing:
        states[message_id] = run
        owner.schedules[message.source.schedule_id] = replace(progress, last_states=tuple(states.items()))


# -- URL groups, queues, destination rules ------------------------------------------------------


class UrlGroupWritten(UnloggedFact):
    group: UrlGroup

    def apply(self, state: State) -> None:
        state.accounts[self.group.account_id].groups[self.group.name] = self.group


class UrlGroupDeleted(UnloggedFact):
    account_id: AccountId
    name: GroupName

    def apply(self, state: State) -> None:
        del state.accounts[self.account_id].groups[self.name]


class QueueWritten(UnloggedFact):
    queue: Queue

    def apply(self, state: State) -> None:
        queue = self.queue
        owner = state.accounts[queue.account_id]
        owner.queues[queue.name] = queue
        owner.queue_wait_lists.setdefault(queue.name, WaitList())
        owner.queue_slots.setdefault(queue.name, {})
        owner.queue_lag.setdefault(queue.name, 0)


class QueueDeleted(UnloggedFact):
    account_id: AccountId
    name: QueueName

    def apply(self, state: State) -> None:
        del state.accounts[self.account_id].queues[self.name]


class QueueSlotTaken(UnloggedFact):
    """A queued message was let in by its queue; it keeps the slot until it and its callbacks have ended."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName

    def apply(self, state: State) -> None:
        state.accounts[self.account_id].queue_slots[self.queue][self.message_id] = 1


class QueueSlotReleased(UnloggedFact):
    """The queued message and its callbacks have ended; the next that waits may start."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName

    def apply(self, state: State) -> None:
        state.accounts[self.account_id].queue_slots.get(self.queue, {}).pop(self.message_id, None)


class DestinationHeld(UnloggedFact):
    """Nothing leaves to a destination any more (D-785)."""

    held: HeldDestination

    def apply(self, state: State) -> None:
        state.held_destinations[self.held.origin] = self.held


class DestinationReleased(UnloggedFact):
    """A destination is held no longer; what waits for it starts next."""

    origin: str

    def apply(self, state: State) -> None:
        del state.held_destinations[self.origin]


class RuleAdded(Fact):
    rule: DestinationRule

    def apply(self, state: State) -> None:
        state.counters.rules += 1
        state.rules[self.rule.rule_id] = self.rule


class RulesRemoved(Fact):
    rule_ids: tuple[RuleId, ...]

    def apply(self, state: State) -> None:
        for rule_id in self.rule_ids:
            del state.rules[rule_id]


class RulesOrdered(UnloggedFact):
    """All destination rules, in the order in which they are tried from now on."""

    rule_ids: tuple[RuleId, ...]

    def apply(self, state: State) -> None:
        for rule_id in self.rule_ids:
            state.rules[rule_id] = state.rules.pop(rule_id)


# -- flow control -------------------------------------------------------------------------------


class FlowKeyChanged(UnloggedFact):
    """The limits of a flow control key from now on."""

    account_id: AccountId
    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int
    paused: bool
    pinned_parallelism: bool
    pinned_rate: bool

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        owner.flow_wait_lists.setdefault(self.key, WaitList())
        old = owner.flow_keys.get(self.key) or FlowState(key=self.key, account_id=self.account_id)
        change_flow(state, old, **asdict(self))


class FlowCountersReset(UnloggedFact):
    """A key's counters start again at `at_ms`; with `parallelism`, active attempts no longer count either."""

    account_id: AccountId
    key: FlowKey
    at_ms: int
    parallelism: bool

    def apply(self, state: State) -> None:
        flow = state.accounts[self.account_id].flow_keys[self.key]
        active = 0 if self.parallelism else flow.active
        change_flow(state, flow, active=active, rate_count=0, window_start_ms=self.at_ms)
        if not self.parallelism:
            return
        # An attempt that is under way now no longer counts: its end must not free the slot of a later one.
        for progress in list(state.messages.values()):
            message = progress.message
            key = None if message.policy.flow_control is None else message.policy.flow_control.key
            if progress.dispatch.holds_key_slot and key == self.key and message.account_id == self.account_id:
                dispatch = replace(progress.dispatch, holds_key_slot=False)
                state.messages[message.message_id] = replace(progress, dispatch=dispatch)


class RateWindowOpened(UnloggedFact):
    """A key's rate period ended with messages waiting; the next period counts from `at_ms`."""

    account_id: AccountId
    key: FlowKey
    at_ms: int

    def apply(self, state: State) -> None:
        flow = state.accounts[self.account_id].flow_keys[self.key]
        change_flow(state, flow, rate_count=0, window_start_ms=self.at_ms)
        state.timers.disarm(TimerKind.RATE_WINDOW, subject_of(self.account_id, self.key))


def count_dispatch(state: State, flow: FlowState, at_ms: int) -> None:
    is_new_window = flow.window_start_ms == 0 or at_ms >= flow.window_start_ms + flow.period_ms
    change_flow(
        state,
        flow,
        active=flow.active + 1,
        rate_count=1 if is_new_window else flow.rate_count + 1,
        window_start_ms=at_ms if is_new_window else flow.window_start_ms,
    )


def change_flow(state: State, flow: FlowState, **changes: object) -> None:
    changed = replace(flow, **changes)
    state.accounts[flow.account_id].flow_keys[flow.key] = changed
    # Arming depends on the count, so it follows every change of it.
    arm_rate_window(state, changed)


def arm_rate_window(state: State, flow: FlowState) -> None:
    """The end of the rate period is work while a message waits for it, and nothing otherwise."""
    wait_list = state.accounts[flow.account_id].flow_wait_lists[flow.key]
    waits = len(wait_list) > 0 and flow.rate is not None and flow.window_start_ms > 0
    is_used_up = waits and not flow.paused and flow.rate_count >= (flow.rate or 0)
    due_ms = flow.window_start_ms + flow.period_ms if is_used_up else None
    state.timers.set(TimerKind.RATE_WINDOW, subject_of(flow.account_id, flow.key), due_ms)
