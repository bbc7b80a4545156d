"""What happened to messages, from their acceptance to their end.

The steps of a live message are its state table: each names the phases that it may follow on, and where it leads; no
other module names a next phase. MessageCreated makes a message PENDING. DELIVERED, FAILED and CANCELED are final: the
message leaves the live state, and its history is what remains of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import replace

from emulator.core.errors import WorldBroken
from emulator.core.language.calendar import DAY_MS
from emulator.core.model.messages import (
    AttemptOutcome,
    DeadLetter,
    Duplicate,
    Hold,
    HoldKind,
    Message,
    Phase,
    Progress,
    QueueSlot,
    TimerKind,
)
from emulator.core.model.resources import ScheduleRunState, ScriptedAnswer
from emulator.core.record import AccountId, DeadLetterId, FlowKey, MessageId
from emulator.core.resource_facts import (
    arm_dead_letter_expiry,
    arm_deduplication_expiry,
    arm_rate_window,
    change_flow,
    count_dispatch,
    record_run,
)
from emulator.core.run_facts import forget_ended
from emulator.core.state import AccountState, Fact, State, UnloggedFact, duplicate_subject, subject_of

FINAL = frozenset((Phase.DELIVERED, Phase.FAILED, Phase.CANCELED))
STARTABLE = (Phase.PENDING, Phase.HELD, Phase.RETRYING)
LIVE = (*STARTABLE, Phase.ACTIVE)


def steps(to: Phase, *before: Phase) -> Mapping[Phase, Phase]:
    return dict.fromkeys(before, to)


def staying(*phases: Phase) -> Mapping[Phase, Phase]:
    return {phase: phase for phase in phases}


class MessageStep(Fact):
    """A step of a live message: `leads` says on which phases it may follow, and to which it leads from each."""

    leads: ClassVar[Mapping[Phase, Phase]] = {}

    message_id: MessageId

    def next_phase(self, phase: Phase) -> Phase:
        """Raises WorldBroken for a step that is not in the table."""
        try:
            return self.leads[phase]
        except KeyError:
            raise WorldBroken(f"a message that is {phase} cannot take {type(self).__name__}") from None


class MessageCreated(Fact):
    """A message was accepted. With a `deduplication_key`, the same key finds it until `deduplicate_until_ms`."""

    message: Message
    deduplication_key: str | None = None
    deduplicate_until_ms: int = 0

    def apply(self, state: State) -> None:
        message = self.message
        message_id = message.message_id
        state.counters.messages += 1
        state.messages[message_id] = Progress(message=message, phase=Phase.PENDING, due_ms=message.not_before_ms)
        state.timers.arm(TimerKind.DELIVERY, message_id, message.not_before_ms)
        owner = state.accounts[message.account_id]
        day = message.created_ms // DAY_MS
        owner.usage_count = owner.usage_count + 1 if day == owner.usage_day else 1
        owner.usage_day = day
        if message.policy.queue is not None:
            owner.queue_lag[message.policy.queue] += 1
        if message.source.queue_slot is not None:
            _count_on_slot(owner, message.source.queue_slot, +1)
        if self.deduplication_key is not None:
            # Re-inserted at the end, so that the first entry is always the first to expire.
            owner.deduplications.pop(self.deduplication_key, None)
            owner.deduplications[self.deduplication_key] = (message_id, self.deduplicate_until_ms)
            arm_deduplication_expiry(state, owner)
        if message.source.schedule_id is not None:
            record_run(owner, message, ScheduleRunState.IN_PROGRESS)
        if message.run is not None:
            owner.run_messages.setdefault(message.run.run_number, {})[message_id] = None


class PublishDeduplicated(Fact):
    """A publish was answered with an earlier message; only that one's history shows it (D-213)."""

    message_id: MessageId
    at_ms: int

    def apply(self, state: State) -> None:
        """Only history shows it."""


