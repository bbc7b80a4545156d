"""`emulator.workflows` and `verify_run`: runs, their steps, and what a failed expectation shows."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from emulator import AsyncEmulator, Emulator, Refused
from tests.harness.emulators import EPOCH, EPOCH_MS
from tests.harness.loops import on_loop

FLOW = "https://app.test/flow"


@pytest.fixture
def ended(emu: Emulator) -> Emulator:
    """A world with a run `wfr_one` that greeted, slept a day and returned."""
    emu.destinations.respond(FLOW, status=200, headers={"Svc-Workflow-Sdk-Version": "1"})
    send(emu, {"user": 7}, init="true")
    send(emu, step(1, "greet", out='"hello"'))
    send(emu, step(2, "nap", stepType="SleepFor", sleepFor=86_400), delay="1d")
    emu.clock.advance("1d")
    emu.call("DELETE", "/v2/workflows/runs/wfr_one?cancel=false", json={"ok": True})
    return emu


def send(emu: Emulator, body: Any, *, init: str = "false", delay: str = "0s") -> None:
    headers = {
        "Svc-Workflow-RunId": "wfr_one",
        "Svc-Workflow-Init": init,
        "Svc-Workflow-Url": FLOW,
        "Svc-Delay": delay,
    }
    emu.publish(FLOW, json=body, headers=headers)


def step(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"stepId": number, "stepName": name, "stepType": "Run", "concurrent": 1, **more}


def failure(emu: Emulator, **expected: Any) -> str:
    with pytest.raises(AssertionError) as failed:
        emu.verify_run("wfr_one", **expected)
    return str(failed.value)


def test_a_run_has_its_steps_its_state_and_its_result(ended: Emulator) -> None:
    run = ended.workflows.run("wfr_one")
    assert (run.id, run.url, run.state, run.result) == ("wfr_one", FLOW, "RUN_SUCCESS", {"ok": True})
    assert (run.payload, str(run.created)) == ('{"user": 7}', "2026-01-01 00:00:00+00:00")
    assert [(step.name, step.type, step.state, step.out) for step in run.steps] == [
        ("greet", "Run", "STEP_SUCCESS", "hello"),
        ("nap", "SleepFor", "STEP_SUCCESS", None),
    ]
    assert [(step.at_ms - EPOCH_MS, step.ended_ms) for step in run.steps] == [(0, EPOCH_MS), (0, EPOCH_MS + 86_400_000)]


def test_runs_are_listed_by_url_and_state(ended: Emulator) -> None:
    [run] = ended.workflows.runs(FLOW, state="RUN_SUCCESS")
    assert (run.id, run.steps, run.summary) == ("wfr_one", (), None)
    assert ended.workflows.runs(state="RUN_FAILED") == []
    assert ended.workflows.runs("https://app.test/other") == []


def test_a_run_that_sleeps_says_until_when(emu: Emulator) -> None:
    emu.destinations.respond(FLOW, status=200)
    send(emu, {}, init="true")
    send(emu, step(1, "nap", stepType="SleepFor", sleepFor=60), delay="1m")
    assert emu.workflows.run("wfr_one").waiting == ('step "nap" sleeps until 2026-01-01T00:01:00.000Z',)
    assert [each["kind"] for each in emu.workflows.explain("wfr_one")["reasons"]] == ["started", "waiting"]


def test_a_run_that_never_was_is_refused(emu: Emulator) -> None:
    for call in (emu.workflows.run, emu.workflows.explain, emu.verify_run):
        with pytest.raises(Refused, match="wfr_none not found"):
            call("wfr_none")


def test_a_run_as_expected_is_verified(ended: Emulator) -> None:
    ended.verify_run(
        "wfr_one",
        state="RUN_SUCCESS",
        result={"ok": ANY},
        steps=["greet", {"name": "nap", "type": "SleepFor", "at": "0s", "ended": "2026-01-02T00:00:00Z", "out": None}],
    )
    ended.verify_run("wfr_one")


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"state": "RUN_FAILED"}, "expected RUN_FAILED, got RUN_SUCCESS"),
        ({"result": {"ok": False}}, "$.ok: expected false, got true"),
        ({"result": None}, '$: expected null, got {"ok": true}'),
        ({"steps": ["greet"]}, 'step 2: unexpected, got "nap" (SleepFor, STEP_SUCCESS)'),
        ({"steps": ["greet", "nap", "bye"]}, 'step 3: expected "bye", not there so far'),
        ({"steps": ["hi", "nap"]}, 'step 1: name: expected "hi", got "greet"'),
        ({"steps": [{"out": 1}, "nap"]}, 'step 1: out: expected 1, got "hello"'),
        (
            {"steps": ["greet", {"ended": "2d"}]},
            "step 2: ended: expected +2d, got +1d (2026-01-02T00:00:00.000Z)",
        ),
    ],
)
def test_a_failure_says_what_differs(ended: Emulator, expected: dict[str, Any], said: str) -> None:
    assert said in failure(ended, **expected)


def test_a_failure_shows_the_run_and_its_course(ended: Emulator) -> None:
    assert failure(ended, state="RUN_FAILED", result=1).splitlines() == [
        "Expected run wfr_one in the state RUN_FAILED and with the result 1; it differs in state and result.",
        "",
        f"{FLOW}, begun 2026-01-01T00:00:00.000Z. Ended at 2026-01-02T00:00:00.000Z with success, after 2 steps.",
        "",
        "  state   expected RUN_FAILED, got RUN_SUCCESS",
        '  result  $: expected 1, got {"ok": true}',
        "",
        f"2026-01-01T00:00:00.000Z  started  {FLOW} with 11 bytes",
        '2026-01-01T00:00:00.000Z  step  step 1 "greet" (Run) done: "hello"',
        '2026-01-02T00:00:00.000Z  step  step 2 "nap" (SleepFor) done, begun at 2026-01-01T00:00:00.000Z',
        '2026-01-02T00:00:00.000Z  success  returned {"ok": true}',
    ]


@pytest.mark.parametrize(
    ("expected", "error", "said"),
    [
        ({"state": "DONE"}, ValueError, "state: expected one of RUN_STARTED"),
        ({"steps": "greet"}, TypeError, "steps: expected a list of steps"),
        ({"steps": [1]}, TypeError, r"steps\[0\]: expected a step's name"),
        ({"steps": [{"nam": "greet"}]}, TypeError, r"steps\[0\]: unknown 'nam', did you mean name\?"),
        ({"steps": [{"at": "soon"}]}, ValueError, r"steps\[0\]: at: "),
    ],
)
def test_what_cannot_be_meant_is_told(emu: Emulator, expected: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        emu.verify_run("wfr_one", **expected)


@on_loop
async def test_the_asynchronous_face_is_the_same() -> None:
    async with AsyncEmulator(epoch=EPOCH) as emulator:
        headers = {"Svc-Workflow-RunId": "wfr_one", "Svc-Workflow-Init": "true"}
        await emulator.publish(FLOW, json={}, headers=headers)
        [run] = await emulator.workflows.runs()
        assert (await emulator.workflows.run(run.id)).state == "RUN_STARTED"
        await emulator.verify_run(run.id, state="RUN_STARTED", steps=[])
