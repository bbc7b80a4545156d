"""Schedules: writing, pausing, and what happens at the instant one fires."""

from __future__ import annotations

from emulator.core.commands import DeleteSchedule, PublishItem, SetSchedulePaused, WriteSchedule
from emulator.core.errors import Refused
from emulator.core.language.cron import parse as parse_cron
from emulator.core.model.messages import CreatedBy
from emulator.core.model.options import DestinationKind
from emulator.core.model.resources import Schedule, ScheduleProgress
from emulator.core.record import AccountId, GroupName, ScheduleId
from emulator.core.record import schedule_id as make_schedule_id
from emulator.core.resource_facts import (
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleWritten,
)
from emulator.core.rules import limits, publishing
from emulator.core.rules.options import check_answer_is_heard
from emulator.core.rules.resources import destination_group
from emulator.core.state import Decision, StateView, account_state, cron_of, found, split_subject


def write_schedule(state: StateView, command: WriteSchedule) -> Decision[ScheduleId]:
    """Create or replace a schedule; a replaced one keeps its creation time and stays paused (D-037).

    A URL group that does not exist is refused as a publish to it is (D-262).
    """
    owner = account_state(state, command.account_id)
    limits.check_account_is_active(owner.account)
    if command.destination.kind is DestinationKind.GROUP:
        destination_group(owner, GroupName(command.destination.text))
    schedule_id = command.schedule_id
    if schedule_id is None:
        schedule_id = ScheduleId(make_schedule_id(state.event_key, state.counters.schedules + 1))
    old = owner.schedules.get(schedule_id)
    if old is None:
        limits.check_count("maxSchedules", len(owner.schedules), owner.account.max_schedules)
    limits.check_message_size(owner.account, len(command.body))
    limits.check_options(owner.account, command.options, state.now_ms)
    check_answer_is_heard(command.destination, command.options)
    if command.options.queue is not None and command.options.queue not in owner.queues:
        limits.check_count("maxQueues", len(owner.queues), owner.account.max_queues)
    cron = parse_cron(command.cron)
    yield ScheduleWritten(
        schedule=Schedule(
            schedule_id=schedule_id,
            account_id=command.account_id,
            cron=cron.text,
            destination=command.destination,
            body=command.body,
            options=command.options,
            caller_ip=command.caller_ip,
            created_ms=state.now_ms if old is None else old.schedule.created_ms,
        ),
        next_ms=cron.next_after(state.now_ms),
    )
    return schedule_id


def set_schedule_paused(state: StateView, command: SetSchedulePaused) -> Decision[None]:
    """Pause or resume; doing it again changes nothing. Firings that fall into a pause are skipped (D-033)."""
    progress = schedule(state, command.account_id, command.schedule_id)
    if progress.paused == command.paused:
        return
    if command.paused:
        yield SchedulePaused(account_id=command.account_id, schedule_id=command.schedule_id, at_ms=state.now_ms)
    else:
        yield ScheduleResumed(
            account_id=command.account_id,
            schedule_id=command.schedule_id,
            at_ms=state.now_ms,
            next_ms=cron_of(progress).next_after(state.now_ms),
        )


def delete_schedule(state: StateView, command: DeleteSchedule) -> Decision[None]:
    """Delete a schedule; its messages are still delivered. Raises NotFound."""
    schedule(state, command.account_id, command.schedule_id)
    yield ScheduleDeleted(account_id=command.account_id, schedule_id=command.schedule_id, at_ms=state.now_ms)


def fire(state: StateView, subject: str, due_ms: int) -> Decision[None]:
    """A schedule is due: publish its message, or note why that was refused; either way it continues (D-065)."""
    account_id, name = split_subject(subject)
    schedule_id = ScheduleId(name)
    progress = state.accounts[account_id].schedules[schedule_id]
    planned: publishing.PublishPlan | None = None
    error: str | None = None
    try:
        planned = plan_firing(state, progress.schedule)
    except Refused as refusal:
        error = refusal.text
    yield ScheduleFired(
        account_id=account_id,
        schedule_id=schedule_id,
        at_ms=state.now_ms,
        next_ms=cron_of(progress).next_after(due_ms),
        error=error,
    )
    if planned is not None:
        yield from publishing.carry_out(state, planned)


def plan_firing(state: StateView, schedule: Schedule) -> publishing.PublishPlan:
    """What a firing now would publish. Raises Refused; changes nothing."""
    item = PublishItem(
        destination=schedule.destination,
        body=schedule.body,
        options=schedule.options,
        caller_ip=schedule.caller_ip,
    )
    return publishing.plan(state, schedule.account_id, item, schedule.schedule_id, CreatedBy.SCHEDULE)


def schedule(state: StateView, account_id: AccountId, schedule_id: ScheduleId) -> ScheduleProgress:
    """Raises NotFound for a schedule that the account does not have."""
    return found(account_state(state, account_id).schedules, schedule_id, "schedule")
