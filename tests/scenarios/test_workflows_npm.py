"""Whole workflows of the public JavaScript client in Express and Hono, in real time and on a frozen clock."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples.workplaces import free_port
from tests.harness import processes
from tests.harness.emulators import EPOCH, Server, control, server
from tests.scenarios.workflow_apps.running import MODES, App, running

APPS = Path(__file__).with_name("workflow_apps")
NODE, NPM = shutil.which("node"), shutil.which("npm")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (NODE and NPM), reason="needs Node.js and npm")]

FRAMEWORKS = ("express", "hono")
ADA = {"name": "Ada"}
# How often each workflow is called in a run that its client has triggered, from the first call to the last,
# with those that carry the response of a call step and those of a failure function.
CALLS = {
    "/steps": 4,
    "/sleeps": 6,
    "/parallel": 12,
    "/calls": 12,
    "/three-calls": 7,
    "/webhooks": 8,
    "/waits": 16,
    "/notifications": 5,
    "/flaky": 3,
    "/canceling": 2,
    "/failing": 3,
    "/failing-elsewhere": 1,
    "/hopeless": 2,
    "/oversized": 2,
    "/many/parent": 4,
    "/many/failing": 4,
    "/many/pleased": 2,
    "/many/child": 6,
}
"""`notifications` is triggered by `waits`; `parent` invokes `failing`, which invokes `child`, as `pleased` does."""
OPTIONS: dict[str, Any] = {
    "/failing": {"retries": 1, "retryDelay": "1000", "body": ADA},
    "/failing-elsewhere": {"retries": 0, "body": ADA},
    "/steps": {"body": ADA},
}
TRIGGERED = [name for name in CALLS if name not in ("/notifications", "/many/failing", "/many/child")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The applications beside the installed client, outside the project."""
    made = tmp_path_factory.mktemp("npm")
    packages = ["@upstash/workflow@^1.3", "express@^5", "hono@^4", "@hono/node-server"]
    command = [str(NPM), "install", "--no-package-lock", "--no-save", "--no-audit", "--no-fund", *packages]
    subprocess.run(command, cwd=made, check=True, capture_output=True, timeout=240)
    for script in APPS.glob("*.mjs"):
        shutil.copy(script, made)
    return made


@contextmanager
def served(folder: Path, framework: str, mode: str, **variables: str) -> Iterator[App]:
    extra = {"FRAMEWORK": framework, **variables}
    with (
        server(dialect="upstash", clock=mode) as emulator,
        running([str(NODE), "app.mjs"], emulator, mode, folder=folder, extra=extra) as app,
    ):
        yield app


# Each framework and each mode once: how a framework answers has nothing to do with how the clock goes.
@pytest.fixture(scope="module", params=list(zip(FRAMEWORKS, MODES, strict=True)), ids="-".join)
def started(request: pytest.FixtureRequest, folder: Path) -> Iterator[App]:
    with served(folder, *request.param) as app:
        yield app


@pytest.fixture
def app(started: App) -> App:
    control(started.emulator, "POST", "/reset")
    started.post("/reset", {})
    return started


def client(app: App, *method: str, arguments: list[Any] | None = None) -> Any:
    """A call of the client, made by the application; its result."""
    answer = app.post("/client", {"method": method, "arguments": arguments or []})
    assert "error" not in answer, answer
    return answer.get("result")


def trigger(app: App, path: str, **options: Any) -> str:
    run_id: str = client(app, "trigger", arguments=[{"url": app.url + path, **options}])["workflowRunId"]
    return run_id


def test_every_workflow_is_called_as_often_as_by_the_service(app: App) -> None:
    ids = {}
    for path in TRIGGERED:
        options = dict(OPTIONS.get(path, {}))
        if path == "/sleeps":
            options = {"body": {"until": app.now_s() + 2 * app.pause_s}, "headers": {"X-Tenant": "acme"}}
        if path == "/failing-elsewhere":
            options["failureUrl"] = f"{app.url}/plain"
        ids[path] = trigger(app, path, **options)
    app.finish()
    seen = app.seen()
    assert {path: seen["counts"].get(path, 0) for path in CALLS} == CALLS
    assert seen["counts"]["/plain"] == 1
    assert seen["ended"] == {
        "steps": ["HELLO ADA ☂"],
        "sleeps": ["acme"],
        "parallel": [[10, "ada@example.com", None]],
        "calls": [[201, 200, 401, 300, 400]],
        "three-calls": [[201, 200, 300]],
        "webhooks": [{"hooked": True}],
        "waits": [{"some": ["object"]}],
        "notifications": [f"{app.url}/waits"],
        "flaky": [2],
        "parent": [ids["/many/parent"].removeprefix("wfr_") + "-child"],
        "child": [1, 1],
        "pleased": [{"child": "payload"}],
    }


