"""Publishing: every option as a header and as a query parameter, and what is refused."""

from __future__ import annotations

from typing import Any

from tests.golden.stage import Stage

_URL = "https://app.example.com/hook"


def publishing(stage: Stage) -> None:
    """Accepted messages, now and later."""
    world = stage.world("publishing", seed=11)
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "8s", "body": "late"})
    world.rule("https://binary.example.com/*", respond={"status": 200, "body_base64": "AAH/gA=="})
    world.publish(_URL)
    world.publish(_URL, b"")
    world.publish(f"{_URL}?user=7&name=%C3%A4%20b")
    world.publish(f"{_URL}?user=7&svc-delay=90s&Svc-Retries=1&svc-label=a,b", {"user": 7})
    world.publish("https%3A%2F%2Fapp.example.com/encoded")
    world.publish("HTTPS://App.Example.com:443/Case?x=1")
    world.publish("https://[2001:db8::1]/v6")
    for method in ("GET", "PUT", "PATCH", "DELETE", "post"):
        world.publish(_URL, "by method", method=method)
    world.publish(_URL, "text", {"Content-Type": "text/plain; charset=utf-8"})
    world.publish(_URL, bytes(range(256)), {"Content-Type": "application/octet-stream"})
    world.publish(_URL, '{"text":"Größe ✓"}', {"Content-Type": "application/json"})
    world.publish(_URL, "x" * 20_000, delay="1h")
    world.publish(_URL, "forwarded", forward_x_tenant="7", forward_authorization="Bearer abc", forward_cookie="a=b")
    world.publish(
        _URL, "all headers", {"X-Own": "1", "X-Secret": "s", "Accept-Language": "de"}, header_forward="true", delay="5m"
    )
    for delay in ("0s", "1s", "90", "1h30m", "2d1s", "7d"):
        world.publish(_URL, f"after {delay}", delay=delay)
    for not_before in ("1772236800", "1772323200", "1000000000"):
        world.publish(_URL, f"not before {not_before}", not_before=not_before)
    world.publish(_URL, "both", delay="1h", not_before="1772323200")
    world.publish("https://slow.example.com/in-time", timeout="10s", retries=1)
    world.publish("https://slow.example.com/too-late", timeout="5s", retries=1, retry_delay="2000")
    world.publish("https://binary.example.com/", delay="3s")
    world.publish(_URL, "labelled", label="one, two ,one", delay="20s")
    for fields in ("body", "header", "header[X-Tenant]", "body,headers[Authorization]"):
        world.publish(
            _URL,
            f"redacted {fields}",
            redact_fields=fields,
            forward_x_tenant="tenant 7",
            forward_authorization="Basic secret",
            delay="30s",
        )
    world.publish(_URL, "by a query token", {"Authorization": ""}, delay="1m")
    world.call("POST", f"/v2/publish/{_URL}?queue_token={world.token}", {"Authorization": "Basic own"}, "own login")
    world.look_ahead()
    world.control("GET", "/deliveries", redact="true", limit="30")
    world.control("GET", "/deliveries", url="https://app.example.com/h*", outcome="succeeded", limit="5")
    world.control("GET", "/deliveries", outcome="failed")
    world.advance("10s")
    world.advance("2h")
    world.advance("3d")
    for query in (
        "state=DELIVERED&count=3",
        "state=IN_PROGRESS",
        "label=two",
        "url=https://slow.example.com/too-late&order=earliestFirst",
        "host=slow.example.com",
        "path=/hook&count=2",
        f"messageIds={world.message_ids[0]},{world.message_ids[3]}",
        "fromDate=1772238000000&toDate=1772241600000",
        "callerIp=127.0.0.1&count=1",
        "order=sideways",
    ):
        world.call("GET", f"/v2/events?{query}")
        world.call("GET", f"/v2/logs?{query}")
    world.control("GET", "/stream", **{"from": "start", "follow": "false", "redact": "true"})
    world.look(messages=45)


