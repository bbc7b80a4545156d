"""What holds for every operation: where it is found, who may call it, and which methods it has."""

from __future__ import annotations

import base64

import pytest

from emulator.core.commands import SetPlan
from emulator.core.plans import PlanName
from emulator.server.application import messaging_endpoints
from tests.harness.emulators import InProcess, asgi_call, with_emulator

# Every operation of the messaging API, with a path under which it can be called.
OPERATIONS = {
    "/v2/publish/{destination:path}": (("POST",), "/v2/publish/https://x.test/a"),
    "/v2/enqueue/{queueName}/{destination:path}": (("POST",), "/v2/enqueue/q/https://x.test/a"),
    "/v2/batch": (("POST",), "/v2/batch"),
    "/v2/messages": (("DELETE",), "/v2/messages"),
    "/v2/messages/{name}": (("GET", "DELETE"), "/v2/messages/nope"),
    "/v2/schedules": (("GET",), "/v2/schedules"),
    "/v2/schedules/{name}/pause": (("POST", "PATCH"), "/v2/schedules/nope/pause"),
    "/v2/schedules/{name}/resume": (("POST", "PATCH"), "/v2/schedules/nope/resume"),
    "/v2/schedules/{name}": (("GET", "DELETE", "POST"), "/v2/schedules/nope"),
    "/v2/schedules/{destination:path}": (("POST",), "/v2/schedules/https://x.test/a"),
    "/v2/topics": (("GET",), "/v2/topics"),
    "/v2/topics/{name}": (("GET", "DELETE", "PATCH"), "/v2/topics/nope"),
    "/v2/topics/{name}/endpoints": (("POST", "DELETE"), "/v2/topics/nope/endpoints"),
    "/v2/queues": (("GET", "POST"), "/v2/queues"),
    "/v2/queues/{name}": (("GET", "DELETE"), "/v2/queues/nope"),
    "/v2/queues/{name}/pause": (("POST",), "/v2/queues/nope/pause"),
    "/v2/queues/{name}/resume": (("POST",), "/v2/queues/nope/resume"),
    "/v2/flowControl": (("GET",), "/v2/flowControl"),
    "/v2/flowControl/{name:path}": (("GET",), "/v2/flowControl/nope"),
    "/v2/flowControl/{name:path}/pause": (("POST",), "/v2/flowControl/nope/pause"),
    "/v2/flowControl/{name:path}/resume": (("POST",), "/v2/flowControl/nope/resume"),
    "/v2/flowControl/{name:path}/pin": (("POST",), "/v2/flowControl/nope/pin?rate=1"),
    "/v2/flowControl/{name:path}/unpin": (("POST",), "/v2/flowControl/nope/unpin"),
    "/v2/flowControl/{name:path}/reset": (("POST",), "/v2/flowControl/nope/reset"),
    "/v2/flowControl/{name:path}/resetRate": (("POST",), "/v2/flowControl/nope/resetRate"),
    "/v2/globalParallelism": (("GET",), "/v2/globalParallelism"),
    "/v2/events": (("GET",), "/v2/events"),
    "/v2/logs": (("GET",), "/v2/logs"),
    "/v2/dlq": (("GET", "DELETE"), "/v2/dlq"),
    "/v2/dlq/retry": (("POST",), "/v2/dlq/retry"),
    "/v2/dlq/retry/{name}": (("POST",), "/v2/dlq/retry/nope"),
    "/v2/dlq/{name}": (("GET", "DELETE"), "/v2/dlq/nope"),
    "/v2/keys": (("GET",), "/v2/keys"),
    "/v2/keys/rotate": (("POST",), "/v2/keys/rotate"),
    "/v2/rotate": (("POST",), "/v2/rotate"),
    "/llm/v1/chat/completions": (("POST",), "/llm/v1/chat/completions"),
}
CALLS = [(method, target) for methods, target in OPERATIONS.values() for method in methods]
PATHS = [(methods, target) for methods, target in OPERATIONS.values()]


