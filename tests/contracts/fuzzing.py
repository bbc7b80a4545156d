"""Schemathesis against an emulator: the description it generates from, the world it meets, what counts as a failure.

A contract's patterns say what the service may accept at most; they cannot say that a cron expression has a
date, or that an expression's functions have arguments. So what is *valid* is generated from `FORMATS`, samples
of each grammar that have to be accepted, and what is *invalid* from the contract's own patterns, whose
violations have to be refused.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
import requests
import requests.auth
import schemathesis
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema
from schemathesis.python import asgi

from emulator.server import bootstrap
from emulator.server.settings import Settings
from tests.contracts.documents import resolved, walk
from tests.harness import emulators

UNLIMITED = 10**12
PATIENCE_S = 60
# Coverage is by far the longest.
PHASES = ("examples", "coverage", "fuzzing", "stateful")

# A file is sent as it was generated.
schemathesis.serializer.alias("application/vnd.sqlite3", "application/octet-stream")

# The statuses with which wrong input is refused.
REFUSALS = ("400", "401", "403", "404", "405", "406", "409", "415", "422", "428", "429")

# -- the description --------------------------------------------------------------------------

_EXPRESSIONS = ("0", "1000 * pow(2, retried)", "min(max(1, retried), 60000)", "1e3 + sqrt(abs(-4)) / 2", "exp(retried)")
_URLS = (
    "https://one.example.com/orders",
    "http://two.example.com:8080/hook?token=a+b&x=1",
    "HTTPS://flaky.example.com/a//b",
    "https://down.example.com",
    "https://never.example.com/again",
    "https://slow.example.com/",
    "http://[2001:db8::1]:80/?",
)
_PERIODS = ("1", "604800", "30s", "1m", "1h30m", "7d")
# A run that is there from the beginning.
RUN = "wfr_furnished"
_PRINTABLE = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=64)

FORMATS: Mapping[str, st.SearchStrategy[str]] = {
    "svc-url": st.sampled_from(_URLS),
    "svc-destination": st.sampled_from((*_URLS, "my-group")),
    "svc-cron": st.sampled_from(
        ("* * * * *", "*/10 0-6,22 * * MON-FRI", "CRON_TZ=Europe/Berlin 30 2 * * 0", "0 9 1 JAN ?", "59 23 31 12 *")
    ),
    "svc-retry-delay": st.sampled_from(_EXPRESSIONS),
    "svc-duration": st.sampled_from(("0s", "10s", "1d10h30m", "30m1h", "90d")),
    "svc-timeout": st.sampled_from(("1s", "30s", "2m", "1h30m")),
    "svc-period": st.sampled_from(_PERIODS),
    "svc-flow-control-value": st.sampled_from(
        ("parallelism=1", "rate=10", "parallelism=2, rate=3, period=1d", "period=60,rate=1")
    ),
    "svc-printable": _PRINTABLE,
    "svc-header-name": st.from_regex(r"\AX-[A-Za-z0-9-]{1,20}\Z"),
    "svc-instant": st.sampled_from(("2026-03-01", "2026-01-02T03:04:05.678Z", "2027-02-28 23:59:59,9+05:30")),
    "svc-control-duration": st.sampled_from(("0s", "250ms", "10s", "1d2h30m", "5m1h")),
    "svc-origin": st.sampled_from(("http://127.0.0.1:3000", "https://api.example.com/", "http://[::1]:80")),
    "svc-label": st.sampled_from(("billing", "billing,eu", "a b")),
    "svc-run": st.sampled_from((RUN, "wfr_nobody")),
}

# Component of the contract -> the format from which valid values are generated.
_SCHEMA_FORMATS = {
    "Url": "svc-url",
    "Destination": "svc-destination",
    "Cron": "svc-cron",
    "RetryDelay": "svc-retry-delay",
    "Duration": "svc-duration",
    "Timeout": "svc-timeout",
    "Period": "svc-period",
    "FlowControlKey": "svc-printable",
    "FreeText": "svc-printable",
    "Origin": "svc-origin",
    "HeaderName": "svc-header-name",
    "FixtureLabel": "svc-printable",
}
# The same where a text is one of several choices.
_CHOICE_FORMATS = {"InstantGiven": "svc-instant", "DurationGiven": "svc-control-duration"}
_PARAMETER_FORMATS = {
    "FlowControlValue": "svc-flow-control-value",
    "WorkflowRunIdOfMessage": "svc-run",
    "WorkflowRunIdOfWait": "svc-run",
    "WorkflowRunIdInPath": "svc-run",
}

# A parameter whose name ends in `*` stands for many; one of them is fuzzed.
_ONE_OF_MANY = {
    "Svc-Forward-*": ("Svc-Forward-X-Fuzz", None),
    "Svc-Callback-Forward-*": ("Svc-Callback-Forward-X-Fuzz", None),
    "Svc-Failure-Callback-Forward-*": ("Svc-Failure-Callback-Forward-X-Fuzz", None),
    "Svc-Workflow-*": ("Svc-Workflow-X-Fuzz", None),
    "Svc-Callback-*": ("Svc-Callback-Label", "svc-label"),
    "Svc-Failure-Callback-*": ("Svc-Failure-Callback-Label", "svc-label"),
}


def generable(document: Mapping[str, Any]) -> dict[str, Any]:
    """The contract, with formats for valid values, and with what it says in words only said as schemas."""
    changed = copy.deepcopy(dict(document))
    components = changed["components"]
    for name, text_format in _SCHEMA_FORMATS.items():
        if name in components["schemas"]:
            components["schemas"][name]["format"] = text_format
    for name, text_format in _CHOICE_FORMATS.items():
        for choice in components["schemas"].get(name, {}).get("oneOf", ()):
            if choice["type"] == "string":
                choice["format"] = text_format
    for name, text_format in _PARAMETER_FORMATS.items():
        if name in components.get("parameters", {}):
            components["parameters"][name]["schema"]["format"] = text_format
    for found in _objects(changed):
        if found.get("x-wildcard"):
            found["name"], text_format_or_none = _ONE_OF_MANY[found["name"]]
            if text_format_or_none is not None:
                found["schema"] = {"type": "string", "pattern": "^[ -~]*$", "format": text_format_or_none}
        if "x-events" in found:
            # Schemathesis reads a stream itself, and takes the schema for that of each event.
            found["schema"] = {"oneOf": [_event_schema(kind, data) for kind, data in found["x-events"].items()]}
    return changed


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a value."""
    return (found for _, found in walk(value) if isinstance(found, dict))


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (each for each in _objects(document["paths"]) if "operationId" in each and "responses" in each)


