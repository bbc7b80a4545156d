"""The dead letter queue: look up, delete, publish again."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import DeadLetterContent, DeleteDeadLetters, Published, RetryDeadLetters
from emulator.core.errors import NotFound
from emulator.core.model.names import AccountId
from emulator.core.model.options import MessageOptions
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, Page
from emulator.wire.dialect import Dialect
from emulator.wire.messaging import filters, views
from emulator.wire.messaging.options import RequestKind, read_options
from emulator.wire.parts import RequestParts
from emulator.wire.reasons import ALWAYS_NEW
from emulator.wire.workflow import dead_letters as workflow_views
from emulator.wire.workflow.filters import read_dead_letter_query as read_workflow_query
from emulator.wire.workflow.filters import read_deletion

DeadLetters = Page[DeadLetterEntry]
ReadQuery = Callable[[RequestParts, Dialect, AccountId], DeadLetterQuery | None]


async def list_dead_letters(call: MessagingCall) -> Response:
    if filters.asks_for_workflows(call.parts, call.dialect):
        wanted = read_workflow_query(call.parts, call.dialect, call.account_id)
        return Answer(workflow_views.dead_letters_page(await call.world.runs.dead_letters(wanted)))
    return Answer(views.dead_letters_page(await selected(call)))


async def get_dead_letter(call: MessagingCall) -> Response:
    return Answer(views.dead_letter((await _named(call)).items[0]))


async def delete_dead_letter(call: MessagingCall) -> Response:
    wanted = tuple(entry.dead_letter_id for entry in (await _named(call)).items)
    return await call.carry_out(DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))


async def delete_dead_letters(call: MessagingCall) -> Response:
    """Without ids and filters, one page of all of them (D-061)."""
    read = read_deletion if filters.asks_for_workflows(call.parts, call.dialect) else filters.read_dead_letter_query
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


async def _retry(call: MessagingCall, page: DeadLetters, *, strict: bool) -> tuple[Published, ...]:
    entries = tuple(
        DeadLetterContent(dead_letter_id=entry.dead_letter_id, message=entry.message) for entry in page.items
    )
    overrides = read_options(call.parts, call.dialect, kind=RequestKind.DEAD_LETTER_RETRY, tell=call.tell_of_unused)
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
        raise NotFound(f"dlq message {call.name} not found")
    return page


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/dlq", list_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/dlq", delete_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry", retry_dead_letters, WRITE),
    MessagingRoute("POST", "/v2/dlq/retry/{name}", retry_dead_letter, WRITE),
    MessagingRoute("GET", "/v2/dlq/{name}", get_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/dlq/{name}", delete_dead_letter, WRITE),
)
