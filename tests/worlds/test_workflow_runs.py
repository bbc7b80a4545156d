"""Workflow runs are state of their world: they survive restarts and snapshots, and no other world has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.emulators import InProcess, asgi_call, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import FLOW, Flow


async def asleep_and_waiting(emulator: InProcess) -> None:
    """`wfr_one` sleeps an hour after a step; `wfr_two` waits for an event for two."""
    flow, other = Flow(emulator), Flow(emulator, "wfr_two")
    await flow.start()
    await flow.step(1, "greet", "hello")
    await flow.sleep(2, "nap", 3_600)
    await other.start()
    await other.wait(1, "payment", "paid", 7_200)


async def runs(emulator: InProcess) -> dict[str, Any]:
    """Each run by its id, with its steps and what it waits for."""
    listed = (await emulator.control("GET", "/runs")).json["runs"]
    return {each["id"]: (await emulator.control("GET", f"/runs/{each['id']}")).json for each in listed}


async def states(emulator: InProcess) -> dict[str, list[str]]:
    found = await runs(emulator)
    return {
        run_id: [step["state"] for group in run["steps"][1:] for step in group["steps"]]
        for run_id, run in found.items()
    }


@on_loop
async def test_runs_survive_a_restart_and_go_on(tmp_path: Path) -> None:
    file = str(tmp_path / "world.db")
    async with in_process(db=file) as emulator:
        await asleep_and_waiting(emulator)
        before = await runs(emulator)
    async with in_process(db=file) as emulator:
        assert await runs(emulator) == before
        await emulator.advance("2h")
        deliveries = await emulator.deliveries(FLOW)
        assert await states(emulator) == {
            "wfr_two": ["STEP_SUCCESS"],
            "wfr_one": ["STEP_SUCCESS", "STEP_SUCCESS"],
        }
        # Two first calls, a result, the end of the sleep, the end of the wait.
        assert [each["step"] for each in deliveries] == [None, "greet", None, "nap", "payment"]


@with_emulator()
async def test_a_restored_snapshot_has_the_runs_of_its_time(emulator: InProcess) -> None:
    await asleep_and_waiting(emulator)
    before = await runs(emulator)
    await emulator.control("POST", "/snapshots", {"name": "asleep"})
    await emulator.advance("2h")
    await Flow(emulator).finish()
    await Flow(emulator, "wfr_three").start()
    await emulator.control("POST", "/snapshots/asleep/restore")
    assert await runs(emulator) == before
    await emulator.advance("2h")
    assert (await states(emulator))["wfr_one"] == ["STEP_SUCCESS", "STEP_SUCCESS"]
    steps = await emulator.get("/v2/workflows/runs/wfr_one")
    assert len(steps.json) == 3


@with_emulator()
async def test_a_reset_forgets_all_runs_and_the_same_calls_make_the_same_trace(emulator: InProcess) -> None:
    traces = []
    for _ in range(2):
        await asleep_and_waiting(emulator)
        await emulator.advance("2h")
        traces.append((await emulator.control("GET", "/trace")).body)
        await emulator.control("POST", "/reset")
        assert await runs(emulator) == {}
        assert (await emulator.get("/v2/waiters/paid")).json == []
    assert traces[0] == traces[1]
    await asleep_and_waiting(emulator)
    await emulator.control("POST", "/reset")
    await emulator.advance("2h")
    assert await emulator.deliveries() == []
    await Flow(emulator).start()
    assert list(await runs(emulator)) == ["wfr_one"]


@with_emulator()
async def test_two_worlds_have_runs_of_the_same_id(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start(b"mine")
    made = (await emulator.control("POST", "/worlds", {"id": "other"})).json
    token = made["credentials"]["queue"]["token"]

    async def call(method: str, target: str, body: bytes = b"", **headers: str) -> Any:
        given = [("Authorization", f"Bearer {token}"), *headers.items()]
        answer = await asgi_call(emulator.emulation.app, method, target.encode(), given, body, "203.0.113.8")
        return answer.json if answer.body else answer.status

    await call(
        "POST",
        f"/v2/publish/{FLOW}",
        b"theirs",
        **{"Host": "127.0.0.1", "Svc-Workflow-RunId": "wfr_one", "Svc-Workflow-Init": "true"},
    )
    await flow.finish("ended")
    [theirs] = (await call("GET", "/v2/workflows/logs", Host="127.0.0.1"))["runs"]
    mine = await flow.log()
    assert (mine["workflowState"], mine["steps"][0]["steps"][0]["out"]) == ("RUN_SUCCESS", "mine")
    assert (theirs["workflowState"], theirs["steps"][0]["steps"][0]["out"]) == ("RUN_STARTED", "theirs")