def _of_runs(document: Mapping[str, Any]) -> list[str]:
    """The operations that refuse wrong values of a message of a workflow run with 412 (D-364)."""
    return [
        operation["operationId"]
        for operation in _operations(document)
        if operation["responses"].get("412", {}).get("$ref", "").endswith("/LimitReachedOrOfRun")
    ]


def _event_schema(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"const": kind},
            "id": {"$ref": "#/components/schemas/StreamId"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
        },
        "additionalProperties": False,
    }


def without_options(document: Mapping[str, Any], operations: Container[str] | None = None) -> dict[str, Any]:
    """The contract without the optional headers and parameters of some operations, or of all."""
    changed = copy.deepcopy(dict(document))
    for operation in _operations(changed):
        if operations is None or operation["operationId"] in operations:
            given = operation.get("parameters", ())
            operation["parameters"] = [each for each in given if resolved(changed, each).get("required", False)]
    return changed


def only(document: Mapping[str, Any], operations: Container[str]) -> dict[str, Any]:
    """The contract with some operations only, and with the links between them."""
    changed = copy.deepcopy(dict(document))
    for item in changed["paths"].values():
        for method, operation in list(item.items()):
            if method != "parameters" and operation["operationId"] not in operations:
                del item[method]
    for found in _objects(changed):
        if isinstance(found.get("links"), dict):
            for name, link in list(found["links"].items()):
                if link["operationId"] not in operations:
                    del found["links"][name]
    return changed


