"""Runs by HTTP: what the calls carry, reading, ending and cancelling, and what is refused how."""

from __future__ import annotations

import base64
import json

import jwt
import pytest

from tests.api.workflow.calls import FLOW, RUN, add, answer_as_workflow, begin, headers, steps
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import ANSWER, CRM, Flow


@pytest.mark.parametrize(("dialect", "prefix"), [("svc", "Svc-"), ("upstash", "Upstash-")])
def test_calls_of_a_run_name_it(dialect: str, prefix: str) -> None:
    """D-367."""

    @on_loop
    async def test() -> None:
        async with in_process(dialect=dialect) as emulator:
            await answer_as_workflow(emulator, prefix=prefix)
            own = headers(init=True, prefix=prefix) | {f"{prefix}Forward-{prefix}Workflow-Init": "maybe"}
            published = await emulator.post(f"/v2/publish/{FLOW}", own, '{"a":1}')
            assert published.status == 200
            (delivery,) = await emulator.deliveries()
            sent = delivery["headers"]
            assert {name: sent[f"{prefix}{name}"] for name in ("Workflow-RunId", "Workflow-Init", "Workflow-Url")} == {
                "Workflow-RunId": [RUN],
                "Workflow-Init": ["true"],
                "Workflow-Url": [FLOW],
            }
            assert sent[f"{prefix}Workflow-CreatedAt"] == [str(EPOCH_MS)]
            assert sent[f"{prefix}Workflow-Sdk-Version"] == ["1"]
            message_id = published.json["messageId"]
            assert delivery["body"] == json.dumps(
                [{"messageId": message_id, "body": base64.b64encode(b'{"a":1}').decode(), "callType": "step"}],
                separators=(",", ":"),
            )
            key = emulator.world.account().signing_keys.current
            claims = jwt.decode(sent[f"{prefix}Signature"][0], key, ["HS256"], options={"verify_exp": False})
            assert claims["sub"] == FLOW

    test()


@on_loop
async def test_a_run_is_read_and_ended_by_its_id() -> None:
    """D-363."""
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        first = (await begin(emulator)).json["messageId"]
        await add(emulator, 1)
        found = (await emulator.get(f"/v2/workflows/runs/{RUN}")).json
        assert found[0] == {
            "messageId": first,
            "body": base64.b64encode(b'{"a":1}').decode(),
            "callType": "step",
        }
        assert json.loads(base64.b64decode(found[1]["body"]))["out"] == '"é"'
        target = f"/v2/workflows/runs/{RUN}"
        for _ in range(2):
            answer = await emulator.delete(f"{target}?cancel=false", body='"result"')
            assert (answer.status, answer.body) == (200, b"")
        assert (await emulator.delete(target)).status == 200
        assert (await emulator.get(target)).status == 404
        for query in ("", "?cancel=true", "?cancel=false"):
            assert (await emulator.delete(f"/v2/workflows/runs/wfr_never{query}")).status == 404
        wrong = await emulator.delete(f"{target}?cancel=perhaps")
        assert (wrong.status, wrong.json["field"]) == (400, "cancel")


@on_loop
async def test_a_second_init_is_a_duplicate_and_a_step_too_late_is_400() -> None:
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        first = (await begin(emulator)).json
        assert (await begin(emulator)).json == {**first, "deduplicated": True}
        batch = [{"destination": FLOW, "headers": {k.lower(): v for k, v in headers(init=True).items()}, "body": "x"}]
        assert (await emulator.post("/v2/batch", body=batch)).json == [{**first, "deduplicated": True}]
        assert (await emulator.delete(f"/v2/workflows/runs/{RUN}")).status == 200
        late = await add(emulator, 1)
        assert (late.status, late.json) == (400, {"error": f"workflow run {RUN} has ended, or never began"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Svc-Retries", "many"),
        ("Svc-Retries", "1000"),
        ("Svc-Delay", "5x"),
        ("Svc-Workflow-Calltype", "unknown"),
        ("Svc-Workflow-Url", "nowhere"),
        ("Svc-Workflow-Init", "maybe"),
        ("Svc-Failure-Callback-Retries", "many"),
    ],
)
def test_wrong_values_of_a_message_of_a_run_are_412(name: str, value: str) -> None:
    """D-364."""

    @on_loop
    async def test() -> None:
        async with in_process() as emulator:
            given = {**headers(init=True), "Svc-Failure-Callback": FLOW, name: value}
            alone = await emulator.post(f"/v2/publish/{FLOW}", given)
            assert (alone.status, alone.json["field"]) == (412, name)
            in_batch = await emulator.post(
                "/v2/batch", body=[{"destination": "https://other.test"}, {"destination": FLOW, "headers": given}]
            )
            assert (in_batch.status, in_batch.json["field"]) == (412, name)
            assert await emulator.deliveries() == []

    test()


