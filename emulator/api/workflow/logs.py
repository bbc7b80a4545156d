"""The logs of runs: each with its steps."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, MessagingCall, MessagingRoute
from emulator.wire.workflow import filters, logs


async def list_logs(call: MessagingCall) -> Response:
    query = filters.read_run_query(call.parts, call.dialect, call.account_id)
    page = await call.world.runs.page(query)
    return Answer(logs.logs_page(page, filters.read_trim(call.parts, call.dialect)))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/workflows/events", list_logs, READ),
    MessagingRoute("GET", "/v2/workflows/logs", list_logs, READ),
)
