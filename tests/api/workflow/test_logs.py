"""The logs of workflow runs: their steps in groups, what is being tried, filters, pages and wrong input."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator
from tests.harness.workflow_runs import CRM, FLOW, RUN, Flow

DAY_MS = 86_400_000


def shown(run: Any) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Each group: its type, and of each step the name, type and state."""
    return [
        (group["type"], [(step.get("stepName"), step.get("stepType"), step["state"]) for step in group["steps"]])
        for group in run["steps"]
    ]


INIT = ("sequential", [("init", "Initial", "STEP_SUCCESS")])


@with_emulator()
async def test_steps_are_listed_one_after_the_other_with_their_results(emulator: InProcess) -> None:
    flow = Flow(emulator)
    first = await flow.start(Svc_Label="a,b")
    second = await flow.step(1, "greet", "hello")
    await flow.finish({"ok": True})
    run = await flow.log()
    assert shown(run) == [INIT, ("sequential", [("greet", "Run", "STEP_SUCCESS")])]
    assert [group["steps"][0]["messageId"] for group in run["steps"]] == [first, second]
    assert [group["steps"][0]["out"] for group in run["steps"]] == ['{"user":7}', '"hello"']
    assert {name: run[name] for name in run if name != "steps"} == {
        "workflowRunId": "wfr_one",
        "workflowUrl": FLOW,
        "workflowState": "RUN_SUCCESS",
        "workflowRunCreatedAt": EPOCH_MS,
        "workflowRunCompletedAt": EPOCH_MS,
        "workflowRunCallerIp": "203.0.113.7",
        "workflowRunResponse": '{"ok": true}',
        "label": "a",
        "labels": ["a", "b"],
    }


