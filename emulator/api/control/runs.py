"""`/_emulator/runs`: workflow runs, their steps, and why they are where they are."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import OWN_QUERY, WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.core.model.names import RunId
from emulator.wire.control.workflow_runs import read_runs, run_explanation_view, run_view, runs_view


async def list_runs(call: ControlCall) -> Response:
    query = read_runs(call.parts.query)
    await call.world.current_state()
    return Answer(runs_view(await call.world.runs.summaries(query)))


async def get_run(call: ControlCall) -> Response:
    await call.world.current_state()
    return Answer(run_view(await call.world.runs.find(RunId(call.name))))


async def explain_run(call: ControlCall) -> Response:
    await call.world.current_state()
    return Answer(run_explanation_view(await call.world.runs.find(RunId(call.name))))


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/runs", list_runs, OWN_QUERY),
    ControlRoute("GET", "/_emulator/runs/{name}", get_run, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/runs/{name}/explain", explain_run, WORLD_ONLY),
)
