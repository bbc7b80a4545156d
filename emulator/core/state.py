"""The only function that changes a world's books.

`State.apply` decides nothing: it files what a fact says and arms the timers that follow from
it. Decisions see the same object through `books.StateView`, which has no `apply`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from emulator.core import facts, lifecycle
from emulator.core.model import (
    Account,
    AccountId,
    DeadLetter,
    DestinationRule,
    FlowKey,
    FlowState,
    HoldKind,
    IndexId,
    Message,
    MessageId,
    Phase,
    Progress,
    Queue,
    QueueName,
    QueueSlot,
    RuleId,
    ScheduleId,
    ScheduleProgress,
    ScheduleRunState,
    SearchIndex,
    TeamMember,
    TimerKind,
    VectorIndex,
)
from emulator.core.state_view import AccountState, Counters, progress_of, subject_of
from emulator.core.timers import Timers
from emulator.core.wait_list import WaitList


class State:
    """One world: its clock, accounts, live messages, destination rules and timers.

    `key` seeds every identifier the world makes.
    """

    def __init__(self, *, key: bytes, now_ms: int, accounts: Iterable[Account]) -> None:
        self.key = key
        self.now_ms = now_ms
        self.counters = Counters()
        self.messages: dict[MessageId, Progress] = {}
        self.rules: dict[RuleId, DestinationRule] = {}
        self.accounts: dict[AccountId, AccountState] = {account.id: AccountState(account) for account in accounts}
        self.search_indexes: dict[IndexId, SearchIndex] = {}
        # No command changes these two: they are what the world was made with.
        self.vector_indexes: dict[IndexId, VectorIndex] = {}
        self.team: tuple[TeamMember, ...] = ()
        self.timers = Timers()

    def apply(self, fact: facts.Fact) -> None:
        """File one fact. Raises WorldBroken for one that cannot follow on the present state."""
        match fact:
            case facts.ClockMoved():
                self.now_ms = fact.now_ms
            case facts.MessageCreated():
                self._message_created(fact)
            case facts.AttemptStarted():
                self._attempt_started(fact)
            case facts.AttemptFinished():
                self._attempt_finished(fact)
            case facts.MessageDelivered():
                self._message_ended(fact.message_id, facts.MessageDelivered, ScheduleRunState.SUCCESS)
            case facts.RetryScheduled():
                self._retry_scheduled(fact)
            case facts.ScheduleFired():
                self._schedule_fired(fact)
            case facts.MessageHeld():
                self._message_held(fact)
            case facts.PublishDeduplicated():
                pass  # Only history tells of it.
            case facts.QueueSlotTaken():
                self.accounts[fact.account_id].queue_slots[fact.queue][fact.message_id] = 1
            case facts.QueueSlotReleased():
                self.accounts[fact.account_id].queue_slots.get(fact.queue, {}).pop(fact.message_id, None)
            case facts.ResponseDelayed():
                self._answer_promised(fact)
            case facts.MessageFailed():
                self._message_failed(fact)
            case facts.CancelRequested():
                progress = self.messages[fact.message_id]
                phase = lifecycle.next_phase(progress.phase, facts.CancelRequested)
                self._replace(progress, phase=phase, cancel_requested=True)
            case facts.MessageCanceled():
                self._message_ended(fact.message_id, facts.MessageCanceled, ScheduleRunState.FAIL)
            case facts.DeduplicationsExpired():
                owner = self.accounts[fact.account_id]
                for key in fact.keys:
                    owner.deduplications.pop(key, None)
                self._arm_deduplication_expiry(owner)
            case facts.DeadLettersRemoved():
                owner = self.accounts[fact.account_id]
                for dead_letter_id in fact.dead_letter_ids:
                    del owner.dead_letters[dead_letter_id]
                self._arm_dead_letter_expiry(owner)
            case facts.ScheduleWritten():
                self._schedule_written(fact)
            case facts.SchedulePaused():
                self._reschedule(fact.account_id, fact.schedule_id, next_ms=None)
            case facts.ScheduleResumed():
                self._reschedule(fact.account_id, fact.schedule_id, next_ms=fact.next_ms)
            case facts.ScheduleDeleted():
                del self.accounts[fact.account_id].schedules[fact.schedule_id]
                self.timers.disarm(TimerKind.SCHEDULE, subject_of(fact.account_id, fact.schedule_id))
            case facts.UrlGroupWritten():
                self.accounts[fact.group.account_id].groups[fact.group.name] = fact.group
            case facts.UrlGroupDeleted():
                del self.accounts[fact.account_id].groups[fact.name]
            case facts.QueueWritten():
                self._queue_written(fact.queue)
            case facts.QueueDeleted():
                owner = self.accounts[fact.account_id]
                del owner.queues[fact.name]
            case facts.FlowKeyChanged():
                self._flow_key_changed(fact)
            case facts.FlowCountersReset():
                self._flow_counters_reset(fact)
            case facts.RateWindowOpened():
                flow = self.accounts[fact.account_id].flow_keys[fact.key]
                self._replace_flow(flow, active=flow.active, rate_count=0, window_start_ms=fact.at_ms)
                self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))
            case facts.AccountChanged():
                self._account_changed(fact)
            case facts.AccountSettled():
                owner = self.accounts[fact.account_id]
                owner.account = replace(owner.account, modifying_state="")
                self.timers.disarm(TimerKind.ACCOUNT, fact.account_id)
            case facts.AccountTokenRotated():
                self._account_token_rotated(fact)
            case facts.SigningKeysRotated():
                self._signing_keys_rotated(fact)
            case facts.RuleAdded():
                self.counters.rules += 1
                self.rules[fact.rule.rule_id] = fact.rule
            case facts.RulesRemoved():
                for rule_id in fact.rule_ids:
                    del self.rules[rule_id]
            case facts.SearchIndexCreated():
                self.counters.indexes += 1
                self.search_indexes[fact.index.id] = fact.index
            case facts.SearchIndexChanged():
                self._search_index_changed(fact.index)
            case facts.SearchIndexDeleted():
                del self.search_indexes[fact.index_id]
            case _:
                assert_never(fact)

    # -- messages ---------------------------------------------------------------------------

    def _message_created(self, fact: facts.MessageCreated) -> None:
        message = fact.message
        message_id = message.message_id
        self.counters.messages += 1
        self.messages[message_id] = progress_of(message)
        self.timers.arm(TimerKind.DELIVERY, message_id, message.not_before_ms)
        owner = self.accounts[message.account_id]
        day = message.created_ms // 86_400_000
        owner.usage_count = owner.usage_count + 1 if day == owner.usage_day else 1
        owner.usage_day = day
        if message.queue is not None:
            owner.queue_lag[message.queue] += 1
        if message.queue_slot is not None:
            self._count_on_slot(owner, message.queue_slot, +1)
        if fact.deduplication_key is not None:
            # Re-inserted at the end, so that the first entry is always the first to expire.
            owner.deduplications.pop(fact.deduplication_key, None)
            owner.deduplications[fact.deduplication_key] = (message_id, fact.deduplicate_until_ms)
            self._arm_deduplication_expiry(owner)
        if message.schedule_id is not None:
            self._note_run(owner, message, ScheduleRunState.IN_PROGRESS)

    def _message_held(self, fact: facts.MessageHeld) -> None:
        progress = self.messages[fact.message_id]
        self._leave_line(progress)
        self.timers.disarm(TimerKind.DELIVERY, fact.message_id)
        phase = lifecycle.next_phase(progress.phase, facts.MessageHeld)
        if fact.ticket > self.counters.tickets:
            self.counters.tickets = fact.ticket
        owner = self.accounts[progress.message.account_id]
        hold = fact.hold
        if hold.kind is HoldKind.QUEUE:
            owner.queue_wait_lists[QueueName(hold.name)].join(fact.message_id, fact.ticket)
        elif hold.kind is HoldKind.FLOW_CONTROL:
            key = FlowKey(hold.name)
            owner.flow_wait_lists[key].join(fact.message_id, fact.ticket)
        else:
            owner.global_wait_list.join(fact.message_id, fact.ticket)
        self.messages[fact.message_id] = Progress(
            message=progress.message,
            phase=phase,
            retried=progress.retried,
            due_ms=progress.due_ms,
            ticket=fact.ticket,
            hold=hold,
            started_ms=progress.started_ms,
            answer=None,
            outcome=None,
            cancel_requested=progress.cancel_requested,
        )
        if hold.kind is HoldKind.FLOW_CONTROL:
            self._arm_rate_window(owner, FlowKey(hold.name))

    def _attempt_started(self, fact: facts.AttemptStarted) -> None:
        progress = self.messages[fact.message_id]
        message = progress.message
        if progress.hold is not None:
            self._leave_line(progress)
        self.timers.disarm(TimerKind.DELIVERY, fact.message_id)
        owner = self.accounts[message.account_id]
        owner.active += 1
        if message.flow_control is not None:
            self._count_dispatch(owner, message.flow_control.key, fact.at_ms)
        if fact.answer is not None:
            rule = self.rules.get(fact.answer.rule_id)
            if rule is not None:
                self.rules[rule.rule_id] = _used_once_more(rule)
        self.messages[fact.message_id] = Progress(
            message=message,
            phase=lifecycle.next_phase(progress.phase, facts.AttemptStarted),
            retried=progress.retried,
            due_ms=progress.due_ms,
            ticket=0,
            hold=None,
            started_ms=fact.at_ms,
            answer=fact.answer,
            outcome=None,
            cancel_requested=progress.cancel_requested,
            holds_key_slot=message.flow_control is not None,
        )

    def _answer_promised(self, fact: facts.ResponseDelayed) -> None:
        progress = self.messages[fact.message_id]
        lifecycle.next_phase(progress.phase, facts.ResponseDelayed)
        self.messages[fact.message_id] = Progress(
            message=progress.message,
            phase=progress.phase,
            retried=progress.retried,
            due_ms=fact.due_ms,
            ticket=0,
            hold=None,
            started_ms=progress.started_ms,
            answer=progress.answer,
            outcome=fact.outcome,
            cancel_requested=progress.cancel_requested,
            holds_key_slot=progress.holds_key_slot,
        )
        self.timers.arm(TimerKind.ANSWER, fact.message_id, fact.due_ms)

    def _attempt_finished(self, fact: facts.AttemptFinished) -> None:
        progress = self.messages[fact.message_id]
        lifecycle.next_phase(progress.phase, facts.AttemptFinished)
        if progress.outcome is not None:
            self.timers.disarm(TimerKind.ANSWER, fact.message_id)
        message = progress.message
        owner = self.accounts[message.account_id]
        owner.active -= 1
        if progress.holds_key_slot and message.flow_control is not None:
            flow = owner.flow_keys[message.flow_control.key]
            self._replace_flow(
                flow, active=flow.active - 1, rate_count=flow.rate_count, window_start_ms=flow.window_start_ms
            )

    def _retry_scheduled(self, fact: facts.RetryScheduled) -> None:
        progress = self.messages[fact.message_id]
        self.messages[fact.message_id] = Progress(
            message=progress.message,
            phase=lifecycle.next_phase(progress.phase, facts.RetryScheduled),
            retried=progress.retried + 1,
            due_ms=fact.due_ms,
            ticket=0,
            hold=None,
            started_ms=progress.started_ms,
            answer=None,
            outcome=None,
            cancel_requested=progress.cancel_requested,
        )
        self.timers.arm(TimerKind.DELIVERY, fact.message_id, fact.due_ms)

    def _message_failed(self, fact: facts.MessageFailed) -> None:
        message = self._message_ended(fact.message_id, facts.MessageFailed, ScheduleRunState.FAIL)
        self.counters.dead_letters += 1
        owner = self.accounts[message.account_id]
        owner.dead_letters[fact.dead_letter_id] = DeadLetter(
            dead_letter_id=fact.dead_letter_id,
            account_id=message.account_id,
            message_id=message.message_id,
            failed_ms=fact.at_ms,
        )
        self._arm_dead_letter_expiry(owner)

    def _message_ended(self, message_id: MessageId, fact: type[object], run: ScheduleRunState) -> Message:
        progress = self.messages.pop(message_id)
        phase = lifecycle.next_phase(progress.phase, fact)
        assert phase in lifecycle.FINAL
        message = progress.message
        if progress.hold is not None:
            self._leave_line(progress)
        self.timers.disarm(TimerKind.DELIVERY, message_id)
        owner = self.accounts[message.account_id]
        if message.queue is not None:
            owner.queue_lag[message.queue] -= 1
            self._count_on_slot(owner, QueueSlot(queue=message.queue, message_id=message_id), -1)
        if message.queue_slot is not None:
            self._count_on_slot(owner, message.queue_slot, -1)
        if message.schedule_id is not None:
            self._note_run(owner, message, run)
        return message

    def _leave_line(self, progress: Progress) -> None:
        hold = progress.hold
        if hold is None:
            return
        owner = self.accounts[progress.message.account_id]
        message_id = progress.message.message_id
        if hold.kind is HoldKind.QUEUE:
            owner.queue_wait_lists[QueueName(hold.name)].leave(message_id)
        elif hold.kind is HoldKind.FLOW_CONTROL:
            key = FlowKey(hold.name)
            owner.flow_wait_lists[key].leave(message_id)
            if len(owner.flow_wait_lists[key]) == 0:
                self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(owner.account.id, key))
        else:
            owner.global_wait_list.leave(message_id)

    def _count_on_slot(self, owner: AccountState, slot: QueueSlot, change: int) -> None:
        slots = owner.queue_slots[slot.queue]
        if slot.message_id in slots:
            slots[slot.message_id] += change

    def _note_run(self, owner: AccountState, message: Message, run: ScheduleRunState) -> None:
        assert message.schedule_id is not None
        progress = owner.schedules.get(message.schedule_id)
        if progress is None or message.source_message_id is not None:
            return
        # Of an earlier firing, or a dead letter published again: the record shows the last firing only.
        message_id = message.message_id
        states = progress.last_states
        if run is ScheduleRunState.IN_PROGRESS:
            if message.created_ms != progress.last_fired_ms:
                return
            states = (*states, (message_id, run))
        else:
            known = next((state for state in states if state[0] == message_id), None)
            if known is None:
                return
            states = tuple([(message_id, run) if state is known else state for state in states])
        owner.schedules[message.schedule_id] = ScheduleProgress(
            schedule=progress.schedule,
            paused=progress.paused,
            next_ms=progress.next_ms,
            last_fired_ms=progress.last_fired_ms,
            last_states=states,
            error=progress.error,
        )

    def _replace(self, progress: Progress, *, phase: Phase, cancel_requested: bool) -> None:
        self.messages[progress.message.message_id] = Progress(
            message=progress.message,
            phase=phase,
            retried=progress.retried,
            due_ms=progress.due_ms,
            ticket=progress.ticket,
            hold=progress.hold,
            started_ms=progress.started_ms,
            answer=progress.answer,
            outcome=progress.outcome,
            cancel_requested=cancel_requested,
            holds_key_slot=progress.holds_key_slot,
        )

    # -- expiries ---------------------------------------------------------------------------

    def _arm_deduplication_expiry(self, owner: AccountState) -> None:
        first = next(iter(owner.deduplications.values()), None)
        if first is None:
            self.timers.disarm(TimerKind.DEDUPLICATION_EXPIRY, owner.account.id)
        else:
            self.timers.arm(TimerKind.DEDUPLICATION_EXPIRY, owner.account.id, first[1])

    def _arm_dead_letter_expiry(self, owner: AccountState) -> None:
        first = next(iter(owner.dead_letters.values()), None)
        if first is None:
            self.timers.disarm(TimerKind.DEAD_LETTER_EXPIRY, owner.account.id)
        else:
            due_ms = first.failed_ms + owner.account.max_dlq_retention_time_milis
            self.timers.arm(TimerKind.DEAD_LETTER_EXPIRY, owner.account.id, due_ms)

    # -- schedules --------------------------------------------------------------------------

    def _schedule_written(self, fact: facts.ScheduleWritten) -> None:
        schedule = fact.schedule
        owner = self.accounts[schedule.account_id]
        old = owner.schedules.get(schedule.schedule_id)
        if old is None:
            self.counters.schedules += 1
        paused = old is not None and old.paused
        owner.schedules[schedule.schedule_id] = ScheduleProgress(
            schedule=schedule,
            paused=paused,
            next_ms=None if paused else fact.next_ms,
            last_fired_ms=None if old is None else old.last_fired_ms,
            last_states=() if old is None else old.last_states,
            error=None,
        )
        if not paused:
            subject = subject_of(schedule.account_id, schedule.schedule_id)
            self.timers.arm(TimerKind.SCHEDULE, subject, fact.next_ms)

    def _schedule_fired(self, fact: facts.ScheduleFired) -> None:
        owner = self.accounts[fact.account_id]
        progress = owner.schedules[fact.schedule_id]
        owner.schedules[fact.schedule_id] = ScheduleProgress(
            schedule=progress.schedule,
            paused=progress.paused,
            next_ms=fact.next_ms,
            last_fired_ms=fact.at_ms,
            last_states=(),
            error=fact.error,
        )
        self.timers.arm(TimerKind.SCHEDULE, subject_of(fact.account_id, fact.schedule_id), fact.next_ms)

    def _reschedule(self, account_id: AccountId, schedule_id: ScheduleId, *, next_ms: int | None) -> None:
        owner = self.accounts[account_id]
        progress = owner.schedules[schedule_id]
        owner.schedules[schedule_id] = ScheduleProgress(
            schedule=progress.schedule,
            paused=next_ms is None,
            next_ms=next_ms,
            last_fired_ms=progress.last_fired_ms,
            last_states=progress.last_states,
            error=progress.error,
        )
        subject = subject_of(account_id, schedule_id)
        if next_ms is None:
            self.timers.disarm(TimerKind.SCHEDULE, subject)
        else:
            self.timers.arm(TimerKind.SCHEDULE, subject, next_ms)

    # -- queues and flow control ------------------------------------------------------------

    def _queue_written(self, queue: Queue) -> None:
        owner = self.accounts[queue.account_id]
        owner.queues[queue.name] = queue
        owner.queue_wait_lists.setdefault(queue.name, WaitList())
        owner.queue_slots.setdefault(queue.name, {})
        owner.queue_lag.setdefault(queue.name, 0)

    def _flow_key_changed(self, fact: facts.FlowKeyChanged) -> None:
        owner = self.accounts[fact.account_id]
        old = owner.flow_keys.get(fact.key)
        owner.flow_wait_lists.setdefault(fact.key, WaitList())
        owner.flow_keys[fact.key] = FlowState(
            key=fact.key,
            account_id=fact.account_id,
            parallelism=fact.parallelism,
            rate=fact.rate,
            period_ms=fact.period_ms,
            active=0 if old is None else old.active,
            rate_count=0 if old is None else old.rate_count,
            window_start_ms=0 if old is None else old.window_start_ms,
            paused=fact.paused,
            pinned_parallelism=fact.pinned_parallelism,
            pinned_rate=fact.pinned_rate,
        )
        self._arm_rate_window(owner, fact.key)

    def _count_dispatch(self, owner: AccountState, key: FlowKey, at_ms: int) -> None:
        flow = owner.flow_keys[key]
        is_new_window = flow.window_start_ms == 0 or at_ms >= flow.window_start_ms + flow.period_ms
        self._replace_flow(
            flow,
            active=flow.active + 1,
            rate_count=1 if is_new_window else flow.rate_count + 1,
            window_start_ms=at_ms if is_new_window else flow.window_start_ms,
        )

    def _arm_rate_window(self, owner: AccountState, key: FlowKey) -> None:
        """The end of the rate period is work while somebody waits for it, and nothing otherwise."""
        flow = owner.flow_keys[key]
        subject = subject_of(owner.account.id, key)
        waits = len(owner.flow_wait_lists[key]) > 0 and flow.rate is not None and flow.window_start_ms > 0
        if waits and not flow.paused and flow.rate_count >= (flow.rate or 0):
            self.timers.arm(TimerKind.RATE_WINDOW, subject, flow.window_start_ms + flow.period_ms)
        else:
            self.timers.disarm(TimerKind.RATE_WINDOW, subject)

    def _flow_counters_reset(self, fact: facts.FlowCountersReset) -> None:
        flow = self.accounts[fact.account_id].flow_keys[fact.key]
        active = 0 if fact.parallelism else flow.active
        self._replace_flow(flow, active=active, rate_count=0, window_start_ms=fact.at_ms)
        self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))
        if not fact.parallelism:
            return
        # What is under way now is forgotten for good: its end must not free the slot of a later attempt.
        for progress in list(self.messages.values()):
            message = progress.message
            key = None if message.flow_control is None else message.flow_control.key
            if progress.holds_key_slot and key == fact.key and message.account_id == fact.account_id:
                self.messages[message.message_id] = replace(progress, holds_key_slot=False)

    def _replace_flow(self, flow: FlowState, *, active: int, rate_count: int, window_start_ms: int) -> None:
        owner = self.accounts[flow.account_id]
        owner.flow_keys[flow.key] = FlowState(
            key=flow.key,
            account_id=flow.account_id,
            parallelism=flow.parallelism,
            rate=flow.rate,
            period_ms=flow.period_ms,
            active=active,
            rate_count=rate_count,
            window_start_ms=window_start_ms,
            paused=flow.paused,
            pinned_parallelism=flow.pinned_parallelism,
            pinned_rate=flow.pinned_rate,
        )
        # Arming depends on the count, so it follows every change of it.
        self._arm_rate_window(owner, flow.key)

    # -- accounts ---------------------------------------------------------------------------

    def _signing_keys_rotated(self, fact: facts.SigningKeysRotated) -> None:
        self.counters.signing_keys += 1
        owner = self.accounts[fact.account_id]
        owner.account = replace(owner.account, signing_keys=fact.keys)

    def _account_changed(self, fact: facts.AccountChanged) -> None:
        owner = self.accounts[fact.account.id]
        owner.account = fact.account
        self._arm_dead_letter_expiry(owner)
        if fact.settles_ms is not None:
            self.timers.arm(TimerKind.ACCOUNT, fact.account.id, fact.settles_ms)

    def _account_token_rotated(self, fact: facts.AccountTokenRotated) -> None:
        self.counters.account_tokens += 1
        owner = self.accounts[fact.account_id]
        owner.account = replace(
            owner.account, password=fact.password, token=fact.token, read_only_token=fact.read_only_token
        )

    # -- search indexes ---------------------------------------------------------------------

    def _search_index_changed(self, index: SearchIndex) -> None:
        if index.token != self.search_indexes[index.id].token:
            self.counters.index_tokens += 1
        self.search_indexes[index.id] = index


def _used_once_more(rule: DestinationRule) -> DestinationRule:
    """Written out because every scripted attempt passes here, and `replace` is slow."""
    return DestinationRule(
        rule_id=rule.rule_id,
        url=rule.url,
        method=rule.method,
        responses=rule.responses,
        forward_to=rule.forward_to,
        fault=rule.fault,
        latency_ms=rule.latency_ms,
        times=rule.times,
        used=rule.used + 1,
        is_sequence=rule.is_sequence,
    )
