"""Workflow runs: their steps, ends and logs, the events that they wait for, and triggers, which start them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer, Opener, RoutedRequest
from emulator.api.messaging import PUBLISH, READ, MessagingCall, MessagingPolicy, MessagingRoute
from emulator.core.commands import TriggerRuns
from emulator.core.errors import NotFound
from emulator.core.model.workflows import TriggeredRun
from emulator.core.record import RunId
from emulator.core.rules.limits import check_account_is_active
from emulator.core.rules.run_waits import run_of_event, waiters_of
from emulator.core.rules.runs import live_run_of
from emulator.wire import filters, workflow, workflow_logs
from emulator.wire.filters import read_trim
from emulator.wire.messaging import views
from emulator.worlds.callers import Caller
from emulator.worlds.registry import Worlds

# -- runs: the steps of one, its end, and the cancellation of many ----------------------------

# Calls that a workflow endpoint makes while it runs: like a publish, they do not count against the limit of a second.
OF_RUNNING = MessagingPolicy(burst_limit=False)


async def get_run(call: MessagingCall) -> Response:
    """The steps of a run: its endpoint computes with them. Who may only read is shown what the logs show (D-778)."""
    state = await call.world.current_state()
    run = live_run_of(state, call.account_id, RunId(call.name))
    if not call.is_read_only:
        return Answer(workflow.steps(run))
    log = await call.world.runs.find(run.run_id, number=run.number)
    return Answer(workflow_logs.steps_as_logged(run, log))


async def end_run(call: MessagingCall) -> Response:
    run_id = RunId(call.name)
    has_existed = await call.world.history.has_run(call.account_id, run_id)
    await call.world.submit(workflow.read_end(call.parts, call.dialect, call.account_id, run_id, has_existed))
    return Answer()


async def cancel_runs(call: MessagingCall) -> Response:
    command = workflow.read_cancellation(call.parts, call.dialect, call.account_id)
    return Answer(views.cancelled(await call.world.submit(command)))


# -- the logs of runs: each with its steps ----------------------------------------------------


async def list_logs(call: MessagingCall) -> Response:
    query = filters.read_run_query(call.parts, call.dialect, call.account_id)
    page = await call.world.runs.page(query)
    return Answer(workflow_logs.logs_page(page, read_trim(call.parts, call.dialect)))


# -- triggers: runs that are started by anybody with a token ----------------------------------


async def trigger(call: MessagingCall) -> Response:
    destination = call.request.raw_rest(2)
    command = workflow.read_trigger(call.parts, call.dialect, call.account_id, destination, call.log_note)
    [run] = await _start(call, command)
    return Answer(workflow.triggered(run))


async def trigger_batch(call: MessagingCall) -> Response:
    command = workflow.read_triggers(call.parts, call.dialect, call.account_id, call.log_note)
    return Answer([workflow.triggered(run) for run in await _start(call, command)], 201)


async def _start(call: MessagingCall, command: TriggerRuns) -> tuple[TriggeredRun, ...]:
    for item in command.items:
        call.warn_of_unused_queue(item.destination, item.queue or item.options.queue)
    traced = replace(command, items=tuple(call.traced(item) for item in command.items))
    return await call.world.submit(traced)


# -- events: steps that wait for one, notifications, and webhooks, which anybody may call -----


async def wait(call: MessagingCall) -> Response:
    command = workflow.read_wait(call.parts, call.dialect, call.account_id, call.name)
    await call.world.submit(command)
    return Answer({})


async def notify(call: MessagingCall) -> Response:
    run_id = call.request.path_parameters.get("runId")
    command = workflow.read_notification(call.parts, call.account_id, call.name, run_id)
    return Answer(workflow.notified(await call.world.submit(command)), 201)


async def list_waiters(call: MessagingCall) -> Response:
    await call.world.current_state()
    return Answer(workflow.waiters(waiters_of(call.owner, call.name)))


async def call_webhook(call: MessagingCall) -> Response:
    run_id = call.request.path_parameters["runId"]
    await call.world.submit(workflow.read_webhook(call.parts, call.account_id, call.name, run_id))
    return Answer()


def open_webhook(worlds: Worlds, policies: Mapping[str, MessagingPolicy]) -> Opener[MessagingCall]:
    """A webhook's call is its user's, without a token; of several worlds with the user, that with the run (D-371)."""

    async def open_call(request: RoutedRequest) -> MessagingCall:
        named = request.path_parameters
        callers = worlds.by_user(named["userId"])
        if not callers:
            raise NotFound("user", named["userId"])
        run_id = RunId(named["runId"])
        caller = next((each for each in callers if _has_run(each, run_id, named["name"])), callers[0])
        world, account_id = caller.world, caller.account_id
        check_account_is_active(world.state.accounts[account_id].account)
        return MessagingCall(request=request, dialect=worlds.dialect, world=world, account_id=account_id)

    return open_call


def _has_run(caller: Caller, run_id: RunId, event_id: str) -> bool:
    owner = caller.world.state.accounts[caller.account_id]
    return run_of_event(owner, run_id, event_id) in owner.runs


ROUTES: tuple[MessagingRoute, ...] = (
    MessagingRoute("GET", "/v2/workflows/runs/{name}", get_run, READ),
    MessagingRoute("DELETE", "/v2/workflows/runs/{name}", end_run, OF_RUNNING),
    MessagingRoute("DELETE", "/v2/workflows/runs", cancel_runs, OF_RUNNING),
    MessagingRoute("GET", "/v2/workflows/events", list_logs, READ),
    MessagingRoute("GET", "/v2/workflows/logs", list_logs, READ),
    MessagingRoute("POST", "/v2/wait/{name}", wait, OF_RUNNING),
    MessagingRoute("POST", "/v2/notify/{name}", notify, OF_RUNNING),
    MessagingRoute("POST", "/v2/notify/{runId}/{name}", notify, OF_RUNNING),
    MessagingRoute("GET", "/v2/waiters/{name}", list_waiters, READ),
    MessagingRoute("POST", "/v2/trigger/{destination:path}", trigger, PUBLISH),
    MessagingRoute("POST", "/v2/batch/trigger", trigger_batch, PUBLISH),
)
WEBHOOK_ROUTES: tuple[MessagingRoute, ...] = tuple(
    MessagingRoute(method, "/v2/workflows/hooks/{userId}/{runId}/{name}", call_webhook, OF_RUNNING)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
)