class MessageHeld(MessageStep):
    """A due message joined a wait list, which is ordered by `ticket`."""

    leads = steps(Phase.HELD, *STARTABLE)

    hold: Hold
    ticket: int
    at_ms: int

    def apply(self, state: State) -> None:
        _leave_wait_list(state, state.messages[self.message_id])
        state.timers.disarm(TimerKind.DELIVERY, self.message_id)
        state.counters.tickets = max(state.counters.tickets, self.ticket)
        hold = self.hold
        progress = _move_on(
            state,
            self,
            ticket=self.ticket,
            hold=hold,
            answer=None,
            outcome=None,
            holds_key_slot=False,
        )
        owner = state.accounts[progress.message.account_id]
        owner.wait_list(hold).join(self.message_id, self.ticket)
        if hold.kind is HoldKind.FLOW_CONTROL:
            arm_rate_window(state, owner.flow_keys[FlowKey(hold.name)])


class DeliveryPostponed(MessageStep):
    """A destination rule put a due attempt back until `due_ms`, which may be the same instant (D-422)."""

    in_history = False
    leads = staying(Phase.PENDING, Phase.RETRYING)

    due_ms: int

    def apply(self, state: State) -> None:
        postponed = state.messages[self.message_id].dispatch.postponed + 1
        _move_on(state, self, due_ms=self.due_ms, postponed=postponed)
        state.timers.arm(TimerKind.DELIVERY, self.message_id, self.due_ms)


class AttemptStarted(MessageStep):
    """Attempt `number` (1 for the first) left for its destination."""

    leads = steps(Phase.ACTIVE, *STARTABLE)

    number: int
    at_ms: int
    answer: ScriptedAnswer | None

    def apply(self, state: State) -> None:
        progress = state.messages[self.message_id]
        message = progress.message
        _leave_wait_list(state, progress)
        state.timers.disarm(TimerKind.DELIVERY, self.message_id)
        owner = state.accounts[message.account_id]
        owner.active += 1
        if message.policy.flow_control is not None:
            count_dispatch(state, owner.flow_keys[message.policy.flow_control.key], self.at_ms)
        if self.answer is not None:
            _count_use(state, self.answer)
        _move_on(
            state,
            self,
            ticket=0,
            hold=None,
            started_ms=self.at_ms,
            answer=self.answer,
            outcome=None,
            holds_key_slot=message.policy.flow_control is not None,
            postponed=0,
        )


class AttemptWithdrawn(MessageStep):
    """An attempt that had started did not leave after all; a hold of its destination follows at once (D-785)."""

    in_history = False
    leads = steps(Phase.PENDING, Phase.ACTIVE)

    def apply(self, state: State) -> None:
        progress = state.messages[self.message_id]
        _give_slots_back(state, progress)
        _move_on(state, self, answer=None, holds_key_slot=False)


class ResponseDelayed(MessageStep):
    """The outcome is known and a scripted latency holds it back until `due_ms`."""

    in_history = False
    leads = steps(Phase.ACTIVE, Phase.ACTIVE)

    outcome: AttemptOutcome
    due_ms: int

    def apply(self, state: State) -> None:
        _move_on(state, self, due_ms=self.due_ms, outcome=self.outcome)
        state.timers.arm(TimerKind.ANSWER, self.message_id, self.due_ms)


class AttemptFinished(MessageStep):
    """The attempt that started at `started_ms` has its outcome; its flow control slot is free again."""

    leads = steps(Phase.ACTIVE, Phase.ACTIVE)

    number: int
    started_ms: int
    at_ms: int
    outcome: AttemptOutcome

    def apply(self, state: State) -> None:
        progress = state.messages[self.message_id]
        self.next_phase(progress.phase)
        if progress.dispatch.outcome is not None:
            state.timers.disarm(TimerKind.ANSWER, self.message_id)
        _give_slots_back(state, progress)


