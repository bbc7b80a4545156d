"""Failed runs by HTTP: resumed, restarted, and their failure function called again."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.workflow.calls import FLOW, RUN, add, begin, headers, steps, wait
from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator
from tests.harness.workflow_runs import CRM, Flow

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
@with_emulator()
async def test_failed_runs_go_on_or_begin_again(emulator: InProcess, word: str, count: int) -> None:
    """D-374."""
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


@with_emulator()
async def test_steps_that_a_resumed_run_took_over_have_their_messages(emulator: InProcess) -> None:
    """As its endpoint gets them."""
    letter = await fail(emulator)
    resumed = (await emulator.post(f"/v2/workflows/dlq/resume/{letter}")).json["workflowRunId"]
    (run,) = (await emulator.get(f"/v2/workflows/logs?workflowRunId={resumed}")).json["runs"]
    listed = (await emulator.get(f"/v2/workflows/runs/{resumed}")).json
    shown = [step["messageId"] for group in run["steps"][:2] for step in group["steps"]]
    assert shown == [step["messageId"] for step in listed]


@with_emulator()
async def test_the_webhook_of_a_failed_run_resumes_the_run_that_goes_on(emulator: InProcess) -> None:
    """D-451. Its URL was given away before the failure."""
    user = json.loads(base64.b64decode(emulator.token))["UserID"]
    path = f"/v2/workflows/hooks/{user}/{RUN}/evt_1"
    out = json.dumps({"webhookUrl": f"http://127.0.0.1:8080{path}", "eventId": "evt_1"})
    created = {"stepId": 1, "stepName": "hook", "stepType": "CreateWebhook", "out": out, "concurrent": 1}
    await emulator.rule(FLOW, sequence=[OK, {"status": 500}], times=2)
    await emulator.rule(FLOW, respond=OK)
    await begin(emulator, **{"Svc-Retries": "0"})
    await emulator.post(f"/v2/publish/{FLOW}", headers(), created)
    (letter,) = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    resumed = (await emulator.post(f"/v2/workflows/dlq/resume/{letter['dlqId']}")).json["workflowRunId"]
    waiting = {"stepId": 2, "stepName": "w", "stepType": "WaitForWebhook", "concurrent": 1}
    assert (await wait(emulator, "evt_1", resumed, step=waiting)).status == 200
    assert (await emulator.call("POST", path, {}, b"paid", token=None)).status == 200
    result = json.loads((await steps(emulator, resumed))[-1])
    event = json.loads(base64.b64decode(result["out"]))
    assert (result["stepId"], base64.b64decode(event["body"]), event["url"]) == (2, b"paid", path)


# -- what else is repeated ----------------------------------------------------------------------

DAY_S = 86_400


async def answers(emulator: InProcess, *, works: bool) -> None:
    """Let the endpoint answer with 200 or 500 from now on; the third party works."""
    await emulator.control("DELETE", "/destinations")
    await emulator.rule(FLOW, respond=OK if works else {"status": 500})
    await emulator.rule(CRM, respond={"status": 200})


async def a_parallel_step_fails(flow: Flow) -> None:
    await flow.start(Svc_Retries="0")
    for number, name in enumerate(("greet", "charge"), start=1):
        await flow.plan(number, name, 4)
    await flow.plan(3, "nap", 4, delay="1d")
    await flow.step(1, "greet", concurrent=4)
    await answers(flow.emulator, works=False)
    await flow.plan(4, "breaks", 4)


async def a_late_call_fails_while_the_run_sleeps(flow: Flow) -> None:
    await flow.start(Svc_Retries="1", Svc_Retry_Delay="10000")
    await answers(flow.emulator, works=False)
    await flow.step(1, "greet")
    await flow.sleep(2, "nap", DAY_S)
    await flow.emulator.advance("10s")


async def the_response_of_a_parallel_call_is_not_taken(flow: Flow) -> None:
    await flow.start(Svc_Retries="0")
    await flow.plan(1, "charge", 2)
    await flow.plan(2, "nap", 2, delay="1d")
    await answers(flow.emulator, works=False)
    await flow.call(1, "charge")


async def the_response_of_a_call_is_not_taken(flow: Flow) -> None:
    await flow.start(Svc_Retries="0")
    await flow.step(1, "greet")
    await answers(flow.emulator, works=False)
    await flow.call(2, "charge")


async def a_late_response_fails_while_the_run_sleeps(flow: Flow) -> None:
    await flow.start(Svc_Retries="1", Svc_Retry_Delay="10000")
    await answers(flow.emulator, works=False)
    await flow.call(1, "charge")
    await flow.step(1, "charge", stepType="Call")
    await flow.sleep(2, "nap", DAY_S)
    await flow.emulator.advance("10s")


async def resume_the_only_one(emulator: InProcess) -> str:
    [dead] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    await answers(emulator, works=True)
    answer = await emulator.post(f"/v2/workflows/dlq/resume/{dead['dlqId']}")
    run_id: str = answer.json["workflowRunId"]
    return run_id


async def calls_of(emulator: InProcess, run_id: str) -> list[tuple[str, int]]:
    """The calls of the endpoint for a run: the name of the step in each, and the second since the epoch."""
    found = []
    for delivery in await emulator.deliveries(FLOW):
        if delivery["headers"]["Svc-Workflow-RunId"] == [run_id]:
            body = json.loads(delivery["body"])
            what = (
                "a response" if isinstance(body, dict) else json.loads(base64.b64decode(body[-1]["body"]))["stepName"]
            )
            found.append((what, (delivery["at_ms"] - EPOCH_MS) // 1000))
    return found


@pytest.mark.parametrize(
    ("happens", "repeated"),
    [
        (a_parallel_step_fails, [("charge", 0), ("breaks", 0), ("nap", DAY_S)]),
        (a_late_call_fails_while_the_run_sleeps, [("greet", 10), ("nap", DAY_S)]),
        (the_response_of_a_parallel_call_is_not_taken, [("a response", 0), ("nap", DAY_S)]),
        (the_response_of_a_call_is_not_taken, [("a response", 0)]),
        (a_late_response_fails_while_the_run_sleeps, [("a response", 10), ("nap", DAY_S)]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@with_emulator()
async def test_a_resumed_run_repeats_what_it_would_wait_for(
    emulator: InProcess, happens: Callable[[Flow], Awaitable[None]], repeated: list[tuple[str, int]]
) -> None:
    """D-374."""
    await happens(Flow(emulator))
    run_id = await resume_the_only_one(emulator)
    await emulator.advance("2d")
    assert await calls_of(emulator, run_id) == repeated


@with_emulator()
async def test_a_run_that_fails_again_is_resumed_again(emulator: InProcess) -> None:
    await a_parallel_step_fails(Flow(emulator))
    [dead] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    await emulator.post(f"/v2/workflows/dlq/resume/{dead['dlqId']}")
    run_id = await resume_the_only_one(emulator)
    flow = Flow(emulator, run_id)
    await emulator.advance("1d")
    assert await calls_of(emulator, run_id) == [("charge", 0), ("breaks", 0), ("nap", DAY_S)]
    for number, name in ((2, "charge"), (4, "breaks"), (3, "nap")):
        await flow.step(number, name, concurrent=4)
    await flow.finish()
    log = await flow.log()
    assert log["workflowState"] == "RUN_SUCCESS"
    assert [(group["type"], [step["state"] for step in group["steps"]]) for group in log["steps"]] == [
        ("sequential", ["STEP_SUCCESS"]),
        ("parallel", ["STEP_SUCCESS"] * 4),
    ]


# -- the failure function -----------------------------------------------------------------------


@with_emulator()
async def test_a_failure_function_is_called_again_or_cancelled(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_failure_function_that_failed_is_called_again_by_http(emulator: InProcess) -> None:
    await emulator.rule(FAIL, respond={"status": 500}, times=1)
    letter = await fail(emulator, **{"Svc-Failure-Callback": FAIL, "Svc-Failure-Callback-Retries": "0"})
    answer = await emulator.post(f"/v2/workflows/dlq/callback/{letter}")
    assert (answer.status, answer.json["workflowRunId"]) == (200, RUN)
    first, second = await emulator.deliveries(FAIL)
    assert first["body"] == second["body"]
    assert second["headers"]["Svc-Workflow-Is-Failure"] == ["true"]


@pytest.mark.parametrize("word", ["resume", "restart"])
@with_emulator()
async def test_at_most_fifty_runs_go_on_or_begin_again_at_once(emulator: InProcess, word: str) -> None:
    """D-524."""
    await emulator.rule(FLOW, respond={"status": 500})
    for number in range(52):
        await begin(emulator, f"wfr_{number:02}", **{"Svc-Retries": "0"})
    await emulator.control("DELETE", "/destinations")
    await emulator.rule(FLOW, respond=OK)
    first = (await emulator.post(f"/v2/workflows/dlq/{word}?count=100")).json
    assert len(first["workflowRuns"]) == 50
    rest = (await emulator.post(f"/v2/workflows/dlq/{word}?cursor={first['cursor']}")).json
    assert (len(rest["workflowRuns"]), rest["cursor"]) == (2, "")


@pytest.mark.parametrize("word", ["resume", "restart"])
@with_emulator()
async def test_ids_make_other_filters_of_runs_count_for_nothing(emulator: InProcess, word: str) -> None:
    """D-521."""
    letter = await fail(emulator)
    answer = await emulator.post(f"/v2/workflows/dlq/{word}?dlqIds={letter}&workflowRunId=wfr_other")
    assert len(answer.json["workflowRuns"]) == 1
    await emulator.control("DELETE", "/destinations")
    letter = await fail(emulator, "wfr_two")
    answer = await emulator.delete(f"/v2/workflows/dlq?dlqIds={letter}&label=other")
    assert answer.json == {"deleted": 1}