def links(document: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Every link: the operation that gives an id, and the operation that takes it."""
    return {
        (operation["operationId"], link["operationId"])
        for operation in _operations(document)
        for response in operation["responses"].values()
        for link in resolved(document, response).get("links", {}).values()
    }


def without_longest_urls(document: Mapping[str, Any]) -> dict[str, Any]:
    """The contract without the greatest length of a URL: texts of that length take half a second each to make."""
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    for name in ("Url", "Destination"):
        changed["components"]["schemas"].get(name, {}).pop("maxLength", None)
    return changed


def without_fixtures(document: Mapping[str, Any], operations: Container[str]) -> dict[str, Any]:
    """The contract of the control API without the fixtures of some operations."""
    changed = copy.deepcopy(dict(document))
    schemas = changed["components"]["schemas"]
    for operation in _operations(changed):
        if operation["operationId"] in operations:
            content = operation["requestBody"]["content"]["application/json"]
            schema = copy.deepcopy(resolved(changed, content["schema"]))
            del schema["properties"]["fixtures"]
            content.pop("example", None)
            name = f"BodyOf{operation['operationId']}"
            schemas[name] = schema
            content["schema"] = {"$ref": f"#/components/schemas/{name}"}
    return changed


# -- the world --------------------------------------------------------------------------------

# A chat waits for its answer, which a rule's latency would hold back.
MODEL: Mapping[str, Any] = {
    "match": {"url": "*/llm/v1/chat/completions"},
    "respond": {"status": 200, "headers": {"Content-Type": "application/json"}, "body": "{}"},
}
_RULES: tuple[Mapping[str, Any], ...] = (
    MODEL,
    {
        "match": {"url": "*://flaky.example.com*"},
        "sequence": [{"status": 503, "headers": {"Retry-After": "10"}}, {"status": 500}, {"status": 200}],
    },
    {"match": {"url": "*://down.example.com*"}, "fault": "refused"},
    {
        "match": {"url": "*://never.example.com*"},
        "respond": {"status": 489, "headers": {"Svc-NonRetryable-Error": "true"}, "body": "no"},
    },
    {"match": {"url": "*://slow.example.com*"}, "respond": {"status": 200, "latency": "2m"}},
    # Whatever else is made up: nothing leaves this machine, or reaches another program on it.
    {"match": {"url": "*"}, "respond": {"status": 200, "body": "seen"}},
)
_NO_LIMITS = dict.fromkeys(
    (
        *("max_requests_per_day", "max_requests_per_day_hard", "max_requests_per_second", "max_retries", "max_delay"),
        *("max_topics", "max_endpoints_per_topic", "max_queues", "max_parallelism", "max_schedules"),
    ),
    UNLIMITED,
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """An emulator to fuzz. `app` is None for one behind a socket."""

    url: str
    app: Any
    send: Callable[..., Any]
    control_token: str = ""

    def control(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {self.control_token}"} if self.control_token else {}
        response = self.send(method, f"{self.url}/_emulator{path}", json=body, headers=headers)
        assert response.status_code < 500, response.text
        return response.json() if response.content else None

    def messaging(self, path: str, token: str, body: object = None, **headers: str) -> None:
        given = {"Authorization": f"Bearer {token}", **headers}
        response = self.send("POST", f"{self.url}/v2{path}", json=body, headers=given)
        assert response.status_code in (200, 201), response.text


class Application:
    """The emulator's application, which starts and stops on the event loop that Schemathesis calls it on."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._emulation: bootstrap.Emulation | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            assert self._emulation is not None
            # Schemathesis names its client `testclient`; a server would say an address.
            await self._emulation.app({**scope, "client": ("203.0.113.7", 50_000)}, receive, send)
            return
        await receive()
        self._emulation = await bootstrap.start(self._settings)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._emulation.close()
        await send({"type": "lifespan.shutdown.complete"})


@contextlib.contextmanager
def in_process(control_token: str = "") -> Iterator[Target]:
    """An emulator called directly, its clock frozen."""
    app = Application(Settings(clock="frozen", epoch=emulators.EPOCH, control_token=control_token))
    try:
        with asgi.get_client(app) as client:
            yield Target(url="http://testserver", app=app, send=client.request, control_token=control_token)
    finally:
        asgi.shutdown_lifespans()


@contextlib.contextmanager
def behind_a_socket(server: str) -> Iterator[Target]:
    """An emulator behind a real HTTP server, its clock frozen."""
    with (
        emulators.server(server=server) as running,
        httpx.Client(trust_env=False, timeout=PATIENCE_S) as client,
    ):
        yield Target(url=running.url, app=None, send=client.request)


def furnish(target: Target) -> Any:
    """Rules, an account without narrow limits, and one of each kind of thing; the world's credentials."""
    credentials = target.control("GET", "/credentials")
    token = credentials["queue"]["token"]
    target.control("PUT", f"/accounts/{credentials['queue']['account_id']}", _NO_LIMITS)
    for rule in _RULES:
        target.control("POST", "/destinations", rule)
    endpoints = {"endpoints": [{"url": _URLS[0], "name": "first"}, {"url": _URLS[2]}]}
    target.messaging("/topics/my-group/endpoints", token, endpoints)
    target.messaging("/queues", token, {"queueName": "my-queue", "parallelism": 2})
    target.messaging(f"/publish/{_URLS[3]}", token, {"user": 7}, **{"Svc-Retries": "0", "Svc-Label": "billing"})
    target.messaging(f"/publish/{_URLS[4]}", token, **{"Svc-Flow-Control-Key": "user-1"})
    target.messaging(f"/publish/{_URLS[0]}", token, **{"Svc-Workflow-RunId": RUN, "Svc-Workflow-Init": "true"})
    target.messaging(f"/schedules/{_URLS[0]}", token, **{"Svc-Cron": "0 0 1 1 *"})
    target.messaging(f"/publish/{_URLS[2]}", token, **{"Svc-Callback": _URLS[0], "Svc-Redact-Fields": "body"})
    target.control("POST", "/clock/advance", {"by": "10s"})
    return credentials


def bury(target: Target, credentials: Any, count: int) -> None:
    """More dead letters; if they are published again, the messages live for an hour."""
    target.control("DELETE", "/destinations")
    for rule in _RULES:
        target.control("POST", "/destinations", rule)
    target.messaging("/batch", credentials["queue"]["token"], [{"destination": _URLS[4]}] * count)
    target.control("DELETE", "/destinations")
    target.control("POST", "/destinations", MODEL)
    target.control("POST", "/destinations", {"match": {"url": "*"}, "respond": {"latency": "1h"}})


# -- the run ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """A verdict of Schemathesis that does not count here, and why."""

    failure: str
    operation: str = "*"
    when: Callable[[Any, Any], bool]
    reason: str


@dataclass
class Outcome:
    """What a run did and found."""

    calls: Counter[str] = field(default_factory=Counter)
    # How often an answer's id was used with success: the operation that gave it, and the operation that took it.
    followed: Counter[tuple[str, str]] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    failures: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, place: str, check: str, message: str, detail: str) -> None:
        self.failures.setdefault((place, check, message), []).append(detail)

    def text(self) -> str:
        """Each kind of failure with its first example."""
        return "\n\n".join(
            f"{place}: {check} ({len(details)} times)\n{message}\n{details[0]}"
            for (place, check, message), details in self.failures.items()
        )


