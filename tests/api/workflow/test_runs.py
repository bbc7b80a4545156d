"""Runs, and how they are triggered."""

from __future__ import annotations

import base64
import hashlib
import json

import jwt
import pytest

from tests.api.workflow.calls import FLOW, RUN, add, answer_as_workflow, begin, headers, steps
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import ANSWER, CRM, Flow

# -- runs by HTTP: what the calls carry, reading, ending and cancelling, and what is refused how ---


@pytest.mark.parametrize(("dialect", "prefix"), [("svc", "Svc-"), ("upstash", "Upstash-")])
@on_loop
async def test_calls_of_a_run_name_it(dialect: str, prefix: str) -> None:
    """D-367."""
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


@with_emulator()
async def test_parallel_steps_cost_what_they_are(emulator: InProcess) -> None:
    """D-560, D-562: what is kept of a run grows with its steps, and not with their square."""
    await answer_as_workflow(emulator)
    await begin(emulator)
    item = {"destination": FLOW, "headers": headers(), "body": "x" * 500}
    published = (await emulator.post("/v2/batch", {"Content-Type": "application/json"}, json.dumps([item] * 400))).json
    stored = sum(len(row[0]) for row in await emulator.world._store.rows("SELECT definition FROM messages", ()))
    assert 400 * 500 < stored < 401 * 2_000
    # They are shown with all that they deliver, alone and in the journal, and pages are short instead.
    last = published[-1]["messageId"]
    shown = (await emulator.get(f"/v2/messages/{last}")).json["body"]
    assert [each["messageId"] for each in json.loads(shown)][1:] == [each["messageId"] for each in published]
    cursor, pages, seen = "", 0, []
    while cursor is not None:
        page = (await emulator.control("GET", f"/deliveries?limit=1000{cursor and f'&cursor={cursor}'}")).json
        seen += [len(json.loads(each["body"])) for each in page["deliveries"]]
        assert sum(len(each["body"]) for each in page["deliveries"]) <= 16 * 1024 * 1024
        cursor, pages = page["cursor"], pages + 1
    assert (seen, pages) == (list(range(1, 402)), 4)


@with_emulator()
async def test_a_run_is_read_and_ended_by_its_id(emulator: InProcess) -> None:
    """D-363."""
    await answer_as_workflow(emulator)
    first = (await begin(emulator)).json["messageId"]
    await add(emulator, 1)
    found = (await emulator.get(f"/v2/workflows/runs/{RUN}")).json
    assert found[0] == {"messageId": first, "body": base64.b64encode(b'{"a":1}').decode(), "callType": "step"}
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


@with_emulator()
async def test_a_second_init_is_a_duplicate_and_a_step_too_late_is_400(emulator: InProcess) -> None:
    await answer_as_workflow(emulator)
    first = (await begin(emulator)).json
    assert (await begin(emulator)).json == {**first, "deduplicated": True}
    batch = [{"destination": FLOW, "headers": {k.lower(): v for k, v in headers(init=True).items()}, "body": "x"}]
    assert (await emulator.post("/v2/batch", body=batch)).json == [{**first, "deduplicated": True}]
    assert (await emulator.delete(f"/v2/workflows/runs/{RUN}")).status == 200
    late = await add(emulator, 1)
    assert (late.status, late.json) == (400, {"error": f"workflow run {RUN} has ended, or never began"})


@with_emulator()
async def test_wrong_values_of_a_message_of_a_run_are_412(emulator: InProcess) -> None:
    """D-364."""
    for name, value in (
        ("Svc-Retries", "many"),
        ("Svc-Retries", "1000"),
        ("Svc-Delay", "5x"),
        ("Svc-Workflow-Calltype", "unknown"),
        ("Svc-Workflow-Url", "nowhere"),
        ("Svc-Workflow-Init", "maybe"),
        ("Svc-Failure-Callback-Retries", "many"),
    ):
        given = {**headers(init=True), "Svc-Failure-Callback": FLOW, name: value}
        alone = await emulator.post(f"/v2/publish/{FLOW}", given)
        assert (alone.status, alone.json["field"]) == (412, name), name
        in_batch = await emulator.post(
            "/v2/batch", body=[{"destination": "https://other.test"}, {"destination": FLOW, "headers": given}]
        )
        assert (in_batch.status, in_batch.json["field"]) == (412, name), name
        assert await emulator.deliveries() == [], name


