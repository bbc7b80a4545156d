"""Every operation of the messaging API with its success."""

from __future__ import annotations

from tests.contracts.scenarios import DOWN, URL, Checked, scenario


@scenario()
async def language_model(emulator: Checked) -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    asked = await emulator.call("POST", "/v2/publish/api/llm", {"Svc-Callback": "https://cb.test/ok"}, request)
    assert (await emulator.call("GET", f"/v2/messages/{asked.json['messageId']}")).json["api"] == "llm"
    assert (await emulator.call("POST", "/llm/v1/chat/completions", (), request)).status == 200
    assert (await emulator.call("POST", "/llm/v1/chat/completions", (), {**request, "stream": True})).status == 200
    await emulator.call("GET", "/v2/events")


@scenario()
async def messages(emulator: Checked) -> None:
    everything = {
        "Content-Type": "application/json",
        "Svc-Method": "PUT",
        "Svc-Timeout": "30s",
        "Svc-Retries": "2",
        "Svc-Retry-Delay": "1000 * pow(2, retried)",
        "Svc-Delay": "1h",
        "Svc-Forward-Authorization": "Bearer x",
        "Svc-Callback": "https://cb.test/ok",
        "Svc-Callback-Forward-K": "v",
        "Svc-Failure-Callback": "https://cb.test/no",
        "Svc-Failure-Callback-Forward-K": "v",
        "Svc-Redact-Fields": "body,header[Authorization]",
        "Svc-Label": "billing,eu",
        "Svc-Flow-Control-Key": "user-1",
        "Svc-Flow-Control-Value": "parallelism=2, rate=3, period=1m",
    }
    delayed = (await emulator.call("POST", f"/v2/publish/{URL}?a=b", everything, {"order": 1})).json["messageId"]
    record = (await emulator.call("GET", f"/v2/messages/{delayed}")).json
    assert record.keys() >= {"callbackHeader", "failureCallbackHeader", "labels", "period", "rate", "parallelism"}
    assert record["body"].startswith("REDACTED:")
    binary = (await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"}, b"\xff\x00")).json["messageId"]
    assert "bodyBase64" in (await emulator.call("GET", f"/v2/messages/{binary}/")).json
    queued = (await emulator.call("POST", f"/v2/enqueue/q/{URL}", (), b"x")).json["messageId"]
    assert (await emulator.call("GET", f"/v2/messages/{queued}")).json["queueName"] == "q"
    await emulator.call("DELETE", f"/v2/messages/{delayed}")
    await emulator.call("DELETE", f"/v2/messages?messageIds={binary}")
    await emulator.call("DELETE", "/v2/messages", (), {"label": ["billing"], "count": 1})
    await emulator.call("DELETE", "/v2/messages", (), b"null")
    twice = {"Svc-Deduplication-Id": "order-1"}
    for path in (f"/v2/publish/{URL}", f"/v2/enqueue/q/{URL}"):
        await emulator.call("POST", path, twice)
        assert (await emulator.call("POST", path, twice)).status == 202
    batch = [{"destination": URL}, {"destination": "nobody"}, {"destination": URL, "headers": {"Svc-Retries": "x"}}]
    answers = (await emulator.call("POST", "/v2/batch", (), batch)).json
    assert [sorted(answer) for answer in answers] == [["messageId"], ["error"], ["error", "field"]]


@scenario()
async def groups(emulator: Checked) -> None:
    endpoints = {"endpoints": [{"url": "https://a.test", "name": "a b"}, {"url": "https://b.test"}]}
    await emulator.call("POST", "/v2/topics/g/endpoints", (), endpoints)
    await emulator.call("GET", "/v2/topics/g")
    headers = {"headers": {"Svc-Retries": "1", "Svc-Forward-K": ["v", "w"]}}
    assert "headers" in (await emulator.call("PATCH", "/v2/topics/g", (), headers)).json
    assert len((await emulator.call("GET", "/v2/topics/")).json) == 1
    published = (await emulator.call("POST", "/v2/publish/g", {"Svc-Content-Based-Deduplication": "True"})).json
    assert [item["url"] for item in published] == ["https://a.test", "https://b.test"]
    again = await emulator.call("POST", "/v2/publish/g", {"Svc-Content-Based-Deduplication": "True"})
    assert again.status == 202
    await emulator.call("POST", "/v2/enqueue/q/g")
    await emulator.call("POST", "/v2/batch", (), [{"destination": "g", "body": None, "queue": None}])
    await emulator.call("GET", f"/v2/messages/{published[0]['messageId']}")
    await emulator.call("DELETE", "/v2/topics/g/endpoints", (), {"endpoints": [{"name": "a b"}]})
    await emulator.call("DELETE", "/v2/topics/g")


@scenario()
async def schedules(emulator: Checked) -> None:
    headers = {
        "Svc-Cron": "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI",
        "Svc-Schedule-Id": "nightly",
        "Svc-Delay": "10s",
        "Svc-Timeout": "1m",
        "Svc-Queue-Name": "q",
        "Svc-Label": "a",
        "Svc-Callback": "https://cb.test/ok",
    }
    await emulator.call("POST", f"/v2/schedules/{URL}", headers, b"report")
    await emulator.call("POST", "/v2/topics/team/endpoints", {}, {"endpoints": [{"url": URL}]})
    made = (await emulator.call("POST", "/v2/schedules/team", {"Svc-Cron": "* * * * *"})).json["scheduleId"]
    await emulator.control("GET", f"/schedules/{made}/explain")
    await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "*/5 * * * *", "Svc-Forward-A": "b"}, b"\xff")
    await emulator.control("POST", "/clock/advance", {"by": "10m"})
    await emulator.call("POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Delay": "1h"})
    await emulator.control("POST", "/clock/advance", {"by": "1m"})
    records = (await emulator.call("GET", "/v2/schedules")).json
    assert any("lastScheduleStates" in record for record in records)
    await emulator.control("GET", f"/schedules/{made}/explain")
    accounts = (await emulator.control("GET", "/accounts")).json["accounts"]
    await emulator.control("PUT", f"/accounts/{accounts[0]['id']}", {"max_requests_per_day_hard": 0})
    await emulator.control("POST", "/clock/advance", {"by": "1m"})
    await emulator.control("GET", f"/schedules/{made}/explain")
    assert "error" in (await emulator.call("GET", f"/v2/schedules/{made}")).json
    for method in ("POST", "PATCH"):
        await emulator.call(method, "/v2/schedules/nightly/pause")
        assert (await emulator.call("GET", "/v2/Schedules/nightly")).json["isPaused"] is True
        await emulator.call(method, "/v2/schedules/nightly/resume")
    await emulator.call("DELETE", "/v2/schedules/nightly")


