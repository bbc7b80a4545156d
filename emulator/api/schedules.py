"""Schedules: create, replace, look up, pause, resume, delete."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import DeleteSchedule, SetSchedulePaused, WriteSchedule
from emulator.core.rules.limits import default_retries
from emulator.core.rules.schedules import schedule
from emulator.wire.messaging import options, views
from emulator.wire.names import read_schedule_id
from emulator.wire.urls import read_destination


async def write_schedule(call: MessagingCall) -> Response:
    parts = call.parts
    kind = options.RequestKind.SCHEDULE
    command = WriteSchedule(
        account_id=call.account_id,
        destination=read_destination(call.request.raw_rest(2), parts.typed_query, call.dialect),
        schedule_id=options.read_schedule_id(parts, call.dialect),
        cron=options.read_cron(parts, call.dialect),
        body=parts.body,
        options=options.read_options(parts, call.dialect, kind=kind, log_note=call.log_note),
        caller_ip=parts.client_ip,
    )
    call.warn_of_ignored_options(command.destination, command.options, None, keeps_delay=True)
    return Answer(views.schedule_created(await call.world.submit(command)))


async def list_schedules(call: MessagingCall) -> Response:
    retries = default_retries(call.owner.account)
    return Answer([views.schedule(each, retries) for each in call.owner.schedules.values()])


async def get_schedule(call: MessagingCall) -> Response:
    found = schedule(call.state, call.account_id, read_schedule_id(call.name))
    return Answer(views.schedule(found, default_retries(call.owner.account)))


async def delete_schedule(call: MessagingCall) -> Response:
    return await call.carry_out(DeleteSchedule(account_id=call.account_id, schedule_id=read_schedule_id(call.name)))


async def _set_paused(call: MessagingCall, *, paused: bool) -> Response:
    schedule_id = read_schedule_id(call.name)
    return await call.carry_out(SetSchedulePaused(account_id=call.account_id, schedule_id=schedule_id, paused=paused))


pause_schedule, resume_schedule = partial(_set_paused, paused=True), partial(_set_paused, paused=False)

ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/schedules", list_schedules, READ),
    # POST as the service says, PATCH as its clients do (D-039).
    MessagingRoute("POST", "/v2/schedules/{name}/pause", pause_schedule, WRITE),
    MessagingRoute("PATCH", "/v2/schedules/{name}/pause", pause_schedule, WRITE),
    MessagingRoute("POST", "/v2/schedules/{name}/resume", resume_schedule, WRITE),
    MessagingRoute("PATCH", "/v2/schedules/{name}/resume", resume_schedule, WRITE),
    MessagingRoute("GET", "/v2/schedules/{name}", get_schedule, READ),
    MessagingRoute("DELETE", "/v2/schedules/{name}", delete_schedule, WRITE),
    # The name of a URL group is one segment, a URL as the destination has several.
    MessagingRoute("POST", "/v2/schedules/{name}", write_schedule, WRITE),
    MessagingRoute("POST", "/v2/schedules/{destination:path}", write_schedule, WRITE),
)
