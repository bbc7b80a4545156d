"""Messages, from their acceptance to their end."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from emulator.core import facts, lifecycle
from emulator.core.changes import expiries, flow_control, schedules
from emulator.core.contents import Contents
from emulator.core.language.calendar import DAY_MS
from emulator.core.model.messages import BriefProgress, DeadLetter, HoldKind, Message, Progress, QueueSlot, TimerKind
from emulator.core.model.names import FlowKey, MessageId
from emulator.core.model.resources import ScheduleRunState
from emulator.core.state_view import AccountState, duplicate_subject, progress_of, subject_of


def message_created(contents: Contents, fact: facts.MessageCreated) -> None:
    message = fact.message
    message_id = message.message_id
    contents.counters.messages += 1
    contents.messages[message_id] = progress_of(message)
    contents.timers.arm(TimerKind.DELIVERY, message_id, message.not_before_ms)
    owner = contents.accounts[message.account_id]
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
        expiries.arm_deduplication_expiry(contents, owner)
    if message.schedule_id is not None:
        schedules.record_run(owner, message, ScheduleRunState.IN_PROGRESS)
    if message.run is not None:
        owner.run_messages.setdefault(message.run.run_number, {})[message_id] = None


def publish_deduplicated(contents: Contents, fact: facts.PublishDeduplicated) -> None:
    """Only history shows it."""


def message_held(contents: Contents, fact: facts.MessageHeld) -> None:
    _leave_wait_list(contents, contents.messages[fact.message_id])
    contents.timers.disarm(TimerKind.DELIVERY, fact.message_id)
    contents.counters.tickets = max(contents.counters.tickets, fact.ticket)
    hold = fact.hold
    progress = _move_on(
        contents,
        fact.message_id,
        facts.MessageHeld,
        ticket=fact.ticket,
        hold=hold,
        answer=None,
        outcome=None,
        holds_key_slot=False,
    )
    owner = contents.accounts[progress.message.account_id]
    owner.wait_list(hold).join(fact.message_id, fact.ticket)
    if hold.kind is HoldKind.FLOW_CONTROL:
        flow_control.arm_rate_window(contents, owner.flow_keys[FlowKey(hold.name)])


def queue_slot_taken(contents: Contents, fact: facts.QueueSlotTaken) -> None:
    contents.accounts[fact.account_id].queue_slots[fact.queue][fact.message_id] = 1


def queue_slot_released(contents: Contents, fact: facts.QueueSlotReleased) -> None:
    contents.accounts[fact.account_id].queue_slots.get(fact.queue, {}).pop(fact.message_id, None)


def attempt_started(contents: Contents, fact: facts.AttemptStarted) -> None:
    progress = contents.messages[fact.message_id]
    message = progress.message
    _leave_wait_list(contents, progress)
    contents.timers.disarm(TimerKind.DELIVERY, fact.message_id)
    owner = contents.accounts[message.account_id]
    owner.active += 1
    if message.flow_control is not None:
        flow_control.count_dispatch(contents, owner.flow_keys[message.flow_control.key], fact.at_ms)
    if fact.answer is not None:
        for rule_id in (fact.answer.rule_id, *fact.answer.others):
            rule = contents.rules.get(rule_id)
            if rule is not None:
                contents.rules[rule_id] = replace(rule, used=rule.used + 1)
    _move_on(
        contents,
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


def delivery_postponed(contents: Contents, fact: facts.DeliveryPostponed) -> None:
    postponed = contents.messages[fact.message_id].postponed + 1
    _move_on(contents, fact.message_id, facts.DeliveryPostponed, due_ms=fact.due_ms, postponed=postponed)
    contents.timers.arm(TimerKind.DELIVERY, fact.message_id, fact.due_ms)


def duplicate_scheduled(contents: Contents, fact: facts.DuplicateScheduled) -> None:
    duplicate = fact.duplicate
    subject = duplicate_subject(duplicate.message.message_id, duplicate.number)
    contents.duplicates[subject] = duplicate
    contents.timers.arm(TimerKind.DUPLICATE, subject, duplicate.due_ms)


def duplicate_started(contents: Contents, fact: facts.DuplicateStarted) -> None:
    subject = duplicate_subject(fact.message_id, fact.number)
    contents.timers.disarm(TimerKind.DUPLICATE, subject)
    contents.duplicates[subject] = replace(contents.duplicates[subject], started_ms=fact.at_ms)


def duplicate_finished(contents: Contents, fact: facts.DuplicateFinished) -> None:
    del contents.duplicates[duplicate_subject(fact.message_id, fact.number)]


def response_delayed(contents: Contents, fact: facts.ResponseDelayed) -> None:
    _move_on(contents, fact.message_id, facts.ResponseDelayed, due_ms=fact.due_ms, outcome=fact.outcome)
    contents.timers.arm(TimerKind.ANSWER, fact.message_id, fact.due_ms)


def attempt_finished(contents: Contents, fact: facts.AttemptFinished) -> None:
    progress = contents.messages[fact.message_id]
    lifecycle.next_phase(progress.phase, facts.AttemptFinished)
    if progress.outcome is not None:
        contents.timers.disarm(TimerKind.ANSWER, fact.message_id)
    message = progress.message
    owner = contents.accounts[message.account_id]
    owner.active -= 1
    if progress.holds_key_slot and message.flow_control is not None:
        flow = owner.flow_keys[message.flow_control.key]
        flow_control.change_flow(contents, flow, active=flow.active - 1)


def retry_scheduled(contents: Contents, fact: facts.RetryScheduled) -> None:
    _move_on(
        contents,
        fact.message_id,
        facts.RetryScheduled,
        retried=contents.messages[fact.message_id].retried + 1,
        due_ms=fact.due_ms,
        answer=None,
        outcome=None,
        holds_key_slot=False,
    )
    contents.timers.arm(TimerKind.DELIVERY, fact.message_id, fact.due_ms)


def message_delivered(contents: Contents, fact: facts.MessageDelivered) -> None:
    _end(contents, fact, ScheduleRunState.SUCCESS)


def message_failed(contents: Contents, fact: facts.MessageFailed) -> None:
    message = _end(contents, fact, ScheduleRunState.FAIL)
    contents.counters.dead_letters += 1
    owner = contents.accounts[message.account_id]
    owner.dead_letters[fact.dead_letter_id] = DeadLetter(
        dead_letter_id=fact.dead_letter_id,
        account_id=message.account_id,
        message_id=message.message_id,
        failed_ms=fact.at_ms,
        run_number=fact.run_number,
    )
    expiries.arm_dead_letter_expiry(contents, owner)


def message_given_up(contents: Contents, fact: facts.MessageGivenUp) -> None:
    _end(contents, fact, ScheduleRunState.FAIL)


def cancel_requested(contents: Contents, fact: facts.CancelRequested) -> None:
    _move_on(contents, fact.message_id, facts.CancelRequested, cancel_requested=True)


def message_canceled(contents: Contents, fact: facts.MessageCanceled) -> None:
    _end(contents, fact, ScheduleRunState.FAIL)


def _move_on(contents: Contents, message_id: MessageId, kind: type[facts.Fact], **changes: object) -> Progress:
    """Give a message the phase that a fact leads to, and these changes."""
    progress = contents.messages[message_id]
    phase = lifecycle.next_phase(progress.phase, kind)
    if type(progress) is BriefProgress:
        given: dict[str, Any] = {"due_ms": progress.due_ms, **changes}
        changed = Progress(message=progress.message, phase=phase, **given)
    else:
        changed = replace(progress, phase=phase, **changes)
    contents.messages[message_id] = changed
    return changed


def _end(
    contents: Contents,
    fact: facts.MessageDelivered | facts.MessageFailed | facts.MessageGivenUp | facts.MessageCanceled,
    run: ScheduleRunState,
) -> Message:
    """Remove a live message, and give back what it counted on."""
    progress = contents.messages.pop(fact.message_id)
    phase = lifecycle.next_phase(progress.phase, type(fact))
    assert phase in lifecycle.FINAL
    message = progress.message
    _leave_wait_list(contents, progress)
    contents.timers.disarm(TimerKind.DELIVERY, fact.message_id)
    owner = contents.accounts[message.account_id]
    if message.queue is not None:
        owner.queue_lag[message.queue] -= 1
        _count_on_slot(owner, QueueSlot(queue=message.queue, message_id=fact.message_id), -1)
    if message.queue_slot is not None:
        _count_on_slot(owner, message.queue_slot, -1)
    if message.schedule_id is not None:
        schedules.record_run(owner, message, run)
    if message.run is not None:
        live = owner.run_messages[message.run.run_number]
        del live[fact.message_id]
        if not live:
            del owner.run_messages[message.run.run_number]
    return message


def _leave_wait_list(contents: Contents, progress: Progress) -> None:
    hold = progress.hold
    if hold is None:
        return
    owner = contents.accounts[progress.message.account_id]
    wait_list = owner.wait_list(hold)
    wait_list.leave(progress.message.message_id)
    if hold.kind is HoldKind.FLOW_CONTROL and len(wait_list) == 0:
        contents.timers.disarm(TimerKind.RATE_WINDOW, subject_of(owner.account.id, hold.name))


def _count_on_slot(owner: AccountState, slot: QueueSlot, change: int) -> None:
    slots = owner.queue_slots[slot.queue]
    if slot.message_id in slots:
        slots[slot.message_id] += change