@with_emulator()
async def test_a_run_that_is_named_in_the_query_is_a_run(emulator: InProcess) -> None:
    """D-364."""
    for target, status, field in (
        (f"/v2/publish/{FLOW}?svc-workflow-runid={'a' * 257}", 412, "svc-workflow-runid"),
        (f"/v2/publish/{FLOW}?Svc-Workflow-RunId=wfr_1&svc-retries=x", 412, "svc-retries"),
        ("/v2/publish/nowhere!?svc-workflow-runid=wfr_1", 412, "destination"),
        (f"/v2/trigger/{FLOW}?svc-workflow-runid=wfr_1&svc-delay=x", 412, "svc-delay"),
        ("/v2/wait/event?svc-workflow-runid=wfr_1&svc-delay=x", 412, "svc-delay"),
        # An empty value says nothing, so these name no run.
        (f"/v2/publish/{FLOW}?svc-workflow-runid=&svc-retries=x", 400, "svc-retries"),
    ):
        answer = await emulator.post(target, (), "{}")
        assert (answer.status, answer.json["field"]) == (status, field), target
        assert await emulator.deliveries() == [], target


@with_emulator()
async def test_a_batch_that_cannot_be_read_is_412_if_it_names_a_run(emulator: InProcess) -> None:
    """D-364."""
    item = {"destination": FLOW, "headers": headers(init=True), "body": {"not": "a text"}}
    answer = await emulator.post("/v2/batch", body=[item])
    assert (answer.status, answer.json["field"]) == (412, "[0].body")
    del item["headers"]
    assert (await emulator.post("/v2/batch", body=[item])).status == 400


@with_emulator()
async def test_a_wrong_destination_of_a_message_of_a_run_is_412(emulator: InProcess) -> None:
    """D-364."""
    for target in ("/v2/publish/nowhere!", "/v2/publish/a-group", "/v2/trigger/nowhere!", "/v2/trigger/a-group"):
        answer = await emulator.post(target, headers(init=True))
        assert (answer.status, answer.json["field"]) == (412, "destination"), target
    for target in ("/v2/batch", "/v2/batch/trigger"):
        answer = await emulator.post(target, body=[{"destination": "nowhere!", "headers": headers(init=True)}])
        assert (answer.status, answer.json["field"]) == (412, "destination"), target


@with_emulator()
async def test_many_runs_are_cancelled(emulator: InProcess) -> None:
    """D-377."""
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


@with_emulator()
async def test_an_invoked_run_returns_to_its_invoker(emulator: InProcess) -> None:
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


# -- invoked runs ----------------------------------------------------------------------------


async def invoke(emulator: InProcess, child: Flow, parent_ms: int = EPOCH_MS, redact: str = "") -> Answer:
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
    own = {"Svc-Workflow-Url": CRM, "Svc-Workflow-Invoke": "true", "Svc-Redact-Fields": redact}
    return await emulator.post(f"/v2/publish/{CRM}", headers(child.run_id, init=True) | own, body)


@pytest.mark.parametrize(("outer", "invoked"), [(True, False), (False, True)])
@with_emulator()
async def test_an_invoked_run_hides_what_it_redacts_itself(emulator: InProcess, outer: bool, invoked: bool) -> None:
    """D-515: a run's redaction is about its own logs and messages."""
    parent, child = Flow(emulator), Flow(emulator, "wfr_child")
    await parent.start(Svc_Redact_Fields="body" if outer else "")
    await invoke(emulator, child, redact="body" if invoked else "")
    await child.finish({"ok": "result"})
    step = (await parent.log())["steps"][1]["steps"][0]
    run = await child.log()
    shown = [(await emulator.control("GET", f"/runs/{each}")).json for each in ("wfr_one", "wfr_child")]
    assert step["invokedWorkflowRunBody"].startswith("REDACTED:") is outer
    assert step["out"].startswith("REDACTED:") is outer
    assert run["steps"][0]["steps"][0]["out"].startswith("REDACTED:") is invoked
    assert run["workflowRunResponse"].startswith("REDACTED:") is invoked
    assert shown[0]["steps"][1]["steps"][0]["out"].startswith("REDACTED:") is outer
    assert shown[1]["payload"].startswith("REDACTED:") is invoked
    assert shown[1]["result"].startswith("REDACTED:") is invoked


