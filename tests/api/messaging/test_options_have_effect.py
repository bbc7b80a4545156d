"""Every option that the wire reads does what the contract says: on a publish, in a batch and on a schedule.

Each case gives its options to a message and looks at what really went out and at the log. The
destination fails when asked to, so that retries and failure callbacks can be seen.

What the wire reads, what the contract lists for each operation, and what has a test here are one set.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from emulator.wire.messaging.flow_control import LIMIT_NAMES
from emulator.wire.messaging.options import OPTION_KEYS
from emulator.wire.messaging.requests import BatchItem
from tests.api.workflow.calls import RUN
from tests.contracts.documents import load, operations
from tests.harness.emulators import InProcess, with_emulator

URL = "https://api.test/hook"
DOWN = "https://down.test/hook"
SUCCESS = "https://cb.test/success"
FAILURE = "https://cb.test/failure"


@dataclass(frozen=True)
class Seen:
    """What came of one message, its times counted from the instant it was published."""

    deliveries: list[Any]
    events: list[Any]
    published_ms: int

    def at(self, url: str) -> list[Any]:
        return [delivery for delivery in self.deliveries if delivery["url"] == url]

    def times_s(self, url: str) -> list[float]:
        return [(delivery["at_ms"] - self.published_ms) / 1000 for delivery in self.at(url)]

    @property
    def first(self) -> Any:
        return self.deliveries[0]


@dataclass(frozen=True)
class Case:
    """Options, what the destination does, and what must be seen."""

    options: dict[str, str]
    check: Callable[[Seen], Any]
    destination: str = URL
    rules: list[dict[str, Any]] = field(default_factory=list)
    kinds: tuple[str, ...] = ("publish", "query", "batch", "schedule")


def seconds(*expected: float) -> Callable[[Seen], bool]:
    return lambda seen: seen.times_s(DOWN) == list(expected)


def callback_case(family: str, url: str) -> dict[str, Case]:
    """The options of one callback family; the callback itself fails, so that its retries show."""
    fails = [{"match": {"url": url}, "respond": {"status": 500, "latency": "3s"}}]
    base = {f"Svc-{family}": url, "Svc-Retries": "0"}

    def case(options: dict[str, str], check: Callable[[Seen], Any], **extra: Any) -> Case:
        given = {**base, **{f"Svc-{family}-{name}": value for name, value in options.items()}}
        return Case(given, check, destination=DOWN, **extra)

    def gaps(seen: Seen) -> list[float]:
        times = seen.times_s(url)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    return {
        f"Svc-{family}": case({}, lambda seen: len(seen.at(url)) == 1),
        f"Svc-{family}-Forward-*": case(
            {"Forward-Team": "x"}, lambda seen: seen.at(url)[0]["headers"]["Team"] == ["x"]
        ),
        f"Svc-{family}-Method": case({"Method": "PUT"}, lambda seen: seen.at(url)[0]["method"] == "PUT"),
        f"Svc-{family}-Timeout": case(
            {"Timeout": "1s", "Retries": "0"},
            lambda seen: (seen.at(url)[0]["response"], seen.at(url)[0]["duration_ms"]) == (None, 1_000),
            rules=fails,
        ),
        f"Svc-{family}-Retries": case({"Retries": "2"}, lambda seen: len(seen.at(url)) == 3, rules=fails),
        f"Svc-{family}-Retry-Delay": case(
            {"Retries": "2", "Retry-Delay": "7000 * (retried + 1)"},
            lambda seen: gaps(seen) == [3.0 + 7, 3.0 + 14],
            rules=fails,
        ),
        f"Svc-{family}-Delay": case({"Delay": "0s"}, lambda seen: seen.times_s(url) == [0.0]),
        f"Svc-{family}-Redact-Fields": case(
            {"Redact-Fields": "body"},
            lambda seen: all(
                base64.b64decode(event["body"]).startswith(b"REDACTED:") for event in seen.events if event["url"] == url
            ),
        ),
        f"Svc-{family}-Label": case(
            {"Label": "told"}, lambda seen: {event["label"] for event in seen.events if event["url"] == url} == {"told"}
        ),
        f"Svc-{family}-Flow-Control-Key": case(
            {"Flow-Control-Key": "k"},
            lambda seen: {event["flowControlKey"] for event in seen.events if event["url"] == url} == {"k"},
        ),
    }


OPTIONS: dict[str, Case] = {
    "Content-Type": Case(
        {"Content-Type": "application/x-thing"},
        lambda seen: seen.first["headers"]["Content-Type"] == ["application/x-thing"],
        kinds=("publish", "batch", "schedule"),
    ),
    "Svc-Method": Case({"Svc-Method": "DELETE"}, lambda seen: seen.first["method"] == "DELETE"),
    "Svc-Method default": Case({}, lambda seen: seen.first["method"] == "POST"),
    "Svc-Timeout": Case(
        {"Svc-Timeout": "5s", "Svc-Retries": "0"},
        lambda seen: (seen.first["response"], seen.first["duration_ms"]) == (None, 5_000),
        destination=DOWN,
        rules=[{"match": {"url": DOWN}, "respond": {"latency": "10s"}}],
    ),
    "Svc-Retries": Case({"Svc-Retries": "2"}, lambda seen: len(seen.deliveries) == 3, destination=DOWN),
    "Svc-Retries default": Case({}, lambda seen: len(seen.deliveries) == 6, destination=DOWN),
    "Svc-Retry-Delay": Case(
        {"Svc-Retries": "3", "Svc-Retry-Delay": "pow(2, retried) * 1000"}, seconds(0, 1, 3, 7), destination=DOWN
    ),
    "Svc-Retry-Delay default": Case({"Svc-Retries": "2"}, seconds(0, 12, 160), destination=DOWN),
    "Svc-Delay": Case({"Svc-Delay": "1d10h30m"}, lambda seen: seen.times_s(URL) == [124_200.0]),
    "Svc-Not-Before": Case(
        {"Svc-Not-Before": "1767225690"}, lambda seen: seen.times_s(URL) == [90.0], kinds=("publish", "query", "batch")
    ),
    "Svc-Forward-*": Case({"Svc-Forward-X-Team": "blue"}, lambda seen: seen.first["headers"]["X-Team"] == ["blue"]),
    "Svc-Header-Forward": Case(
        {"Svc-Header-Forward": "true", "X-Mine": "yes"},
        lambda seen: seen.first["headers"]["X-Mine"] == ["yes"] and "Svc-Header-Forward" not in seen.first["headers"],
        kinds=("publish", "batch", "schedule"),
    ),
    "Svc-Header-Forward absent": Case(
        {"X-Mine": "yes"}, lambda seen: "X-Mine" not in seen.first["headers"], kinds=("publish", "batch", "schedule")
    ),
    "Svc-Redact-Fields": Case(
        {"Svc-Redact-Fields": "body"},
        lambda seen: (
            seen.first["body"] == "payload"
            and {base64.b64decode(event["body"])[:9] for event in seen.events} == {b"REDACTED:"}
        ),
    ),
    "Svc-Label": Case({"Svc-Label": "a, b"}, lambda seen: all(event["labels"] == ["a", "b"] for event in seen.events)),
    "Svc-Flow-Control-Key": Case(
        {"Svc-Flow-Control-Key": "k"}, lambda seen: {event["flowControlKey"] for event in seen.events} == {"k"}
    ),
    "Svc-Flow-Control-Value rate": Case(
        {
            "Svc-Flow-Control-Key": "k",
            "Svc-Flow-Control-Value": "rate=1",
            "Svc-Retries": "2",
            "Svc-Retry-Delay": "0",
        },
        seconds(0, 1, 2),
        destination=DOWN,
    ),
    "Svc-Flow-Control-Value period": Case(
        {
            "Svc-Flow-Control-Key": "k",
            "Svc-Flow-Control-Value": "rate=1, period=1m",
            "Svc-Retries": "2",
            "Svc-Retry-Delay": "0",
        },
        seconds(0, 60, 120),
        destination=DOWN,
    ),
    # The callback, which goes by the same key, waits for the answer to a second attempt.
    "Svc-Flow-Control-Value parallelism": Case(
        {
            "Svc-Flow-Control-Key": "k",
            "Svc-Flow-Control-Value": "parallelism=1",
            "Svc-Retries": "1",
            "Svc-Retry-Delay": "0",
            "Svc-Callback": SUCCESS,
            "Svc-Callback-Flow-Control-Key": "k",
            "Svc-Callback-Flow-Control-Value": "parallelism=1",
        },
        lambda seen: [(seen.times_s(URL), seen.times_s(SUCCESS))] == [([0.0, 5.0], [10.0, 10.0])],
        rules=[{"match": {"url": URL}, "respond": {"status": 500, "latency": "5s"}}],
    ),
    "Svc-Queue-Name": Case(
        {"Svc-Queue-Name": "q"}, lambda seen: {event["queueName"] for event in seen.events} == {"q"}
    ),
    "Svc-Deduplication-Id": Case(
        {"Svc-Deduplication-Id": "d"}, lambda seen: len(seen.deliveries) == 1, kinds=("publish", "query", "batch")
    ),
    **callback_case("Callback", SUCCESS),
    **callback_case("Failure-Callback", FAILURE),
}
CASES = [pytest.param(case, kind, id=f"{name} on {kind}") for name, case in OPTIONS.items() for kind in case.kinds]


async def publish(emulator: InProcess, case: Case) -> None:
    answer = await emulator.post(f"/v2/publish/{case.destination}", case.options, "payload")
    assert answer.status == 200, answer.body


async def publish_with_query(emulator: InProcess, case: Case) -> None:
    query = "&".join(
        f"{name.lower()}={value.replace(' ', '%20').replace('+', '%2B')}" for name, value in case.options.items()
    )
    answer = await emulator.post(f"/v2/publish/{case.destination}?{query}", (), "payload")
    assert answer.status == 200, answer.body


async def publish_in_batch(emulator: InProcess, case: Case) -> None:
    headers = {name.lower(): value for name, value in case.options.items()}
    answer = await emulator.post(
        "/v2/batch", (), [{"destination": case.destination, "headers": headers, "body": "payload"}]
    )
    assert "messageId" in answer.json[0], answer.body


async def schedule(emulator: InProcess, case: Case) -> None:
    """Fires one minute after the start, and once only."""
    headers = {"Svc-Cron": "1 0 1 1 *", **case.options}
    answer = await emulator.post(f"/v2/schedules/{case.destination}", headers, "payload")
    assert answer.status == 200, answer.body
    assert (await emulator.advance("1m"))["schedules_fired"] == 1


GIVE: dict[str, Callable[[InProcess, Case], Awaitable[None]]] = {
    "publish": publish,
    "query": publish_with_query,
    "batch": publish_in_batch,
    "schedule": schedule,
}


@pytest.mark.parametrize(("case", "kind"), CASES)
@with_emulator()
async def test_an_option_has_its_effect(emulator: InProcess, case: Case, kind: str) -> None:
    for rule in case.rules:
        assert (await emulator.control("POST", "/destinations", rule)).status == 201
    await emulator.rule(DOWN, respond={"status": 500})
    await GIVE[kind](emulator, case)
    await emulator.advance("5d")
    events = (await emulator.get("/v2/events?order=earliestFirst")).json["events"]
    seen = Seen(await emulator.deliveries(), events, events[0]["time"])
    assert case.check(seen), json.dumps([seen.deliveries, seen.events], indent=1)[:4_000]


# -- options with a test of their own ------------------------------------------------------------


TESTED_ALONE: set[str] = set()
Test = TypeVar("Test", bound=Callable[..., Any])


def shows(*headers: str) -> Callable[[Test], Test]:
    """Marks a test as that of these options."""

    def mark(test: Test) -> Test:
        TESTED_ALONE.update(headers)
        return test

    return mark


@shows("Svc-Cron")
@with_emulator()
async def test_cron_decides_when_a_schedule_fires(emulator: InProcess) -> None:
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=America/New_York 30 9 * * MON-FRI"})
    await emulator.advance("7d")
    fired = [delivery["at"] for delivery in await emulator.deliveries()]
    # From Thursday, 1 January 2026; New York is five hours behind.
    assert fired == [f"2026-01-0{day}T14:30:00.000Z" for day in (1, 2, 5, 6, 7)]


@shows("Svc-Schedule-Id")
@with_emulator()
async def test_a_schedule_id_names_the_schedule(emulator: InProcess) -> None:
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "my.id-1_x"})
    assert (await emulator.get("/v2/schedules/my.id-1_x")).status == 200


@shows("Svc-Content-Based-Deduplication")
@with_emulator()
async def test_content_based_deduplication_sends_the_same_content_once(emulator: InProcess) -> None:
    for value in ("true", "True"):
        await emulator.post(f"/v2/publish/{URL}", {"Svc-Content-Based-Deduplication": value}, "x")
    assert len(await emulator.deliveries()) == 1


INIT = {"Svc-Workflow-RunId": RUN, "Svc-Workflow-Init": "true"}


async def runs(emulator: InProcess) -> Any:
    return (await emulator.get("/v2/workflows/logs")).json["runs"]


@shows("Svc-Workflow-RunId", "Svc-Workflow-Init")
@with_emulator()
async def test_a_run_id_makes_the_message_one_of_a_run_which_init_begins(emulator: InProcess) -> None:
    assert (await emulator.post(f"/v2/publish/{URL}", {**INIT, "Svc-Workflow-Init": "false"})).status == 400
    assert (await emulator.post(f"/v2/publish/{URL}", INIT)).status == 200
    assert [run["workflowRunId"] for run in await runs(emulator)] == [RUN]


@shows("Svc-Workflow-Url")
@with_emulator()
async def test_a_workflow_url_is_the_endpoint_of_the_run(emulator: InProcess) -> None:
    await emulator.post(f"/v2/publish/{URL}", {**INIT, "Svc-Workflow-Url": SUCCESS})
    assert [run["workflowUrl"] for run in await runs(emulator)] == [SUCCESS]


@shows("Svc-Workflow-CallType")
@with_emulator()
async def test_a_call_type_says_what_the_message_is_to_its_run(emulator: InProcess) -> None:
    await emulator.post(f"/v2/publish/{URL}", INIT)
    call = {"Svc-Workflow-RunId": RUN, "Svc-Workflow-CallType": "toCallback"}
    await emulator.post(f"/v2/publish/{SUCCESS}", call, "payload")
    # A third party gets the payload alone; a step would carry the list of all steps.
    (delivery,) = await emulator.deliveries(SUCCESS)
    assert delivery["body"] == "payload"
    assert "Svc-Workflow-RunId" not in delivery["headers"]


@shows("Svc-Workflow-Invoke")
@with_emulator()
async def test_invoke_begins_the_run_for_another_one(emulator: InProcess) -> None:
    await emulator.post(f"/v2/publish/{URL}", INIT)
    body = {
        "body": "payload",
        "headers": {},
        "workflowRunId": RUN,
        "workflowUrl": URL,
        "step": {"stepId": 1, "stepName": "invoke", "stepType": "Invoke", "concurrent": 1},
    }
    invoked = {**INIT, "Svc-Workflow-RunId": "wfr_invoked", "Svc-Workflow-Invoke": "true"}
    await emulator.post(f"/v2/publish/{SUCCESS}", invoked, json.dumps(body))
    (run,) = [run for run in await runs(emulator) if run["workflowRunId"] == "wfr_invoked"]
    assert run["invoker"]["workflowRunId"] == RUN


@shows("Svc-Workflow-Unknown-Sdk", "Svc-Workflow-Trigger-By-Sdk")
@with_emulator()
async def test_the_second_half_of_a_handshake_is_no_duplicate(emulator: InProcess) -> None:
    trigger = {"Svc-Workflow-RunId": RUN, "Svc-Workflow-Unknown-Sdk": "true"}
    await emulator.post(f"/v2/trigger/{URL}", trigger, "first")
    (delivery,) = await emulator.deliveries(URL)
    assert delivery["headers"]["Svc-Workflow-Unknown-Sdk"] == ["true"]
    second = {**INIT, "Svc-Workflow-Trigger-By-Sdk": "true"}
    assert "deduplicated" not in (await emulator.post(f"/v2/publish/{URL}", second, "second")).json
    assert (await emulator.post(f"/v2/publish/{URL}", INIT, "third")).json["deduplicated"] is True


@shows("Svc-Feature-Set")
@pytest.mark.parametrize(("features", "state"), [("", "RUN_STARTED"), ("WF_DetectTrigger", "RUN_FAILED")])
@with_emulator()
async def test_features_decide_what_an_answer_means_to_a_run(emulator: InProcess, features: str, state: str) -> None:
    await emulator.rule(URL, respond={"status": 200})
    await emulator.post(f"/v2/publish/{URL}", {**INIT, "Svc-Feature-Set": features})
    assert [run["workflowState"] for run in await runs(emulator)] == [state]


@with_emulator()
async def test_a_failure_callback_is_sent_once_with_the_dead_letters_id_and_a_callback_after_each_attempt(
    emulator: InProcess,
) -> None:
    await emulator.rule(DOWN, respond={"status": 503, "body": "sorry", "headers": {"X-A": "b"}})
    options = {
        "Svc-Retries": "1",
        "Svc-Retry-Delay": "1000",
        "Svc-Callback": SUCCESS,
        "Svc-Failure-Callback": FAILURE,
        "Content-Type": "text/plain",
    }
    message_id = await emulator.publish(DOWN, options, "payload")
    await emulator.advance("1m")
    told = [json.loads(delivery["body"]) for delivery in await emulator.deliveries(SUCCESS)]
    (failed,) = [json.loads(delivery["body"]) for delivery in await emulator.deliveries(FAILURE)]
    (entry,) = (await emulator.get("/v2/dlq")).json["messages"]
    assert [each["retried"] for each in told] == [0, 1]
    assert told[0] == {
        "status": 503,
        "header": {"X-A": ["b"]},
        "body": base64.b64encode(b"sorry").decode(),
        "retried": 0,
        "maxRetries": 1,
        "sourceMessageId": message_id,
        "url": DOWN,
        "method": "POST",
        "sourceHeader": {"Content-Type": "text/plain"},
        "sourceBody": base64.b64encode(b"payload").decode(),
        "notBefore": "1767225600000",
        "createdAt": "1767225600000",
        "callerIP": "203.0.113.7",
    }
    assert failed == {**told[1], "dlqId": entry["dlqId"]}
    assert all("dlqId" not in each for each in told)


@pytest.mark.parametrize(
    ("header", "value", "wait_s"),
    [
        ("Retry-After", "100", 100),
        ("X-RateLimit-Reset", "100", 100),
        ("X-RateLimit-Reset-Requests", "1m40s", 100),
        ("X-RateLimit-Reset-Tokens", "100", 100),
        ("Retry-After", "Thu, 01 Jan 2026 00:01:40 GMT", 100),
        ("Retry-After", "0", 0),
        ("Retry-After", "100000", 12),
        ("Retry-After", "soon", 5),
    ],
)
@with_emulator()
async def test_a_hint_of_the_response_decides_the_next_retry(
    emulator: InProcess, header: str, value: str, wait_s: int
) -> None:
    await emulator.rule(DOWN, respond={"status": 429, "headers": {header: value}})
    await emulator.publish(DOWN, {"Svc-Retries": "1", "Svc-Retry-Delay": "5000"})
    await emulator.advance("1h")
    first, second = await emulator.deliveries()
    assert (second["at_ms"] - first["at_ms"]) // 1000 == wait_s


# -- what the wire reads, what the contract lists, and what has a test: one set -------------------


FAMILIES = ("callback-", "failure-callback-")
# They are no option's, and read by the wire all the same.
BESIDE_OPTIONS = {"Content-Type", "Svc-Forward-*"}
# What the contract says of all these at once.
WORKFLOW = {header for header in TESTED_ALONE if header.startswith("Svc-Workflow-")}
OF_SCHEDULES = {"Svc-Cron", "Svc-Schedule-Id"}
OF_RUNS = {*WORKFLOW, "Svc-Feature-Set"}
DEDUPLICATION = {"Svc-Deduplication-Id", "Svc-Content-Based-Deduplication"}
WAITS = {"Svc-Delay", "Svc-Not-Before"}
FLOW_CONTROL = {"Svc-Flow-Control-Key", "Svc-Flow-Control-Value"}
OF_A_REQUEST = {"Content-Type", "Svc-Method", "Svc-Header-Forward"}
# By operation, the options that it ignores or refuses, and so does not list.
NOT_TAKEN: dict[str, set[str]] = {
    "publishMessage": OF_SCHEDULES,
    "enqueueMessage": {*OF_SCHEDULES, *OF_RUNS, *WAITS, *FLOW_CONTROL, "Svc-Queue-Name"},
    "createSchedule": OF_RUNS,
    "retryDeadLetter": {*OF_SCHEDULES, *OF_RUNS, *DEDUPLICATION, "Content-Type"},
    "waitForEvent": {
        *(OF_SCHEDULES | DEDUPLICATION | WAITS),
        *("Svc-Method", "Svc-Header-Forward", "Svc-Queue-Name", "Svc-Callback"),
    },
    "triggerWorkflow": {
        *(OF_SCHEDULES | DEDUPLICATION | OF_RUNS) - {"Svc-Workflow-RunId", "Svc-Workflow-Unknown-Sdk"},
        *("Svc-Method", "Svc-Timeout", "Svc-Header-Forward", "Svc-Queue-Name", "Svc-Callback"),
    },
    "resumeWorkflowRun": {
        *(OF_SCHEDULES | DEDUPLICATION | OF_RUNS | OF_A_REQUEST),
        *("Svc-Forward-*", "Svc-Timeout", "Svc-Redact-Fields", "Svc-Queue-Name", "Svc-Callback"),
    },
}
NOT_TAKEN["retryDeadLetters"] = NOT_TAKEN["retryDeadLetter"]
for operation_id in ("resumeWorkflowRuns", "restartWorkflowRun", "restartWorkflowRuns"):
    NOT_TAKEN[operation_id] = NOT_TAKEN["resumeWorkflowRun"]

WHAT_TO_DO = "An option needs: its parameter in contracts/messaging.openapi.yaml, at every operation that takes it \
(NOT_TAKEN names those that do not); and a case in OPTIONS that shows what it does."


def is_of_a_family(header: str) -> bool:
    return header.lower().removeprefix("svc-").startswith(FAMILIES)


def read_by_the_wire() -> set[str]:
    """The headers of all options, but for those that configure a callback, which are the same once more."""
    return {f"Svc-{key}".lower() for key in OPTION_KEYS if not key.startswith(FAMILIES)} | {
        header.lower() for header in BESIDE_OPTIONS
    }


def lower(headers: Iterable[str]) -> set[str]:
    return {header.lower() for header in headers}


def listed_by_the_contract() -> dict[str, set[str]]:
    """By operation, the headers that the contract lists; a wildcard stands for all options of its family."""
    listed: dict[str, set[str]] = {}
    for operation in operations("messaging"):
        headers = {parameter["name"] for parameter in operation.parameters if parameter["in"] == "header"}
        if headers:
            whole = WORKFLOW if "Svc-Workflow-*" in headers else set()
            listed[operation.id] = lower((headers - {"Svc-Workflow-*"}) | whole)
    return listed


def with_a_case() -> set[str]:
    return lower({name.partition(" ")[0] for name in OPTIONS} | TESTED_ALONE)


def check_same(where: str, headers: Iterable[str], expected: set[str]) -> None:
    of_messages = {header for header in headers if not is_of_a_family(header)}
    wrong = {"missing": sorted(expected - of_messages), "too many": sorted(of_messages - expected)}
    assert wrong == {"missing": [], "too many": []}, f"{where}: {wrong}. {WHAT_TO_DO}"


def test_every_option_that_the_wire_reads_has_a_case_that_shows_its_effect() -> None:
    check_same("the cases of this file", with_a_case(), read_by_the_wire())


def test_the_contract_lists_every_option_at_every_operation_that_takes_it() -> None:
    listed = listed_by_the_contract()
    assert listed.keys() == NOT_TAKEN.keys(), WHAT_TO_DO
    for operation_id, headers in listed.items():
        check_same(operation_id, headers, read_by_the_wire() - lower(NOT_TAKEN[operation_id]))


def test_what_the_contract_lists_of_callbacks_is_what_a_message_has_too() -> None:
    """By the rule of the families: `Svc-Callback-X` is `Svc-X` of the callback, and has a case of its own."""
    for operation_id, headers in listed_by_the_contract().items():
        for header in filter(is_of_a_family, headers):
            option = header.replace("failure-callback-", "callback-").replace("callback-", "", 1)
            assert option == "svc-*" or option in read_by_the_wire(), f"{operation_id}: {header}: {WHAT_TO_DO}"
            assert option == "svc-*" or header in with_a_case(), f"{operation_id}: {header}: {WHAT_TO_DO}"
        for family in ("svc-callback", "svc-failure-callback"):
            if f"{family}-forward-*" in headers:
                assert {family, f"{family}-*"} <= headers, operation_id
    for header in filter(is_of_a_family, with_a_case()):
        assert header.removeprefix("svc-").endswith("forward-*") or header.removeprefix("svc-") in OPTION_KEYS


def test_the_wildcard_of_workflows_names_every_option_that_it_stands_for() -> None:
    described = load("messaging")["components"]["parameters"]["OfWorkflow"]["description"].lower()
    for header in WORKFLOW:
        assert f"`{header.removeprefix('Svc-Workflow-').lower()}`" in described, f"{header}: {WHAT_TO_DO}"


def test_a_flow_control_value_has_a_case_for_each_limit() -> None:
    shown = {name.rpartition(" ")[2] for name in OPTIONS if name.startswith("Svc-Flow-Control-Value ")}
    assert shown == set(LIMIT_NAMES), WHAT_TO_DO


def test_an_item_of_a_batch_has_the_fields_of_the_contract() -> None:
    assert set(BatchItem.__struct_fields__) == set(
        load("messaging")["components"]["schemas"]["BatchItem"]["properties"]
    )
