"""The only function that changes a world's state.

`State.apply` decides nothing: it records what a fact says and arms the timers that follow from
it. Decisions see the same object through `state_view.StateView`, which has no `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import asdict, replace

from emulator.core import facts, lifecycle
from emulator.core.language.calendar import DAY_MS
from emulator.core.model import (
    Account,
    AccountId,
    BriefProgress,
    DeadLetter,
    DestinationRule,
    Duplicate,
    FlowKey,
    FlowState,
    HoldKind,
    IndexId,
    Message,
    MessageId,
    Progress,
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
from emulator.core.state_view import (
    AccountState,
    Counters,
    duplicate_subject,
    progress_of,
    subject_of,
    waiter_subject,
)
from emulator.core.timers import Timers
from emulator.core.wait_list import WaitList

F = TypeVar("F", bound=facts.Fact)

# What applies a fact of each type. A test proves that every fact has an entry.
APPLIED_BY: dict[type[Any], Callable[[State, Any], None]] = {}


def _applies(kind: type[F]) -> Callable[[Callable[[State, F], None]], Callable[[State, F], None]]:
    """Registers a method of `State` for the facts of a type."""

    def register(method: Callable[[State, F], None]) -> Callable[[State, F], None]:
        APPLIED_BY[kind] = method
        return method

    return register


class State:
    """One world: its clock, accounts, live messages, destination rules and timers.

    `key` seeds tokens, signing keys and statistics, `event_key` the identifiers of messages, schedules and
    signatures (D-260). A state of before there were two has one for both.
    """

    def __init__(self, *, key: bytes, event_key: bytes = b"", now_ms: int, accounts: Iterable[Account]) -> None:
        self.key = key
        self.event_key = event_key or key
        self.now_ms = now_ms
        self.counters = Counters()
        self.messages: dict[MessageId, Progress] = {}
        self.rules: dict[RuleId, DestinationRule] = {}
        # Deliveries to be made again, and those under way, by their timers' subjects.
        self.duplicates: dict[str, Duplicate] = {}
        self.accounts: dict[AccountId, AccountState] = {account.id: AccountState(account) for account in accounts}
        self.search_indexes: dict[IndexId, SearchIndex] = {}
        # No command changes these two: they are what the world was made with.
        self.vector_indexes: dict[IndexId, VectorIndex] = {}
        self.team: tuple[TeamMember, ...] = ()
        self.timers = Timers()

    def apply(self, fact: facts.Fact) -> None:
        """Record one fact. Raises WorldBroken for one that cannot follow on the present state."""
        APPLIED_BY[type(fact)](self, fact)

    @_applies(facts.ClockMoved)
    def _clock_moved(self, fact: facts.ClockMoved) -> None:
        self.now_ms = fact.now_ms

    # -- messages ---------------------------------------------------------------------------

    @_applies(facts.MessageCreated)
    def _message_created(self, fact: facts.MessageCreated) -> None:
        message = fact.message
        message_id = message.message_id
        self.counters.messages += 1
        self.messages[message_id] = progress_of(message)
        self.timers.arm(TimerKind.DELIVERY, message_id, message.not_before_ms)
        owner = self.accounts[message.account_id]
        day = message.created_ms // DAY_MS
        owner.usage_count = owner.usage_count + 1 if day == owner.usage_day else 1
        owner.usage_day = day
        if message.queue is not None:
            owner.queue_lag[message.queue] += 1
        if message.queue_slot is not None:
            _count_on_slot(owner, message.queue_slot, +1)
        if fact.deduplication_key is not None:
            # Re-inserted at the end, so that the first entry is always the first to expire.
            owner.deduplications.pop(fact.deduplication_key, None)
            owner.deduplications[fact.deduplication_key] = (message_id, fact.deduplicate_until_ms)
            self._arm_deduplication_expiry(owner)
        if message.schedule_id is not None:
            _record_run(owner, message, ScheduleRunState.IN_PROGRESS)
        if message.run is not None:
            owner.run_messages.setdefault(message.run.run_number, {})[message_id] = None

    @_applies(facts.PublishDeduplicated)
    def _publish_deduplicated(self, fact: facts.PublishDeduplicated) -> None:
        """Only history shows it."""

    @_applies(facts.MessageHeld)
    def _message_held(self, fact: facts.MessageHeld) -> None:
        self._leave_wait_list(self.messages[fact.message_id])
        self.timers.disarm(TimerKind.DELIVERY, fact.message_id)
        self.counters.tickets = max(self.counters.tickets, fact.ticket)
        hold = fact.hold
        progress = self._move_on(
            fact.message_id,
            facts.MessageHeld,
            ticket=fact.ticket,
            hold=hold,
            answer=None,
            outcome=None,
            holds_key_slot=False,
        )
        owner = self.accounts[progress.message.account_id]
        owner.wait_list(hold).join(fact.message_id, fact.ticket)
        if hold.kind is HoldKind.FLOW_CONTROL:
            self._arm_rate_window(owner.flow_keys[FlowKey(hold.name)])

    @_applies(facts.QueueSlotTaken)
    def _queue_slot_taken(self, fact: facts.QueueSlotTaken) -> None:
        self.accounts[fact.account_id].queue_slots[fact.queue][fact.message_id] = 1

    @_applies(facts.QueueSlotReleased)
    def _queue_slot_released(self, fact: facts.QueueSlotReleased) -> None:
        self.accounts[fact.account_id].queue_slots.get(fact.queue, {}).pop(fact.message_id, None)

    @_applies(facts.AttemptStarted)
    def _attempt_started(self, fact: facts.AttemptStarted) -> None:
        progress = self.messages[fact.message_id]
        message = progress.message
        self._leave_wait_list(progress)
        self.timers.disarm(TimerKind.DELIVERY, fact.message_id)
        owner = self.accounts[message.account_id]
        owner.active += 1
        if message.flow_control is not None:
            self._count_dispatch(owner.flow_keys[message.flow_control.key], fact.at_ms)
        if fact.answer is not None:
            for rule_id in (fact.answer.rule_id, *fact.answer.others):
                rule = self.rules.get(rule_id)
                if rule is not None:
                    self.rules[rule_id] = replace(rule, used=rule.used + 1)
        self._move_on(
            fact.message_id,
            facts.AttemptStarted,
            ticket=0,
            hold=None,
            started_ms=fact.at_ms,
            answer=fact.answer,
            outcome=None,
            holds_key_slot=message.flow_control is not None,
            postponed=0,
        )

    @_applies(facts.DeliveryPostponed)
    def _delivery_postponed(self, fact: facts.DeliveryPostponed) -> None:
        postponed = self.messages[fact.message_id].postponed + 1
        self._move_on(fact.message_id, facts.DeliveryPostponed, due_ms=fact.due_ms, postponed=postponed)
        self.timers.arm(TimerKind.DELIVERY, fact.message_id, fact.due_ms)

    @_applies(facts.DuplicateScheduled)
    def _duplicate_scheduled(self, fact: facts.DuplicateScheduled) -> None:
        duplicate = fact.duplicate
        subject = duplicate_subject(duplicate.message.message_id, duplicate.number)
        self.duplicates[subject] = duplicate
        self.timers.arm(TimerKind.DUPLICATE, subject, duplicate.due_ms)

    @_applies(facts.DuplicateStarted)
    def _duplicate_started(self, fact: facts.DuplicateStarted) -> None:
        subject = duplicate_subject(fact.message_id, fact.number)
        self.timers.disarm(TimerKind.DUPLICATE, subject)
        self.duplicates[subject] = replace(self.duplicates[subject], started_ms=fact.at_ms)

    @_applies(facts.DuplicateFinished)
    def _duplicate_finished(self, fact: facts.DuplicateFinished) -> None:
        del self.duplicates[duplicate_subject(fact.message_id, fact.number)]

    @_applies(facts.ResponseDelayed)
    def _response_delayed(self, fact: facts.ResponseDelayed) -> None:
        self._move_on(fact.message_id, facts.ResponseDelayed, due_ms=fact.due_ms, outcome=fact.outcome)
        self.timers.arm(TimerKind.ANSWER, fact.message_id, fact.due_ms)

    @_applies(facts.AttemptFinished)
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
            self._change_flow(flow, active=flow.active - 1)

    @_applies(facts.RetryScheduled)
    def _retry_scheduled(self, fact: facts.RetryScheduled) -> None:
        self._move_on(
            fact.message_id,
            facts.RetryScheduled,
            retried=self.messages[fact.message_id].retried + 1,
            due_ms=fact.due_ms,
            answer=None,
            outcome=None,
            holds_key_slot=False,
        )
        self.timers.arm(TimerKind.DELIVERY, fact.message_id, fact.due_ms)

    @_applies(facts.MessageDelivered)
    def _message_delivered(self, fact: facts.MessageDelivered) -> None:
        self._end(fact, ScheduleRunState.SUCCESS)

    @_applies(facts.MessageFailed)
    def _message_failed(self, fact: facts.MessageFailed) -> None:
        message = self._end(fact, ScheduleRunState.FAIL)
        self.counters.dead_letters += 1
        owner = self.accounts[message.account_id]
        owner.dead_letters[fact.dead_letter_id] = DeadLetter(
            dead_letter_id=fact.dead_letter_id,
            account_id=message.account_id,
            message_id=message.message_id,
            failed_ms=fact.at_ms,
            run_number=fact.run_number,
        )
        self._arm_dead_letter_expiry(owner)

    @_applies(facts.MessageGivenUp)
    def _message_given_up(self, fact: facts.MessageGivenUp) -> None:
        self._end(fact, ScheduleRunState.FAIL)

    @_applies(facts.CancelRequested)
    def _cancel_requested(self, fact: facts.CancelRequested) -> None:
        self._move_on(fact.message_id, facts.CancelRequested, cancel_requested=True)

    @_applies(facts.MessageCanceled)
    def _message_canceled(self, fact: facts.MessageCanceled) -> None:
        self._end(fact, ScheduleRunState.FAIL)

    def _move_on(self, message_id: MessageId, kind: type[facts.Fact], **changes: object) -> Progress:
        """Give a message the phase that a fact leads to, and these changes."""
        progress = self.messages[message_id]
        phase = lifecycle.next_phase(progress.phase, kind)
        if type(progress) is BriefProgress:
            given: dict[str, Any] = {"due_ms": progress.due_ms, **changes}
            changed = Progress(message=progress.message, phase=phase, **given)
        else:
            changed = replace(progress, phase=phase, **changes)
        self.messages[message_id] = changed
        return changed

    def _end(
        self,
        fact: facts.MessageDelivered | facts.MessageFailed | facts.MessageGivenUp | facts.MessageCanceled,
        run: ScheduleRunState,
    ) -> Message:
        """Remove a live message, and give back what it counted on."""
        progress = self.messages.pop(fact.message_id)
        phase = lifecycle.next_phase(progress.phase, type(fact))
        assert phase in lifecycle.FINAL
        message = progress.message
        self._leave_wait_list(progress)
        self.timers.disarm(TimerKind.DELIVERY, fact.message_id)
        owner = self.accounts[message.account_id]
        if message.queue is not None:
            owner.queue_lag[message.queue] -= 1
            _count_on_slot(owner, QueueSlot(queue=message.queue, message_id=fact.message_id), -1)
        if message.queue_slot is not None:
            _count_on_slot(owner, message.queue_slot, -1)
        if message.schedule_id is not None:
            _record_run(owner, message, run)
        if message.run is not None:
            live = owner.run_messages[message.run.run_number]
            del live[fact.message_id]
            if not live:
                del owner.run_messages[message.run.run_number]
        return message

    def _leave_wait_list(self, progress: Progress) -> None:
        hold = progress.hold
        if hold is None:
            return
        owner = self.accounts[progress.message.account_id]
        wait_list = owner.wait_list(hold)
        wait_list.leave(progress.message.message_id)
        if hold.kind is HoldKind.FLOW_CONTROL and len(wait_list) == 0:
            self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(owner.account.id, hold.name))

    # -- expiries ---------------------------------------------------------------------------

    @_applies(facts.DeduplicationsExpired)
    def _deduplications_expired(self, fact: facts.DeduplicationsExpired) -> None:
        owner = self.accounts[fact.account_id]
        for key in fact.keys:
            owner.deduplications.pop(key, None)
        self._arm_deduplication_expiry(owner)

    @_applies(facts.DeadLettersRemoved)
    def _dead_letters_removed(self, fact: facts.DeadLettersRemoved) -> None:
        owner = self.accounts[fact.account_id]
        for dead_letter_id in fact.dead_letter_ids:
            del owner.dead_letters[dead_letter_id]
        self._arm_dead_letter_expiry(owner)

    def _arm_deduplication_expiry(self, owner: AccountState) -> None:
        first = next(iter(owner.deduplications.values()), None)
        due_ms = None if first is None else first[1]
        self.timers.set(TimerKind.DEDUPLICATION_EXPIRY, owner.account.id, due_ms)

    def _arm_dead_letter_expiry(self, owner: AccountState) -> None:
        first = next(iter(owner.dead_letters.values()), None)
        due_ms = None if first is None else first.failed_ms + owner.account.max_dlq_retention_time_milis
        self.timers.set(TimerKind.DEAD_LETTER_EXPIRY, owner.account.id, due_ms)

    # -- schedules --------------------------------------------------------------------------

    @_applies(facts.ScheduleWritten)
    def _schedule_written(self, fact: facts.ScheduleWritten) -> None:
        schedule = fact.schedule
        owner = self.accounts[schedule.account_id]
        old = owner.schedules.get(schedule.schedule_id)
        if old is None:
            self.counters.schedules += 1
            owner.schedules[schedule.schedule_id] = ScheduleProgress(schedule=schedule, next_ms=fact.next_ms)
        else:
            next_ms = None if old.paused else fact.next_ms
            owner.schedules[schedule.schedule_id] = replace(old, schedule=schedule, next_ms=next_ms, error=None)
        if old is None or not old.paused:
            self._arm_schedule(schedule.account_id, schedule.schedule_id, fact.next_ms)

    @_applies(facts.ScheduleFired)
    def _schedule_fired(self, fact: facts.ScheduleFired) -> None:
        schedules = self.accounts[fact.account_id].schedules
        schedules[fact.schedule_id] = replace(
            schedules[fact.schedule_id],
            next_ms=fact.next_ms,
            last_fired_ms=fact.at_ms,
            last_states=(),
            error=fact.error,
        )
        self._arm_schedule(fact.account_id, fact.schedule_id, fact.next_ms)

    @_applies(facts.SchedulePaused)
    def _schedule_paused(self, fact: facts.SchedulePaused) -> None:
        self._pause_schedule(fact.account_id, fact.schedule_id, None)

    @_applies(facts.ScheduleResumed)
    def _schedule_resumed(self, fact: facts.ScheduleResumed) -> None:
        self._pause_schedule(fact.account_id, fact.schedule_id, fact.next_ms)

    @_applies(facts.ScheduleDeleted)
    def _schedule_deleted(self, fact: facts.ScheduleDeleted) -> None:
        del self.accounts[fact.account_id].schedules[fact.schedule_id]
        self._arm_schedule(fact.account_id, fact.schedule_id, None)

    def _pause_schedule(self, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
        """Pause a schedule, or resume it with its next firing at `next_ms`."""
        schedules = self.accounts[account_id].schedules
        schedules[schedule_id] = replace(schedules[schedule_id], paused=next_ms is None, next_ms=next_ms)
        self._arm_schedule(account_id, schedule_id, next_ms)

    def _arm_schedule(self, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
        self.timers.set(TimerKind.SCHEDULE, subject_of(account_id, schedule_id), next_ms)

    # -- URL groups and queues --------------------------------------------------------------

    @_applies(facts.UrlGroupWritten)
    def _url_group_written(self, fact: facts.UrlGroupWritten) -> None:
        self.accounts[fact.group.account_id].groups[fact.group.name] = fact.group

    @_applies(facts.UrlGroupDeleted)
    def _url_group_deleted(self, fact: facts.UrlGroupDeleted) -> None:
        del self.accounts[fact.account_id].groups[fact.name]

    @_applies(facts.QueueWritten)
    def _queue_written(self, fact: facts.QueueWritten) -> None:
        queue = fact.queue
        owner = self.accounts[queue.account_id]
        owner.queues[queue.name] = queue
        owner.queue_wait_lists.setdefault(queue.name, WaitList())
        owner.queue_slots.setdefault(queue.name, {})
        owner.queue_lag.setdefault(queue.name, 0)

    @_applies(facts.QueueDeleted)
    def _queue_deleted(self, fact: facts.QueueDeleted) -> None:
        del self.accounts[fact.account_id].queues[fact.name]

    # -- flow control -----------------------------------------------------------------------

    @_applies(facts.FlowKeyChanged)
    def _flow_key_changed(self, fact: facts.FlowKeyChanged) -> None:
        owner = self.accounts[fact.account_id]
        owner.flow_wait_lists.setdefault(fact.key, WaitList())
        old = owner.flow_keys.get(fact.key) or FlowState(key=fact.key, account_id=fact.account_id)
        self._change_flow(old, **asdict(fact))

    @_applies(facts.FlowCountersReset)
    def _flow_counters_reset(self, fact: facts.FlowCountersReset) -> None:
        flow = self.accounts[fact.account_id].flow_keys[fact.key]
        active = 0 if fact.parallelism else flow.active
        self._change_flow(flow, active=active, rate_count=0, window_start_ms=fact.at_ms)
        self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))
        if not fact.parallelism:
            return
        # An attempt that is under way now no longer counts: its end must not free the slot of a later one.
        for progress in list(self.messages.values()):
            message = progress.message
            key = None if message.flow_control is None else message.flow_control.key
            if progress.holds_key_slot and key == fact.key and message.account_id == fact.account_id:
                self.messages[message.message_id] = replace(progress, holds_key_slot=False)

    @_applies(facts.RateWindowOpened)
    def _rate_window_opened(self, fact: facts.RateWindowOpened) -> None:
        flow = self.accounts[fact.account_id].flow_keys[fact.key]
        self._change_flow(flow, rate_count=0, window_start_ms=fact.at_ms)
        self.timers.disarm(TimerKind.RATE_WINDOW, subject_of(fact.account_id, fact.key))

    def _count_dispatch(self, flow: FlowState, at_ms: int) -> None:
        is_new_window = flow.window_start_ms == 0 or at_ms >= flow.window_start_ms + flow.period_ms
        self._change_flow(
            flow,
            active=flow.active + 1,
            rate_count=1 if is_new_window else flow.rate_count + 1,
            window_start_ms=at_ms if is_new_window else flow.window_start_ms,
        )

    def _change_flow(self, flow: FlowState, **changes: object) -> None:
        changed = replace(flow, **changes)
        self.accounts[flow.account_id].flow_keys[flow.key] = changed
        # Arming depends on the count, so it follows every change of it.
        self._arm_rate_window(changed)

    def _arm_rate_window(self, flow: FlowState) -> None:
        """The end of the rate period is work while a message waits for it, and nothing otherwise."""
        wait_list = self.accounts[flow.account_id].flow_wait_lists[flow.key]
        waits = len(wait_list) > 0 and flow.rate is not None and flow.window_start_ms > 0
        is_used_up = waits and not flow.paused and flow.rate_count >= (flow.rate or 0)
        due_ms = flow.window_start_ms + flow.period_ms if is_used_up else None
        self.timers.set(TimerKind.RATE_WINDOW, subject_of(flow.account_id, flow.key), due_ms)

    # -- workflow runs ----------------------------------------------------------------------

    @_applies(facts.RunStarted)
    def _run_started(self, fact: facts.RunStarted) -> None:
        self.counters.runs += 1
        self.accounts[fact.run.account_id].runs[fact.run.run_id] = fact.run

    @_applies(facts.RunRewritten)
    def _run_rewritten(self, fact: facts.RunRewritten) -> None:
        self.accounts[fact.run.account_id].runs[fact.run.run_id] = fact.run

    @_applies(facts.StepAccepted)
    def _step_accepted(self, fact: facts.StepAccepted) -> None:
        runs = self.accounts[fact.account_id].runs
        run = runs[fact.run_id]
        runs[fact.run_id] = replace(run, steps=(*run.steps, fact.step))

    @_applies(facts.RunEnded)
    def _run_ended(self, fact: facts.RunEnded) -> None:
        owner = self.accounts[fact.account_id]
        run = owner.runs.pop(fact.run_id)
        for waiter in run.waiters:
            owner.stop_waiting(waiter.event_id, waiter.number)
            self.timers.disarm(TimerKind.WAIT, waiter_subject(fact.account_id, waiter.number, fact.run_id))

    @_applies(facts.WaitBegan)
    def _wait_began(self, fact: facts.WaitBegan) -> None:
        owner, waiter = self.accounts[fact.account_id], fact.waiter
        run = owner.runs[fact.run_id]
        self.counters.waiters += 1
        owner.runs[fact.run_id] = replace(run, waiters=(*run.waiters, waiter))
        owner.waiting_runs.setdefault(waiter.event_id, {})[waiter.number] = fact.run_id
        subject = waiter_subject(fact.account_id, waiter.number, fact.run_id)
        self.timers.arm(TimerKind.WAIT, subject, waiter.deadline_ms)

    @_applies(facts.WaitEnded)
    def _wait_ended(self, fact: facts.WaitEnded) -> None:
        owner = self.accounts[fact.account_id]
        run = owner.runs[fact.run_id]
        (waiter,) = (each for each in run.waiters if each.number == fact.waiter_number)
        waiters = tuple(each for each in run.waiters if each is not waiter)
        owner.runs[fact.run_id] = replace(run, waiters=waiters)
        owner.stop_waiting(waiter.event_id, waiter.number)
        self.timers.disarm(TimerKind.WAIT, waiter_subject(fact.account_id, waiter.number, fact.run_id))

    @_applies(facts.EventSaved)
    def _event_saved(self, fact: facts.EventSaved) -> None:
        runs = self.accounts[fact.account_id].runs
        run = runs[fact.run_id]
        runs[fact.run_id] = replace(run, saved_events=(*run.saved_events, fact.event))

    @_applies(facts.SavedEventTaken)
    def _saved_event_taken(self, fact: facts.SavedEventTaken) -> None:
        runs = self.accounts[fact.account_id].runs
        run = runs[fact.run_id]
        saved = list(run.saved_events)
        del saved[next(at for at, event in enumerate(saved) if event.event_id == fact.event_id)]
        runs[fact.run_id] = replace(run, saved_events=tuple(saved))

    # -- accounts ---------------------------------------------------------------------------

    @_applies(facts.AccountChanged)
    def _account_changed(self, fact: facts.AccountChanged) -> None:
        owner = self.accounts[fact.account.id]
        owner.account = fact.account
        self._arm_dead_letter_expiry(owner)
        if fact.settles_ms is not None:
            self.timers.arm(TimerKind.ACCOUNT, fact.account.id, fact.settles_ms)

    @_applies(facts.AccountSettled)
    def _account_settled(self, fact: facts.AccountSettled) -> None:
        owner = self.accounts[fact.account_id]
        owner.account = replace(owner.account, modifying_state="")
        self.timers.disarm(TimerKind.ACCOUNT, fact.account_id)

    @_applies(facts.AccountTokenRotated)
    def _account_token_rotated(self, fact: facts.AccountTokenRotated) -> None:
        self.counters.account_tokens += 1
        owner = self.accounts[fact.account_id]
        owner.account = replace(
            owner.account, password=fact.password, token=fact.token, read_only_token=fact.read_only_token
        )

    @_applies(facts.SigningKeysRotated)
    def _signing_keys_rotated(self, fact: facts.SigningKeysRotated) -> None:
        self.counters.signing_keys += 1
        owner = self.accounts[fact.account_id]
        owner.account = replace(owner.account, signing_keys=fact.keys)

    # -- rules and search indexes -----------------------------------------------------------

    @_applies(facts.RuleAdded)
    def _rule_added(self, fact: facts.RuleAdded) -> None:
        self.counters.rules += 1
        self.rules[fact.rule.rule_id] = fact.rule

    @_applies(facts.RulesRemoved)
    def _rules_removed(self, fact: facts.RulesRemoved) -> None:
        for rule_id in fact.rule_ids:
            del self.rules[rule_id]

    @_applies(facts.RulesOrdered)
    def _rules_ordered(self, fact: facts.RulesOrdered) -> None:
        # In place: views of the state keep the mapping.
        for rule_id in fact.rule_ids:
            self.rules[rule_id] = self.rules.pop(rule_id)

    @_applies(facts.SearchIndexCreated)
    def _search_index_created(self, fact: facts.SearchIndexCreated) -> None:
        self.counters.indexes += 1
        self.search_indexes[fact.index.id] = fact.index

    @_applies(facts.SearchIndexChanged)
    def _search_index_changed(self, fact: facts.SearchIndexChanged) -> None:
        index = fact.index
        if index.token != self.search_indexes[index.id].token:
            self.counters.index_tokens += 1
        self.search_indexes[index.id] = index

    @_applies(facts.SearchIndexDeleted)
    def _search_index_deleted(self, fact: facts.SearchIndexDeleted) -> None:
        del self.search_indexes[fact.index_id]


def _count_on_slot(owner: AccountState, slot: QueueSlot, change: int) -> None:
    slots = owner.queue_slots[slot.queue]
    if slot.message_id in slots:
        slots[slot.message_id] += change


def _record_run(owner: AccountState, message: Message, run: ScheduleRunState) -> None:
    """Show the state of a message with the schedule that published it."""
    assert message.schedule_id is not None
    progress = owner.schedules.get(message.schedule_id)
    if progress is None or message.source_message_id is not None:
        return
    message_id = message.message_id
    states = dict(progress.last_states)
    # The record shows the last firing only: not an earlier one, nor a dead letter that is published again.
    is_of_last_firing = (
        message.created_ms == progress.last_fired_ms if run is ScheduleRunState.IN_PROGRESS else message_id in states
    )
    if is_of_last_firing:
        states[message_id] = run
        owner.schedules[message.schedule_id] = replace(progress, last_states=tuple(states.items()))