def refusals(stage: Stage) -> None:
    """What is wrong, and how it is said; nothing of it becomes a message."""
    world = stage.world("refusals", seed=12)
    account = world.credentials["queue"]
    for destination in ("ftp://example.com/", "https://", "no-such-group", "api/llm", "", "https://user@example.com/"):
        world.publish(destination)
    wrong: tuple[dict[str, object], ...] = (
        {"delay": "soon"},
        {"delay": "-1s"},
        {"delay": "99999999999d"},
        {"not_before": "tomorrow"},
        {"retries": "many"},
        {"retries": 21},
        {"retry_delay": "1 +"},
        {"retry_delay": "1/0"},
        {"retry_delay": "sleep(1)"},
        {"timeout": "0s"},
        {"timeout": "1y"},
        {"method": "BREW"},
        {"callback": "nowhere"},
        {"callback": "https://cb.example.com/", "callback_delay": "1h"},
        {"label": ""},
        {"redact_fields": "everything"},
        {"flow_control_value": "parallelism=1"},
        {"flow_control_key": "k", "flow_control_value": "parallelism=0"},
        {"flow_control_key": "k", "flow_control_value": "speed=1"},
        {"deduplication_id": "a:b"},
        {"content_based_deduplication": "perhaps"},
        {"cron": "* * * * *"},
        {"forward_": "x"},
    )
    for options in wrong:
        world.publish(_URL, "wrong", **options)
    world.call("POST", f"/v2/publish/{_URL}", {}, "x", token="nobody")
    world.call("POST", f"/v2/publish/{_URL}", {}, "x", token=account["read_only_token"])
    world.call("GET", "/v2/events?count=1", token=account["read_only_token"])
    world.call("GET", "/v2/messages/msg_none")
    world.call("DELETE", "/v2/messages/msg_none")
    world.call("GET", "/v2/nothing")
    world.call("PUT", "/v2/batch")
    for content in (b"", b"{", b"[1]", b"{}", b"[]"):
        world.call("POST", "/v2/batch", {"Content-Type": "application/json"}, content)
    wrong_bodies: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/clock/advance", {"by": "1d", "to": "2026-03-01"}),
        ("/clock/advance", {"by": "yesterday"}),
        ("/clock/advance", {"to": "2020-01-01T00:00:00Z"}),
        ("/clock/drain", {"horizon": -1}),
        ("/destinations", {"match": {"url": "*"}}),
        ("/destinations", {"match": {"url": "*"}, "respond": {"status": 99}}),
        ("/destinations", {"match": {"url": "*"}, "sequence": []}),
        ("/destinations", {"match": {"url": "*"}, "fault": "tired"}),
        ("/destinations", {"match": {"url": "*"}, "respond": {}, "fault": "dns"}),
        ("/destinations", {"match": {"url": "*"}, "forward_to": "http://x/path"}),
        ("/reset", {"fixtures": {"accounts": [{"plan": "gold"}], "queues": [{"name": "a b"}]}}),
        ("/snapshots", {"name": "no/name"}),
        ("/snapshots/none/restore", {}),
    )
    for path, body in wrong_bodies:
        world.control("POST", path, body)
    world.control("GET", "/messages/msg_none/explain")
    world.control("GET", "/upcoming", until="never")
    world.control("GET", "/deliveries", limit="0")
    world.control("PUT", "/clock", {"rate": -1})
    world.control("GET", "/trace")


def deduplication(stage: Stage) -> None:
    """Duplicates by id and by content, within the window and after it."""
    world = stage.world("deduplication", seed=13)
    world.call("POST", "/v2/topics/pair/endpoints", {}, _pair())
    for _ in range(3):
        world.publish(_URL, "one", deduplication_id="order-1")
        world.publish("https://other.example.com/", "one", deduplication_id="order-1", delay="1h")
        world.publish(_URL, "content", content_based_deduplication="true")
        world.publish(_URL, "content", content_based_deduplication="true", forward_x_a="1")
        world.publish(_URL, "content", {"Content-Type": "text/plain"}, content_based_deduplication="true", delay="2h")
        world.publish("pair", "content", content_based_deduplication="true")
        world.publish("pair", "by id", deduplication_id="pair-1", delay="30m")
        world.enqueue("line", _URL, "queued", deduplication_id="queued-1")
        world.batch(
            [
                {"destination": _URL, "body": "b", "headers": {"Svc-Deduplication-Id": "batch-1"}},
                {"destination": _URL, "body": "b", "headers": {"Svc-Deduplication-Id": "batch-1"}},
            ]
        )
        world.advance("4m")
    world.look_ahead()
    world.call("DELETE", f"/v2/messages/{world.message_ids[1]}")
    world.publish("https://other.example.com/", "one", deduplication_id="order-1")
    world.advance("1d")
    world.look()


def _pair() -> dict[str, object]:
    return {"endpoints": [{"url": "https://a.example.com/", "name": "a"}, {"url": "https://b.example.com/x?y=1"}]}
