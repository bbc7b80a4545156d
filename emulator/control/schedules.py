"""`/_emulator/schedules`: the schedules of all accounts, and why one of them is in its state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from emulator.control.call import OWN_QUERY, WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import TWIN, Instant, InstantMs, LocalTime, Text, View
from emulator.core.errors import NotFound, Refused
from emulator.core.language.calendar import LAST_LOCAL_MS
from emulator.core.model.options import DestinationKind, Method
from emulator.core.model.resources import ScheduleProgress, ScheduleRunState
from emulator.core.record import AccountId, ScheduleId
from emulator.core.rules.schedules import plan_firing
from emulator.core.state import cron_of
from emulator.wire.query_reader import control_query
from emulator.wire.times import iso, local_iso

MAX_FIRINGS = 100


class Firing(View):
    """An instant at which a schedule fires."""

    at: Instant = TWIN  #: When it fires.
    at_ms: InstantMs
    local: LocalTime  #: The same as the clock of the schedule's zone shows it, with its offset.


class ListedSchedule(View):
    """A schedule in a list."""

    schedule_id: Text  #: The schedule.
    account_id: AccountId  #: The queue account it belongs to.
    destination: Text  #: The URL, the URL group or the API that it publishes to.
    destination_kind: DestinationKind  #: Which of them.
    method: Method  #: The method of its messages.
    cron: Text  #: Its expression, as it was given.
    time_zone: Text  #: The zone whose clock it goes by.
    paused: bool  #: Whether it is paused.
    created: Instant = TWIN  #: When it was first written.
    created_ms: InstantMs
    next: Instant | None = TWIN  #: When it fires next; null while it is paused.
    next_ms: InstantMs | None
    last: Instant | None = TWIN  #: When it fired last; null before that.
    last_ms: InstantMs | None
    last_messages: dict[str, ScheduleRunState]  #: The messages of its last firing, each with how it went.
    error: str | None  #: Why its last firing made no message; null if it made one.
    labels: tuple[str, ...]  #: The labels of its messages.
    queue: str | None  #: The queue of its messages.
    firings: tuple[Firing, ...]  #: Its next firings, as many as were asked for; none while it is paused.


class ScheduleList(View):
    """All schedules of a world."""

    schedules: tuple[ListedSchedule, ...]


async def list_schedules(call: ControlCall) -> ScheduleList:
    # How many of its next firings each schedule is to show; one that is paused has none.
    count = control_query(call.parts.query, "firings").integer("firings", 0, MAX_FIRINGS, 0)
    state = await call.world.current_state()
    found = (_listed(each, count) for owner in state.accounts.values() for each in owner.schedules.values())
    return ScheduleList(schedules=tuple(found))


def _listed(progress: ScheduleProgress, count: int) -> ListedSchedule:
    schedule, options = progress.schedule, progress.schedule.options
    return ListedSchedule(
        schedule_id=schedule.schedule_id,
        account_id=schedule.account_id,
        destination=schedule.destination.text,
        destination_kind=schedule.destination.kind,
        method=options.method or Method.POST,
        cron=schedule.cron,
        time_zone=cron_of(progress).time_zone,
        paused=progress.paused,
        created_ms=schedule.created_ms,
        next_ms=progress.next_ms,
        last_ms=progress.last_fired_ms,
        last_messages=dict(progress.last_states),
        error=progress.error,
        labels=options.labels,
        queue=options.queue,
        firings=tuple(islice(_firings(progress), count)),
    )


def _firings(progress: ScheduleProgress) -> Iterator[Firing]:
    cron = cron_of(progress)
    at_ms = progress.next_ms
    while at_ms is not None and at_ms <= LAST_LOCAL_MS:
        yield Firing(at_ms=at_ms, local=local_iso(at_ms, cron.offset_minutes(at_ms)))
        at_ms = cron.next_after(at_ms)


# -- why one of them is in its state ----------------------------------------------------------


class ScheduleReason(View):
    """Something about the schedule. Fields that its kind does not have are left out."""

    at: Instant = TWIN
    at_ms: InstantMs
    #: When it was made; its last firing, which made messages (`fired`) or none (`refused`); its pause or
    #: next firing; and that a firing now would be refused.
    kind: Literal["created", "fired", "refused", "paused", "due", "would_be_refused"]
    text: Text  #: The same for people.
    #: The messages of the last firing, by id, and what became of them.
    messages: dict[str, ScheduleRunState] | UnsetType = UNSET
    error: str | UnsetType | None = UNSET  #: Why a firing made no message, or would make none.


class ScheduleExplanation(View):
    """The state of a schedule, and why it is in it."""

    schedule_id: Text  #: The schedule.
    account_id: AccountId  #: The queue account it belongs to.
    destination: Text  #: The URL or the URL group that it publishes to.
    cron: Text  #: Its expression, as it was given.
    paused: bool  #: Whether it is paused.
    summary: Text  #: One sentence or more about its state.
    #: The reasons, in the order in which they came about.
    reasons: Annotated[tuple[ScheduleReason, ...], Meta(min_length=1)]


async def explain_schedule(call: ControlCall) -> ScheduleExplanation:
    """The result of the last firing, and what a firing would lead to now. Nothing is published (D-263)."""
    state, schedule_id = await call.world.current_state(), ScheduleId(call.name)
    # Of the first account that has one of this id.
    found = (owner.schedules[schedule_id] for owner in state.accounts.values() if schedule_id in owner.schedules)
    progress = next(found, None)
    if progress is None:
        raise NotFound("schedule", call.name)
    schedule, refusal = progress.schedule, None
    try:
        plan_firing(state, schedule)
    except Refused as refused:
        refusal = refused.text
    return ScheduleExplanation(
        schedule_id=schedule.schedule_id,
        account_id=schedule.account_id,
        destination=schedule.destination.text,
        cron=schedule.cron,
        paused=progress.paused,
        summary=_summary(progress, refusal),
        reasons=tuple(_reasons(progress, refusal, now_ms=state.now_ms)),
    )


def _summary(progress: ScheduleProgress, refusal: str | None) -> str:
    if progress.next_ms is None:
        then = "It is paused and does not fire before it is resumed."
    else:
        then = f"It fires next at {iso(progress.next_ms)}."
    if refusal is not None:
        then += f" As things are, that would make no message: {refusal}."
    if progress.last_fired_ms is None:
        return f"Has not fired yet. {then}"
    return f"Fired last at {iso(progress.last_fired_ms)}: {_result(progress)}. {then}"


def _result(progress: ScheduleProgress) -> str:
    """The result of the last firing."""
    if progress.error is not None:
        return f"it made no message, {progress.error}"
    count = len(progress.last_states)
    if count == 0:
        return "its messages were deduplicated"
    return "it made 1 message" if count == 1 else f"it made {count} messages"


def _reasons(progress: ScheduleProgress, refusal: str | None, *, now_ms: int) -> Iterator[ScheduleReason]:
    schedule, destination = progress.schedule, progress.schedule.destination
    group = "URL group " if destination.kind is DestinationKind.GROUP else ""
    text = f"written by {schedule.caller_ip}, to {group}{destination.text} at {schedule.cron}"
    yield ScheduleReason(at_ms=schedule.created_ms, kind="created", text=text)
    if progress.last_fired_ms is not None:
        yield ScheduleReason(
            at_ms=progress.last_fired_ms,
            kind="fired" if progress.error is None else "refused",
            text=_result(progress),
            messages=dict(progress.last_states),
            error=progress.error,
        )
    if progress.next_ms is None:
        yield ScheduleReason(at_ms=now_ms, kind="paused", text="it is paused and does not fire")
    else:
        yield ScheduleReason(at_ms=progress.next_ms, kind="due", text="it fires next")
    if refusal is not None:
        text = f"a firing now would make no message: {refusal}"
        yield ScheduleReason(at_ms=now_ms, kind="would_be_refused", text=text, error=refusal)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/schedules", list_schedules, OWN_QUERY),
    ControlRoute("GET", "/_emulator/schedules/{name}/explain", explain_schedule, WORLD_ONLY),
)
