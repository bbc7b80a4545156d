"""Every operation with each of its failures."""

from __future__ import annotations

from tests.contracts.conformance import check_response
from tests.contracts.documents import Operation, all_operations
from tests.contracts.missing import without_contracts
from tests.contracts.scenarios import DOWN, TOO_LARGE, URL, UUID, Checked, documented, scenario
from tests.harness.emulators import asgi_call

BODIES: dict[str, object] = {
    "publishBatch": [],
    "triggerWorkflows": [{"destination": URL}],
    "waitForEvent": {"url": URL, "timeout": "1s", "step": {}},
    "createChatCompletion": {"messages": []},
    "setUrlGroupDefaults": {"headers": {}},
    "addEndpoints": {"endpoints": [{"url": URL}]},
    "removeEndpoints": {"endpoints": [{"url": URL}]},
    "upsertQueue": {"queueName": "q"},
    "setClock": {"rate": 0},
    "advanceClock": {"by": 0},
    "addRule": {"match": {"url": URL}, "fault": "dns"},
    "orderRules": {"ids": []},
    "changeWorldAccount": {"budget": 0},
    "saveSnapshot": {"name": "s"},
    "importSnapshot": "no snapshot",
}
HEADERS: dict[str, dict[str, str]] = {
    "createSchedule": {"Svc-Cron": "* * * * *"},
    "waitForEvent": {"Svc-Workflow-RunId": "wfr_1"},
}
MANAGEMENT_BODIES: dict[str, tuple[str, object]] = {
    "transferSearchIndex": (f"/v2/search/{UUID}/transfer", {"target_account": "team-1"}),
    "renameSearchIndex": (f"/v2/search/{UUID}/rename", {"name": "other"}),
    "setPlan": (f"/v2/queue/set-plan/{UUID}", {"plan_name": "paid"}),
    "setBudget": (f"/v2/queue/update-budget/{UUID}", {"budget": 100}),
    "moveToTeam": ("/v2/queue/move-to-team", {"queue_id": UUID, "target_team_id": "team-1"}),
}


@scenario()
async def bad_messaging_input(emulator: Checked) -> None:
    for method, target, headers, body in (
        ("POST", "/v2/publish/example.com/x", {}, b""),
        ("POST", "/v2/publish/https%3A%2F%2Fx.test", {}, b""),
        ("POST", f"/v2/publish/{URL}?svc-delay=5x", {}, b""),
        ("POST", f"/v2/publish/{URL}", {"Svc-Cron": "* * * * *"}, b""),
        ("POST", f"/v2/publish/{URL}", {"Svc-Callback": URL, "Svc-Callback-Delay": "1s"}, b""),
        ("POST", f"/v2/enqueue/a%20b/{URL}", {}, b""),
        ("POST", f"/v2/schedules/{URL}", {}, b""),
        ("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * *"}, b""),
        ("POST", "/v2/batch", {}, b"{}"),
        ("POST", "/v2/batch", {}, b"\xff"),
        ("POST", "/v2/queues", {}, {"queueName": "a b"}),
        ("POST", "/v2/topics/g/endpoints", {}, {"endpoints": []}),
        ("PATCH", "/v2/topics/g", {}, {"headers": {"Svc-Delay": "soon"}}),
        ("DELETE", "/v2/messages?label", {}, b""),
        ("DELETE", "/v2/messages?labels=x", {}, b""),
        ("GET", "/v2/events?state=DONE", {}, b""),
        ("GET", "/v2/dlq?cursor=x", {}, b""),
        ("DELETE", "/v2/dlq", {}, {"ids": []}),
        ("POST", "/v2/flowControl/k/pin", {}, b""),
        ("POST", "/llm/v1/chat/completions", {}, {"model": "m"}),
        ("POST", "/v2/publish/api/llm", {}, b""),
    ):
        answer = await emulator.call(method, target, headers, body)
        assert (answer.status, "field" in answer.json) == (400, True), (target, answer.body)