class RetryScheduled(MessageStep):
    """The next attempt is due at `due_ms`; `reason` names the header or rule that set the delay."""

    leads = steps(Phase.RETRYING, Phase.ACTIVE)

    at_ms: int
    due_ms: int
    reason: str

    def apply(self, state: State) -> None:
        _move_on(
            state,
            self,
            retried=state.messages[self.message_id].dispatch.retried + 1,
            due_ms=self.due_ms,
            answer=None,
            outcome=None,
            holds_key_slot=False,
        )
        state.timers.arm(TimerKind.DELIVERY, self.message_id, self.due_ms)


class MessageDelivered(MessageStep):
    leads = steps(Phase.DELIVERED, Phase.ACTIVE)

    at_ms: int

    def apply(self, state: State) -> None:
        _end(state, self, ScheduleRunState.SUCCESS)


class MessageFailed(MessageStep):
    """All retries are spent, or the answer forbade another; the message is a dead letter now."""

    leads = steps(Phase.FAILED, Phase.ACTIVE)

    at_ms: int
    dead_letter_id: DeadLetterId
    run_number: int | None = None

    def apply(self, state: State) -> None:
        message = _end(state, self, ScheduleRunState.FAIL)
        state.counters.dead_letters += 1
        owner = state.accounts[message.account_id]
        owner.dead_letters[self.dead_letter_id] = DeadLetter(
            dead_letter_id=self.dead_letter_id,
            account_id=message.account_id,
            message_id=message.message_id,
            failed_ms=self.at_ms,
            run_number=self.run_number,
        )
        arm_dead_letter_expiry(state, owner)


class MessageGivenUp(MessageStep):
    """No further attempt is made, and no dead letter: the message's run continues without it, or has ended."""

    leads = steps(Phase.FAILED, Phase.ACTIVE)

    at_ms: int

    def apply(self, state: State) -> None:
        _end(state, self, ScheduleRunState.FAIL)


class DuplicateScheduled(Fact):
    """A destination rule or a call has a delivery made again (D-421, D-705)."""

    duplicate: Duplicate

    def apply(self, state: State) -> None:
        duplicate = self.duplicate
        state.counters.redeliveries = max(state.counters.redeliveries, duplicate.redelivery)
        subject = state.add_duplicate(duplicate)
        state.timers.arm(TimerKind.DUPLICATE, subject, duplicate.due_ms)


class DuplicateStarted(UnloggedFact):
    """The duplicate of attempt `number` left for its destination."""

    message_id: MessageId
    number: int
    at_ms: int
    redelivery: int = 0

    def apply(self, state: State) -> None:
        subject = duplicate_subject(self.message_id, self.number, self.redelivery)
        state.timers.disarm(TimerKind.DUPLICATE, subject)
        duplicate = state.duplicates[subject]
        state.duplicates[subject] = replace(duplicate, started_ms=self.at_ms)
        if self.redelivery and duplicate.answer is not None:
            _count_use(state, duplicate.answer)


class DuplicateFinished(Fact):
    """The duplicate of attempt `number` has its outcome, which only the delivery journal shows."""

    message_id: MessageId
    number: int
    started_ms: int
    at_ms: int
    outcome: AttemptOutcome

    def apply(self, state: State) -> None:
        subject = duplicate_subject(self.message_id, self.number, self.outcome.redelivery)
        message = state.remove_duplicate(subject).message
        if message.run is not None:
            forget_ended(state, state.accounts[message.account_id], message.run.run_number)


class CancelRequested(MessageStep):
    """A message was canceled, and with it what a call has had sent again by now (D-780)."""

    leads = staying(*LIVE)

    at_ms: int

    def apply(self, state: State) -> None:
        _move_on(state, self, cancel_requested=True)
        for subject in state.duplicates_of.get(self.message_id, ()):
            state.duplicates[subject] = replace(state.duplicates[subject], is_called_off=True)


