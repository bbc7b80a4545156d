"""Triggers by HTTP."""

from __future__ import annotations

import pytest

from tests.api.workflow.calls import FLOW, RUN, add, answer_as_workflow, headers
from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop


@on_loop
async def test_runs_are_triggered_by_http() -> None:
    """D-370."""
    async with in_process() as emulator:
        # Captured, so that the runs go on without the second half of the handshake.
        options = {"Svc-Workflow-RunId": RUN, "Svc-Forward-X-Own": "1", "Svc-Delay": "10s"}
        answer = await emulator.post(f"/v2/trigger/{FLOW}?q=1", options, '{"a":1}')
        assert (answer.status, answer.json) == (200, {"workflowRunId": RUN, "workflowCreatedAt": EPOCH_MS})
        assert await emulator.deliveries() == []
        await emulator.advance("10s")
        (delivery,) = await emulator.deliveries()
        assert delivery["url"] == f"{FLOW}?q=1"
        assert delivery["headers"]["Svc-Workflow-Unknown-Sdk"] == ["true"]
        assert delivery["headers"]["Svc-Workflow-Init"] == ["true"]
        assert delivery["headers"]["X-Own"] == ["1"]
        items = [{"destination": FLOW}, {"destination": FLOW, "headers": {"svc-workflow-runid": RUN}, "body": "x"}]
        many = await emulator.post("/v2/batch/trigger", body=items)
        assert many.status == 201
        assert many.json[1] == {"workflowRunId": RUN, "workflowCreatedAt": EPOCH_MS, "deduplicated": True}
        assert many.json[0]["workflowRunId"].startswith("wfr_")
        assert "deduplicated" not in many.json[0]


@pytest.mark.parametrize(
    ("target", "named_by", "body"),
    [
        pytest.param("/v2/batch/trigger", {}, [{"destination": FLOW, "queue": "q"}], id="batch-of-triggers"),
        pytest.param(f"/v2/trigger/{FLOW}", {"Svc-Queue-Name": "q"}, b"", id="trigger"),
        pytest.param(
            "/v2/batch",
            {},
            [{"destination": FLOW, "queue": "q", "headers": headers(init=True, Svc_Delay="1h")}],
            id="batch",
        ),
        pytest.param(f"/v2/enqueue/q/{FLOW}", headers(init=True, Svc_Delay="1h"), b"", id="enqueue"),
        pytest.param(f"/v2/publish/{FLOW}", headers(init=True, Svc_Queue_Name="q"), b"", id="publish"),
    ],
)
def test_a_queue_that_is_named_for_a_run_is_not_applied_and_told(
    target: str, named_by: dict[str, str], body: object, caplog: pytest.LogCaptureFixture
) -> None:
    """D-325."""

    @on_loop
    async def start() -> None:
        async with in_process() as emulator:
            assert (await emulator.post(target, named_by, body)).status in (200, 201)
            assert (await emulator.get("/v2/queues")).json == []

    start()
    told = [message for message in caplog.messages if "not applied" in message]
    assert told == [f"queue q is not applied: runs are in no queue (to {FLOW})"]


@on_loop
async def test_wrong_triggers_begin_nothing() -> None:
    """D-375."""
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        for target, body, status, field in (
            ("/v2/trigger/nowhere!", b"", 400, "destination"),
            ("/v2/trigger/a-group", b"", 400, "destination"),
            ("/v2/trigger/api/llm", b"", 400, "destination"),
            ("/v2/trigger", b"", 400, "destination"),
            ("/v2/batch/trigger", b"[]x", 400, "body"),
            ("/v2/batch/trigger", b'[{"destination":"https://a.test"},{"destination":""}]', 400, "destination"),
            ("/v2/batch/trigger", b'[{"destination":"a-group"}]', 400, "destination"),
        ):
            answer = await emulator.post(target, body=body)
            assert (answer.status, answer.json["field"]) == (status, field), target
        wrong = await emulator.post(f"/v2/trigger/{FLOW}", {"Svc-Retries": "x"})
        assert (wrong.status, wrong.json["field"]) == (400, "Svc-Retries")
        assert await emulator.deliveries() == []


@on_loop
async def test_a_run_has_the_payload_of_its_handshake_alone() -> None:
    """D-452. In its logs, and so in a run that it is resumed as."""
    async with in_process() as emulator:
        await emulator.post(f"/v2/trigger/{FLOW}", {"Svc-Workflow-RunId": RUN}, "first")
        own = headers(init=True, Svc_Workflow_Trigger_By_Sdk="true")
        await emulator.post(f"/v2/publish/{FLOW}", own, "own")
        await add(emulator, 1)
        (run,) = (await emulator.get("/v2/workflows/logs")).json["runs"]
        assert [[step["out"] for step in group["steps"]] for group in run["steps"][:2]] == [["own"], ['"é"']]