@scenario()
async def unknown_things(emulator: Checked) -> None:
    for operation in documented(404):
        if operation.id in ("showPage", "showControlPage"):
            assert (await emulator.call("GET", operation.path, {"Accept": "*/*"})).status == 404
            continue
        if operation.id == "getInspector":
            continue  # It is there unless it is off.
        assert operation.api != "control" or operation.parameters, operation.id
        if operation.id in ("publishMessage", "enqueueMessage"):
            path = operation.path.replace("{queueName}", "q").replace("{destination}", "nobody")
            answer = await emulator.call("POST", path)
        elif operation.id == "createSchedule":
            answer = await emulator.call("POST", "/v2/schedules/nobody", {"Svc-Cron": "* * * * *"})
        elif operation.id == "removeEndpoints":
            answer = await emulator.call("DELETE", "/v2/topics/g/endpoints", (), {"endpoints": [{"name": "x"}]})
        elif operation.id == "setUrlGroupDefaults":
            answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {}})
        elif operation.id in MANAGEMENT_BODIES:
            path, body = MANAGEMENT_BODIES[operation.id]
            answer = await emulator.manage(operation.method, path, body)
        elif operation.id in ("getContract", "getReference"):
            continue
        elif operation.api == "control":
            path = operation.path.replace("{id}", "nobody").replace("{name}", "nothing").replace("{seq}", "999")
            named = any(parameter["name"] == "world" for parameter in operation.parameters)
            body = BODIES.get(operation.id, b"")
            answer = await emulator.call(
                operation.method, path + ("?world=nobody" if named else ""), (), body, token=None
            )
            if "{id}" in path and named:
                assert (await emulator.call(operation.method, path, (), body, token=None)).status == 404
        else:
            answer = await emulator.of(operation, query="?rate=1" if operation.id.startswith("pin") else "")
        assert answer.status == 404, (operation.id, answer.status, answer.body)
    for target in ("/", "/v2/nothing", "/_emulator/nothing", "/v1/publish/https://x.test", "/v2/queue"):
        assert (await emulator.call("GET", target)).status == 404


@scenario(inspector="off")
async def an_inspector_that_is_off(emulator: Checked) -> None:
    assert (await emulator.control("GET", "/inspector")).status == 404


@scenario()
async def contracts_that_are_missing(emulator: Checked) -> None:
    async with without_contracts() as bare:
        without = Checked(bare)
        await without.control("GET", "/contract")
        await without.control("GET", "/reference")
        emulator.met |= without.met


@scenario()
async def wrong_methods(emulator: Checked) -> None:
    for path in {operation.path for operation in all_operations()}:
        (first, *_) = (operation for operation in all_operations() if operation.path == path)
        for method in ("TRACE", "PUT"):
            if not any(each.method == method and each.path == path for each in all_operations()):
                token = "" if first.api == "messaging" else None
                target = path.replace("{", "").replace("}", "")
                assert (await emulator.call(method, target, token=token)).status == 405
    # A slash makes a destination of it, which no method but POST takes.
    for method in ("GET", "DELETE"):
        assert (await emulator.call(method, "/v2/schedules/https://x.test/a")).status == 405


@scenario()
async def headers_that_are_no_utf8(emulator: Checked) -> None:
    for operation in all_operations():
        answer = await emulator.of(operation, {"X-Odd": "\udcff"})
        assert (answer.status, answer.json["field"]) == (400, "X-Odd"), operation.id


@scenario(control_token="s3cret")
async def wrong_credentials(emulator: Checked) -> None:
    for operation in all_operations():
        if operation.security:
            for headers in ({}, {"Authorization": "Bearer nobody"}, {"Authorization": "Basic bm86Ym9keQ=="}):
                answer = await emulator.call(operation.method, _path(operation), headers, token=None)
                assert answer.status == 401, operation.id


def _path(operation: Operation) -> str:
    return operation.path.replace("{", "").replace("}", "")


@scenario()
async def forbidden(emulator: Checked) -> None:
    for operation in documented(403, "messaging"):
        if operation.method != "GET" and operation.security:
            answer = await emulator.call(operation.method, _path(operation), token=emulator.emulator.read_only_token)
            assert answer.status == 403, operation.id
    for operation in documented(403):
        answer = await emulator.call(
            operation.method, _path(operation), {"Origin": "https://evil.example.com"}, token=None
        )
        assert answer.status == 403, operation.id
    account_id = emulator.emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account_id}", {"state": "suspended"})
    for operation in documented(403, "messaging"):
        if operation.security:
            assert (await emulator.of(operation)).status == 403, operation.id


