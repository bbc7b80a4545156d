"""The dead letter queue, of messages and of workflow runs: look up, delete, publish again, resume, restart."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import (
    CallFailureFunction,
    CancelFailureFunction,
    DeadLetterContent,
    DeleteDeadLetters,
    FailedRun,
    RestartRuns,
    ResumeRuns,
    RetryDeadLetters,
)
from emulator.core.errors import NotFound
from emulator.core.model.messages import PublishedMessage
from emulator.core.model.options import MessageOptions
from emulator.core.record import AccountId
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, Page, WorkflowDeadLetters
from emulator.queries.workflow_steps import RunLog, failed_run
from emulator.wire import filters, workflow, workflow_logs
from emulator.wire.dialect import Dialect
from emulator.wire.filters import read_run_dead_letter_query as read_workflow_query
from emulator.wire.filters import read_run_deletion, read_trim
from emulator.wire.messaging import views
from emulator.wire.messaging.options import RequestKind, read_options
from emulator.wire.parts import RequestParts
from emulator.wire.reasons import ALWAYS_NEW

DeadLetters = Page[DeadLetterEntry]
ReadQuery = Callable[[RequestParts, Dialect, AccountId], DeadLetterQuery | None]


async def list_dead_letters(call: MessagingCall) -> Response:
    trim = filters.read_trim(call.parts, call.dialect)
    if filters.asks_for_workflows(call.parts, call.dialect):
        wanted = read_workflow_query(call.parts, call.dialect, call.account_id)
        found = await call.world.runs.dead_letters(wanted)
        return Answer(workflow_logs.dead_letters_page(found, call.dialect, trim))
    return Answer(views.dead_letters_page(await selected(call), trim))


async def get_dead_letter(call: MessagingCall) -> Response:
    return Answer(views.dead_letter((await _named(call)).items[0]))


async def delete_dead_letter(call: MessagingCall) -> Response:
    wanted = tuple(entry.dead_letter_id for entry in (await _named(call)).items)
    return await call.carry_out(DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))


async def delete_dead_letters(call: MessagingCall) -> Response:
    """Without ids and filters, one page of all of them (D-061)."""
    read = read_run_deletion if filters.asks_for_workflows(call.parts, call.dialect) else filters.read_dead_letter_query
    page = await selected(call, read)
    wanted = tuple(entry.dead_letter_id for entry in page.items)
    command = DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=False)
    return Answer(views.dead_letters_deleted(await call.world.submit(command), page.cursor))


async def retry_dead_letter(call: MessagingCall) -> Response:
    published = await _retry(call, await _named(call), strict=True)
    return Answer({"messageId": published[0].message_id}, 201)


async def retry_dead_letters(call: MessagingCall) -> Response:
    page = await selected(call)
    return Answer(views.dead_letters_retried(await _retry(call, page, strict=False), page.cursor), 201)


async def _retry(call: MessagingCall, page: DeadLetters, *, strict: bool) -> tuple[PublishedMessage, ...]:
    entries = tuple(
        DeadLetterContent(dead_letter_id=entry.dead_letter_id, message=entry.message) for entry in page.items
    )
    overrides = read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY, log_note=call.log_note)
    _warn_of_deduplication(call, overrides)
    return await call.world.submit(
        RetryDeadLetters(account_id=call.account_id, entries=entries, overrides=overrides, strict=strict)
    )


def _warn_of_deduplication(call: MessagingCall, overrides: MessageOptions) -> None:
    asked = {
        "Svc-Deduplication-Id": overrides.deduplication_id is not None,
        "Svc-Content-Based-Deduplication": overrides.content_deduplication is True,
    }
    call.warn_of_ignored([call.dialect.rename_field_at_fault(name) for name in asked if asked[name]], ALWAYS_NEW)


async def selected(call: MessagingCall, read: ReadQuery = filters.read_dead_letter_query) -> DeadLetters:
    """The dead letters that a listing or bulk call means, as `read` finds; none if that answers None."""
    query = read(call.parts, call.dialect, call.account_id)
    return Page(items=(), cursor=None) if query is None else await call.world.history.dead_letters(query)


async def _named(call: MessagingCall) -> DeadLetters:
    """The one dead letter that the path names. Raises NotFound."""
    page = await call.world.history.dead_letters(
        DeadLetterQuery(account_id=call.account_id, count=1, dead_letter_ids=(call.name,))
    )
    if not page.items:
        raise NotFound("dlq message", call.name)
    return page


# -- the dead letters of workflow runs: look up and delete ------------------------------------


async def list_run_dead_letters(call: MessagingCall) -> Response:
    query = filters.read_run_dead_letter_query(call.parts, call.dialect, call.account_id)
    trim = read_trim(call.parts, call.dialect)
    return Answer(workflow_logs.dead_letters_page(await call.world.runs.dead_letters(query), call.dialect, trim))


async def get_run_dead_letter(call: MessagingCall) -> Response:
    entry, log = await named_run(call)
    return Answer(workflow_logs.dead_letter(entry, log, call.dialect))


async def delete_run_dead_letter(call: MessagingCall) -> Response:
    entry, _ = await named_run(call)
    wanted = (entry.dead_letter_id,)
    return await call.carry_out(DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))


async def delete_run_dead_letters(call: MessagingCall) -> Response:
    page = await selected(call, filters.read_run_deletion)
    wanted = tuple(entry.dead_letter_id for entry in page.items)
    command = DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=False)
    return Answer(views.dead_letters_deleted(await call.world.submit(command), page.cursor))


async def named_run(call: MessagingCall) -> tuple[DeadLetterEntry, RunLog]:
    """The one dead letter of a run that the path names. Raises NotFound."""
    query = DeadLetterQuery(
        account_id=call.account_id, count=1, dead_letter_ids=(call.name,), workflow=WorkflowDeadLetters()
    )
    page = await call.world.runs.dead_letters(query)
    if not page.items:
        raise NotFound("dlq message", call.name)
    return page.items[0]


# -- failed runs: resume them, restart them, call their failure function again ----------------


async def resume(call: MessagingCall) -> Response:
    entry = failed_run(*await named_run(call))
    command = ResumeRuns(account_id=call.account_id, entries=(entry,), overrides=_overrides(call), strict=True)
    [run] = await call.world.submit(command)
    return Answer(workflow.triggered(run))


async def restart(call: MessagingCall) -> Response:
    entry = failed_run(*await named_run(call))
    command = RestartRuns(account_id=call.account_id, entries=(entry,), overrides=_overrides(call), strict=True)
    [run] = await call.world.submit(command)
    return Answer(workflow.triggered(run))


async def resume_many(call: MessagingCall) -> Response:
    entries, cursor = await _chosen(call)
    command = ResumeRuns(account_id=call.account_id, entries=entries, overrides=_overrides(call), strict=False)
    return Answer(workflow.begun_again(await call.world.submit(command), cursor))


async def restart_many(call: MessagingCall) -> Response:
    entries, cursor = await _chosen(call)
    command = RestartRuns(account_id=call.account_id, entries=entries, overrides=_overrides(call), strict=False)
    return Answer(workflow.begun_again(await call.world.submit(command), cursor))


async def call_failure_function(call: MessagingCall) -> Response:
    entry = failed_run(*await named_run(call))
    return Answer(
        workflow.triggered(await call.world.submit(CallFailureFunction(account_id=call.account_id, entry=entry)))
    )


async def cancel_failure_function(call: MessagingCall) -> Response:
    entry = failed_run(*await named_run(call))
    await call.world.submit(CancelFailureFunction(account_id=call.account_id, entry=entry))
    return Answer(status=302)


async def _chosen(call: MessagingCall) -> tuple[tuple[FailedRun, ...], str | None]:
    """The failed runs that the query means, a page of them, and what continues it."""
    query = filters.read_runs_to_begin_again(call.parts, call.dialect, call.account_id)
    page = await call.world.runs.dead_letters(query)
    return tuple(failed_run(entry, log) for entry, log in page.items), page.cursor


def _overrides(call: MessagingCall) -> MessageOptions:
    return read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY, log_note=call.log_note)


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/dlq", list_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/dlq", delete_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry", retry_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry/{name}", retry_dead_letter, WRITE),
    MessagingRoute("GET", "/v2/dlq/{name}", get_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/dlq/{name}", delete_dead_letter, WRITE),
)
WORKFLOW_ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/workflows/dlq/resume", resume_many, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart", restart_many, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/resume/{name}", resume, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart/{name}", restart, WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/callback/{name}", call_failure_function, WRITE),
    # D-748
    MessagingRoute("DELETE", "/v2/workflows/dlq/delete/{name}", delete_run_dead_letter, WRITE),
    MessagingRoute("DELETE", "/v2/workflows/dlq/callback/{name}", cancel_failure_function, WRITE),
    MessagingRoute("GET", "/v2/workflows/dlq", list_run_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq", delete_run_dead_letters, WRITE),
    MessagingRoute("GET", "/v2/workflows/dlq/{name}", get_run_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq/{name}", delete_run_dead_letter, WRITE),
)
