"""Failed runs: resume them, restart them, call their failure function again."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import WRITE, MessagingCall, MessagingRoute
from emulator.api.workflow.dead_letters import named
from emulator.core.commands import CallFailureFunction, CancelFailureFunction, FailedRun, RestartRuns, ResumeRuns
from emulator.core.model.options import MessageOptions
from emulator.queries.workflow_steps import failed_run
from emulator.wire.messaging.options import RequestKind, read_options
from emulator.wire.workflow import filters, views


async def resume(call: MessagingCall) -> Response:
    entry = failed_run(*await named(call))
    command = ResumeRuns(account_id=call.account_id, entries=(entry,), overrides=_overrides(call), strict=True)
    [run] = await call.world.submit(command)
    return Answer(views.triggered(run))


async def restart(call: MessagingCall) -> Response:
    entry = failed_run(*await named(call))
    command = RestartRuns(account_id=call.account_id, entries=(entry,), overrides=_overrides(call), strict=True)
    [run] = await call.world.submit(command)
    return Answer(views.triggered(run))


async def resume_many(call: MessagingCall) -> Response:
    entries, cursor = await _chosen(call)
    command = ResumeRuns(account_id=call.account_id, entries=entries, overrides=_overrides(call), strict=False)
    return Answer(views.begun_again(await call.world.submit(command), cursor))


async def restart_many(call: MessagingCall) -> Response:
    entries, cursor = await _chosen(call)
    command = RestartRuns(account_id=call.account_id, entries=entries, overrides=_overrides(call), strict=False)
    return Answer(views.begun_again(await call.world.submit(command), cursor))


async def call_failure_function(call: MessagingCall) -> Response:
    entry = failed_run(*await named(call))
    return Answer(
        views.triggered(await call.world.submit(CallFailureFunction(account_id=call.account_id, entry=entry)))
    )


async def cancel_failure_function(call: MessagingCall) -> Response:
    entry = failed_run(*await named(call))
    await call.world.submit(CancelFailureFunction(account_id=call.account_id, entry=entry))
    return Answer(status=302)


async def _chosen(call: MessagingCall) -> tuple[tuple[FailedRun, ...], str | None]:
    """The failed runs that the query means, a page of them, and what continues it."""
    query = filters.read_dead_letter_query(call.parts, call.dialect, call.account_id)
    page = await call.world.runs.dead_letters(query)
    return tuple(failed_run(entry, log) for entry, log in page.items), page.cursor


def _overrides(call: MessagingCall) -> MessageOptions:
    return read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY, tell=call.tell_of_unused)


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/workflows/dlq/resume", resume_many, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart", restart_many, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/resume/{name}", resume, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart/{name}", restart, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/callback/{name}", call_failure_function, WRITE),
    MessagingRoute("DELETE", "/v2/workflows/dlq/callback/{name}", cancel_failure_function, WRITE),
)
