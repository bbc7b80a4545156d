"""Runs: the steps of one, its end, and the cancellation of many."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.messaging.call import READ, MessagingCall, MessagingRoute, Policy
from emulator.core.model.names import RunId
from emulator.core.rules.workflows.ending import live_run_of
from emulator.wire.workflow import requests, views

# Calls that a workflow endpoint makes while it runs: like a publish, they do not count against the limit of a second.
OF_RUNNING = Policy(burst_limit=False)


async def get_run(call: MessagingCall) -> Response:
    state = await call.world.current_state()
    return Answer(views.steps(live_run_of(state, call.account_id, RunId(call.name))))


async def end_run(call: MessagingCall) -> Response:
    run_id = RunId(call.name)
    has_existed = await call.world.history.has_run(call.account_id, run_id)
    await call.world.submit(requests.read_end(call.parts, call.dialect, call.account_id, run_id, has_existed))
    return Answer()


async def cancel_runs(call: MessagingCall) -> Response:
    command = requests.read_cancellation(call.parts, call.dialect, call.account_id)
    return Answer(views.cancelled(await call.world.submit(command)))


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/workflows/runs/{name}", get_run, READ),
    MessagingRoute("DELETE", "/v2/workflows/runs/{name}", end_run, OF_RUNNING),
    MessagingRoute("DELETE", "/v2/workflows/runs", cancel_runs, OF_RUNNING),
)