@scenario(plan="free")
async def too_large(emulator: Checked) -> None:
    for operation in documented(413):
        headers = [("Host", "127.0.0.1"), ("Content-Length", TOO_LARGE)]
        target = _path(operation)
        app = emulator.emulator.emulation.app
        answer = await asgi_call(app, operation.method, target.encode(), headers, b"", "127.0.0.1")
        assert answer.status == 413, operation.id
        name = check_response(operation.method, target, answer.status, answer.headers, answer.body)
        emulator.met.add((name, answer.status))
    answer = await emulator.call("POST", f"/v2/publish/{URL}", (), b"x" * 1_048_577)
    assert answer.status == 413


@scenario()
async def limits(emulator: Checked) -> None:

    async def limit(**fields: int) -> None:
        account_id = emulator.emulator.world.account().id
        assert (await emulator.control("PUT", f"/accounts/{account_id}", fields)).status == 200

    await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "fault": "refused"})
    await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "0"})
    dead_letter = (await emulator.call("GET", "/v2/dlq")).json["messages"][0]["dlqId"]
    init = {"Svc-Workflow-RunId": "wfr_1", "Svc-Workflow-Init": "true", "Svc-Retries": "0"}
    await emulator.call("POST", f"/v2/publish/{DOWN}", init)
    failed_run = (await emulator.call("GET", "/v2/workflows/dlq")).json["messages"][0]["dlqId"]
    await limit(max_queues=0, max_schedules=0, max_topics=0)
    for target, headers, body in (
        (f"/v2/publish/{URL}", {"Svc-Queue-Name": "q"}, b""),
        (f"/v2/enqueue/q/{URL}", {}, b""),
        (f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *"}, b""),
        ("/v2/topics/g/endpoints", {}, {"endpoints": [{"url": URL}]}),
        ("/v2/queues", {}, {"queueName": "q"}),
    ):
        assert (await emulator.call("POST", target, headers, body)).status == 412, target
    retries = {"Svc-Retries": "21"}
    again = [f"/v2/workflows/dlq/{word}{name}" for word in ("resume", "restart") for name in ("", f"/{failed_run}")]
    for target in (f"/v2/dlq/retry/{dead_letter}", "/v2/dlq/retry", *again):
        assert (await emulator.call("POST", target, retries)).status == 412, target
    await limit(max_topics=1)
    await emulator.call("POST", "/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})
    assert (await emulator.call("PATCH", "/v2/topics/g", (), {"headers": retries})).status == 412
    await limit(max_requests_per_day_hard=0, max_queues=10)
    for target in (f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}", f"/v2/dlq/retry/{dead_letter}", "/v2/dlq/retry"):
        answer = await emulator.call("POST", target)
        assert (answer.status, answer.headers["ratelimit-remaining"]) == (429, "0"), target
    for target in (f"/v2/trigger/{URL}", "/v2/batch/trigger"):
        answer = await emulator.call("POST", target, (), [{"destination": URL}])
        assert (answer.status, answer.headers["ratelimit-remaining"]) == (429, "0"), target
        answer = await emulator.call("POST", target, retries, [{"destination": URL, "headers": retries}])
        assert answer.status == 412, target
    own = {"Svc-Workflow-RunId": "wfr_1"}
    steps = [{"destination": URL, "headers": own | retries}]
    assert (await emulator.call("POST", "/v2/batch", (), steps)).status == 412
    assert (await emulator.call("POST", "/v2/wait/ev", own, {"url": URL, "timeout": "x", "step": {}})).status == 412
    await limit(max_requests_per_second=0)
    for operation in documented(429, "messaging"):
        if operation.id not in ("publishMessage", "enqueueMessage", "triggerWorkflow", "triggerWorkflows"):
            answer = await emulator.of(operation)
            assert (answer.status, answer.headers["burst-ratelimit-limit"]) == (429, "0"), operation.id


@scenario()
async def a_world_that_ends(emulator: Checked) -> None:
    # As it is for the moment in which a world is being reset or removed.
    account_id = emulator.emulator.world.account().id
    await emulator.emulator.world.close()
    for operation in documented(409):
        if operation.id in ("createWorld", "listWorlds"):
            continue  # Another world has nothing to do with this one, and worlds can be looked at at any moment.
        path = operation.path.replace("{id}", account_id if "/accounts/" in operation.path else "default")
        if operation.method == "POST":
            path = path.replace("{destination}", URL)
        path = path.replace("{userId}", account_id).replace("{seq}", "1").replace("{", "").replace("}", "")
        headers = HEADERS.get(operation.id, {})
        body = BODIES.get(operation.id, b"")
        answer = await emulator.ask(operation.api, operation.method, path, headers, body)
        assert answer.status == 409, (operation.id, answer.status, answer.body)
