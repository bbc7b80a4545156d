"""The dead letters of workflow runs: a queue of their own, read and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator
from tests.harness.workflow_runs import CRM, FLOW, RUN, Flow


async def failed(emulator: InProcess, run_id: str = "wfr_one", *, function_status: int = 200, **headers: str) -> str:
    """A run whose first call has failed; the id of its dead letter."""
    # Earlier runs have left theirs.
    await emulator.control("DELETE", "/destinations")
    await emulator.rule(CRM, respond={"status": function_status, "body": "told"})
    await emulator.rule(FLOW, respond={"status": 500, "body": "oops"}, times=1)
    await Flow(emulator, run_id).start(Svc_Retries="0", **headers)
    [dead] = (await emulator.get(f"/v2/workflows/dlq?workflowRunId={run_id}")).json["messages"]
    dead_letter_id: str = dead["dlqId"]
    return dead_letter_id


async def failed_with_function(emulator: InProcess, run_id: str, status: int) -> str:
    return await failed(
        emulator,
        run_id,
        function_status=status,
        Svc_Failure_Callback=CRM,
        Svc_Failure_Callback_Workflow_CallType="failureCall",
        Svc_Failure_Callback_Retries="0",
    )


@with_emulator()
async def test_a_dead_letter_has_its_run_and_the_initial_payload(emulator: InProcess) -> None:
    dead_letter_id = await failed(emulator, Svc_Label="a,b")
    dead = (await emulator.get(f"/v2/workflows/dlq/{dead_letter_id}")).json
    assert dead == dead | {
        "dlqId": dead_letter_id,
        "url": FLOW,
        "body": '{"user":7}',
        "responseStatus": 500,
        "responseBody": "oops",
        "workflowRunId": "wfr_one",
        "workflowCreatedAt": EPOCH_MS,
        "workflowUrl": FLOW,
        "label": "a",
        "labels": ["a", "b"],
    }
    assert "failureFunctionState" not in dead


@with_emulator()
async def test_a_dead_letter_tells_of_its_failure_function(emulator: InProcess) -> None:
    dead_letter_id = await failed_with_function(emulator, "wfr_one", 200)
    dead = (await emulator.get(f"/v2/workflows/dlq/{dead_letter_id}")).json
    assert (dead["failureCallback"], dead["failureFunctionState"]) == (CRM, "CALLBACK_SUCCESS")
    info = dead["failureCallbackInfo"]
    assert (info["state"], info["responseStatus"], info["responseBody"]) == ("CALLBACK_SUCCESS", 200, "told")


@with_emulator()
async def test_runs_and_other_messages_have_queues_of_their_own(emulator: InProcess) -> None:
    """D-389."""
    of_run = await failed(emulator)
    await emulator.rule("https://api.test/*", respond={"status": 500})
    await emulator.publish("https://api.test/hook", {"Svc-Retries": "0"})
    [other] = (await emulator.get("/v2/dlq")).json["messages"]
    for path in ("/v2/dlq?source=workflow", "/v2/dlq?workflowRunId=wfr_one", "/v2/workflows/dlq"):
        [dead] = (await emulator.get(path)).json["messages"]
        assert dead["dlqId"] == of_run
    assert (await emulator.get(f"/v2/workflows/dlq/{other['dlqId']}")).status == 404
    assert (await emulator.get(f"/v2/dlq/{of_run}")).status == 404
    assert (await emulator.delete(f"/v2/workflows/dlq/{other['dlqId']}")).status == 404
    assert (await emulator.delete(f"/v2/dlq/{of_run}")).status == 404
    assert (await emulator.delete(f"/v2/dlq?dlqIds={of_run}")).json == {"deleted": 0}


@pytest.mark.parametrize("path", ["/v2/workflows/dlq", "/v2/dlq?source=workflow"])
@with_emulator()
async def test_dead_letters_of_runs_are_deleted_by_ids_in_a_body(emulator: InProcess, path: str) -> None:
    """D-082, D-389. The others stay."""
    first, second = [await failed(emulator, f"wfr_{number}") for number in range(2)]
    for ids, count in (([], 0), ([first, "gone"], 1)):
        assert (await emulator.delete(path, body={"dlqIds": ids})).json == {"deleted": count}
    [left] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    assert left["dlqId"] == second


@pytest.mark.parametrize("query", ["source=workflow", "workflowRunId=wfr_two"])
@with_emulator()
async def test_dead_letters_of_runs_are_deleted_where_they_are_listed(emulator: InProcess, query: str) -> None:
    """D-389."""
    await failed(emulator, "wfr_two")
    await emulator.rule("https://api.test/*", respond={"status": 500})
    await emulator.publish("https://api.test/hook", {"Svc-Retries": "0"})
    assert (await emulator.delete(f"/v2/dlq?{query}")).json == {"deleted": 1}
    assert (await emulator.get("/v2/workflows/dlq")).json == {"messages": []}
    assert len((await emulator.get("/v2/dlq")).json["messages"]) == 1


@pytest.mark.parametrize("path", ["/v2/workflows/dlq", "/v2/workflows/dlq/delete"])
@with_emulator()
async def test_a_dead_letter_is_deleted_once(emulator: InProcess, path: str) -> None:
    """D-748."""
    dead_letter_id = await failed(emulator)
    assert (await emulator.delete(f"{path}/{dead_letter_id}")).status == 200
    assert (await emulator.delete(f"{path}/{dead_letter_id}")).status == 404
    assert (await emulator.get("/v2/workflows/dlq")).json == {"messages": []}


@with_emulator()
async def test_many_are_deleted_a_page_at_a_time(emulator: InProcess) -> None:
    ids = [await failed(emulator, f"wfr_{number}") for number in range(3)]
    named = await emulator.delete(f"/v2/workflows/dlq?dlqIds={ids[1]}")
    first = await emulator.delete("/v2/workflows/dlq?count=1")
    rest = await emulator.delete("/v2/workflows/dlq")
    assert (named.json, rest.json) == ({"deleted": 1}, {"deleted": 1})
    assert (first.json["deleted"], "cursor" in first.json) == (1, True)


@with_emulator()
async def test_filters_choose_dead_letters(emulator: InProcess) -> None:
    """D-386."""
    await failed_with_function(emulator, "wfr_told", 200)
    await emulator.advance("60s")
    await failed_with_function(emulator, "wfr_untold", 503)
    for query, found in (
        ("", ["wfr_told", "wfr_untold"]),
        ("workflowRunId=wfr_told", ["wfr_told"]),
        (f"workflowUrl={FLOW}", ["wfr_told", "wfr_untold"]),
        (f"workflowUrl={CRM}", []),
        (f"workflowCreatedAt={EPOCH_MS + 60_000}", ["wfr_untold"]),
        ("failureFunctionState=CALLBACK_SUCCESS", ["wfr_told"]),
        ("failureFunctionState=CALLBACK_FAIL", ["wfr_untold"]),
        ("callerIp=203.0.113.7", ["wfr_told", "wfr_untold"]),
        ("responseStatus=500&order=latestFirst&count=1", ["wfr_untold"]),
        (f"fromDate={EPOCH_MS + 1}", ["wfr_untold"]),
        (f"toDate={EPOCH_MS}", ["wfr_told"]),
        ("label=x", []),
        (f"url={FLOW}", ["wfr_told", "wfr_untold"]),
        ("messageId=msg_none", []),
        ("topicName=g", []),
        ("queueName=q", []),
        ("scheduleId=s", []),
    ):
        messages: Any = (await emulator.get(f"/v2/workflows/dlq?{query}")).json["messages"]
        assert [each["workflowRunId"] for each in messages] == found, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("count=0", "count"),
        ("count=101", "count"),
        ("cursor=x", "cursor"),
        ("source=other", "source"),
        ("failureFunctionState=DONE", "failureFunctionState"),
        ("workflowCreatedAt=x", "workflowCreatedAt"),
        ("order=sideways", "order"),
        ("responseStatus=1000", "responseStatus"),
        ("urls=x", "urls"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@with_emulator()
async def test_wrong_input_names_the_parameter(emulator: InProcess, method: str, query: str, field: str) -> None:
    answer = await emulator.call(method, f"/v2/workflows/dlq?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


@with_emulator()
async def test_a_dead_letter_has_the_configuration_of_its_run(emulator: InProcess) -> None:
    """D-387, D-532."""
    flow = Flow(emulator)
    await emulator.rule(FLOW, respond={"status": 500, "body": "broken"})
    await flow.start(
        b"payload",
        Svc_Retries="0",
        Svc_Label="a,b",
        Svc_Flow_Control_Key="k",
        Svc_Flow_Control_Value="rate=3, period=1m",
        Svc_Forward_X_User="7",
    )
    [letter] = (await emulator.get("/v2/workflows/dlq")).json["messages"]
    [cut] = (await emulator.get("/v2/workflows/dlq?trimBody=3")).json["messages"]
    [without] = (await emulator.get("/v2/dlq?source=workflow&trimBody=-1")).json["messages"]
    assert letter["callerIp"] == letter["callerIP"] == "203.0.113.7"
    shown = {name: values for name, values in letter["header"].items() if name != "Svc-Workflow-Sdk-Version"}
    assert shown == {
        "X-User": ["7"],
        "Svc-Workflow-Runid": [RUN],
        "Svc-Workflow-Init": ["true"],
        "Svc-Workflow-Url": [FLOW],
        "Svc-Feature-Set": ["LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig"],
        "Svc-Retries": ["0"],
        "Svc-Label": ["a,b"],
        "Svc-Flow-Control-Key": ["k"],
        "Svc-Flow-Control-Value": ["rate=3, period=60s"],
    }
    assert (cut["body"], cut["responseBody"]) == ("pay", "bro")
    assert not {"body", "responseBody"} & without.keys()
