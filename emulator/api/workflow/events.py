"""Events: steps that wait for one, notifications, and webhooks, which anybody may call."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from emulator.api.endpoint import Answer, Opener, Request
from emulator.api.messaging.call import READ, MessagingCall, MessagingRoute, Policy
from emulator.api.workflow.runs import OF_RUNNING
from emulator.core.errors import NotFound
from emulator.core.model.names import RunId
from emulator.core.rules.limits import check_account_is_active
from emulator.core.rules.workflows.waiting import run_of_event, waiters_of
from emulator.wire.workflow import requests, views
from emulator.worlds.callers import Caller
from emulator.worlds.registry import Worlds


async def wait(call: MessagingCall) -> Response:
    command = requests.read_wait(call.parts, call.dialect, call.account_id, call.name)
    await call.world.submit(command)
    return Answer({})


async def notify(call: MessagingCall) -> Response:
    run_id = call.request.path_parameters.get("runId")
    command = requests.read_notification(call.parts, call.account_id, call.name, run_id)
    return Answer(views.notified(await call.world.submit(command)), 201)


async def list_waiters(call: MessagingCall) -> Response:
    await call.world.current_state()
    return Answer(views.waiters(waiters_of(call.owner, call.name)))


async def call_webhook(call: MessagingCall) -> Response:
    run_id = call.request.path_parameters["runId"]
    await call.world.submit(requests.read_webhook(call.parts, call.account_id, call.name, run_id))
    return Answer()


def open_webhook(worlds: Worlds, policies: Mapping[str, Policy]) -> Opener[MessagingCall]:
    """A webhook's call is its user's, without a token; of several worlds with the user, that with the run (D-371)."""

    async def open_call(request: Request) -> MessagingCall:
        named = request.path_parameters
        callers = worlds.by_user(named["userId"])
        if not callers:
            raise NotFound(f"user {named['userId']} not found")
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
    MessagingRoute("POST", "/v2/wait/{name}", wait, OF_RUNNING),
    MessagingRoute("POST", "/v2/notify/{name}", notify, OF_RUNNING),
    MessagingRoute("POST", "/v2/notify/{runId}/{name}", notify, OF_RUNNING),
    MessagingRoute("GET", "/v2/waiters/{name}", list_waiters, READ),
)
WEBHOOK_ROUTES: tuple[MessagingRoute, ...] = tuple(
    MessagingRoute(method, "/v2/workflows/hooks/{userId}/{runId}/{name}", call_webhook, OF_RUNNING)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
)