@scenario()
async def queues(emulator: Checked) -> None:
    await emulator.call("POST", "/v2/queues", (), {"queueName": "q", "parallelism": 2, "paused": True})
    await emulator.call("POST", f"/v2/enqueue/q/{URL}")
    assert (await emulator.call("GET", "/v2/queues/q")).json["lag"] == 1
    await emulator.call("GET", "/v2/queues")
    await emulator.call("POST", "/v2/queues/q/resume")
    await emulator.call("POST", "/v2/queues/q/pause")
    await emulator.call("DELETE", "/v2/queues/q")


@scenario()
async def flow_control(emulator: Checked) -> None:
    flow = {"Svc-Flow-Control-Key": "user/1", "Svc-Flow-Control-Value": "parallelism=1, rate=1, period=1d"}
    await emulator.control("POST", "/destinations", {"match": {"url": URL}, "respond": {"latency": "1h"}})
    for _ in range(2):
        await emulator.call("POST", f"/v2/publish/{URL}", flow)
    for key in ("user%2F1", "user/1"):
        assert (await emulator.call("GET", f"/v2/flowControl/{key}")).json["waitListSize"] == 1
    assert (await emulator.call("GET", "/v2/globalParallelism")).json["parallelismCount"] == 1
    await emulator.call("GET", "/v2/flowControl?search=user")
    for action in ("pause", "pin?rate=5&period=1h", "unpin?rate=true", "reset", "resetRate", "resume"):
        assert (await emulator.call("POST", f"/v2/flowControl/user%2F1/{action}")).status == 200
    await emulator.call("POST", "/v2/flowControl/%C3%A9/pin?parallelism=3")
    assert len((await emulator.call("GET", "/v2/FlowControl")).json) == 2