@pytest.mark.parametrize(
    ("target", "status", "field"),
    [
        (f"/v2/publish/{FLOW}?svc-workflow-runid={'a' * 257}", 412, "svc-workflow-runid"),
        (f"/v2/publish/{FLOW}?Svc-Workflow-RunId=wfr_1&svc-retries=x", 412, "svc-retries"),
        ("/v2/publish/nowhere!?svc-workflow-runid=wfr_1", 412, "destination"),
        (f"/v2/trigger/{FLOW}?svc-workflow-runid=wfr_1&svc-delay=x", 412, "svc-delay"),
        ("/v2/wait/event?svc-workflow-runid=wfr_1&svc-delay=x", 412, "svc-delay"),
        # An empty value says nothing, so these name no run.
        (f"/v2/publish/{FLOW}?svc-workflow-runid=&svc-retries=x", 400, "svc-retries"),
    ],
)
@on_loop
async def test_a_run_that_is_named_in_the_query_is_a_run(target: str, status: int, field: str) -> None:
    """D-364."""
    async with in_process() as emulator:
        answer = await emulator.post(target, (), "{}")
        assert (answer.status, answer.json["field"]) == (status, field)
        assert await emulator.deliveries() == []


@on_loop
async def test_a_batch_that_cannot_be_read_is_412_if_it_names_a_run() -> None:
    """D-364."""
    async with in_process() as emulator:
        item = {"destination": FLOW, "headers": headers(init=True), "body": {"not": "a text"}}
        answer = await emulator.post("/v2/batch", body=[item])
        assert (answer.status, answer.json["field"]) == (412, "[0].body")
        del item["headers"]
        assert (await emulator.post("/v2/batch", body=[item])).status == 400


@on_loop
async def test_a_wrong_destination_of_a_message_of_a_run_is_412() -> None:
    """D-364."""
    async with in_process() as emulator:
        for target in ("/v2/publish/nowhere!", "/v2/publish/a-group", "/v2/trigger/nowhere!", "/v2/trigger/a-group"):
            answer = await emulator.post(target, headers(init=True))
            assert (answer.status, answer.json["field"]) == (412, "destination"), target
        for target in ("/v2/batch", "/v2/batch/trigger"):
            answer = await emulator.post(target, body=[{"destination": "nowhere!", "headers": headers(init=True)}])
            assert (answer.status, answer.json["field"]) == (412, "destination"), target


@on_loop
async def test_many_runs_are_cancelled() -> None:
    """D-377."""
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        for number in range(3):
            await begin(emulator, f"wfr_{number}", **{"Svc-Label": f"l{number}"})
        for query, count in (
            ("?workflowRunIds=wfr_0&workflowRunIds=wfr_9&label=none", 1),
            ("?label=l1,l9", 1),
            ("?flowControlKey=k8&flowControlKey=k9", 0),
            ("?workflowUrl=https://other.test/a,b", 0),
            ("?workflowUrl=https://other.test/a,b,https://app.test/&count=5", 1),
            ("", 0),
        ):
            answer = await emulator.delete(f"/v2/workflows/runs{query}")
            assert (answer.status, answer.json) == (200, {"cancelled": count}), query
        for query, field in (
            ("?workflowrunid=wfr_0", "workflowrunid"),
            ("?count=0", "count"),
            ("?workflowUrl=", "workflowUrl"),
            ("?callerIp=", "callerIp"),
            ("?fromDate=yesterday", "fromDate"),
            ("?workflowUrlExactMatch=2", "workflowUrlExactMatch"),
        ):
            answer = await emulator.delete(f"/v2/workflows/runs{query}")
            assert (answer.status, answer.json["field"]) == (400, field)


@on_loop
async def test_an_invoked_run_returns_to_its_invoker() -> None:
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        await begin(emulator)
        body = {
            "body": "payload",
            "headers": {"Svc-Workflow-RunId": [RUN], "Svc-Workflow-Runid": [RUN], "Svc-Retries": ["1"]},
            "workflowRunId": RUN,
            "workflowRunCreatedAt": EPOCH_MS,
            "workflowUrl": FLOW,
            "step": {"stepId": 1, "stepName": "inv", "stepType": "Invoke", "concurrent": 1},
        }
        child = headers("wfr_child", init=True, **{"Svc-Workflow-Invoke": "true"})
        answer = await emulator.post("/v2/publish/https://app.test/child", child, body)
        assert answer.status == 200
        assert await steps(emulator, "wfr_child") == [b"payload"]
        await emulator.delete("/v2/workflows/runs/wfr_child?cancel=false", body='{"x":"é"}')
        told = json.loads((await steps(emulator))[-1])
        assert json.loads(told["out"]) == {"isFailed": False, "isCanceled": False, "body": '{"x":"é"}'}
        for wrong, field in (({**body, "workflowUrl": "x"}, "workflowUrl"), ({"step": {}}, "workflowRunId")):
            refused = await emulator.post("/v2/publish/https://app.test/child", child, wrong)
            assert (refused.status, refused.json["field"]) == (412, field)


