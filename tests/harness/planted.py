"""A world with a secret in everything that can hide one, for tests that look for it in what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.harness.emulators import Server, control, service
from tests.harness.workflow_runs import FLOW, call_headers, run_headers

SECRET = "s3cret"
# As it is, and inside base64, at any of three places.
_SPELLINGS = (SECRET, "czNjcmV0", "M2NyZX", "zY3JldA")
FIELDS = "body,header[X-Key]"
API, DOWN = "https://api.test/orders", "https://down.test/orders"
EVENT, RUN, WAITING_RUN, SCHEDULE = "paid", "wfr_one", "wfr_waiting", "nightly"

_BODY = f'{{"card": "{SECRET}"}}'.encode()
_HIDDEN = {"Svc-Redact-Fields": FIELDS, "Svc-Forward-X-Key": SECRET}
_LEAK, _WORKFLOW = {"X-Key": SECRET}, {"Svc-Workflow-Sdk-Version": "1"}
_FAILING = {"Svc-Retries": "0", "Svc-Failure-Callback": "https://failed.test/"}


def found(shown: str | bytes) -> bool:
    """Whether the secret is in what is shown."""
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    return any(each in text for each in _SPELLINGS)


def plant(server: Server) -> None:
    """Messages of every kind that hide the secret, and two runs that do: one fails, one waits for an event."""
    for url, status in ((API, 200), (DOWN, 500)):
        # Answers to ordinary messages are not hidden, so these hold nothing.
        _rule(server, url, status=status)
    ending = _rule(server, FLOW, status=200, body=f"{SECRET} of the app", headers={**_LEAK, **_WORKFLOW})
    _rule(server, "https://crm.test/*", status=200, body=f"{SECRET} of the app", headers=_LEAK)
    _messages(server)
    _failing_run(server)
    _begin(server, WAITING_RUN)
    _wait(server, WAITING_RUN, "1h")
    control(server, "DELETE", f"/destinations/{ending}")
    _rule(server, FLOW, status=500, body=f"{SECRET} of the app", headers=_LEAK)
    _step(server, RUN, 4, f"{SECRET} last")
    control(server, "POST", "/clock/advance", {"by": "30s"})
    # Rules are what the tester wrote, and hold the answers in which the secret came.
    control(server, "DELETE", "/destinations")


def _rule(server: Server, url: str, **respond: object) -> str:
    return str(control(server, "POST", "/destinations", {"match": {"url": url}, "respond": respond})["id"])


def _messages(server: Server) -> None:
    callback = {"Svc-Callback": "https://back.test/", "Svc-Callback-Forward-X-Key": SECRET}
    service(server, "POST", f"/v2/publish/{API}", {**_HIDDEN, **callback}, _BODY)
    service(server, "POST", f"/v2/publish/{API}", {**_HIDDEN, "Svc-Delay": "2h"}, _BODY)
    service(server, "POST", f"/v2/enqueue/orders/{API}", _HIDDEN, _BODY)
    service(server, "POST", f"/v2/publish/{DOWN}", {**_HIDDEN, **_FAILING}, _BODY)
    # What is not text.
    service(server, "POST", f"/v2/publish/{DOWN}", {**_HIDDEN, "Svc-Retries": "3"}, b"\xff" + _BODY)
    every = {"Svc-Cron": "*/5 * * * *", "Svc-Schedule-Id": SCHEDULE}
    service(server, "POST", f"/v2/schedules/{API}", {**_HIDDEN, **every}, _BODY)
    service(server, "POST", "/v2/topics/receivers/endpoints", (), {"endpoints": [{"name": "one", "url": API}]})
    service(server, "POST", "/v2/publish/receivers", _HIDDEN, _BODY)


def _failing_run(server: Server) -> None:
    _begin(server, RUN)
    _step(server, RUN, 1, f"{SECRET} result")
    headers = {**run_headers(RUN), **call_headers(RUN, 2, "call")}
    service(server, "POST", "/v2/publish/https://crm.test/offers", headers, f"{SECRET} request".encode())
    _wait(server, RUN, "20s")
    service(server, "POST", f"/v2/notify/{EVENT}", (), f"{SECRET} event".encode())


def _begin(server: Server, run: str) -> None:
    service(server, "POST", f"/v2/publish/{FLOW}", {**run_headers(run, init=True), **_HIDDEN, **_FAILING}, _BODY)


def _step(server: Server, run: str, number: int, out: str) -> None:
    step = {"stepId": number, "stepName": f"step {number}", "stepType": "Run", "out": json.dumps(out), "concurrent": 1}
    service(server, "POST", f"/v2/publish/{FLOW}", run_headers(run), step)


def _wait(server: Server, run: str, timeout: str) -> None:
    wait = {
        "url": FLOW,
        "timeout": timeout,
        "timeoutUrl": FLOW,
        "timeoutHeaders": {"Svc-Workflow-RunId": [run], "Svc-Forward-X-Key": [SECRET]},
        "step": {"stepId": 3, "stepName": "wait", "stepType": "Wait", "out": SECRET, "concurrent": 1},
    }
    service(server, "POST", f"/v2/wait/{EVENT}", {**run_headers(run), "Svc-Forward-X-Key": SECRET}, wait)


def ids(server: Server) -> Iterator[tuple[str, str]]:
    """Everything of the world that has an id: the name of its collection in the control API, and the id."""
    for collection, listed, key in (
        ("messages", "messages", "message_id"),
        ("runs", "runs", "id"),
        ("schedules", "schedules", "schedule_id"),
        ("worlds", "worlds", "id"),
    ):
        for each in control(server, "GET", f"/{collection}")[listed]:
            yield collection, each[key]