@scenario()
async def history(emulator: Checked) -> None:
    await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "respond": {"status": 502, "body": "oh"}})
    await emulator.control("POST", "/destinations", {"match": {"url": f"{DOWN}/2"}, "fault": "refused"})
    rule = {
        "match": {"url": f"{DOWN}/3"},
        "respond": {"status": 500, "body_base64": "/wA=", "headers": {"A": ["b", "c"]}},
    }
    await emulator.control("POST", "/destinations", rule)
    failing = {
        "Svc-Retries": "0",
        "Svc-Label": "a",
        "Content-Type": "text/plain",
        "Svc-Callback": "https://cb.test",
    }
    for destination in (DOWN, f"{DOWN}/2", f"{DOWN}/3"):
        await emulator.call("POST", f"/v2/publish/{destination}", failing, b"body")
    await emulator.call("POST", f"/v2/publish/{DOWN}", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    await emulator.control("POST", "/clock/drain")
    await emulator.call("POST", f"/v2/publish/{URL}", {"Svc-Delay": "1h"})
    await emulator.call("DELETE", "/v2/messages")
    events = (await emulator.call("GET", "/v2/events")).json["events"]
    assert {event["state"] for event in events} == {
        "CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELED",
    }  # fmt: skip
    assert "cursor" in (await emulator.call("GET", "/v2/logs?count=2&order=earliestFirst")).json
    first = (await emulator.call("GET", "/v2/dlq?count=1")).json
    await emulator.call("GET", f"/v2/dlq?cursor={first['cursor']}&order=earliestFirst")
    dead = [entry["dlqId"] for entry in (await emulator.call("GET", "/v2/dlq")).json["messages"]]
    for dead_letter in dead:
        await emulator.call("GET", f"/v2/dlq/{dead_letter}")
    await emulator.call("POST", f"/v2/dlq/retry/{dead[0]}", {"Svc-Delay": "1h"})
    await emulator.call("POST", "/v2/dlq/retry?count=1", {"Svc-Delay": "1h", "Svc-Label": "again"})
    await emulator.call("DELETE", f"/v2/dlq/{dead[2]}")
    await emulator.call("DELETE", "/v2/dlq", (), {"dlqIds": dead[:3]})
    await emulator.call("DELETE", "/v2/dlq?count=100")


@scenario()
async def signing_keys(emulator: Checked) -> None:
    before = (await emulator.call("GET", "/v2/keys")).json
    after = (await emulator.call("POST", "/v2/keys/rotate")).json
    assert after["current"] == before["next"]
    await emulator.call("POST", "/v2/rotate")


@scenario()
async def workflows(emulator: Checked) -> None:
    own = {"Svc-Workflow-RunId": "wfr_1"}
    await emulator.call("POST", f"/v2/publish/{URL}", own | {"Svc-Workflow-Init": "true"}, b"{}")
    assert (await emulator.call("GET", "/v2/workflows/runs/wfr_1")).json[0]["callType"] == "step"
    wait = {"url": URL, "timeout": "1h", "timeoutHeaders": {"Svc-Retries": "1"}, "step": {"stepId": 1}}
    for event in ("all", "one"):
        assert (await emulator.call("POST", f"/v2/wait/{event}", own, wait)).status == 200
        assert len((await emulator.call("GET", f"/v2/waiters/{event}")).json) == 1
    assert len((await emulator.call("POST", "/v2/notify/all", (), b"x")).json) == 1
    assert len((await emulator.call("POST", "/v2/notify/wfr_1/one", (), b"x")).json) == 1
    account_id = emulator.emulator.world.account().id
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        hook = f"/v2/workflows/hooks/{account_id}/wfr_1/evt_1"
        assert (await emulator.call(method, hook, token=None)).status == 200
    for target in ("", "/wfr_1", "/wfr_1/explain"):
        assert (await emulator.control("GET", f"/runs{target}")).status == 200
    await emulator.call("DELETE", "/v2/workflows/runs/wfr_1?cancel=false", (), b'"done"')
    for name in ("logs", "events"):
        assert len((await emulator.call("GET", f"/v2/workflows/{name}?groupBy=workflowRunId")).json["runs"]) == 1
    for _ in range(2):
        await emulator.call("POST", f"/v2/trigger/{URL}", own)
    items = [{"destination": URL}, {"destination": URL, "headers": own}]
    assert (await emulator.call("POST", "/v2/batch/trigger", (), items)).status == 201
    assert (await emulator.call("DELETE", "/v2/workflows/runs")).json == {"cancelled": 2}


@scenario()
async def failed_workflows(emulator: Checked) -> None:
    await emulator.control("POST", "/destinations", {"match": {"url": DOWN}, "fault": "refused"})

    async def fail(retries: int) -> str:
        own = {"Svc-Workflow-RunId": "wfr_1", "Svc-Workflow-Init": "true", "Svc-Retries": "0"}
        own |= {"Svc-Failure-Callback": DOWN, "Svc-Failure-Callback-Retries": str(retries)}
        await emulator.call("POST", f"/v2/publish/{DOWN}", own, b"{}")
        found: str = (await emulator.call("GET", "/v2/workflows/dlq")).json["messages"][-1]["dlqId"]
        return found

    letter = await fail(1)
    assert (await emulator.call("DELETE", f"/v2/workflows/dlq/callback/{letter}")).status == 302
    letter = await fail(0)
    assert (await emulator.call("POST", f"/v2/workflows/dlq/callback/{letter}")).status == 200
    for word in ("resume", "restart"):
        assert (await emulator.call("POST", f"/v2/workflows/dlq/{word}/{await fail(0)}")).status == 200
        assert (await emulator.call("POST", f"/v2/workflows/dlq/{word}?count=1")).status == 200
    [failed] = (await emulator.call("GET", "/v2/workflows/logs?state=RUN_FAILED&count=1")).json["runs"]
    assert (await emulator.control("GET", f"/runs/{failed['workflowRunId']}/explain")).status == 200
    letter = await fail(0)
    for method in ("GET", "DELETE"):
        assert (await emulator.call(method, f"/v2/workflows/dlq/{letter}")).status == 200
    assert (await emulator.call("DELETE", f"/v2/workflows/dlq/delete/{await fail(0)}")).status == 200
    await fail(0)
    assert (await emulator.call("GET", "/v2/dlq?source=workflow")).json["messages"]
    assert (await emulator.call("DELETE", "/v2/workflows/dlq")).json["deleted"]
