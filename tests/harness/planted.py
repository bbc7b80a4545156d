"""A world with canaries in everything that can hide one, for tests that look for them in what is shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator, Mapping

from tests.harness.emulators import Server, control, http, service
from tests.harness.workflow_runs import FLOW, call_headers, run_headers

# In bodies and headers that are redacted.
SECRET = "s3cret"
# In answers of receivers, which may repeat what they got, in their body and in a header that is redacted.
ECHO = "3cho3d"
# In the URL of destinations, of which no field is redacted: a value of the query, and one of a parameter that is named
# like a credential; the password of a URL that is refused.
PASSWORD, QUERY, KEY = "p4ssw0rd", "qu3ry0", "k3yk3y"
CONTENT = frozenset((SECRET, ECHO))
URL = frozenset((PASSWORD, QUERY, KEY))
# What no surface shows but those that are exact.
NOWHERE = CONTENT | {PASSWORD}

EVERYTHING, ONE_HEADER = "body,header", "header[X-Card]"
_PLACE = "{}.test/orders?ref=qu3ry0&api_key=k3yk3y"
API, DOWN, BACK, FAILED = (f"https://{_PLACE.format(name)}" for name in ("api", "down", "back", "failed"))
EVENT, RUN, WAITING_RUN, SCHEDULE = "paid", "wfr_one", "wfr_waiting", "nightly"
QUEUE, GROUP, FLOW_KEY, LABEL = "orders", "receivers", "tenant", "card"

_HEADER = {"X-Card": SECRET}
_WORKFLOW = {"Svc-Workflow-Sdk-Version": "1"}
_FLOW_LIMIT = {"Svc-Flow-Control-Value": "parallelism=5"}
_CALLBACK = {"Svc-Callback": BACK, "Svc-Callback-Forward-X-Card": SECRET}
_FAILING = {"Svc-Failure-Callback": FAILED, "Svc-Failure-Callback-Forward-X-Card": SECRET}


def canaries(shown: str | bytes, of: Collection[str] = NOWHERE) -> set[str]:
    """Which canaries are in what is shown, as they are or inside base64, at any of three places."""
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    return {each for each in of if any(spelling in text for spelling in _spellings(each))}


def found(shown: str | bytes) -> bool:
    """Whether what no surface shows is in what is shown."""
    return bool(canaries(shown))


def _spellings(canary: str) -> Iterator[str]:
    yield canary
    for before in range(3):
        # The characters that the bytes before and behind it have a part in are cut off.
        encoded = base64.b64encode(b"\0" * before + canary.encode()).decode().rstrip("=")
        yield encoded[before + (before > 0) : len(encoded) - ((before + len(canary)) % 3 > 0)]


class Planted:
    """Plants a world whose messages and runs redact `fields`; what is not redacted holds no canary."""

    def __init__(self, server: Server, fields: str = EVERYTHING) -> None:
        self._server = server
        self._hidden = {"Svc-Redact-Fields": fields, "Svc-Forward-X-Card": SECRET, "Svc-Label": LABEL}
        self._content = SECRET if "body" in fields else "calm"
        self._body = f'{{"card": "{self._content}"}}'.encode()

    def plant(self) -> None:
        """Messages of every kind, and two runs: one fails, one waits for an event."""
        server, leak = self._server, {"X-Card": ECHO}
        for url, status in (("https://*api.test/*", 200), ("https://*down.test/*", 500), ("https://*back.test/*", 500)):
            self._rule(url, status=status, body=f"{ECHO} of the receiver", headers=leak)
        ending = self._rule(FLOW, status=200, body=f"{ECHO} of the app", headers={**leak, **_WORKFLOW})
        self._rule("https://*crm.test/*", status=200, body=f"{ECHO} of the app", headers=leak)
        self._rule("https://*failed.test/*", status=500, body=f"{ECHO} of the app", headers=leak)
        self._messages()
        self._refused()
        self._failing_run()
        self._begin(WAITING_RUN)
        self._wait(WAITING_RUN, "1h")
        control(server, "DELETE", f"/destinations/{ending}")
        self._rule(FLOW, status=500, body=f"{ECHO} of the app", headers={**leak, "Svc-Error-Step-Name": "step 4"})
        self._step(RUN, 4, f"{self._content} last")
        control(server, "POST", "/clock/advance", {"by": "30s"})
        # Rules are what the tester wrote, and hold the answers in which the canary came.
        control(server, "DELETE", "/destinations")

    def _rule(self, url: str, **respond: object) -> str:
        wanted = {"match": {"url": url}, "respond": respond}
        return str(control(self._server, "POST", "/destinations", wanted)["id"])

    def _publish(self, path: str, headers: Mapping[str, str], body: object = None) -> None:
        # What a call notes in the log beside the message: options that are not applied, ignored or dropped.
        noted = {"Svc-Schedule-Id": "x", "Svc-Forward-Host": "x"} if path.startswith(("publish", "enqueue")) else {}
        sent = {**noted, **self._hidden, **headers}
        service(self._server, "POST", f"/v2/{path}", sent, self._body if body is None else body)

    def _messages(self) -> None:
        self._publish(f"publish/{API}", _CALLBACK)
        self._publish(f"publish/{API}", {"Svc-Delay": "2h", "Svc-Flow-Control-Key": FLOW_KEY, **_FLOW_LIMIT})
        self._publish(f"enqueue/{QUEUE}/{API}", {"Svc-Delay": "10s"})
        self._publish(f"publish/{DOWN}", {"Svc-Retries": "0", **_FAILING})
        # What is not text.
        self._publish(f"publish/{DOWN}", {"Svc-Retries": "3"}, b"\xff" + self._body)
        self._publish(f"schedules/{API}", {"Svc-Cron": "*/5 * * * *", "Svc-Schedule-Id": SCHEDULE, **_CALLBACK})
        endpoints = {"endpoints": [{"name": "one", "url": API}]}
        service(self._server, "POST", f"/v2/topics/{GROUP}/endpoints", (), endpoints)
        self._publish(f"publish/{GROUP}", {})

    def _refused(self) -> None:
        """Calls that are refused: one beside its token, one for an option, and an item of a batch."""
        token = self._server.token
        headers = {**self._hidden, "Authorization": f"Bearer {token}", "Svc-Delay": "soon"}
        unfit = API.replace("://", f"://user:{PASSWORD}@")
        answers = [
            http("POST", f"{self._server.url}/v2/publish/{API}", headers=headers, content=self._body),
            http("POST", f"{self._server.url}/v2/publish/{unfit}", headers={**headers, "Svc-Delay": "1s"}),
            http("POST", f"{self._server.url}/v2/publish/{API}&queue_tokn={token}", headers=self._hidden),
        ]
        assert {each.status_code for each in answers} == {400, 401}
        item = {"destination": API, "body": SECRET, "headers": {**self._hidden, "Svc-Delay": "soon"}}
        service(self._server, "POST", "/v2/batch", {"Content-Type": "application/json"}, [item])

    def _failing_run(self) -> None:
        self._begin(RUN)
        self._step(RUN, 1, f"{self._content} result")
        headers = {**run_headers(RUN), **call_headers(RUN, 2, "call"), "Svc-Forward-X-Card": SECRET}
        request = f"{self._content} request".encode()
        service(self._server, "POST", "/v2/publish/https://crm.test/offers", headers, request)
        # What the endpoint reports of it, as clients do.
        answer = {"status": 200, "body": self._content, "header": {"X-Card": [self._content]}}
        self._step(RUN, 2, answer, step_type="Call", name="call")
        self._wait(RUN, "20s")
        service(self._server, "POST", f"/v2/notify/{EVENT}", (), f"{self._content} event".encode())

    def _begin(self, run: str) -> None:
        # A queue is noted in the log: runs are in none.
        headers = {**run_headers(run, init=True), "Svc-Retries": "0", "Svc-Queue-Name": QUEUE, **_FAILING}
        self._publish(f"publish/{FLOW}", headers)

    def _step(self, run: str, number: int, out: object, *, step_type: str = "Run", name: str | None = None) -> None:
        step = {"stepId": number, "stepName": name or f"step {number}", "stepType": step_type, "concurrent": 1}
        service(self._server, "POST", f"/v2/publish/{FLOW}", run_headers(run), {**step, "out": json.dumps(out)})

    def _wait(self, run: str, timeout: str) -> None:
        wait = {
            "url": FLOW,
            "timeout": timeout,
            "timeoutUrl": FLOW,
            "timeoutHeaders": {"Svc-Workflow-RunId": [run], "Svc-Forward-X-Card": [SECRET]},
            "step": {"stepId": 3, "stepName": "wait", "stepType": "Wait", "out": self._content, "concurrent": 1},
        }
        service(self._server, "POST", f"/v2/wait/{EVENT}", {**run_headers(run), "Svc-Forward-X-Card": SECRET}, wait)


def plant(server: Server, fields: str = EVERYTHING) -> None:
    """See `Planted.plant`."""
    Planted(server, fields).plant()


def ids(server: Server) -> Iterator[tuple[str, str]]:
    """Everything of the world that has an id: the name of its collection in the control API, and the id."""
    for collection, listed, key in (
        ("messages", "messages", "message_id"),
        ("runs", "runs", "id"),
        ("schedules", "schedules", "schedule_id"),
        ("worlds", "worlds", "id"),
        ("dead-letters", "dead_letters", "dead_letter_id"),
    ):
        for each in control(server, "GET", f"/{collection}")[listed]:
            yield collection, each[key]
