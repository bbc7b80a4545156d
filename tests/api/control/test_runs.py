"""`/_emulator/runs`: workflow runs, their steps on the time axis, and what they wait for."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import CRM, FLOW, Flow

IN_A_MINUTE = "2026-01-01T00:01:00.000Z"


@on_loop
async def test_runs_are_listed_newest_first_without_their_steps() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_a_run_shows_its_steps_in_groups_with_their_instants() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_a_run_tells_what_it_waits_for_and_until_when() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_a_run_is_explained_step_by_step() -> None:
    async with in_process() as emulator:
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
        (0, "error", "a call of the endpoint was answered 503 by a destination rule"),
        (1_000, "step", 'step 1 "greet" (Run) done: "hello"'),
        (61_000, "step", 'step 2 "nap" (SleepFor) done, begun at 2026-01-01T00:00:01.000Z'),
        (61_000, "success", 'returned "bye"'),
    ]


@on_loop
async def test_a_failed_run_says_by_which_answer() -> None:
    async with in_process() as emulator:
        await emulator.rule(FLOW, respond={"status": 489, "headers": {"Svc-NonRetryable-Error": "true"}}, times=1)
        await Flow(emulator).start()
        run = (await emulator.control("GET", "/runs/wfr_one")).json
    assert (run["state"], run["waiting"]) == ("RUN_FAILED", [])
    answer = "attempt 1 was answered 489 by rule_1 (https://app.test/flow)"
    assert run["summary"] == f"Failed at 2026-01-01T00:00:00.000Z, after 0 steps: {answer}."


@on_loop
async def test_deliveries_events_and_the_preview_name_the_run_and_the_step() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_the_latest_of_several_runs_with_one_id_is_shown() -> None:
    """D-390."""
    async with in_process() as emulator:
        flow = Flow(emulator)
        await flow.start()
        await flow.finish()
        await flow.start(b"again")
        run = (await emulator.control("GET", "/runs/wfr_one")).json
    assert (run["number"], run["payload"]) == (2, "again")


@pytest.mark.parametrize("path", ["/runs/wfr_none", "/runs/wfr_none/explain"])
@on_loop
async def test_a_run_that_never_was_is_not_found(path: str) -> None:
    async with in_process() as emulator:
        assert (await emulator.control("GET", path)).status == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=DONE", "state"), ("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=x", "cursor"), ("id=1", "id")],
)
@on_loop
async def test_wrong_input_names_the_parameter(query: str, field: str) -> None:
    async with in_process() as emulator:
        answer = await emulator.control("GET", f"/runs?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)