@pytest.mark.slow
@on_loop
async def test_runs_survive_a_restored_snapshot_and_not_a_reset() -> None:
    async with in_process() as emulator:
        await answer_as_workflow(emulator)
        await begin(emulator)
        await add(emulator, 1, **{"Svc-Delay": "1h"})
        assert (await emulator.control("POST", "/snapshots", {"name": "s"})).status == 201
        await emulator.delete(f"/v2/workflows/runs/{RUN}")
        assert (await emulator.control("POST", "/snapshots/s/restore")).status == 200
        assert len(await steps(emulator)) == 2
        assert (await emulator.advance("1h"))["deliveries"] == 1
        await emulator.control("POST", "/reset")
        assert (await emulator.get(f"/v2/workflows/runs/{RUN}")).status == 404
        assert (await emulator.delete(f"/v2/workflows/runs/{RUN}")).status == 404


# -- invoked runs ----------------------------------------------------------------------------


async def invoke(emulator: InProcess, child: Flow, parent_ms: int = EPOCH_MS) -> Answer:
    """A step of `wfr_one` invokes another run."""
    body = {
        "body": "payload",
        "headers": {"Svc-Workflow-RunId": ["wfr_one"], "Svc-Workflow-Init": ["false"]},
        "workflowRunId": "wfr_one",
        "workflowRunCreatedAt": parent_ms,
        "workflowUrl": FLOW,
        "step": {"stepId": 1, "stepName": "invoke", "stepType": "Invoke", "concurrent": 1},
    }
    await emulator.rule(CRM, respond=ANSWER)
    own = {"Svc-Workflow-Url": CRM, "Svc-Workflow-Invoke": "true"}
    return await emulator.post(f"/v2/publish/{CRM}", headers(child.run_id, init=True) | own, body)


@on_loop
async def test_an_invoked_run_and_its_invoker_know_each_other() -> None:
    """A run that has failed does not end the run that it invoked, whose end completes the step."""
    async with in_process() as emulator:
        parent = Flow(emulator)
        await parent.start()
        child = Flow(emulator, "wfr_child")
        await invoke(emulator, child)
        under_way = (await parent.log())["steps"][1]["steps"][0]
        await child.finish({"ok": 1})
        done = (await parent.log())["steps"][1]["steps"][0]
        invoked = await child.log()
    assert under_way == under_way | {
        "state": "STEP_PROGRESS",
        "invokedWorkflowRunId": "wfr_child",
        "invokedWorkflowUrl": CRM,
        "invokedWorkflowCreatedAt": EPOCH_MS,
        "invokedWorkflowRunBody": "payload",
    }
    assert done["state"] == "STEP_SUCCESS"
    assert invoked["invoker"] == {
        "workflowRunId": "wfr_one",
        "workflowUrl": FLOW,
        "workflowRunCreatedAt": EPOCH_MS,
    }


@on_loop
async def test_a_run_that_is_invoked_on_its_way_keeps_its_log() -> None:
    """D-450. The invoking step begins after the run that it waits for; of two such steps one is refused."""
    async with in_process() as emulator:
        child = Flow(emulator, "wfr_child")
        await child.start()
        await emulator.advance("10s")
        await child.step(1, "one")
        await emulator.advance("10s")
        before = await child.log()
        parent = Flow(emulator)
        await parent.start()
        assert (await invoke(emulator, child, EPOCH_MS + 20_000)).json["deduplicated"] is True
        (step,) = (await parent.log())["steps"][1]["steps"]
        assert (step["state"], step["invokedWorkflowRunId"]) == ("STEP_PROGRESS", "wfr_child")
        assert step["createdAt"] == EPOCH_MS + 20_000
        invoked = await child.log()
        assert invoked.pop("invoker")["workflowRunId"] == "wfr_one"
        assert invoked == before
        refused = await invoke(emulator, Flow(emulator, "wfr_one"), EPOCH_MS + 20_000)
        assert (refused.status, refused.json["field"]) == (412, "Svc-Workflow-RunId")
        await child.finish({"ok": 1})
        (step,) = (await parent.log())["steps"][1]["steps"]
    assert (step["state"], json.loads(step["out"])["body"]) == ("STEP_SUCCESS", '{"ok": 1}')
