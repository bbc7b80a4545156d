"""`/_emulator/runs`: workflow runs, their steps on the time axis, and what they wait for."""

from __future__ import annotations

import pytest

from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import CRM, FLOW, RUN, Flow

IN_A_MINUTE = "2026-01-01T00:01:00.000Z"


@with_emulator()
async def test_runs_are_listed_newest_first_without_their_steps(emulator: InProcess) -> None:
    first = Flow(emulator)
    await first.start(Svc_Label="a")
    await first.finish({"ok": True})
    await Flow(emulator, "wfr_two").start()
    page = (await emulator.control("GET", "/runs")).json
    [success] = (await emulator.control("GET", f"/runs?state=RUN_SUCCESS&url={FLOW}")).json["runs"]
    newest = (await emulator.control("GET", "/runs?limit=1")).json
    oldest = (await emulator.control("GET", f"/runs?limit=1&cursor={newest['cursor']}")).json
    assert [run["id"] for run in page["runs"]] == ["wfr_two", "wfr_one"]
    assert success == {
        "id": "wfr_one",
        "number": 1,
        "account_id": success["account_id"],
        "url": FLOW,
        "state": "RUN_SUCCESS",
        "created": "2026-01-01T00:00:00.000Z",
        "created_ms": EPOCH_MS,
        "ended": "2026-01-01T00:00:00.000Z",
        "ended_ms": EPOCH_MS,
        "labels": ["a"],
        "payload": '{"user":7}',
        "result": '{"ok": true}',
        "dead_letter_id": None,
        "invoked_by": None,
    }
    assert ([run["id"] for run in oldest["runs"]], oldest["cursor"]) == (["wfr_one"], None)


@with_emulator()
async def test_runs_are_found_by_what_is_known_of_them(emulator: InProcess) -> None:
    """D-676."""
    first, second, third = Flow(emulator), Flow(emulator, "wfr_other"), Flow(emulator, "wfr_third")
    await first.start(Svc_Label="nightly,red")
    await first.step(1, "greet")
    await first.finish()
    await second.start(Svc_Label="blue")
    await third.start(b"nightly")
    await third.cancel()
    every = {"active": 1, "success": 1, "failed": 0, "canceled": 1}
    for query, ids, count in (
        ("", ["wfr_third", "wfr_other", "wfr_one"], every),
        ("state=RUN_STARTED", ["wfr_other"], every),
        ("state=RUN_CANCELED", ["wfr_third"], every),
        ("state=RUN_FAILED", [], every),
        ("url=https://app.test/*", ["wfr_third", "wfr_other", "wfr_one"], every),
        (f"url={FLOW}&state=RUN_SUCCESS", ["wfr_one"], every),
        ("url=https://app.test/", [], dict.fromkeys(every, 0)),
        ("label=red", ["wfr_one"], {**dict.fromkeys(every, 0), "success": 1}),
        ("label=re", [], dict.fromkeys(every, 0)),
        ("id=_other", ["wfr_other"], {**dict.fromkeys(every, 0), "active": 1}),
        ("text=NIGHT", ["wfr_one"], {**dict.fromkeys(every, 0), "success": 1}),
        ("text=R_O&state=RUN_STARTED", ["wfr_other"], {**dict.fromkeys(every, 0), "active": 1, "success": 1}),
    ):
        page = (await emulator.control("GET", f"/runs?count=true&{query}")).json
        assert ([run["id"] for run in page["runs"]], page["count"]) == (ids, count), query
    newest = (await emulator.control("GET", "/runs?state=RUN_STARTED&limit=1")).json
    of_one = [
        [each["workflow_run_id"] for each in (await emulator.control("GET", f"/{path}?{query}")).json[path]]
        for path in ("messages", "deliveries")
        for query in ("run=wfr_one", *(("text=r_one", "text=nightly") if path == "messages" else ()))
    ]
    assert (newest["cursor"], "count" in newest) == (None, False)
    assert of_one == [["wfr_one"] * 2] * 4


