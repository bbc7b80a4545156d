"""Waiting and notifying by HTTP, and webhooks, which need no token."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from tests.api.workflow.calls import FLOW, RUN, answer_as_workflow, begin, headers, steps, wait
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, with_emulator


@with_emulator()
async def test_a_wait_is_listed_and_resumed(emulator: InProcess) -> None:
    await answer_as_workflow(emulator)
    await begin(emulator)
    assert (await wait(emulator)).status == 200
    (waiter,) = (await emulator.get("/v2/waiters/ev")).json
    assert waiter["headers"]["Svc-Workflow-Runid"] == [RUN]
    assert waiter["headers"]["Content-Type"] == ["application/json"]
    assert waiter["timeoutHeaders"] == {"Svc-Workflow-RunId": [RUN], "Svc-Workflow-Runid": [RUN]}
    assert (waiter["url"], waiter["timeoutUrl"]) == (FLOW, FLOW)
    assert waiter["deadline"] == EPOCH_MS // 1000 + 20
    assert json.loads(base64.b64decode(waiter["timeoutBody"]))["waitTimeout"] is True
    answer = await emulator.post("/v2/notify/ev", body='{"ok":1}')
    (notified,) = answer.json
    assert (answer.status, notified["waiter"], notified["error"]) == (201, waiter, "")
    assert (notified["workflowRunId"], notified["workflowCreatedAt"]) == (RUN, EPOCH_MS)
    result = json.loads((await steps(emulator))[-1])
    assert base64.b64decode(result["out"]) == b'{"ok":1}'
    assert (await emulator.get("/v2/waiters/ev")).json == []
    assert (await emulator.post("/v2/notify/ev")).json == []


@with_emulator()
async def test_an_event_of_one_run_answers_an_array(emulator: InProcess) -> None:
    """D-369."""
    await answer_as_workflow(emulator)
    await begin(emulator)
    saved = await emulator.post(f"/v2/notify/{RUN}/ev", body="early")
    assert (saved.status, saved.json) == (201, [])
    await wait(emulator)
    assert base64.b64decode(json.loads((await steps(emulator))[-1])["out"]) == b"early"
    await wait(emulator)
    assert len((await emulator.post(f"/v2/notify/{RUN}/ev")).json) == 1


@with_emulator()
async def test_a_wrong_wait_names_the_field(emulator: InProcess) -> None:
    await answer_as_workflow(emulator)
    await begin(emulator)
    for changes, field in (
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": "0s"}, "timeout"),
        ({"url": "nowhere"}, "url"),
        ({"timeoutUrl": "nowhere"}, "timeoutUrl"),
        ({"step": 7}, "step"),
        ({"timeoutHeaders": {"Svc-Retries": ["many"]}}, "Svc-Retries"),
    ):
        answer = await wait(emulator, **changes)
        assert (answer.status, answer.json["field"]) == (412, field), changes


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@with_emulator()
async def test_a_step_that_no_result_could_be_added_to_is_refused(emulator: InProcess) -> None:
    """D-327. JSON nested nearly 1000 deep was read when it was accepted, and could not be when its time was over."""
    await answer_as_workflow(emulator)
    await begin(emulator)

    async def wait_with(extra: str) -> Answer:
        body = f'{{"url":"{FLOW}","timeout":"5s","step":{{"stepId":1,"extra":{extra}}}}}'
        return await emulator.post("/v2/wait/ev", headers(), body)

    for extra in (nested(700), nested(100), "1e999", "9" * 5_000):
        answer = await wait_with(extra)
        assert (answer.status, answer.json["field"]) == (412, "step"), extra
    invoking = headers("wfr_2", init=True) | {"Svc-Workflow-Invoke": "true"}
    invocation = f'{{"workflowRunId":"{RUN}","workflowUrl":"{FLOW}","step":{{"extra":{nested(100)}}}}}'
    answer = await emulator.post(f"/v2/publish/{FLOW}", invoking, invocation)
    assert (answer.status, answer.json["field"]) == (412, "step")

    assert (await wait_with(nested(98))).status == 200
    await emulator.advance("1m")
    assert json.loads((await steps(emulator))[-1])["waitTimeout"] is True


@with_emulator()
async def test_a_wait_of_no_run_is_refused(emulator: InProcess) -> None:
    assert (await wait(emulator)).status == 400
    answer = await emulator.post("/v2/wait/ev", body={})
    assert (answer.status, answer.json["field"]) == (400, "Svc-Workflow-Runid")


# -- webhooks ---------------------------------------------------------------------------------


def user_of(emulator: InProcess, token: str = "") -> str:
    named = json.loads(base64.b64decode(token or emulator.token))
    assert isinstance(named["UserID"], str)
    return named["UserID"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
@with_emulator()
async def test_a_webhook_needs_no_token_and_takes_any_method(emulator: InProcess, method: str) -> None:
    """D-371."""
    await answer_as_workflow(emulator)
    await begin(emulator)
    target = f"/v2/workflows/hooks/{user_of(emulator)}/{RUN}/evt_1?a=b%20c"
    answer = await emulator.call(method, target, {"X-Own": "1"}, b"\xff!", token=None)
    assert (answer.status, answer.body) == (200, b"")
    await wait(emulator, "evt_1")
    event = json.loads(base64.b64decode(json.loads((await steps(emulator))[-1])["out"]))
    assert event == {
        "method": method,
        "header": {"Host": ["127.0.0.1:8080"], "X-Own": ["1"]},
        "body": base64.b64encode(b"\xff!").decode(),
        "proto": "http",
        "host": "127.0.0.1:8080",
        "url": target,
    }


@with_emulator()
async def test_a_webhook_of_nobody_is_not_found(emulator: InProcess) -> None:
    assert (await emulator.call("POST", f"/v2/workflows/hooks/nobody/{RUN}/ev", token=None)).status == 404


@with_emulator()
async def test_a_webhook_finds_the_world_of_its_run(emulator: InProcess) -> None:
    """D-371."""
    made = await emulator.control("POST", "/worlds", {"id": "other"})
    token = made.json["credentials"]["queue"]["token"]
    own = {"Svc-Workflow-RunId": RUN, "Svc-Workflow-Init": "true"}
    assert (await emulator.post(f"/v2/publish/{FLOW}", own, token=token)).status == 200
    target = f"/v2/workflows/hooks/{user_of(emulator, token)}/{RUN}/ev"
    assert (await emulator.call("POST", target, token=None)).status == 200
    accounts = emulator.emulation.worlds.get("other").state.accounts.values()
    assert [len(run.saved_events) for owner in accounts for run in owner.runs.values()] == [1]


@with_emulator()
async def test_waiters_hide_what_their_runs_hide(emulator: InProcess) -> None:
    """D-516: in the list and in the answer to a notification."""
    forwarded = {"Svc-Forward-X-Key": "s3cret", "Svc-Forward-X-Plain": "plain"}
    await answer_as_workflow(emulator)
    await begin(emulator, Svc_Redact_Fields="body,header[X-Key]")
    await begin(emulator, "wfr_open")
    timed_out = {name: [value] for name, value in forwarded.items()}
    for run_id in (RUN, "wfr_open"):
        step = {"stepId": 1, "stepName": "w", "stepType": "Wait", "out": "s3cret", "concurrent": 1}
        await wait(emulator, run_id=run_id, more=forwarded, timeoutHeaders=timed_out, step=step)
    hidden, plain = (await emulator.get("/v2/waiters/ev")).json
    notified = [each["waiter"] for each in (await emulator.post("/v2/notify/ev", body="{}")).json]
    marker = "REDACTED:" + hashlib.sha256(b"s3cret").hexdigest()
    for field in ("headers", "timeoutHeaders"):
        assert hidden[field]["Svc-Forward-X-Key"] == [marker]
        assert hidden[field]["Svc-Forward-X-Plain"] == ["plain"]
        assert plain[field]["Svc-Forward-X-Key"] == ["s3cret"]
    assert base64.b64decode(hidden["timeoutBody"]).startswith(b"REDACTED:")
    assert json.loads(base64.b64decode(plain["timeoutBody"]))["out"] == "s3cret"
    assert notified == [hidden, plain]
