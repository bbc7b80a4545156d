"""The dead letters of workflow runs: look up and delete."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, WRITE, MessagingCall, MessagingRoute
from emulator.api.messaging.dead_letters import selected
from emulator.core.commands import DeleteDeadLetters
from emulator.core.errors import NotFound
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, WorkflowDeadLetters
from emulator.queries.workflow_steps import RunLog
from emulator.wire.messaging import views
from emulator.wire.workflow import dead_letters, filters


async def list_dead_letters(call: MessagingCall) -> Response:
    query = filters.read_dead_letter_query(call.parts, call.dialect, call.account_id)
    return Answer(dead_letters.dead_letters_page(await call.world.runs.dead_letters(query)))


async def get_dead_letter(call: MessagingCall) -> Response:
    entry, log = await named(call)
    return Answer(dead_letters.dead_letter(entry, log))


async def delete_dead_letter(call: MessagingCall) -> Response:
    entry, _ = await named(call)
    wanted = (entry.dead_letter_id,)
    return await call.carry_out(DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=True))


async def delete_dead_letters(call: MessagingCall) -> Response:
    page = await selected(call, filters.read_deletion)
    wanted = tuple(entry.dead_letter_id for entry in page.items)
    command = DeleteDeadLetters(account_id=call.account_id, dead_letter_ids=wanted, strict=False)
    return Answer(views.dead_letters_deleted(await call.world.submit(command), page.cursor))


async def named(call: MessagingCall) -> tuple[DeadLetterEntry, RunLog]:
    """The one dead letter of a run that the path names. Raises NotFound."""
    query = DeadLetterQuery(
        account_id=call.account_id, count=1, dead_letter_ids=(call.name,), workflow=WorkflowDeadLetters()
    )
    page = await call.world.runs.dead_letters(query)
    if not page.items:
        raise NotFound(f"dlq message {call.name} not found")
    return page.items[0]


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/workflows/dlq", list_dead_letters, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq", delete_dead_letters, WRITE),
    MessagingRoute("GET", "/v2/workflows/dlq/{name}", get_dead_letter, READ),
    MessagingRoute("DELETE", "/v2/workflows/dlq/{name}", delete_dead_letter, WRITE),
)
