"""Strict mode: what does not match the contract is logged and named in a header, and the answer stays what it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from emulator.api import strict
from emulator.core.rules.options import ignored_by_queues
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

HEADER = "svc-emulator-contract"
HOOK = "https://api.test/hook"
# What workflow clients say of the message of a run.
OF_RUN = {
    "Svc-Workflow-RunId": "wfr_1",
    "Svc-Workflow-Init": "true",
    "Svc-Workflow-Url": HOOK,
    "Svc-Workflow-CallType": "step",
    "Svc-Workflow-Sdk-Version": "1",
    "Svc-Feature-Set": "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig",
    "Svc-Telemetry-Sdk": "js",
    "Svc-Forward-Svc-Workflow-Sdk-Version": "1",
    "Svc-Failure-Callback": HOOK,
    "Svc-Failure-Callback-Workflow-RunId": "wfr_1",
    "Svc-Failure-Callback-Feature-Set": "LazyFetch",
    "Svc-Failure-Callback-Forward-Svc-Workflow-Is-Failure": "true",
    "Content-Type": "application/json",
}


def item(headers: dict[str, str] | None = None, **more: str | None) -> dict[str, object]:
    """An item of a batch."""
    return {"destination": HOOK, "headers": headers or {}, **more}


async def mismatch(emulator: InProcess, method: str, target: str, headers: Any = (), body: object = b"") -> str:
    """What the answer says of the contract, nothing if all is well."""
    answer = await emulator.call(method, target, headers, body)
    return answer.headers.get(HEADER, "")


@with_emulator()
async def test_without_strict_mode_nothing_is_said(emulator: InProcess) -> None:
    assert await mismatch(emulator, "POST", f"/v2/publish/{HOOK}", {"Svc-Retires": "3"}) == ""


@pytest.mark.parametrize(
    ("method", "target", "headers", "body"),
    [
        ("POST", f"/v2/publish/{HOOK}?page=2", {"Svc-Retries": "3", "X-Own": "1", "Svc-Forward-A": "b"}, b"\xff"),
        ("POST", f"/v2/publish/{HOOK}?svc-delay=1h", {"Svc-Label": "", "Svc-Telemetry-Sdk": "js"}, b""),
        ("POST", f"/v2/enqueue/q/{HOOK}", {"Svc-Timeout": "30s", "Svc-Delay": ""}, b""),
        ("POST", f"/v2/schedules/{HOOK}", {"Svc-Cron": "*/5 * * * *"}, b""),
        ("POST", f"/v2/schedules/{HOOK}?svc-cron=*/5+*+*+*+*", {}, b""),
        ("POST", "/v2/batch", {}, [item({"Svc-Retries": "1"}, body=None, queue=None)]),
        ("POST", "/v2/queues", {"Content-Type": "application/json"}, {"queueName": "q", "parallelism": 2}),
        ("PATCH", "/v2/Schedules/nope/pause", {}, b""),
        ("GET", "/v2/queues/", {}, b""),
        ("GET", "/v2/events?count=10&order=latestFirst", {}, b""),
        ("GET", "/v2/flowControl/a/b", {}, b""),
        ("GET", "/v2/dlq", {}, b""),
        ("GET", "/v2/keys", {}, b""),
        ("GET", "/_emulator/clock?world=default", {}, b""),
        ("POST", "/_emulator/clock/advance", {}, {"by": "1d"}),
        ("GET", "/_emulator/trace", {}, b""),
        ("POST", f"/v2/publish/{HOOK}", OF_RUN, b"{}"),
        ("POST", "/v2/batch", {}, [item(OF_RUN)]),
        ("POST", f"/v2/trigger/{HOOK}", {"Svc-Workflow-RunId": "wfr_1", "Svc-Delay": "1h"}, b"{}"),
        ("POST", "/v2/batch/trigger", {}, [item({"Svc-Label": "a"}, body="{}")]),
        ("POST", "/v2/wait/ev", OF_RUN, {"url": HOOK, "timeout": "7d", "timeoutHeaders": {"A": ["b"]}, "step": {}}),
        ("POST", "/v2/notify/ev", {}, b"x"),
        ("DELETE", "/v2/workflows/runs?workflowUrl=https://a.test,https://b.test&label=x&label=y", {}, b""),
        ("DELETE", "/v2/workflows/runs/wfr_1?cancel=false", {}, b""),
        ("GET", "/v2/workflows/events?groupBy=workflowRunId", {}, b""),
    ],
)
@with_emulator(strict=True)
async def test_what_matches_is_passed_in_silence(
    emulator: InProcess, method: str, target: str, headers: Any, body: object
) -> None:
    assert await mismatch(emulator, method, target, headers, body) == ""


PUBLISH = f"POST /v2/publish/{HOOK}"
# Of each mistake: the call, its headers, and what is said.
MISTAKES: dict[str, tuple[str, dict[str, str], str]] = {
    "header": (PUBLISH, {"Svc-Retires": "3"}, "header Svc-Retires: unknown, did you mean Svc-Retries?"),
    "header-like-no-other": (PUBLISH, {"Svc-Zzzzzz": "3"}, "header Svc-Zzzzzz: unknown"),
    "underscore": (PUBLISH, {"Svc_Retries": "3"}, "header Svc_retries: unknown, did you mean Svc-Retries?"),
    "dialect": (PUBLISH, {"Upstash-X": "3s"}, "header Upstash-X: is of the dialect upstash, this server speaks svc"),
    "header-of-others": ("GET /v2/queues", {"Svc-Delay": "3s"}, "header Svc-Delay: this operation does not read it"),
    "query-twin": (f"{PUBLISH}?svc-retry=3", {}, "query parameter svc-retry: unknown, did you mean svc-retries?"),
    "query-parameter": ("GET /v2/events?cuont=1", {}, "query parameter cuont: unknown, did you mean count?"),
    "no-body": ("POST /v2/queues", {}, "body: required"),
    "required-header": (f"POST /v2/schedules/{HOOK}", {}, "header Svc-Cron: required"),
    "path": ("GET /v2/event", {}, "path: no operation has it, did you mean /v2/events?"),
    "method": ("PUT /v2/events", {}, "method PUT: this path has only GET"),
    "choice": (
        "GET /v2/events?order=newest",
        {},
        "query parameter order: not as the contract says, expected latestFirst or earliestFirst",
    ),
}
QUEUES, ENDPOINTS, BATCH = "POST /v2/queues", "POST /v2/topics/g/endpoints", "POST /v2/batch"
Q, HEADERS, QUEUED = {"queueName": "q"}, "[0].headers: header", "does not apply to queued messages"
# The same of mistakes in a body.
MISTAKES_IN_A_BODY: dict[str, tuple[str, object, str]] = {
    "field": (QUEUES, {**Q, "paralelism": 2}, "paralelism: unknown field, did you mean parallelism?"),
    "type": (QUEUES, {**Q, "parallelism": "2"}, "parallelism: expected integer or null, got a string"),
    "place": (ENDPOINTS, {"endpoints": [{"url": 5}]}, "endpoints[0].url: expected string, got a number"),
    "no-json": (QUEUES, b"{", "body: is not JSON"),
    "body": ("GET /v2/queues", b"x", "body: this operation reads none"),
    "header-in-a-batch": (BATCH, [item({"Svc-Lable": "x"})], f"{HEADERS} Svc-Lable: unknown, did you mean Svc-Label?"),
    "queued-in-a-batch": (BATCH, [item({"Svc-Delay": "1m"}, queue="q")], f"{HEADERS} Svc-Delay: {QUEUED}"),
    "control": (
        "POST /_emulator/destinations",
        {"match": {"url": HOOK}, "respond": {"statos": 200}},
        "respond.statos: unknown field, did you mean status?",
    ),
    "form": (
        "POST /_emulator/clock/advance",
        {"by": "1 day"},
        "by: expected `1d2h30m` with the units ms, s, m, h, d and w, each at most once; or milliseconds",
    ),
    "range": (
        "POST /_emulator/destinations",
        {"match": {"url": HOOK}, "fault": "dns", "times": 0},
        "times: expected how many attempts the rule decides; all of them without it",
    ),
    "within-alternatives": (
        "POST /_emulator/reset",
        {"fixtures": {"destinations": [{"match": {"url": HOOK}, "fault": "dnns"}]}},
        'fixtures.destinations[0].fault: expected one of "refused", "timeout", "reset", "dns", "tls"',
    ),
}


@with_emulator(strict=True)
async def test_a_mistake_is_named_with_what_was_meant(emulator: InProcess) -> None:
    for name, (call, headers, said) in MISTAKES.items():
        method, target = call.split(" ")
        told = await mismatch(emulator, method, target, headers)
        assert f"request: {said}" in told.split(" | "), name


@with_emulator(strict=True)
async def test_a_mistake_in_a_body_is_named_with_its_place(emulator: InProcess) -> None:
    for name, (call, body, said) in MISTAKES_IN_A_BODY.items():
        method, target = call.split(" ")
        told = await mismatch(emulator, method, target, body=body)
        assert f"request: {said}" in told.split(" | "), name


@with_emulator(strict=True)
async def test_another_type_of_content_is_named(emulator: InProcess) -> None:
    told = await mismatch(emulator, "POST", "/v2/queues", {"Content-Type": "text/plain"}, {"queueName": "q"})
    assert "request: header Content-Type: expected application/json" in told.split(" | ")


@on_loop
async def test_an_answer_is_the_same_with_strict_mode_and_mistakes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    call: tuple[str, str, dict[str, str], object] = ("POST", "/v2/queues", {}, {"queueName": "q", "paralelism": 2})
    async with in_process() as emulator:
        plain = await emulator.call(*call)
    with caplog.at_level(logging.WARNING):
        async with in_process(strict=True) as emulator:
            strictly = await emulator.call(*call)

    assert (strictly.status, strictly.body) == (plain.status, plain.body)
    assert caplog.messages == [
        "contract: POST /v2/queues: request: paralelism: unknown field, did you mean parallelism?"
    ]


@with_emulator(strict=True)
async def test_no_value_of_a_request_is_shown(emulator: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    said = await mismatch(
        emulator,
        "POST",
        f"/v2/publish/{HOOK}/s3cret?queue-token=s3cret",
        {"Svc-Retires": "s3cret", "Svc-Delay": "s3cret"},
    )
    said += await mismatch(emulator, "POST", "/v2/queues", {}, {"queueName": ["s3cret"], "parallelism": "s3cret"})

    assert "did you mean" in said
    logged = [each.getMessage() for each in caplog.records if each.name == "emulator.api.strict"]
    assert "s3cret" not in said + "".join(logged)


@with_emulator(strict=True, dialect="upstash")
async def test_the_names_are_the_dialects_and_the_header_stays_its_own(emulator: InProcess) -> None:
    said = await mismatch(emulator, "POST", f"/v2/publish/{HOOK}?qstash_tokn=x", {"Upstash-Retires": "3"})

    assert said.split(" | ") == [
        "request: header Upstash-Retires: unknown, did you mean Upstash-Retries?",
        "request: query parameter qstash_tokn: unknown, did you mean qstash_token?",
    ]


# -- what is refused --------------------------------------------------------------------------


# Each header that a queue does not apply, with a value.
IGNORED = {
    "Svc-Delay": "1h",
    "Svc-Not-Before": "1767225660",
    "Svc-Flow-Control-Key": "k",
    "Svc-Flow-Control-Value": "rate=1",
}


def test_what_strict_mode_refuses_is_what_the_core_does_not_apply() -> None:
    """D-021."""
    assert [name for names in ignored_by_queues(keeps_delay=False).values() for name in names] == list(IGNORED)


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [*(("", {name: value}, name) for name, value in IGNORED.items()), ("?svc-delay=1h", {}, "svc-delay")],
)
@with_emulator(strict=True)
async def test_what_a_queue_ignores_is_refused(
    emulator: InProcess, query: str, headers: dict[str, str], field: str
) -> None:
    """D-021."""
    before = emulator.image()
    answer = await emulator.post(f"/v2/enqueue/q/{HOOK}{query}", headers)

    assert (answer.status, answer.json["field"]) == (400, field)
    assert HEADER in answer.headers
    assert emulator.image() == before


RUN = {"Svc-Workflow-RunId": "wfr_1", "Svc-Workflow-Init": "true", "Svc-Delay": "1h"}
OF_A_RUN = "does not apply to messages of a workflow run"
UNREAD = "this operation does not read it"


BY_HEADER = {"Svc-Queue-Name": "q"}
FLOW = {"Svc-Flow-Control-Key": "k"}
NOT_HERE = {"svc-schedule-id": "a"}
IN_QUERY = f"publish/{HOOK}?svc-queue-name=q"
CRON = {"Svc-Cron": "* * * * *"}
# Of each option without an effect: the path, the headers and the body of the call, the field at fault, what is said.
NO_EFFECT: dict[str, tuple[str, dict[str, str], object, str, str]] = {
    "queue-batch": ("batch", {}, [item(), item({"svc-delay": "1h"}, queue="q")], "[1].headers.Svc-Delay", QUEUED),
    "queue-batch-by-header": ("batch", {}, [item(BY_HEADER | FLOW)], "[0].headers.Svc-Flow-Control-Key", QUEUED),
    "queue-publish": (IN_QUERY, {"Svc-Not-Before": "1767225660"}, b"", "Svc-Not-Before", QUEUED),
    "queue-schedule": (f"schedules/{HOOK}", CRON | BY_HEADER | FLOW, b"", "Svc-Flow-Control-Key", QUEUED),
    "run-enqueue": (f"enqueue/q/{HOOK}", RUN, b"", "queueName", OF_A_RUN),
    "run-publish": (IN_QUERY, RUN, b"", "svc-queue-name", OF_A_RUN),
    "run-batch": ("batch", {}, [item(RUN, queue="q")], "[0].queue", OF_A_RUN),
    "run-batch-by-header": ("batch", {}, [item(RUN | BY_HEADER)], "[0].headers.Svc-Queue-Name", OF_A_RUN),
    "id-publish": (f"publish/{HOOK}", NOT_HERE, b"", "Svc-Schedule-Id", UNREAD),
    "id-enqueue": (f"enqueue/q/{HOOK}?svc-schedule-id=a", {}, b"", "svc-schedule-id", "svc-schedule-id: unknown"),
    "id-batch": ("batch", {}, [item(), item(NOT_HERE)], "[1].headers.Svc-Schedule-Id", UNREAD),
}


@with_emulator(strict=True)
async def test_what_would_have_no_effect_is_refused_wherever_it_stands(emulator: InProcess) -> None:
    """D-021 for a queue, D-325 for a run, D-074 for the id of a schedule."""
    before = emulator.image()
    for name, (target, headers, body, field, said) in NO_EFFECT.items():
        answer = await emulator.post(f"/v2/{target}", headers, body)
        assert (answer.status, answer.json["field"]) == (400, field), name
        assert said in answer.headers[HEADER], name
        if said == QUEUED:
            assert f"header {field.rpartition('.')[2]}: {said}" in answer.headers[HEADER], name
        if said == OF_A_RUN:
            assert "queued" not in answer.headers[HEADER], name
    assert emulator.image() == before


@pytest.mark.parametrize(
    ("target", "headers", "body"),
    [
        pytest.param(f"/v2/publish/{HOOK}", {"Svc-Delay": "1h"}, b"", id="publish"),
        pytest.param("/v2/batch", {}, [item({"Svc-Delay": "1h"}, queue="")], id="batch"),
        pytest.param("/v2/batch", {}, [item({"Svc-Delay": " "}, queue="q")], id="nothing-given"),
        pytest.param(f"/v2/schedules/{HOOK}", CRON | BY_HEADER | {"Svc-Delay": "1h"}, b"", id="schedule"),
    ],
)
@with_emulator(strict=True)
async def test_what_applies_is_not_refused(
    emulator: InProcess, target: str, headers: dict[str, str], body: object
) -> None:
    """D-021."""
    answer = await emulator.post(target, headers, body)
    assert (answer.status, answer.headers.get(HEADER)) == (200, None)


# -- answers ----------------------------------------------------------------------------------


@with_emulator(strict=True)
async def test_every_kind_of_answer_of_a_life_matches(emulator: InProcess) -> None:
    await emulator.rule("https://api.test/*", respond={"status": 500})
    await emulator.post(f"/v2/publish/{HOOK}", {"Svc-Retries": "1", "Svc-Label": "a,b", "Svc-Delay": "1m"}, b"x")
    await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 0 * * *", "Svc-Schedule-Id": "s"})
    await emulator.advance("3d")
    for path in ("events", "logs", "dlq", "schedules", "queues", "topics", "globalParallelism"):
        answer = await emulator.get(f"/v2/{path}")
        assert (answer.status, answer.headers.get(HEADER)) == (200, None), path
    for path in ("/clock", "/deliveries", "/destinations", "/credentials", "/accounts", "/worlds", "/health"):
        answer = await emulator.control("GET", path)
        assert (answer.status, answer.headers.get(HEADER)) == (200, None), path


def test_a_header_is_one_line_of_ascii_and_not_endless() -> None:
    assert strict._header_value(["a\r\nb", "é"]) == b"a  b | ?"
    assert len(strict._header_value(["x" * 100_000])) == 2_003


@with_emulator(strict=True)
async def test_mismatches_are_kept_by_world(emulator: InProcess) -> None:
    """D-337."""
    made = await emulator.control("POST", "/worlds", {"id": "w"})
    theirs = made.json["credentials"]["queue"]["token"]
    for _ in range(2):
        await emulator.publish("https://a.test/", {"Svc-Dealy": "1s"}, token=theirs)
    await emulator.get("/v2/nowhere")
    own = (await emulator.control("GET", "/mismatches")).json
    other = (await emulator.control("GET", "/mismatches?world=w")).json
    assert own == {
        "strict": True,
        "mismatches": [{"operation": "GET", "mismatch": "path: no operation has it", "count": 1}],
    }
    assert other["mismatches"] == [
        {
            "operation": "POST /v2/publish/{destination}",
            "mismatch": "header Svc-Dealy: unknown, did you mean Svc-Delay?",
            "count": 2,
        }
    ]
    await emulator.control("POST", "/reset?world=w")
    await emulator.control("DELETE", "/mismatches")
    for query in ("", "?world=w"):
        assert (await emulator.control("GET", f"/mismatches{query}")).json["mismatches"] == []


@with_emulator()
async def test_without_strict_mode_there_are_no_mismatches(emulator: InProcess) -> None:
    await emulator.publish("https://a.test/", {"Svc-Dealy": "1s"})
    assert (await emulator.control("GET", "/mismatches")).json == {"strict": False, "mismatches": []}
