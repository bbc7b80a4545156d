"""The dead letter queue, of messages and of workflow runs: look up, delete, publish again, resume, restart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import (
    CallFailureFunction,
    CancelFailureFunction,
    DeadLetterContent,
    DeleteDeadLetters,
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
from emulator.wire.messaging import views
from emulator.wire.messaging.options import RequestKind, read_options
from emulator.wire.parts import RequestParts
from emulator.wire.reasons import ALWAYS_NEW

DeadLetters = Page[DeadLetterEntry]
ReadQuery = Callable[[RequestParts, Dialect, AccountId], DeadLetterQuery | None]


async def list_dead_letters(call: MessagingCall) -> Response:
    trim = filters.read_trim(call.parts, call.dialect)
    if filters.asks_for_workflows(call.parts, call.dialect):
        return await list_run_dead_letters(call)
    return Answer(views.dead_letters_page(await _selected(call, filters.read_dead_letter_query), trim))


async def get_dead_letter(call: MessagingCall) -> Response:
    return Answer(views.dead_letter((await _named(call)).items[0]))


async def delete_dead_letter(call: MessagingCall) -> Response:
    return await _delete(call, (await _named(call)).items[0])


async def _delete(call: MessagingCall, entry: DeadLetterEntry) -> Response:
    wanted = (entry.dead_letter_id,)
    return await call.carry_out(DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))


async def delete_dead_letters(call: MessagingCall) -> Response:
    """Without ids and filters, one page of all of them (D-061)."""
    if filters.asks_for_workflows(call.parts, call.dialect):
        return await delete_run_dead_letters(call)
    return await _delete_selected(call, filters.read_dead_letter_query)


async def _delete_selected(call: MessagingCall, read: ReadQuery) -> Response:
    page = await _selected(call, read)
    wanted = tuple(entry.dead_letter_id for entry in page.items)
    command = DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=False)
    return Answer(views.dead_letters_deleted(await call.world.submit(command), page.cursor))


async def retry_dead_letter(call: MessagingCall) -> Response:
    published = await _retry(call, await _named(call), strict=True)
    return Answer({"messageId": published[0].message_id}, 201)


async def retry_dead_letters(call: MessagingCall) -> Response:
    page = await _selected(call, filters.read_dead_letter_query)
    return Answer(views.dead_letters_retried(await _retry(call, page, strict=False), page.cursor), 201)


async def _retry(call: MessagingCall, page: DeadLetters, *, strict: bool) -> tuple[PublishedMessage, ...]:
    entries = tuple(
        DeadLetterContent(dead_letter_id=entry.dead_letter_id, message=entry.message) for entry in page.items
    )
    overrides = _overrides(call)
    asked = {
        "Svc-Deduplication-Id": overrides.deduplication_id is not None,
        "Svc-Content-Based-Deduplication": overrides.content_deduplication is True,
    }
    call.warn_of_ignored([call.dialect.rename_field_at_fault(name) for name in asked if asked[name]], ALWAYS_NEW)
    return await call.world.submit(
        RetryDeadLetters(account_id=call.account_id, entries=entries, overrides=overrides, strict=strict)
    )


def _overrides(call: MessagingCall) -> MessageOptions:
    return read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY, log_note=call.log_note)


async def _selected(call: MessagingCall, read: ReadQuery) -> DeadLetters:
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
    trim = filters.read_trim(call.parts, call.dialect)
    return Answer(workflow_logs.dead_letters_page(await call.world.runs.dead_letters(query), call.dialect, trim))


async def get_run_dead_letter(call: MessagingCall) -> Response:
    return Answer(workflow_logs.dead_letter(*await _named_run(call), call.dialect))


async def delete_run_dead_letter(call: MessagingCall) -> Response:
    return await _delete(call, (await _named_run(call))[0])


delete_run_dead_letters = partial(_delete_selected, read=filters.read_run_deletion)


async def _named_run(call: MessagingCall) -> tuple[DeadLetterEntry, RunLog]:
    """The one dead letter of a run that the path names. Raises NotFound."""
    query = DeadLetterQuery(
        account_id=call.account_id, count=1, dead_letter_ids=(call.name,), workflow=WorkflowDeadLetters()
    )
    page = await call.world.runs.dead_letters(query)
    if not page.items:
        raise NotFound("dlq message", call.name)
    return page.items[0]


# -- failed runs: resume them, restart them, call their failure function again ----------------


async def begin_again(call: MessagingCall, make: type[ResumeRuns | RestartRuns]) -> Response:
    """Resume or restart the one failed run that the path names."""
    entry = failed_run(*await _named_run(call))
    command = make(account_id=call.account_id, entries=(entry,), overrides=_overrides(call), strict=True)
    [run] = await call.world.submit(command)
    return Answer(workflow.triggered(run))


async def begin_many_again(call: MessagingCall, make: type[ResumeRuns | RestartRuns]) -> Response:
    """Resume or restart the failed runs that the query means, a page of them."""
    query = filters.read_runs_to_begin_again(call.parts, call.dialect, call.account_id, make.__name__)
    page = await call.world.runs.dead_letters(query)
    entries = tuple(failed_run(entry, log) for entry, log in page.items)
    command = make(account_id=call.account_id, entries=entries, overrides=_overrides(call), strict=False)
    return Answer(workflow.begun_again(await call.world.submit(command), page.cursor))


async def call_failure_function(call: MessagingCall) -> Response:
    command = CallFailureFunction(account_id=call.account_id, entry=failed_run(*await _named_run(call)))
    return Answer(workflow.triggered(await call.world.submit(command)))


async def cancel_failure_function(call: MessagingCall) -> Response:
    entry = failed_run(*await _named_run(call))
    await call.world.submit(CancelFailureFunction(account_id=call.account_id, entry=entry))
    return Answer(status=302)


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/dlq", list_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/dlq", delete_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry", retry_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry/{name}", retry_dead_letter, WRITE),
    MessagingRoute("GET", "/v2/dlq/{name}", get_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/dlq/{name}", delete_dead_letter, WRITE),
)
WORKFLOW_ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("POST", "/v2/workflows/dlq/resume", partial(begin_many_again, make=ResumeRuns), WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart", partial(begin_many_again, make=RestartRuns), WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/resume/{name}", partial(begin_again, make=ResumeRuns), WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/restart/{name}", partial(begin_again, make=RestartRuns), WRITE),
    MessagingRoute("POST", "/v2/workflows/dlq/callback/{name}", call_failure_function, WRITE),
    # D-748
    MessagingRoute("DELETE", "/v2/workflows/dlq/delete/{name}", delete_run_dead_letter, WRITE),
    MessagingRoute("DELETE", "/v2/workflows/dlq/callback/{name}", cancel_failure_function, WRITE),
    MessagingRoute("GET", "/v2/workflows/dlq", list_run_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq", delete_run_dead_letters, WRITE),
    MessagingRoute("GET", "/v2/workflows/dlq/{name}", get_run_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq/{name}", delete_run_dead_letter, WRITE),
)
