"""A world with workflow runs: one that ended, one that failed, one that waits, one with many steps."""

from __future__ import annotations

import json

import httpx

from tests.harness.emulators import Server, control, service

FLOW, CRM = "https://app.test/onboarding", "https://crm.test/offers"
DONE, FAILED, WAITING, LONG = "wfr_done", "wfr_failed", "wfr_waiting", "wfr_long"
EVENT = "paid"
_FAILING = {"Svc-Retries": "1", "Svc-Failure-Callback": "https://app.test/failure"}


def fill(server: Server, steps: int = 40) -> None:
    """Four runs of one endpoint; `steps` is how many the long one has."""
    answers = _rule(server, FLOW, status=200, headers={"Svc-Workflow-Sdk-Version": "1"})
    _rule(server, "https://app.test/failure", status=200, body='{"noted": "ticket 12"}')
    _rule(server, CRM, status=200, body='{"offer": 5}')
    _done(server)
    begin(server, WAITING, {"user": 8}, **{"Svc-Label": "nightly"})
    result(server, WAITING, 1, "welcome mail", {"sent": True})
    wait(server, WAITING, EVENT)
    _long(server, steps)
    begin(server, FAILED, {"user": 9}, **_FAILING)
    control(server, "DELETE", f"/destinations/{answers}")
    failing = _rule(server, FLOW, status=500, body='{"error": "the ledger is locked"}')
    result(server, FAILED, 1, "charge the card", {"amount": 12})
    control(server, "POST", "/clock/advance", {"by": "1m"})
    control(server, "DELETE", f"/destinations/{failing}")
    _rule(server, FLOW, status=200, headers={"Svc-Workflow-Sdk-Version": "1"})


def _rule(server: Server, url: str, **respond: object) -> str:
    return str(control(server, "POST", "/destinations", {"match": {"url": url}, "respond": respond})["id"])


def _of(run: str, *, init: bool = False) -> dict[str, str]:
    return {
        "Svc-Workflow-RunId": run,
        "Svc-Workflow-Init": str(init).lower(),
        "Svc-Workflow-Url": FLOW,
        "Svc-Forward-Svc-Workflow-Sdk-Version": "1",
        "Svc-Feature-Set": "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig",
    }


def begin(server: Server, run: str, payload: object, **headers: str) -> None:
    service(server, "POST", f"/v2/publish/{FLOW}", {**_of(run, init=True), **headers}, payload)


def result(server: Server, run: str, number: int, name: str, out: object, **more: object) -> None:
    """What a step came to; with a delay, when it is over."""
    delay = {"Svc-Delay": str(more.pop("delay"))} if "delay" in more else {}
    step = {"stepId": number, "stepName": name, "stepType": "Run", "out": json.dumps(out), "concurrent": 1, **more}
    service(server, "POST", f"/v2/publish/{FLOW}", {**_of(run), **delay}, step)


def _plan(server: Server, run: str, target: int, name: str, concurrent: int, **more: object) -> None:
    result(server, run, 0, name, None, targetStep=target, concurrent=concurrent, **more)


def wait(server: Server, run: str, event: str, timeout: str = "7d") -> None:
    step = {"stepId": 2, "stepName": "payment", "stepType": "Wait", "concurrent": 1}
    headers = {"Svc-Workflow-RunId": [run]}
    given = {"url": FLOW, "timeout": timeout, "timeoutUrl": FLOW, "timeoutHeaders": headers, "step": step}
    service(server, "POST", f"/v2/wait/{event}", _of(run), given)


def _end(server: Server, run: str, result: object) -> None:
    authorization = {"Authorization": f"Bearer {server.token}"}
    url = f"{server.url}/v2/workflows/runs/{run}?cancel=false"
    answer = httpx.request("DELETE", url, headers=authorization, json=result, trust_env=False, verify=False)
    assert answer.status_code == 200, answer.text


def _done(server: Server) -> None:
    """A step, two side by side, a sleep, a call that fails once, the end."""
    busy = control(
        server,
        "POST",
        "/destinations",
        {"match": {"url": "https://ledger.test/*"}, "respond": {"status": 503}, "times": 1},
    )["id"]
    begin(server, DONE, {"user": 7})
    result(server, DONE, 1, "create account", {"id": 7})
    beside = ((2, "resize picture", "30s"), (3, "index profile", "20s"))
    for target, name, _ in beside:
        _plan(server, DONE, target, name, 2)
    for target, name, later in beside:
        control(server, "POST", "/clock/advance", {"by": later})
        result(server, DONE, target, name, {"ok": True}, concurrent=2)
    result(server, DONE, 4, "wait two minutes", None, stepType="SleepFor", sleepFor=120, delay="120s")
    control(server, "POST", "/clock/advance", {"by": "2m"})
    _call(server, DONE, 5, "book in the ledger")
    control(server, "POST", "/clock/advance", {"by": "1m"})
    result(server, DONE, 5, "book in the ledger", {"status": 200}, stepType="Call")
    result(server, DONE, 6, "welcome mail", {"sent": True})
    _end(server, DONE, {"user": 7, "welcomed": True})
    control(server, "DELETE", f"/destinations/{busy}")


def _call(server: Server, run: str, number: int, name: str) -> None:
    step = {"StepId": str(number), "StepName": name, "StepType": "Call", "Concurrent": "1"}
    headers = {
        **_of(run),
        "Svc-Workflow-CallType": "toCallback",
        "Svc-Retries": "2",
        "Svc-Callback": FLOW,
        "Svc-Callback-Workflow-RunId": run,
        "Svc-Callback-Workflow-CallType": "fromCallback",
        "Svc-Callback-Workflow-Init": "false",
        "Svc-Callback-Workflow-Url": FLOW,
        "Svc-Callback-Forward-Svc-Workflow-Callback": "true",
        **{f"Svc-Callback-Forward-Svc-Workflow-{key}": value for key, value in step.items()},
    }
    service(server, "POST", "/v2/publish/https://ledger.test/bookings", headers, {"amount": 12})


def _long(server: Server, steps: int) -> None:
    begin(server, LONG, {"user": 10})
    for number in range(1, steps + 1):
        if number % 10:
            result(server, LONG, number, f"page {number} of the import", {"rows": 100 * number})
        else:
            pause = {"stepType": "SleepFor", "sleepFor": 60, "delay": "60s"}
            result(server, LONG, number, f"pause {number // 10}", None, **pause)
            control(server, "POST", "/clock/advance", {"by": "60s"})