@with_emulator()
async def test_the_steps_of_a_redacted_run_are_in_clear_for_its_endpoint_alone(emulator: InProcess) -> None:
    """D-778."""
    flow = Flow(emulator)
    await flow.start(b'{"card":"4111"}', Svc_Redact_Fields="body")
    await flow.step(1, "charge", "4111")
    open_run = Flow(emulator, "wfr_open")
    await open_run.start(b"payload")
    # A message of a run hides what it hides itself, too.
    await open_run.publish(
        FLOW,
        {"stepId": 1, "stepName": "charge", "stepType": "Run", "out": "4111", "concurrent": 1},
        Svc_Redact_Fields="body",
    )
    target, read_only = "/v2/workflows/runs/{}", emulator.read_only_token
    clear = (await emulator.get(target.format(RUN))).json
    hidden = (await emulator.get(target.format(RUN), token=read_only)).json
    assert [b"4111" in base64.b64decode(each["body"]) for each in clear] == [True, True]
    marks = ["REDACTED:" + hashlib.sha256(base64.b64decode(each["body"])).hexdigest().lower() for each in clear]
    assert [base64.b64decode(each["body"]).decode() for each in hidden] == marks
    assert [{**each, "body": ""} for each in hidden] == [{**each, "body": ""} for each in clear]
    first, second = (await emulator.get(target.format("wfr_open"), token=read_only)).json
    assert base64.b64decode(first["body"]) == b"payload"
    assert base64.b64decode(second["body"]).startswith(b"REDACTED:")
    assert [each.startswith("REDACTED:") for each in await outs(emulator, "wfr_open")] == [False, True]


async def outs(emulator: InProcess, run: str) -> list[str]:
    """The results of the steps, as the logs and the control API show them: the same."""
    logged = (await emulator.get(f"/v2/workflows/logs?workflowRunId={run}")).json["runs"][0]["steps"]
    own = (await emulator.control("GET", f"/runs/{run}")).json["steps"]
    found = [[step["out"] for group in groups for step in group["steps"]] for groups in (logged, own)]
    assert found[0] == found[1]
    return found[0]


@with_emulator()
async def test_an_invoked_run_and_its_invoker_know_each_other(emulator: InProcess) -> None:
    """A run that has failed does not end the run that it invoked, whose end completes the step."""
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
    assert invoked["invoker"] == {"workflowRunId": "wfr_one", "workflowUrl": FLOW, "workflowRunCreatedAt": EPOCH_MS}


@with_emulator()
async def test_a_run_that_is_invoked_on_its_way_keeps_its_log(emulator: InProcess) -> None:
    """D-450. The invoking step begins after the run that it waits for; of two such steps one is refused."""
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


# -- triggers by HTTP ------------------------------------------------------------------------------


@with_emulator()
async def test_runs_are_triggered_by_http(emulator: InProcess) -> None:
    """D-370."""
    # Captured, so that nothing answers for an endpoint.
    options = {"Svc-Workflow-RunId": RUN, "Svc-Forward-X-Own": "1", "Svc-Delay": "10s"}
    answer = await emulator.post(f"/v2/trigger/{FLOW}?q=1", options, '{"a":1}')
    assert (answer.status, answer.json) == (200, {"workflowRunId": RUN, "workflowCreatedAt": EPOCH_MS})
    assert await emulator.deliveries() == []
    await emulator.advance("10s")
    (delivery,) = await emulator.deliveries()
    assert delivery["url"] == f"{FLOW}?q=1"
    assert "Svc-Workflow-Unknown-Sdk" not in delivery["headers"]
    assert delivery["headers"]["Svc-Workflow-Sdk-Version"] == ["1"]
    assert delivery["headers"]["Svc-Workflow-Init"] == ["true"]
    assert delivery["headers"]["X-Own"] == ["1"]
    items = [{"destination": FLOW}, {"destination": FLOW, "headers": {"svc-workflow-runid": RUN}, "body": "x"}]
    many = await emulator.post("/v2/batch/trigger", body=items)
    assert many.status == 201
    assert many.json[1] == {"workflowRunId": RUN, "workflowCreatedAt": EPOCH_MS, "deduplicated": True}
    assert many.json[0]["workflowRunId"].startswith("wfr_")
    assert "deduplicated" not in many.json[0]