@with_emulator()
async def test_the_table_holds_every_operation_of_the_messaging_api(emulator: InProcess) -> None:
    """D-055."""
    found = {
        path: sorted(endpoint.methods) for path, endpoint in messaging_endpoints(emulator.emulation.worlds).items()
    }
    assert found == {path: sorted(methods) for path, (methods, _) in OPERATIONS.items()}


@with_emulator()
async def test_no_or_a_wrong_token_is_401_with_the_services_words(emulator: InProcess) -> None:
    before = emulator.image()
    for method, target in CALLS:
        for authorization in ("Bearer nobody", f"Basic {emulator.token}", "Bearer", ""):
            headers = {"Authorization": authorization} if authorization else {}
            answer = await emulator.call(method, target, headers, token=None)
            assert answer.status == 401, (method, target, answer.body)
            assert answer.json == {"error": "unable to authenticate: invalid token"}
            assert answer.headers["www-authenticate"] == "Bearer"
    assert emulator.image() == before


@with_emulator()
async def test_the_read_only_token_reads_and_is_403_on_every_write(emulator: InProcess) -> None:
    """D-053."""
    before = emulator.image()
    for method, target in CALLS:
        answer = await emulator.call(method, target, token=emulator.read_only_token)
        if method == "GET" and target != "/v2/keys":
            assert answer.status in (200, 404), (target, answer.body)
        else:
            assert answer.status == 403, (method, target, answer.body)
            assert answer.json.keys() == {"error"}
    assert emulator.image() == before


@with_emulator()
async def test_the_token_may_come_in_the_query(emulator: InProcess) -> None:
    for target in ("/v2/events", "/v2/queues", "/v2/dlq"):
        answer = await emulator.get(f"{target}?queue_token={emulator.token}", token=None)
        assert answer.status == 200, answer.body
    answer = await emulator.post(f"/v2/publish/https://x.test/a?queue_token={emulator.token}&b=1", token=None)
    assert answer.status == 200
    # The service's own parameter is not the destination's.
    (delivery,) = await emulator.deliveries()
    assert delivery["url"] == "https://x.test/a?b=1"


@with_emulator()
async def test_the_token_in_the_query_wins_and_leaves_the_header_to_the_destination(emulator: InProcess) -> None:
    answer = await emulator.post(
        f"/v2/publish/https://x.test/a?queue_token={emulator.token}&svc-header-forward=true",
        {"Authorization": "Bearer of-the-destination"},
        token=None,
    )
    assert answer.status == 200
    (delivery,) = await emulator.deliveries()
    assert delivery["headers"]["Authorization"] == ["Bearer of-the-destination"]
    twice = await emulator.get(f"/v2/events?queue_token={emulator.token}&queue_token=x", token=None)
    assert (twice.status, twice.json["field"]) == (400, "queue_token")


@with_emulator()
async def test_a_wrong_method_is_405_with_those_there_are(emulator: InProcess) -> None:
    for methods, target in PATHS:
        for method in {"GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS", "TRACE"} - set(methods):
            answer = await emulator.call(method, target)
            assert answer.status == 405, (method, target, answer.status)
            assert sorted(answer.headers["allow"].split(", ")) == sorted(methods)


@pytest.mark.parametrize("target", ["/v2/publish", "/v2/enqueue/q"])
@with_emulator()
async def test_a_path_without_its_destination_is_400_and_says_so(emulator: InProcess, target: str) -> None:
    """D-310."""
    for spelling in (target, f"{target}/", f"{target}/?svc-cron=*+*+*+*+*", f"{target}?a=b"):
        answer = await emulator.post(spelling)
        refusal = {"error": "destination: a non-empty destination must be provided", "field": "destination"}
        assert (answer.status, answer.json) == (400, refusal), spelling
        assert (await emulator.post(spelling, token=None)).status == 401
    assert (await emulator.call("PUT", f"{target}/")).status == 405