@with_emulator()
async def test_a_run_shows_its_steps_in_groups_with_their_instants(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await flow.start()
    await flow.step(1, "greet", "hello")
    await flow.plan(2, "left", 2)
    await flow.plan(3, "nap", 2, delay="60s", stepType="SleepFor", sleepFor=60)
    await emulator.advance("60s")
    await flow.step(3, "nap", concurrent=2, stepType="SleepFor", sleepFor=60)
    run = (await emulator.control("GET", "/runs/wfr_one")).json
    groups = [(group["parallel"], [step["name"] for step in group["steps"]]) for group in run["steps"]]
    assert groups == [(False, ["init"]), (False, ["greet"]), (True, ["left", "nap"])]
    nap = run["steps"][2]["steps"][1]
    assert (nap["id"], nap["type"], nap["state"]) == (3, "SleepFor", "STEP_SUCCESS")
    assert (nap["at_ms"], nap["ended_ms"]) == (EPOCH_MS, EPOCH_MS + 60_000)


@with_emulator()
async def test_a_run_tells_what_it_waits_for_and_until_when(emulator: InProcess) -> None:
    asleep, waiting, calling, retrying = (Flow(emulator, f"wfr_{number}") for number in range(4))
    await emulator.rule(CRM, respond={"status": 200, "latency": "10s"})
    await emulator.rule(FLOW, respond={"status": 500}, times=1)
    await retrying.start(Svc_Retry_Delay="60000")
    await asleep.start()
    await asleep.sleep(1, "nap", 60)
    await waiting.start()
    await waiting.wait(1, "payment", "paid", 60)
    await calling.start()
    await calling.call(1, "charge")
    summaries = [
        (await emulator.control("GET", f"/runs/{flow.run_id}")).json["summary"]
        for flow in (asleep, waiting, calling, retrying)
    ]
    assert summaries == [
        f'Is active: step "nap" sleeps until {IN_A_MINUTE}.',
        f'Is active: step "payment" waits for the event paid until {IN_A_MINUTE}.',
        f'Is active: step "charge" waits for the answer of {CRM}.',
        f"Is active: a call of the endpoint is tried again at {IN_A_MINUTE}.",
    ]


@with_emulator()
async def test_a_call_of_a_run_that_has_not_left_waits_to_leave(emulator: InProcess) -> None:
    """D-537: applications in the test's own process take turns."""
    seen: list[list[str]] = []

    async def receive(_: MountedRequest) -> Response:
        runs = [(await emulator.control("GET", f"/runs/{run_id}")).json for run_id in ("wfr_0", "wfr_1")]
        explained = (await emulator.control("GET", "/runs/wfr_1/explain")).json
        texts = [each["text"] for run in runs for each in run["waiting"]]
        seen.append([*texts, runs[1]["summary"], explained["summary"], explained["reasons"][-1]["text"]])
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount("https://app.test", receive)
    for number in range(2):
        flow = Flow(emulator, f"wfr_{number}")
        await flow.publish(FLOW, b"{}", Svc_Workflow_Init="true", Svc_Delay="1s")
    await emulator.advance("1s")
    under_way, waits = "a call of the endpoint is under way", "a call of the endpoint waits to leave"
    assert seen[0] == [under_way, waits, f"Is active: {waits}.", f"Is active: {waits}.", waits]
    assert seen[1][-4:] == [under_way, f"Is active: {under_way}.", f"Is active: {under_way}.", under_way]


@with_emulator()
async def test_a_run_is_explained_step_by_step(emulator: InProcess) -> None:
    flow = Flow(emulator)
    await emulator.rule(FLOW, respond={"status": 503}, times=1)
    await flow.start(Svc_Retry_Delay="1000")
    await emulator.advance("1s")
    await flow.step(1, "greet", "hello")
    await flow.sleep(2, "nap", 60)
    await emulator.advance("60s")
    await flow.finish("bye")
    explained = (await emulator.control("GET", "/runs/wfr_one/explain")).json
    assert explained["summary"] == "Ended at 2026-01-01T00:01:01.000Z with success, after 2 steps."
    assert [(each["at_ms"] - EPOCH_MS, each["kind"], each["text"]) for each in explained["reasons"]] == [
        (0, "started", f"{FLOW} with 10 bytes"),
        (0, "error", "a call of the endpoint was answered 503 by rule_1 (https://app.test/flow)"),
        (1_000, "step", 'step 1 "greet" (Run) done: "hello"'),
        (61_000, "step", 'step 2 "nap" (SleepFor) done, begun at 2026-01-01T00:00:01.000Z'),
        (61_000, "success", 'returned "bye"'),
    ]


@with_emulator()
async def test_a_failed_run_says_by_which_answer(emulator: InProcess) -> None:
    await emulator.rule(FLOW, respond={"status": 489, "headers": {"Svc-NonRetryable-Error": "true"}}, times=1)
    await Flow(emulator).start()
    run = (await emulator.control("GET", "/runs/wfr_one")).json
    assert (run["state"], run["waiting"]) == ("RUN_FAILED", [])
    answer = "the first call of the endpoint, attempt 1 was answered 489 by rule_1 (https://app.test/flow)"
    assert run["summary"] == f"Failed at 2026-01-01T00:00:00.000Z, after 0 steps: {answer}."


@with_emulator(dialect="upstash")
async def test_a_run_whose_endpoint_refuses_the_signature_says_which_keys_to_compare(emulator: InProcess) -> None:
    """D-804."""

    def receive(_: MountedRequest) -> Response:
        return Response(status=500, headers=(), body=b'{"error":"SignatureError","message":"invalid"}')

    emulator.world.transport.mount("https://app.test", receive)
    answer = await emulator.post(f"/v2/trigger/{FLOW}", {"Upstash-Retries": "0"})
    run_id = answer.json["workflowRunId"]
    run = (await emulator.control("GET", f"/runs/{run_id}")).json
    explanation = (await emulator.control("GET", f"/runs/{run_id}/explain")).json
    hint = "its QSTASH_CURRENT_SIGNING_KEY and QSTASH_NEXT_SIGNING_KEY have to be those that `svc-emulator env` prints"
    for text in (run["summary"], run["failure"]["last_result"], explanation["summary"]):
        assert f"if the application refuses the signature, {hint}" in text


@with_emulator()
async def test_a_failed_run_is_among_the_dead_letters_with_its_step(emulator: InProcess) -> None:
    """D-675."""
    await emulator.rule("https://down.test/", respond={"status": 503}, times=1)
    await emulator.rule("https://app.test/failed", respond={"status": 502})
    message_id = await emulator.publish("https://down.test/", {"Svc-Retries": "0"})
    flow = Flow(emulator)
    options = {"Svc-Failure-Callback": "https://app.test/failed", "Svc-Failure-Callback-Retries": "0"}
    await flow.start(**options, Svc_Retries="0", Svc_Label="nightly")
    await emulator.control("DELETE", "/destinations")
    await emulator.rule("https://app.test/failed", respond={"status": 502})
    answer = {"status": 500, "headers": {"Svc-Error-Step-Name": "charge"}, "body": '{"error": "no money"}'}
    await emulator.rule(FLOW, respond=answer)
    await flow.step(1, "reserve")
    both = (await emulator.control("GET", "/dead-letters")).json["dead_letters"]
    [of_run] = (await emulator.control("GET", "/dead-letters?kind=run&label=nightly&id=_one")).json["dead_letters"]
    of_message = (await emulator.control("GET", "/dead-letters?kind=message")).json["dead_letters"]
    shown = (await emulator.control("GET", "/runs/wfr_one")).json
    await emulator.delete(f"/v2/workflows/dlq/{of_run['dead_letter_id']}")
    left = (await emulator.control("GET", "/dead-letters")).json["dead_letters"]
    assert [each["kind"] for each in both] == ["run", "message"]
    assert (both[:1], both[1:]) == ([of_run], of_message)
    assert (of_message[0]["message_id"], of_message[0]["actions"]) == (message_id, ["retry", "delete"])
    wanted = {
        "workflow_run_id": RUN,
        "workflow_run_number": 1,
        "url": FLOW,
        "labels": ["nightly"],
        "step": "charge",
        "where": 'step "charge"',
        "last_status": 500,
        "last_result": f"was answered 500 by rule_5 ({FLOW})",
        "excerpt": '{"error": "no money"}',
        "failure_function": "CALLBACK_FAIL",
        "actions": ["resume", "restart", "retry-failure", "delete"],
    }
    assert {name: of_run[name] for name in wanted} == wanted
    failure = shown["failure"]
    assert (failure["where"], failure["message_id"]) == ('step "charge"', of_run["message_id"])
    assert (failure["last_status"], failure["excerpt"]) == (500, '{"error": "no money"}')
    assert shown["summary"].startswith(
        'Failed at 2026-01-01T00:00:00.000Z, after 1 step: step "charge", attempt 1 was answered 500 by rule_'
    )
    assert left == of_message


@with_emulator()
async def test_which_call_failed_a_run(emulator: InProcess) -> None:
    """D-675: a call of a step is known by its message, the one after a result by that result."""
    flows = [Flow(emulator, f"wfr_{name}") for name in ("result", "plan", "call")]
    for flow in flows:
        await flow.start(Svc_Retries="0")
    await emulator.control("DELETE", "/destinations")
    await emulator.rule(CRM, respond={"status": 200})
    await emulator.rule(FLOW, respond={"status": 500})
    await flows[0].step(1, "greet")
    await flows[1].plan(1, "left", 2)
    await flows[2].call(1, "charge")
    await Flow(emulator, "wfr_first").publish(FLOW, b"", Svc_Workflow_Init="true", Svc_Retries="0")
    found = (await emulator.control("GET", "/dead-letters")).json["dead_letters"]
    assert [(each["workflow_run_id"], each["step"], each["where"]) for each in reversed(found)] == [
        ("wfr_result", None, 'the call after step "greet"'),
        ("wfr_plan", "left", 'step "left"'),
        ("wfr_call", "charge", 'step "charge"'),
        ("wfr_first", None, "the first call of the endpoint"),
    ]


@with_emulator()
async def test_deliveries_events_and_the_preview_name_the_run_and_the_step(emulator: InProcess) -> None:
    flow = Flow(emulator)
    ordinary = await emulator.publish("https://api.test/hook")
    await flow.start()
    await flow.step(1, "greet")
    await flow.sleep(2, "nap", 60)
    await flow.wait(3, "payment", "paid", 120)
    deliveries = await emulator.deliveries()
    upcoming = (await emulator.control("GET", "/upcoming")).json["items"]
    named = {each["message_id"]: (each.get("workflow_run_id"), each.get("step")) for each in deliveries}
    assert list(named.values()) == [(None, None), ("wfr_one", None), ("wfr_one", "greet")]
    assert "workflow_run_id" not in next(each for each in deliveries if each["message_id"] == ordinary)
    due = [(item["kind"], item["why"], item["step"]) for item in upcoming if item["kind"] in ("delivery", "wait")]
    assert due == [
        ("delivery", 'step "nap" of workflow run wfr_one sleeps until then', "nap"),
        ("wait", 'step "payment" of workflow run wfr_one waits for the event paid until then', "payment"),
    ]


@with_emulator()
async def test_the_latest_of_several_runs_with_one_id_is_shown(emulator: InProcess) -> None:
    """D-390."""
    flow = Flow(emulator)
    await flow.start()
    await flow.finish()
    await flow.start(b"again")
    run = (await emulator.control("GET", "/runs/wfr_one")).json
    assert (run["number"], run["payload"]) == (2, "again")


@with_emulator()
async def test_an_earlier_run_with_the_same_id_is_read_by_its_number(emulator: InProcess) -> None:
    """D-692."""
    flow = Flow(emulator)
    for payload in (b"first", b"second"):
        await flow.start(payload)
        await flow.finish()
        await emulator.advance("1m")
    await Flow(emulator, "wfr_other").start()
    first, latest = [(await emulator.control("GET", f"/runs/wfr_one{query}")).json for query in ("?number=1", "")]
    explained = (await emulator.control("GET", "/runs/wfr_one/explain?number=1")).json
    messages = (await emulator.control("GET", "/messages?run=wfr_one")).json["messages"]
    alone = (await emulator.control("GET", "/runs/wfr_other?number=3")).json
    wrong = [(await emulator.control("GET", f"/runs/wfr_one?number={number}")).status for number in (3, 0, "x")]
    assert (first["payload"], latest["payload"], explained["reasons"][0]["at_ms"]) == ("first", "second", EPOCH_MS)
    [of_first], [of_latest] = first["same_id"], latest["same_id"]
    assert (of_first["number"], of_first["state"], of_first["created"]) == (2, "RUN_SUCCESS", IN_A_MINUTE)
    assert (of_latest["number"], alone["same_id"]) == (1, [])
    assert wrong == [404, 400, 400]
    assert [each["workflow_run_number"] for each in messages] == [2, 1]


@pytest.mark.parametrize("path", ["/runs/wfr_none", "/runs/wfr_none/explain"])
@with_emulator()
async def test_a_run_that_never_was_is_not_found(emulator: InProcess, path: str) -> None:
    assert (await emulator.control("GET", path)).status == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=DONE", "state"), ("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=x", "cursor"), ("ids=1", "ids")],
)
@with_emulator()
async def test_wrong_input_names_the_parameter(emulator: InProcess, query: str, field: str) -> None:
    answer = await emulator.control("GET", f"/runs?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


@on_loop
async def test_what_a_run_hides_is_shown_nowhere() -> None:
    """D-513, D-514: payload, results, calls and answers, event data, the failure function and the dead letter."""
    secret = "s3cret"
    async with in_process() as emulator:
        await emulator.rule(CRM, respond={"status": 200, "headers": {"X-Key": secret}, "body": f"{secret} answer"})
        flow = Flow(emulator)
        await flow.start(
            f'{{"card":"{secret}"}}'.encode(),
            Svc_Redact_Fields="body,header[X-Key]",
            Svc_Forward_X_Key=secret,
            Svc_Failure_Callback="https://failed.test/",
            Svc_Retries="0",
        )
        await flow.step(1, "first", f"{secret} result")
        await flow.call(2, "call", f"{secret} request".encode())
        await flow.wait(3, "wait", "event", 60)
        await emulator.post("/v2/notify/event", {}, f"{secret} event".encode())
        await emulator.advance("1h")
        await emulator.control("DELETE", "/destinations")
        await emulator.rule(FLOW, respond={"status": 500, "headers": {"X-Key": secret}, "body": f"{secret} failure"})
        await flow.step(4, "last", f"{secret} last")
        await emulator.advance("1d")
        [run] = (await emulator.control("GET", "/runs?redact=false")).json["runs"]
        journal = (await emulator.control("GET", "/deliveries?limit=1000")).json["deliveries"]
        messages = {each["message_id"] for each in journal}
        paths = ["/runs", "/runs/wfr_one", "/runs/wfr_one/explain", "/trace", "/messages", "/dead-letters", "/upcoming"]
        paths += ["/deliveries?redact=true&limit=1000", "/deliveries?redact=true&brief=true", "/refused", "/accounts"]
        paths += [
            "/stream?from=start&follow=false&redact=true",
            "/stream?from=start&follow=false&redact=true&brief=true",
        ]
        paths += [f"/messages/{each}/explain" for each in messages]
        shown = {path: (await emulator.control("GET", path)).body for path in paths}
        for path in ("/v2/workflows/logs", "/v2/workflows/dlq", "/v2/events", "/v2/logs", "/v2/dlq"):
            shown[path] = (await emulator.get(path)).body
    assert run["state"] == "RUN_FAILED"
    assert secret in run["payload"]
    assert {each["url"] for each in journal} == {FLOW, CRM, "https://failed.test/"}
    # It may be inside base64, at any of three places.
    spellings = (secret, "czNjcmV0", "M2NyZX", "zY3JldA")
    found = [path for path, body in shown.items() for each in spellings if each.encode() in body]
    assert found == []


@with_emulator()
async def test_lists_name_run_and_step_and_brief_deliveries_their_sizes(emulator: InProcess) -> None:
    """D-655."""
    flow = Flow(emulator)
    await flow.start(b"1234567")
    await flow.step(1, "welcome", "hi")
    await emulator.rule("https://calm.test/", respond={"status": 200, "body": "four"})
    await emulator.publish("https://calm.test/", {"Svc-Redact-Fields": "body"}, b"12")
    brief = (await emulator.control("GET", "/deliveries?brief=true")).json["deliveries"]
    hidden = (await emulator.control("GET", "/deliveries?brief=true&redact=true")).json["deliveries"]
    whole = (await emulator.control("GET", "/deliveries")).json["deliveries"]
    messages = (await emulator.control("GET", "/messages")).json["messages"]
    of_run = [(each.get("workflow_run_id"), each.get("step")) for each in brief]
    assert of_run == [(RUN, None), (RUN, "welcome"), (None, None)]
    assert of_run == [(each.get("workflow_run_id"), each.get("step")) for each in whole]
    assert of_run == [(each.get("workflow_run_id"), each.get("step")) for each in reversed(messages)]
    assert [each["request_bytes"] for each in brief] == [len(each["body"]) for each in whole]
    assert [each["response_bytes"] for each in brief] == [0, 0, 4]
    assert (hidden[-1]["request_bytes"], hidden[-1]["response_bytes"]) == (None, None)
    assert hidden[0]["request_bytes"] == brief[0]["request_bytes"]