def run(
    target: Target,
    document: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    max_examples: int,
    seed: int,
    allowed: Sequence[Allowed] = (),
    moves_clock: bool = True,
    phases: Container[str] = PHASES,
    infers_links: bool = True,
) -> Outcome:
    """All phases, all checks. Every few calls the clock moves, so that deliveries happen in between.

    With `infers_links` false, only the links that the document has lead from one operation to another.
    """
    outcome = Outcome()
    calls = itertools.count(1)
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "headers": dict(headers),
            "continue-on-failure": True,
            "generation": {"max-examples": max_examples, "deterministic": True, "database": "none"},
            "phases": {
                **{name: {"enabled": name in phases} for name in PHASES},
                "stateful": {
                    "enabled": "stateful" in phases,
                    **({} if infers_links else {"inference": {"algorithms": []}}),
                },
            },
            "operations": [
                {
                    "include-operation-id": operation_id,
                    "checks": {"negative_data_rejection": {"expected-statuses": [*REFUSALS, "412"]}},
                }
                for operation_id in _of_runs(document)
            ],
        }
    )
    for name, strategy in FORMATS.items():
        schemathesis.openapi.format(name, strategy)
    schema = schemathesis.openapi.from_dict(generable(document), config=config)
    schema.location = target.url + "/"
    if target.app is not None:
        schema.app = target.app

    @schema.hook
    def after_call(context: Any, case: Any, response: Any) -> None:
        if moves_clock and next(calls) % 10 == 0:
            target.control("POST", "/clock/advance", {"by": "20s", "max_deliveries": 1000})

    @schema.hook
    def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
        operation = case.operation.definition.raw.get("operationId", "")
        for one in allowed:
            named = one.operation in ("*", operation)
            if named and type(failure).__name__ == one.failure and one.when(case, response):
                outcome.allowed[one.reason] += 1
                return False
        return True

    with _raw_destinations():
        for event in from_schema(schema).execute():
            _record(event, outcome)
    return outcome