@with_emulator()
async def test_a_schedule_without_its_destination_is_405_and_says_so(emulator: InProcess) -> None:
    """D-536."""
    for target in ("/v2/schedules", "/v2/schedules/", "/v2/Schedules?svc-cron=*+*+*+*+*"):
        answer = await emulator.post(target)
        refusal = {"error": "destination: a non-empty destination must be provided", "field": "destination"}
        assert (answer.status, answer.json, answer.headers["allow"]) == (405, refusal, "GET"), target


@with_emulator()
async def test_enqueue_without_a_queue_is_400_and_says_so(emulator: InProcess) -> None:
    """D-310."""
    for target in ("/v2/enqueue", "/v2/enqueue/", "/v2/enqueue?a=b", "/v2/enqueue//https://app.example.com"):
        answer = await emulator.post(target)
        assert (answer.status, answer.json["field"]) == (400, "queueName"), target
    assert (await emulator.get("/v2/enqueue")).status == 405


@with_emulator()
async def test_an_encoded_slash_is_a_part_of_the_name(emulator: InProcess) -> None:
    """D-303."""
    for method, target, status, field in (
        ("GET", "/v2/schedules/a%2Fb", 400, "scheduleId"),
        ("DELETE", "/v2/schedules/a%2fb", 400, "scheduleId"),
        ("POST", "/v2/schedules/a%2Fb/pause", 400, "scheduleId"),
        ("GET", "/v2/queues/a%2Fb", 400, "queueName"),
        ("POST", "/v2/enqueue/a%2Fb/https://app.example.com", 400, "queueName"),
        ("GET", "/v2/topics/a%2Fendpoints", 400, "url_group_name"),
        ("GET", "/v2/messages/msg_%2F", 404, None),
        ("GET", "/v2/dlq/a%2Fb", 404, None),
        ("DELETE", "/_emulator/snapshots/a%2Fb", 400, "name"),
        ("GET", "/v2%2Fkeys", 404, None),
    ):
        answer = await emulator.call(method, target)
        assert (answer.status, answer.json.get("field")) == (status, field), (target, answer.body)
    url = "https://app.example.com/a%2Fb"
    assert (await emulator.post(f"/v2/publish/{url}")).status == 200
    assert [each["url"] for each in await emulator.deliveries()] == ["https://app.example.com/a%2Fb"]
    keyed = {"Svc-Flow-Control-Key": "a/b", "Svc-Flow-Control-Value": "rate=1"}
    assert (await emulator.post("/v2/publish/https://app.example.com", keyed)).status == 200
    assert (await emulator.get("/v2/flowControl/a%2Fb")).json["flowControlKey"] == "a/b"


@with_emulator()
async def test_an_unknown_path_is_404_and_a_json_error(emulator: InProcess) -> None:
    """D-054."""
    for target in ("/", "/v2", "/v2/", "/v1/publish/https://x.test", "/v2/publishing", "/v2/keys/x", "/v2/keys%0A"):
        answer = await emulator.get(target)
        assert answer.status == 404, target
        assert answer.headers["content-type"] == "application/json", target
        # The root has a page for browsers, which is the emulator's own (D-747).
        assert answer.json.keys() == ({"error", "next"} if target == "/" else {"error"}), target


@with_emulator()
async def test_static_words_have_any_case_and_collections_may_end_in_a_slash(emulator: InProcess) -> None:
    """D-003."""
    for methods, target in PATHS:
        if methods[0] == "GET" and target.count("/") == 2:
            for spelling in (f"{target}/", target.upper().replace("/V2", "/v2"), target.lower()):
                answer = await emulator.get(spelling)
                assert answer.status == 200, (spelling, answer.body)
    assert (await emulator.post("/V2/Publish/https://x.test/Path")).status == 200
    assert (await emulator.post("/v2/Enqueue/Q/https://x.test/Path")).status == 200
    # Only the fixed words: a name keeps its case.
    assert (await emulator.get("/v2/queues/Q")).status == 200
    assert (await emulator.get("/v2/queues/q")).status == 404
    assert (await emulator.delete("/v2/messages/")).json == {"cancelled": 0}


