"""Triggers by HTTP."""

from __future__ import annotations

from tests.api.workflow.calls import FLOW, RUN, answer_as_workflow
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