def _record(event: Any, outcome: Outcome) -> None:
    if isinstance(event, events.ScenarioFinished):
        outcome.calls[event.phase.value] += len(event.recorder.interactions)
        _record_links(event.recorder, outcome)
        for case_id, checks in event.recorder.checks.items():
            for check in checks:
                if check.status == Status.SUCCESS:
                    continue
                info = check.failure_info
                if info is None:
                    outcome.add(event.recorder.label, check.name, "the check itself failed", "")
                    continue
                answer = event.recorder.interactions[info.failure.case_id or case_id].response
                shown = "" if answer is None else f"{answer.status_code} {answer.content[:500]!r}"
                message = info.failure.message.partition("\n\nSchema at")[0][:300]
                outcome.add(event.recorder.label, check.name, message, f"{info.code_sample}\n{shown}")
    elif isinstance(event, events.NonFatalError):
        outcome.add(event.label, "error", str(event.value)[:300], "")
    elif isinstance(event, events.FatalError):
        outcome.add("the run", "error", repr(event.exception), "")
    elif isinstance(event, events.EngineFinished):
        outcome.seconds = event.running_time
        for failure in event.failures:
            outcome.add("the run", type(failure).__name__, failure.message, "")


def _record_links(recorder: Any, outcome: Outcome) -> None:
    for case_id, node in recorder.cases.items():
        answer = recorder.interactions[case_id].response if case_id in recorder.interactions else None
        if node.is_transition_applied and not node.transition.is_inferred and answer and answer.status_code < 300:
            taker, giver = node.value.operation, recorder.cases[node.parent_id].value.operation
            names = (giver.definition.raw["operationId"], taker.definition.raw["operationId"])
            outcome.followed[names] += 1


@contextlib.contextmanager
def _raw_destinations() -> Iterator[None]:
    """Sends destinations as clients do: OpenAPI has no word for a path parameter that is not percent-encoded.

    Schemathesis and requests both tidy a path up, and would make one slash of two. What requests calls
    `auth` sees the request after that, right before it leaves.
    """

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        # The hook that all phases share; it exists for all schemas of a process only.
        if isinstance(case.body, dict | list):
            case.body = _with_whole_integers(case.body)
        if case.operation.definition.raw.get("operationId") == "streamWorld":
            case.query = _without_following(case.query or {})
        for parameter in case.operation.path_parameters:
            encoded = (case.path_parameters or {}).get(parameter.name)
            if parameter.definition.get("x-raw-path") and isinstance(encoded, str):
                kwargs["auth"] = _RawPath(encoded)

    schemathesis.hook(before_call)
    try:
        yield
    finally:
        schemathesis.hooks.unregister(before_call)


class _RawPath(requests.auth.AuthBase):
    """Replaces the percent-encoded end of a path by what it stands for, where HTTP can carry that."""

    def __init__(self, encoded: str) -> None:
        self._encoded = encoded

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        path, question_mark, query = (request.url or "").partition("?")
        raw = unquote(self._encoded)
        is_sendable = raw.isascii() and raw.isprintable() and not set(raw) & set(" #")
        if path.endswith(self._encoded) and is_sendable:
            joint = "&" if question_mark and "?" in raw else question_mark
            request.url = path.removesuffix(self._encoded) + raw + joint + query
        return request


def _without_following(query: Mapping[str, Any]) -> dict[str, Any]:
    """A stream is fuzzed in the form that ends: an answer without an end is one that nobody can hold against anything.

    Everything else about the call stays, and so does a `follow` that has to be refused.
    """
    given = query.get("follow", "true")
    values = given if isinstance(given, list) else [given]
    follows = all(str(value).lower() in ("true", "") for value in values)
    return {**query, "follow": "false"} if follows else dict(query)


def _with_whole_integers(value: Any) -> Any:
    """JSON Schema calls 1.0 an integer; the service, like most programs, does not (D-077)."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _with_whole_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_integers(item) for item in value]
    return value


def json_of(response: Any) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return None