@pytest.mark.parametrize("beginning", ["//v2", "///V2", "////v2"])
@with_emulator()
async def test_a_base_url_that_ends_in_a_slash_finds_every_path_of_the_service(
    emulator: InProcess, beginning: str
) -> None:
    """D-803. Nothing behind the first word is touched."""
    for destination in ("https://x.test//a//b?q=//c", "https://x.test/a%2F%2fb/../c", "http://x.test/v2//v2/d"):
        assert (await emulator.post(f"{beginning}/publish/{destination}")).status == 200
        assert (await emulator.deliveries())[-1]["url"] == destination
    assert (await emulator.post(f"{beginning}/enqueue/q/https://x.test//e")).status == 200
    assert (await emulator.deliveries())[-1]["url"] == "https://x.test//e"
    assert (await emulator.get(f"{beginning}/queues/q")).status == 200
    key = "//v2/key"
    limits = {"Svc-Flow-Control-Key": key, "Svc-Flow-Control-Value": "parallelism=1"}
    await emulator.post(f"{beginning}/publish/https://x.test/", limits)
    assert (await emulator.get(f"{beginning}/flowControl/%2F%2Fv2%2Fkey")).json["flowControlKey"] == key
    login = base64.b64encode(":".join(emulator.world.login).encode()).decode()
    assert (await emulator.get(f"{beginning}/search", {"Authorization": f"Basic {login}"}, token=None)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "//_emulator/health",
        "//v2/../_emulator/health",
        "//v2//_emulator/health",
        "//v2%2F..%2F_emulator/health",
        "/%2F_emulator/health",
        "//V2/_emulator/health",
        "//v2_emulator/health",
        "//llms.txt",
    ],
)
@with_emulator()
async def test_no_other_path_is_found_behind_two_slashes(emulator: InProcess, path: str) -> None:
    """D-803."""
    assert (await emulator.get(path, token=None)).status == 404


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/publish/https://app.test/hook", "/v2/publish"),
        ("/V1/Publish/https://app.test/hook", "/v2/publish"),
        ("/v1/enqueue/q/https://app.test/hook", "/v2/enqueue"),
        ("/v1/schedules", "/v2/schedules"),
        ("/v1/topics/t/endpoints", "/v2/topics"),
        ("/v1/trigger/https://app.test/flow", "/v2/trigger"),
        ("/v1/workflows/logs", "/v2/workflows"),
        ("/v1/messages/msg_x", "/v2/messages"),
        ("/publish/https://app.test/hook", "/v2/publish"),
        ("/v2/publsh/https://app.test/hook", "/v2/publish"),
        ("/proxy/v2/publish/https://app.test/hook", "/v2/publish"),
    ],
)
@with_emulator()
async def test_a_path_without_an_operation_says_which_was_meant(emulator: InProcess, path: str, meant: str) -> None:
    """D-802. The list of refused calls has the same, and the log has it once."""
    answer = await emulator.post(path)
    assert (answer.status, answer.json["error"]) == (404, f"no operation has the path {path}: did you mean {meant}?")
    [call] = (await emulator.control("GET", "/refused")).json["refused"]
    assert (call["error"], call["hint"]) == (answer.json["error"], f"did you mean {meant}?")


@with_emulator()
async def test_a_path_like_no_other_has_no_guess(emulator: InProcess) -> None:
    """D-802."""
    for path in ("/favicon.ico", "/v9/unheard-of", "/_emulator/publish"):
        answer = await emulator.get(path)
        assert (answer.status, answer.json["error"]) == (404, f"no operation has the path {path}")