def test_a_failure_function_gets_the_failure_and_the_payload(app: App) -> None:
    run_id = trigger(app, "/failing", body=ADA, retries=0, headers={"X-Tenant": "acme"})
    app.finish()
    seen = app.seen()
    assert seen["counts"]["/failing"] == 2
    assert seen["failures"] == {
        "failing": [
            {
                "runId": run_id,
                "payload": ADA,
                "status": 500,
                "message": "no luck for Ada",
                "tenant": "acme",
                "hasHeaders": True,
            }
        ]
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_can_begin_with_a_plain_call_of_the_endpoint(folder: Path, framework: str) -> None:
    """The application publishes to itself, with all headers of the call, which is one more; it cannot be signed."""
    with served(folder, framework, "frozen", QSTASH_CURRENT_SIGNING_KEY="") as app:
        app.post("/steps", ADA)
        app.finish()
        seen = app.seen()
    assert (seen["counts"]["/steps"], seen["ended"]) == (5, {"steps": ["HELLO ADA ☂"]})


def test_a_run_can_begin_with_a_plain_message(app: App) -> None:
    answer = app.api("POST", f"/v2/publish/{app.url}/steps", ADA)
    assert answer.status_code == 200
    app.finish()
    seen = app.seen()
    assert (seen["counts"]["/steps"], seen["ended"]) == (5, {"steps": ["HELLO ADA ☂"]})


@pytest.mark.parametrize(("headers", "calls"), [({}, 4), ({"Upstash-Workflow-Unknown-Sdk": "true"}, 5)])
def test_a_run_can_begin_by_the_trigger_endpoint(app: App, headers: dict[str, str], calls: int) -> None:
    """It costs one call more where the client of the endpoint is said to be unknown, in which that introduces itself
    (D-370)."""
    answer = app.api("POST", f"/v2/trigger/{app.url}/steps", ADA, **{"Upstash-Workflow-RunId": "wfr_mine", **headers})
    assert answer.json()["workflowRunId"] == "wfr_mine"
    app.finish()
    seen = app.seen()
    assert (seen["counts"]["/steps"], seen["ended"]) == (calls, {"steps": ["HELLO ADA ☂"]})


def test_what_is_no_workflow_fails_the_run_at_once(app: App) -> None:
    run_id = trigger(app, "/plain", body=ADA, failureUrl=f"{app.url}/third-party")
    app.finish()
    [run] = client(app, "logs", arguments=[{"workflowRunId": run_id}])["runs"]
    assert run["workflowState"] == "RUN_FAILED"
    assert app.seen()["counts"]["/plain"] == 1


def test_the_client_cancels_runs(app: App) -> None:
    """One by its id, several by the beginning of their URL, and then all."""
    ids = [trigger(app, "/sleeper") for _ in range(4)]
    assert client(app, "cancel", arguments=[ids[0]]) == {"cancelled": 1}
    assert client(app, "cancel", arguments=[ids[0]]) == {"cancelled": 0}
    starts = {"filter": {"workflowUrlStartingWith": f"{app.url}/sl"}, "count": 2}
    assert client(app, "cancel", arguments=[starts]) == {"cancelled": 2}
    assert client(app, "cancel", arguments=[{"all": True}]) == {"cancelled": 1}
    app.finish()
    states = [run["workflowState"] for run in client(app, "logs")["runs"]]
    assert states == ["RUN_CANCELED"] * 4
    assert "sleeper" not in app.seen()["ended"]


def test_the_client_reads_logs_by_filters_and_pages(app: App) -> None:
    for number in range(3):
        trigger(app, "/steps", body=ADA, workflowRunId=str(number), label=["odd" if number % 2 else "even", "all"])
    app.finish()
    first = client(app, "logs", arguments=[{"count": 2}])
    rest = client(app, "logs", arguments=[{"count": 2, "cursor": first["cursor"]}])
    assert [run["workflowRunId"] for page in (first, rest) for run in page["runs"]] == ["wfr_2", "wfr_1", "wfr_0"]
    assert "cursor" not in rest
    [odd] = client(app, "logs", arguments=[{"filter": {"label": "odd"}}])["runs"]
    assert (odd["workflowRunId"], odd["workflowRunResponse"], odd["labels"]) == (
        "wfr_1",
        '"HELLO ADA ☂"',
        ["odd", "all"],
    )


def test_the_client_resumes_a_dead_run_where_it_failed(app: App) -> None:
    trigger(app, "/hopeless", workflowRunId="dead")
    app.finish()
    [dead] = client(app, "dlq", "list")["messages"]
    assert (dead["workflowRunId"], dead["responseStatus"], dead["failureFunctionState"]) == (
        "wfr_dead",
        489,
        "CALLBACK_SUCCESS",
    )
    [run] = client(app, "dlq", "resume", arguments=[dead["dlqId"]])["workflowRuns"]
    app.finish()
    assert run["workflowRunId"] != "wfr_dead"
    [again] = client(app, "dlq", "list")["messages"]
    assert again["workflowRunId"] == run["workflowRunId"]
    assert client(app, "dlq", "delete", arguments=[again["dlqId"]])["deleted"] == 1
    assert client(app, "dlq", "list")["messages"] == []


def test_a_parallel_run_of_which_one_step_failed_is_resumed_and_succeeds(app: App) -> None:
    """D-374. The steps without a result are called again; the run waits for none of them for ever."""
    trigger(app, "/mended", workflowRunId="dead")
    app.finish()
    assert "mended" not in app.seen()["ended"]
    [dead] = client(app, "dlq", "list")["messages"]
    assert dead["workflowRunId"] == "wfr_dead"
    [run] = client(app, "dlq", "resume", arguments=[dead["dlqId"]])["workflowRuns"]
    app.finish()
    seen = app.seen()
    assert seen["ended"]["mended"] == [["Ada", "mended", 200, True]]
    assert seen["attempts"]["mended"] == ["wfr_dead", run["workflowRunId"]]
    # In real time the application has ended a moment before the emulator has heard of it.
    for _ in range(20):
        [log] = client(app, "logs", arguments=[{"workflowRunId": run["workflowRunId"]}])["runs"]
        if log["workflowState"] != "RUN_STARTED":
            break
    assert (log["workflowState"], [len(group["steps"]) for group in log["steps"]]) == ("RUN_SUCCESS", [1, 5, 1])
    assert client(app, "dlq", "list")["messages"] == []


def test_nothing_that_the_client_sends_is_outside_the_contract(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In strict mode every request and answer is held against the contract."""
    extra = {"FRAMEWORK": "hono"}
    with (
        server(dialect="upstash", clock="frozen", strict=True) as emulator,
        running([str(NODE), "app.mjs"], emulator, "frozen", folder=folder, extra=extra) as app,
    ):
        for path in ("/calls", "/webhooks", "/waits", "/failing", "/many/parent"):
            trigger(app, path, **OPTIONS.get(path, {}))
        app.finish()
        client(app, "logs")
        client(app, "dlq", "list")
        assert app.seen()["counts"]["/waits"] == CALLS["/waits"]
    assert [each.getMessage() for each in caplog.records if "contract" in each.getMessage()] == []


def test_a_run_goes_on_after_the_server_was_killed_in_its_sleep(folder: Path, tmp_path: Path) -> None:
    """As by a crash: nothing is closed, and a new process takes up the database."""
    options = ("--dialect", "upstash", "--clock", "frozen", "--epoch", EPOCH, "--db", str(tmp_path / "world.db"))
    port = ("--port", str(free_port()))
    with processes.serving(*options, folder=tmp_path, port=port) as first:
        emulator = emulator_at(first)
        with running([str(NODE), "app.mjs"], emulator, "frozen", folder=folder, extra={"FRAMEWORK": "express"}) as app:
            run_id = trigger(app, "/sleeper")
            waiting = trigger(app, "/waits")
            control(emulator, "POST", "/clock/advance", {"by": 0})
            before = [control(emulator, "GET", f"/runs/{each}") for each in (run_id, waiting)]
            first.kill()
            with processes.serving(*options, folder=tmp_path, port=port):
                assert [control(emulator, "GET", f"/runs/{each}") for each in (run_id, waiting)] == before
                app.finish()
                seen = app.seen()
    assert seen["ended"]["sleeper"] == [run_id]
    assert seen["ended"]["waits"] == [{"some": ["object"]}]
    assert {path: seen["counts"][path] for path in ("/sleeper", "/waits")} == {"/sleeper": 2, "/waits": 16}


def emulator_at(process: processes.ServerProcess) -> Server:
    queue = httpx.get(
        f"{process.url}/_emulator/credentials", timeout=processes.PATIENCE_S, trust_env=False, verify=False
    ).json()["queue"]
    return Server(
        url=process.url,
        port=httpx.URL(process.url).port or 0,
        token=queue["token"],
        current_signing_key=queue["current_signing_key"],
        next_signing_key=queue["next_signing_key"],
    )
