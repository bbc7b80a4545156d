"""Whole workflows of the public Python client in FastAPI and Flask, on a clock that runs and on a frozen one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.emulators import server
from tests.scenarios.workflow_apps.running import MODES, App, running

pytestmark = pytest.mark.slow

ADA = {"name": "Ada"}
# How often each workflow is called. This client has no trigger: a run begins with a plain message to its endpoint,
# whose delivery is one call more than the steps take.
CALLS = {
    "/steps": 1 + 4,
    "/sleeps": 1 + 6,
    "/calls": 1 + 12,
    "/three-calls": 1 + 7,
    "/failing-0": 1 + 2,
    "/failing-1": 1 + 3,
}


@contextmanager
def served(framework: str, mode: str, **variables: str) -> Iterator[App]:
    command = [sys.executable, "-m", f"tests.scenarios.workflow_apps.{framework}_app"]
    # Ten times as fast, because this client cannot shorten the 12 s before a retry.
    clock = "10" if mode == "realtime" else mode
    with server(dialect="upstash", clock=clock) as emulator, running(command, emulator, mode, extra=variables) as app:
        yield app


# Each framework and each mode once: how a framework answers has nothing to do with how the clock goes.
@pytest.mark.parametrize(("framework", "mode"), list(zip(("fastapi", "flask"), MODES, strict=True)))
def test_every_workflow_is_called_as_often_as_by_the_service(framework: str, mode: str) -> None:
    with served(framework, mode) as app:
        for path in CALLS:
            body = {"until": app.now_s() + 2 * app.pause_s} if path == "/sleeps" else ADA
            answer = app.api("POST", f"/v2/publish/{app.url}{path}", body, **{"Upstash-Forward-X-Tenant": "acme"})
            assert answer.is_success, answer.text
        app.finish()
        seen = app.seen()
    assert {path: seen["counts"][path] for path in CALLS} == CALLS
    assert dict(seen["ended"]) == {
        "steps": "HELLO ADA ☂",
        "sleeps": "acme",
        "calls": [
            [201, {"got": {"order": 7}, "answer": "42"}],
            [200, "plain"],
            [401, "no"],
            [300, ""],
            [400, {"foo": "bar"}],
        ],
        "three-calls": [201, 200, 300],
    }
    assert len(seen["ended"]) == 4
    found = [(each["payload"], each["status"], each["message"]) for each in seen["failures"]]
    assert found == [(ADA, 500, "no luck for Ada")] * 2


def test_runs_begin_with_a_schedule() -> None:
    with served("fastapi", "frozen") as app:
        schedule = app.api("POST", f"/v2/schedules/{app.url}/steps", ADA, **{"Upstash-Cron": "0 9 * * *"})
        assert schedule.is_success, schedule.text
        app.advance("2d")
        seen = app.seen()
    assert seen["counts"]["/steps"] == 10
    assert seen["ended"] == [["steps", "HELLO ADA ☂"]] * 2


def test_a_run_begins_with_a_plain_call_of_the_endpoint() -> None:
    """Without signing keys, because such a call cannot be signed."""
    with served("flask", "frozen", QSTASH_CURRENT_SIGNING_KEY="") as app:
        app.post("/steps", ADA)
        app.finish()
        seen = app.seen()
    assert (seen["counts"]["/steps"], seen["ended"]) == (5, [["steps", "HELLO ADA ☂"]])