class MessageCanceled(MessageStep):
    leads = steps(Phase.CANCELED, *LIVE)

    at_ms: int

    def apply(self, state: State) -> None:
        _end(state, self, ScheduleRunState.FAIL)


class DeduplicationsExpired(UnloggedFact):
    """Deduplication keys whose ten minutes are over."""

    account_id: AccountId
    keys: tuple[str, ...]

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        for key in self.keys:
            owner.deduplications.pop(key, None)
        arm_deduplication_expiry(state, owner)


class DeadLettersRemoved(Fact):
    """Dead letters left the queue: deleted, retried, expired, or pushed out by its size."""

    account_id: AccountId
    dead_letter_ids: tuple[DeadLetterId, ...]
    at_ms: int
    cause: str

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        for dead_letter_id in self.dead_letter_ids:
            del owner.dead_letters[dead_letter_id]
        arm_dead_letter_expiry(state, owner)


def _move_on(state: State, step: MessageStep, *, due_ms: int | None = None, **changes: object) -> Progress:
    """Give a message the phase that a fact leads to, and these changes of its dispatch."""
    progress = state.messages[step.message_id]
    state.messages[step.message_id] = changed = Progress(
        message=progress.message,
        phase=step.next_phase(progress.phase),
        due_ms=progress.due_ms if due_ms is None else due_ms,
        dispatch=replace(progress.dispatch, **changes) if changes else progress.dispatch,
    )
    return changed


def _end(state: State, step: MessageStep, run: ScheduleRunState) -> Message:
    """Remove a live message, and give back what it counted on."""
    progress = state.messages.pop(step.message_id)
    phase = step.next_phase(progress.phase)
    assert phase in FINAL
    message = progress.message
    _leave_wait_list(state, progress)
    state.timers.disarm(TimerKind.DELIVERY, step.message_id)
    owner = state.accounts[message.account_id]
    if message.policy.queue is not None:
        owner.queue_lag[message.policy.queue] -= 1
        _count_on_slot(owner, QueueSlot(queue=message.policy.queue, message_id=step.message_id), -1)
    if message.source.queue_slot is not None:
        _count_on_slot(owner, message.source.queue_slot, -1)
    if message.source.schedule_id is not None:
        record_run(owner, message, run)
    if message.run is not None:
        live = owner.run_messages[message.run.run_number]
        del live[step.message_id]
        if not live:
            del owner.run_messages[message.run.run_number]
            forget_ended(state, owner, message.run.run_number)
    return message


def _count_use(state: State, answer: ScriptedAnswer) -> None:
    for rule_id in (answer.rule_id, *answer.others):
        rule = state.rules.get(rule_id)
        if rule is not None:
            state.rules[rule_id] = replace(rule, used=rule.used + 1)


def _give_slots_back(state: State, progress: Progress) -> None:
    """An attempt is not under way any more: neither for its account nor for its flow control key."""
    message = progress.message
    owner = state.accounts[message.account_id]
    owner.active -= 1
    if progress.dispatch.holds_key_slot and message.policy.flow_control is not None:
        flow = owner.flow_keys[message.policy.flow_control.key]
        change_flow(state, flow, active=flow.active - 1)


def _leave_wait_list(state: State, progress: Progress) -> None:
    hold = progress.dispatch.hold
    if hold is None:
        return
    owner = state.accounts[progress.message.account_id]
    wait_list = owner.wait_list(hold)
    wait_list.leave(progress.message.message_id)
    if hold.kind is HoldKind.FLOW_CONTROL and len(wait_list) == 0:
        state.timers.disarm(TimerKind.RATE_WINDOW, subject_of(owner.account.id, hold.name))
    elif hold.kind is HoldKind.DESTINATION and len(wait_list) == 0:
        del owner.destination_wait_lists[hold.name]


def _count_on_slot(owner: AccountState, slot: QueueSlot, change: int) -> None:
    slots = owner.queue_slots[slot.queue]
    if slot.message_id in slots:
        slots[slot.message_id] += change
