"""Schedules, and what the record of each shows of its last firing."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.contents import Contents
from emulator.core.model.messages import Message, TimerKind
from emulator.core.model.names import AccountId, ScheduleId
from emulator.core.model.resources import ScheduleProgress, ScheduleRunState
from emulator.core.state_view import AccountState, subject_of


def schedule_written(contents: Contents, fact: facts.ScheduleWritten) -> None:
    schedule = fact.schedule
    owner = contents.accounts[schedule.account_id]
    old = owner.schedules.get(schedule.schedule_id)
    if old is None:
        contents.counters.schedules += 1
        owner.schedules[schedule.schedule_id] = ScheduleProgress(schedule=schedule, next_ms=fact.next_ms)
    else:
        next_ms = None if old.paused else fact.next_ms
        owner.schedules[schedule.schedule_id] = replace(old, schedule=schedule, next_ms=next_ms, error=None)
    if old is None or not old.paused:
        _arm_schedule(contents, schedule.account_id, schedule.schedule_id, fact.next_ms)


def schedule_fired(contents: Contents, fact: facts.ScheduleFired) -> None:
    schedules = contents.accounts[fact.account_id].schedules
    schedules[fact.schedule_id] = replace(
        schedules[fact.schedule_id],
        next_ms=fact.next_ms,
        last_fired_ms=fact.at_ms,
        last_states=(),
        error=fact.error,
    )
    _arm_schedule(contents, fact.account_id, fact.schedule_id, fact.next_ms)


def schedule_paused(contents: Contents, fact: facts.SchedulePaused) -> None:
    _pause_schedule(contents, fact.account_id, fact.schedule_id, None)


def schedule_resumed(contents: Contents, fact: facts.ScheduleResumed) -> None:
    _pause_schedule(contents, fact.account_id, fact.schedule_id, fact.next_ms)


def schedule_deleted(contents: Contents, fact: facts.ScheduleDeleted) -> None:
    del contents.accounts[fact.account_id].schedules[fact.schedule_id]
    _arm_schedule(contents, fact.account_id, fact.schedule_id, None)


def _pause_schedule(contents: Contents, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
    """Pause a schedule, or resume it with its next firing at `next_ms`."""
    schedules = contents.accounts[account_id].schedules
    schedules[schedule_id] = replace(schedules[schedule_id], paused=next_ms is None, next_ms=next_ms)
    _arm_schedule(contents, account_id, schedule_id, next_ms)


def _arm_schedule(contents: Contents, account_id: AccountId, schedule_id: ScheduleId, next_ms: int | None) -> None:
    contents.timers.set(TimerKind.SCHEDULE, subject_of(account_id, schedule_id), next_ms)


def record_run(owner: AccountState, message: Message, run: ScheduleRunState) -> None:
    """Show the state of a message with the schedule that published it."""
    assert message.schedule_id is not None
    progress = owner.schedules.get(message.schedule_id)
    if progress is None or message.source_message_id is not None:
        return
    message_id = message.message_id
    states = dict(progress.last_states)
    # The record shows the last firing only: not an earlier one, nor a dead letter that is published again (D-038).
    if run is ScheduleRunState.IN_PROGRESS:
        is_of_last_firing = message.created_ms == progress.last_fired_ms and message.from_dead_letter is None
    else:
        is_of_last_firing = message_id in states
    if is_of_last_firing:
        states[message_id] = run
        owner.schedules[message.schedule_id] = replace(progress, last_states=tuple(states.items()))