@with_emulator()
async def test_a_sleep_is_in_progress_until_its_message_is_delivered(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.sleep(1, "nap", 86_400)
    before = await flow.log()
    await emulator.advance("1d")
    after = await flow.log()
    assert shown(before) == [INIT, ("sequential", [("nap", "SleepFor", "STEP_PROGRESS")])]
    assert shown(after) == [INIT, ("sequential", [("nap", "SleepFor", "STEP_SUCCESS")])]
    assert before["steps"][1]["steps"][0]["sleepFor"] == 86_400_000


@with_emulator()
async def test_parallel_steps_are_one_group_by_their_plans(emulator: InProcess) -> None:
    """A step without a result is in progress; of two results the first counts, as for the client (D-385)."""
    flow = Flow(emulator)
    await flow.start()
    await flow.plan(1, "left", 2)
    await flow.plan(2, "right", 2, delay="60s", stepType="SleepFor", sleepFor=60)
    await flow.step(1, "left", "first", concurrent=2)
    await flow.step(1, "left", "second", concurrent=2)
    run = await flow.log()
    assert shown(run) == [INIT, ("parallel", [("left", "Run", "STEP_SUCCESS"), ("right", "SleepFor", "STEP_PROGRESS")])]
    assert [step["stepId"] for step in run["steps"][1]["steps"]] == [1, 2]
    assert run["steps"][1]["steps"][0]["out"] == '"first"'


@with_emulator()
async def test_a_call_step_is_a_request_then_a_callback_then_a_result(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await emulator.rule(CRM, respond={"status": 402, "body": "no", "latency": "10s"})
    await flow.start()
    await flow.call(1, "charge", b"order 7")
    [_, asked] = (await flow.log())["steps"]
    await emulator.advance("10s")
    [_, answered] = (await flow.log())["steps"]
    out = json.dumps({"status": 402, "body": "no", "header": {"X-A": ["1"]}})
    await flow.publish(FLOW, {"stepId": 1, "stepName": "charge", "stepType": "Call", "out": out, "concurrent": 1})
    [_, done] = (await flow.log())["steps"]
    [step] = asked["steps"]
    assert (step["callType"], step["state"], step["callUrl"], step["callMethod"], step["callBody"]) == (
        "toCallback",
        "STEP_PROGRESS",
        CRM,
        "POST",
        "order 7",
    )
    assert [each["callType"] for group in (answered, done) for each in group["steps"]] == ["fromCallback", "step"]
    [step] = done["steps"]
    assert (step["state"], step["callResponseStatus"], step["callResponseBody"], step["callResponseHeaders"]) == (
        "STEP_SUCCESS",
        402,
        "no",
        {"X-A": ["1"]},
    )


@with_emulator()
async def test_a_wait_shows_its_event_and_deadline_and_that_it_timed_out(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.wait(1, "payment", "paid", 60)
    waiting = (await flow.log())["steps"][1]["steps"][0]
    await emulator.advance("60s")
    over = (await flow.log())["steps"][1]["steps"][0]
    common = {"waitEventId": "paid", "waitTimeoutDuration": "60s", "waitTimeoutDeadline": EPOCH_MS + 60_000}
    assert waiting == waiting | common | {"state": "STEP_PROGRESS", "stepType": "Wait", "waitTimeout": False}
    assert over == over | common | {"state": "STEP_SUCCESS", "waitTimeout": True}


@with_emulator()
async def test_what_is_being_tried_comes_last_with_its_errors(emulator: InProcess) -> None:
    flow = Flow(emulator)
    failure = {"status": 500, "body": "oops", "headers": {"Svc-Error-Step-Name": "charge"}}
    await emulator.rule(FLOW, respond=failure, times=1)
    message_id = await flow.start(Svc_Retries="1", Svc_Retry_Delay="60000")
    [_, trying] = (await flow.log())["steps"]
    assert trying == {
        "type": "next",
        "steps": [
            {
                "messageId": message_id,
                "stepName": "charge",
                "state": "STEP_RETRY",
                "retries": 1,
                "retryDelay": "60000",
                "errors": [
                    {
                        "error": "destination answered 500",
                        "body": "oops",
                        "headers": {"Svc-Error-Step-Name": ["charge"]},
                        "status": 500,
                        "time": EPOCH_MS,
                    }
                ],
                "nextDeliveryTime": EPOCH_MS + 60_000,
            }
        ],
    }


@with_emulator()
async def test_a_failed_run_tells_of_its_failure_function(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await emulator.rule(FLOW, respond={"status": 500, "body": "oops"}, times=1)
    await emulator.rule(CRM, respond={"status": 200, "body": "seen"})
    await flow.start(Svc_Retries="0", Svc_Failure_Callback=CRM, Svc_Failure_Callback_Workflow_CallType="failureCall")
    run = await flow.log()
    [dead] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    call = run["failureFunction"]
    assert (run["workflowState"], run["dlqId"]) == ("RUN_FAILED", dead["dlqId"])
    assert call == call | {
        "url": CRM,
        "state": "CALLBACK_SUCCESS",
        "failStatus": 500,
        "failResponse": "oops",
        "responseStatus": 200,
        "responseBody": "seen",
    }
    assert shown(run)[-1] == ("next", [(None, None, "STEP_FAILED")])


@with_emulator()
async def test_answers_in_gzip_are_shown_unpacked(emulator: InProcess) -> None:
    """D-440."""

    def packed(text: str) -> dict[str, Any]:
        body = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        return {"body_base64": body, "headers": {"Content-Encoding": "gzip"}}

    flow = Flow(emulator)
    await emulator.rule(FLOW, respond={"status": 500, **packed("oops")}, times=1)
    await emulator.rule(CRM, respond={"status": 200, **packed("seen")})
    await flow.start(Svc_Retries="0", Svc_Failure_Callback=CRM, Svc_Failure_Callback_Workflow_CallType="failureCall")
    run = await flow.log()
    [dead] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    call, [failed] = run["failureFunction"], run["steps"][-1]["steps"]
    assert (call["failResponse"], call["failHeaders"], call["responseBody"]) == ("oops", {}, "seen")
    assert [(each["body"], each["headers"]) for each in failed["errors"]] == [("oops", {})]
    assert (dead["responseBody"], dead["failureCallbackInfo"]["responseBody"]) == ("oops", "seen")


@with_emulator()
async def test_an_answer_too_long_for_the_result_of_a_step_fails_the_call(emulator: InProcess) -> None:
    """D-790: it is not asked for again, and no half of it becomes the result."""
    bomb = base64.b64encode(gzip.compress(b"[" + b"1," * 600_000 + b"1]", mtime=0)).decode()
    flow = Flow(emulator)
    await emulator.rule(CRM, respond={"headers": {"Content-Encoding": "gzip"}, "body_base64": bomb})
    await flow.start()
    await flow.call(1, "fetch")
    [asked] = await emulator.deliveries(CRM)
    assert asked["error"] == (
        "the answer is too long for the result of a step, which is at most 1 MiB unpacked, and at most the plan's "
        "message size"
    )
    assert (asked["response"]["status"], asked["response"]["truncated"]) == (200, True)
    callback = json.loads((await emulator.deliveries(FLOW))[-1]["body"])
    assert (callback["status"], base64.b64decode(callback["body"]).decode()) == (0, asked["error"])


@with_emulator()
async def test_what_waits_is_canceled_with_its_run(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.sleep(1, "nap", 60)
    await flow.cancel()
    slept = await flow.log()
    other = Flow(emulator, "wfr_two")
    await other.start()
    await other.wait(1, "payment", "paid", 60)
    await other.cancel()
    waited = await other.log()
    assert shown(slept) == [INIT, ("sequential", [("nap", "SleepFor", "STEP_CANCELED")])]
    assert shown(waited) == [INIT, ("sequential", [("payment", "Wait", "STEP_CANCELED")])]


@with_emulator()
async def test_messages_of_runs_are_not_in_the_event_log(emulator: InProcess) -> None:
    """D-388."""
    await Flow(emulator).start()
    ordinary = await emulator.publish("https://api.test/hook")
    for path in ("/v2/events", "/v2/logs"):
        events = (await emulator.get(path)).json["events"]
        assert {event["messageId"] for event in events} == {ordinary}


@with_emulator()
async def test_what_is_no_step_of_a_known_client_is_listed_without_a_name(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.publish(FLOW, b"anything")
    [_, group] = (await flow.log())["steps"]
    assert [(step["stepName"], step["stepType"], step["out"]) for step in group["steps"]] == [("", "", "anything")]


@pytest.mark.parametrize("out", ["[" * 100_000, "NaN", "1" * 5_000, "null"], ids=["deep", "nan", "digits", "null"])
@with_emulator()
async def test_a_result_that_is_no_json_is_shown_as_the_text_it_is(emulator: InProcess, out: str) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.publish(FLOW, json.dumps({"stepId": 1, "stepName": "s", "stepType": "Call", "out": out}).encode())
    await flow.publish(FLOW, b'{"stepId":2,"stepName":"t","stepType":"Run","extra":' + b"[" * 100_000)
    [_, first, second] = (await flow.log())["steps"]
    explained = (await emulator.control("GET", f"/runs/{RUN}/explain")).json
    assert first["steps"][0]["out"] == out
    assert second["steps"][0]["stepName"] == ""
    assert [each["kind"] for each in explained["reasons"]].count("step") == 2


@with_emulator()
async def test_bodies_are_cut_on_demand_and_hidden_by_redaction(emulator: InProcess) -> None:
    """D-387."""
    flow = Flow(emulator)
    await flow.start()
    [run] = (await flow.logs(trimBody="3")).json["runs"]
    assert run["steps"][0]["steps"][0]["out"] == '{"u'
    [without] = (await flow.logs(trimBody="-1")).json["runs"]
    assert "out" not in without["steps"][0]["steps"][0]
    hidden = Flow(emulator, "wfr_two")
    await hidden.start(Svc_Redact_Fields="body")
    assert "user" not in (await hidden.log())["steps"][0]["steps"][0]["out"]


@with_emulator()
async def test_a_character_that_is_cut_in_the_middle_is_left_out(emulator: InProcess) -> None:
    """D-387."""
    flow = Flow(emulator)
    await emulator.rule(FLOW, respond={"status": 500, "body": "5 €"})
    await flow.start(Svc_Retries="1")
    [run] = (await flow.logs(trimBody="4")).json["runs"]
    [trying] = run["steps"][-1]["steps"]
    assert [each["body"] for each in trying["errors"]] == ["5 "]


async def three_runs(emulator: Any) -> list[Flow]:
    """Two of today, the first of which succeeded, and one of tomorrow."""
    flows = [Flow(emulator, f"wfr_{number}") for number in range(3)]
    await flows[0].start(Svc_Label="red", Svc_Flow_Control_Key="k", Svc_Flow_Control_Value="parallelism=1")
    await flows[0].finish()
    await flows[1].start(Svc_Label="blue")
    await emulator.advance("1d")
    await flows[2].start()
    return flows


@with_emulator()
async def test_filters_choose_runs(emulator: InProcess) -> None:
    """D-386."""
    await three_runs(emulator)
    for query, found in (
        ("", [2, 1, 0]),
        ("workflowRunId=wfr_1&workflowRunId=wfr_2", [2, 1]),
        (f"workflowUrl={FLOW}", [2, 1, 0]),
        ("workflowUrl=https://app.test/fl", []),
        ("state=RUN_SUCCESS", [0]),
        ("state=RUN_STARTED,RUN_SUCCESS", [2, 1, 0]),
        ("label=red", [0]),
        ("label=red,blue", [1, 0]),
        ("flowControlKey=k", [0]),
        ("callerIp=203.0.113.7", [2, 1, 0]),
        ("callerIp=203.0.113.8", []),
        (f"workflowCreatedAt={EPOCH_MS + DAY_MS}", [2]),
        (f"fromDate={EPOCH_MS + 1}", [2]),
        (f"toDate={EPOCH_MS}", [1, 0]),
        (f"workflowRuns=wfr_0@{EPOCH_MS},wfr_2@{EPOCH_MS}&state=RUN_FAILED", [0]),
        ("groupBy=workflowRunId&count=1", [2]),
    ):
        answer = await emulator.get(f"/v2/workflows/events?{query}")
        assert [run["workflowRunId"] for run in answer.json["runs"]] == [f"wfr_{number}" for number in found], query


@with_emulator()
async def test_a_run_is_found_by_its_messages(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    message_id = await flow.step(1, "greet")
    await Flow(emulator, "wfr_two").start()
    runs = (await flow.logs(messageId=message_id)).json["runs"]
    assert [run["workflowRunId"] for run in runs] == ["wfr_one"]


@with_emulator()
async def test_pages_follow_each_other(emulator: InProcess) -> None:
    flow = (await three_runs(emulator))[0]
    first = (await flow.logs(count="2")).json
    last = (await flow.logs(count="2", cursor=first["cursor"])).json
    assert [run["workflowRunId"] for run in (*first["runs"], *last["runs"])] == ["wfr_2", "wfr_1", "wfr_0"]
    assert "cursor" not in last


@with_emulator()
async def test_an_id_that_is_used_again_is_shown_twice(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.finish(1)
    await emulator.advance("1h")
    await flow.start()
    await flow.step(1, "greet")
    runs = (await flow.logs(workflowRunId="wfr_one")).json["runs"]
    assert [(run["workflowRunCreatedAt"] - EPOCH_MS, len(run["steps"])) for run in runs] == [(3_600_000, 2), (0, 1)]


@pytest.mark.parametrize(
    ("published", "shown"),
    [
        ({"sleepFor": "1h30m"}, ("sleepFor", 5_400_000)),
        ({"sleepFor": 1.5}, ("sleepFor", 1_500)),
        ({"sleepUntil": 1767312000}, ("sleepUntil", 1767312000000)),
    ],
)
@with_emulator()
async def test_sleeps_are_shown_in_milliseconds(
    emulator: InProcess, published: dict[str, Any], shown: tuple[str, int]
) -> None:
    """D-531. A client publishes seconds, or a text."""
    flow = Flow(emulator)
    await flow.start()
    await flow.step(1, "nap", stepType="Sleep", delay="1h", **published)
    [step] = (await flow.log())["steps"][1]["steps"]
    assert step[shown[0]] == shown[1]


@with_emulator()
async def test_runs_are_found_by_the_states_of_their_steps(emulator: InProcess) -> None:
    """D-523."""
    flows = [Flow(emulator, f"wfr_{number}") for number in range(3)]
    for flow in flows:
        await flow.start()
    await flows[0].finish()
    await flows[1].sleep(1, "nap", 60)
    for query, found in (
        ("state=STEP_PROGRESS", [1]),
        ("state=STEP_PROGRESS&state=RUN_SUCCESS", [1, 0]),
        ("state=STEP_SUCCESS", [2, 1, 0]),
        ("state=STEP_SUCCESS&count=2", [2, 1]),
        ("state=step_failed", []),
    ):
        answer = (await emulator.get(f"/v2/workflows/logs?{query}")).json
        assert [run["workflowRunId"] for run in answer["runs"]] == [f"wfr_{number}" for number in found], query
        if "count" in query:
            rest = (await emulator.get(f"/v2/workflows/logs?{query}&cursor={answer['cursor']}")).json
            assert [run["workflowRunId"] for run in rest["runs"]] == ["wfr_0"]
            assert "cursor" not in rest
        else:
            assert "cursor" not in answer


@with_emulator()
async def test_logs_of_runs_begin_at_an_instant_and_list_up_to_1000(emulator: InProcess) -> None:
    """D-523, D-526."""
    await three_runs(emulator)
    everything = (await emulator.get("/v2/workflows/logs?count=1000")).json["runs"]
    until = (await emulator.get(f"/v2/workflows/logs?cursor={EPOCH_MS}")).json["runs"]
    assert [run["workflowRunId"] for run in everything] == ["wfr_2", "wfr_1", "wfr_0"]
    assert [run["workflowRunId"] for run in until] == ["wfr_1", "wfr_0"]


@with_emulator()
async def test_wrong_input_names_the_parameter(emulator: InProcess) -> None:
    for query, field in (
        ("count=0", "count"),
        ("count=1001", "count"),
        ("cursor=x", "cursor"),
        ("state=DELIVERED", "state"),
        ("workflowCreatedAt=soon", "workflowCreatedAt"),
        ("fromDate=-1", "fromDate"),
        ("toDate=x", "toDate"),
        ("workflowRuns=wfr_1", "workflowRuns"),
        ("workflowRuns=wfr_1@x", "workflowRuns"),
        ("trimBody=-2", "trimBody"),
        ("trimBody=x", "trimBody"),
        ("groupBy=messageId", "groupBy"),
        ("workflowRunId=", "workflowRunId"),
        ("urls=x", "urls"),
    ):
        answer = await emulator.get(f"/v2/workflows/logs?{query}")
        assert (answer.status, answer.json["field"]) == (400, field), query