@with_emulator()
async def test_an_unknown_id_is_404_and_named(emulator: InProcess) -> None:
    for method, target, error in (
        ("GET", "/v2/messages/msg_x", "message msg_x not found"),
        ("DELETE", "/v2/messages/msg_x", "message msg_x not found"),
        ("GET", "/v2/schedules/scd_x", "schedule scd_x not found"),
        ("DELETE", "/v2/schedules/scd_x", "schedule scd_x not found"),
        ("POST", "/v2/schedules/scd_x/pause", "schedule scd_x not found"),
        ("PATCH", "/v2/schedules/scd_x/resume", "schedule scd_x not found"),
        ("GET", "/v2/topics/g", "topic g not found"),
        ("POST", "/v2/publish/g", "topic g not found"),
        ("GET", "/v2/queues/q", "queue q not found"),
        ("POST", "/v2/queues/q/pause", "queue q not found"),
        ("POST", "/v2/queues/q/resume", "queue q not found"),
        ("GET", "/v2/flowControl/k", "flow control key k not found"),
        ("GET", "/v2/dlq/1-1", "dlq message 1-1 not found"),
        ("DELETE", "/v2/dlq/1-1", "dlq message 1-1 not found"),
        ("POST", "/v2/dlq/retry/1-1", "dlq message 1-1 not found"),
    ):
        answer = await emulator.call(method, target)
        assert (answer.status, answer.json) == (404, {"error": error}), target


@pytest.mark.parametrize("target", ["/v2/topics/g", "/v2/queues/q"])
@with_emulator()
async def test_deleting_a_queue_or_a_group_that_is_not_there_is_fine(emulator: InProcess, target: str) -> None:
    assert (await emulator.delete(target)).status == 200


@with_emulator()
async def test_one_account_cannot_see_anothers_things(emulator: InProcess) -> None:
    other = (await emulator.control("POST", "/worlds", {"id": "other"})).json["credentials"]["queue"]["token"]
    message_id = await emulator.publish("https://x.test/a", {"Svc-Delay": "1h"})
    await emulator.post("/v2/queues", (), {"queueName": "q"})
    for target in (f"/v2/messages/{message_id}", "/v2/queues/q"):
        assert (await emulator.get(target)).status == 200
        assert (await emulator.get(target, token=other)).status == 404
    assert (await emulator.get("/v2/events", token=other)).json == {"events": []}
    assert (await emulator.delete("/v2/messages", token=other)).json == {"cancelled": 0}


@with_emulator(plan="free")
async def test_a_body_over_the_plans_size_is_413(emulator: InProcess) -> None:
    answer = await emulator.post("/v2/publish/https://x.test/a", (), b"x" * (1_048_576 + 1))
    assert answer.status == 413
    assert answer.json == {"error": "quota maxMessageSize exceeded, current limit: 1048576"}
    assert (await emulator.post("/v2/publish/https://x.test/a", (), b"x" * 1_048_576)).status == 200


@with_emulator()
async def test_a_request_over_100_megabytes_is_413_by_its_announced_length(emulator: InProcess) -> None:
    headers = [("Authorization", f"Bearer {emulator.token}"), ("Content-Length", str(100 * 1024 * 1024 + 1))]
    answer = await asgi_call(emulator.emulation.app, "POST", b"/v2/batch", headers, b"", "127.0.0.1")
    assert answer.status == 413


@with_emulator(plan="free")
async def test_a_frozen_clock_counts_no_calls_unless_the_limit_was_set(emulator: InProcess) -> None:
    """D-032."""
    for _ in range(120):
        assert (await emulator.get("/v2/queues")).status == 200
    account_id = emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account_id}", {"max_retries": 3})
    assert (await emulator.get("/v2/queues")).status == 200
    await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_second": 0})
    refused = await emulator.get("/v2/queues")
    assert (refused.status, refused.headers["burst-ratelimit-limit"]) == (429, "0")
    fixtures = {"accounts": [{"max_requests_per_second": 0}]}
    await emulator.control("POST", "/reset", {"fixtures": fixtures})
    assert (await emulator.get("/v2/queues")).status == 429
    await emulator.world.submit(SetPlan(account_id=emulator.world.account().id, plan=PlanName.FREE))
    assert (await emulator.get("/v2/queues")).status == 200