@pytest.mark.parametrize("named", [{}, {"Svc-Workflow-RunId": RUN}], ids=["named-by-the-service", "named"])
@with_emulator()
async def test_a_trigger_says_that_the_client_of_its_endpoint_is_unknown(
    emulator: InProcess, named: dict[str, str]
) -> None:
    """D-370: in a header, a parameter, or an item of a batch."""
    unknown = {"Svc-Workflow-Unknown-Sdk": "true", **named}
    item = {"destination": f"{FLOW}?3", "headers": unknown}
    answers = [
        await emulator.post(f"/v2/trigger/{FLOW}?1", unknown, "p"),
        await emulator.post("/v2/batch/trigger", body=[item]),
    ]
    if not named:
        answers.append(await emulator.post(f"/v2/trigger/{FLOW}?svc-workflow-unknown-sdk=true", (), "p"))
    assert {answer.status for answer in answers} == {200, 201}
    deliveries = await emulator.deliveries()
    # An active run of the id is left alone.
    assert len(deliveries) == (1 if named else 3)
    for delivery in deliveries:
        assert delivery["headers"]["Svc-Workflow-Unknown-Sdk"] == ["true"]
        assert "Svc-Workflow-Sdk-Version" not in delivery["headers"]
        assert delivery["headers"]["Svc-Workflow-RunId"][0].startswith("wfr_")
    answer = await emulator.post(f"/v2/trigger/{FLOW}", {**unknown, "Svc-Workflow-Unknown-Sdk": "perhaps"})
    assert (answer.status, answer.json["field"]) == (412 if named else 400, "Svc-Workflow-Unknown-Sdk")
    group = await emulator.post("/v2/trigger/a-group", unknown)
    assert (group.status, group.json["field"]) == (412 if named else 400, "destination")


@with_emulator()
async def test_an_unknown_client_without_a_run_means_nothing_to_a_publish(emulator: InProcess) -> None:
    """D-370."""
    await emulator.post("/v2/publish/https://app.test/plain", {"Svc-Workflow-Unknown-Sdk": "true"})
    [delivery] = await emulator.deliveries()
    assert not any(name.startswith("Svc-Workflow-") for name in delivery["headers"])


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
@with_emulator()
async def test_a_queue_that_is_named_for_a_run_is_not_applied_and_told(
    emulator: InProcess, target: str, named_by: dict[str, str], body: object, caplog: pytest.LogCaptureFixture
) -> None:
    """D-325."""
    assert (await emulator.post(target, named_by, body)).status in (200, 201)
    assert (await emulator.get("/v2/queues")).json == []
    told = [message for message in caplog.messages if "not applied" in message]
    assert told == [f"queue q is not applied: runs are in no queue (to {FLOW})"]


@with_emulator()
async def test_wrong_triggers_begin_nothing(emulator: InProcess) -> None:
    """D-375."""
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


@with_emulator()
async def test_a_run_has_the_payload_of_its_handshake_alone(emulator: InProcess) -> None:
    """D-452. In its logs, and so in a run that it is resumed as."""
    unknown = {"Svc-Workflow-RunId": RUN, "Svc-Workflow-Unknown-Sdk": "true"}
    await emulator.post(f"/v2/trigger/{FLOW}", unknown, "first")
    own = headers(init=True, Svc_Workflow_Trigger_By_Sdk="true")
    await emulator.post(f"/v2/publish/{FLOW}", own, "own")
    await add(emulator, 1)
    (run,) = (await emulator.get("/v2/workflows/logs")).json["runs"]
    assert [[step["out"] for step in group["steps"]] for group in run["steps"][:2]] == [["own"], ['"é"']]
