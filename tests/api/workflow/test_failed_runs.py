"""Failed runs by HTTP: resumed, restarted, and their failure function called again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.workflow.calls import FLOW, RUN, add, begin, steps
from tests.harness.emulators import InProcess, in_process
from tests.harness.loops import on_loop

FAIL = "https://app.test/fail"
OK = {"status": 200, "headers": {"Svc-Workflow-Sdk-Version": "1"}}


async def fail(emulator: InProcess, run_id: str = RUN, **more: Any) -> str:
    """Let a run fail at its second call; the id of its dead letter."""
    await emulator.rule(FLOW, sequence=[OK, {"status": 500}], times=2)
    await emulator.rule(FLOW, respond=OK)
    await begin(emulator, run_id, **{"Svc-Retries": "0", **more})
    await add(emulator, 1, run_id)
    letters = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    dead_letter_id: str = letters[-1]["dlqId"]
    await emulator.control("DELETE", "/destinations")
    await emulator.rule("https://app.test/*", respond=OK)
    return dead_letter_id


@pytest.mark.parametrize(("word", "count"), [("resume", 2), ("restart", 1)])
def test_failed_runs_go_on_or_begin_again(word: str, count: int) -> None:
    """D-374."""

    @on_loop
    async def test() -> None:
        async with in_process() as emulator:
            letter = await fail(emulator)
            assert (await emulator.get("/v2/dlq")).json["messages"] == []
            answer = await emulator.post(f"/v2/workflows/dlq/{word}/{letter}", {"Svc-Retries": "2"})
            assert answer.status == 200
            run_id = answer.json["workflowRunId"]
            assert run_id != RUN
            assert len(await steps(emulator, run_id)) == count
            assert (await emulator.deliveries())[-1]["headers"]["Svc-Workflow-RunId"] == [run_id]
            assert (await emulator.get("/v2/workflows/dlq")).json["messages"] == []
            assert (await emulator.post(f"/v2/workflows/dlq/{word}/{letter}")).status == 404
            two = []
            for name in ("wfr_two", "wfr_three"):
                await emulator.control("DELETE", "/destinations")
                two.append(await fail(emulator, name))
            many = await emulator.post(f"/v2/workflows/dlq/{word}?dlqIds={two[0]}&dlqIds={two[1]}")
            assert (many.status, many.json["cursor"], len(many.json["workflowRuns"])) == (200, "", 2)
            assert (await emulator.post(f"/v2/workflows/dlq/{word}")).json == {"workflowRuns": [], "cursor": ""}

    test()


@on_loop
async def test_a_failure_function_is_called_again_or_cancelled() -> None:
    async with in_process() as emulator:
        await emulator.rule(FAIL, respond={"status": 500})
        options = {"Svc-Failure-Callback": FAIL, "Svc-Failure-Callback-Retries": "1"}
        letter = await fail(emulator, **options)
        target = f"/v2/workflows/dlq/callback/{letter}"
        assert (await emulator.post(target)).status == 400
        cancelled = await emulator.delete(target)
        assert (cancelled.status, cancelled.body) == (302, b"")
        assert (await emulator.delete(target)).status == 400
        assert (await emulator.post(target)).status == 400
        assert (await emulator.post("/v2/workflows/dlq/callback/1-1")).status == 404


@on_loop
async def test_a_failure_function_that_failed_is_called_again_by_http() -> None:
    async with in_process() as emulator:
        await emulator.rule(FAIL, respond={"status": 500}, times=1)
        letter = await fail(emulator, **{"Svc-Failure-Callback": FAIL, "Svc-Failure-Callback-Retries": "0"})
        answer = await emulator.post(f"/v2/workflows/dlq/callback/{letter}")
        assert (answer.status, answer.json["workflowRunId"]) == (200, RUN)
        first, second = await emulator.deliveries(FAIL)
        assert first["body"] == second["body"]
        assert second["headers"]["Svc-Workflow-Is-Failure"] == ["true"]
