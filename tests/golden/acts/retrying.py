"""Attempts that fail: retries, hints, faults, timeouts, callbacks and dead letters."""

from __future__ import annotations

from tests.golden.stage import Stage
from tests.golden.worlds import World

_EXPRESSIONS = (
    "0",
    "1500",
    "1000 * (1 + retried)",
    "pow(2, retried) * 1000",
    "min(60000, exp(retried) * 100)",
    "max(1, retried) * 7000 / 3",
    "sqrt(retried) * 10000",
    "abs(retried - 2) * 1000",
    "-5",
    "1000 / retried",
    "round(floor(2.5) + ceil(2.1)) * 1000",
    "99999999999",
)
_HINTS: tuple[dict[str, str], ...] = (
    {"Retry-After": "10"},
    {"Retry-After": "0"},
    {"Retry-After": "Sat, 28 Feb 2026 00:00:00 GMT"},
    {"Retry-After": "86401"},
    {"Retry-After": "later"},
    {"X-RateLimit-Reset": "25"},
    {"X-RateLimit-Reset-Requests": "1m30s"},
    {"X-RateLimit-Reset-Tokens": "6m0.5s"},
    {"X-RateLimit-Reset": "7", "Retry-After": "3"},
)


def retries(stage: Stage) -> None:
    """When a failed attempt is made again, and what decides it."""
    world = stage.world("retries", seed=21)
    world.rule("https://down.example.com/*", respond={"status": 503, "body": "down"})
    world.rule("https://flaky.example.com/*", sequence=[{"status": 500}, {"status": 404}, {"status": 200}])
    world.rule("https://twice.example.com/*", respond={"status": 502}, times=2)
    world.rule("https://gone.example.com/*", respond={"status": 489, "headers": {"Svc-NonRetryable-Error": "true"}})
    world.rule("https://gone-without.example.com/*", respond={"status": 489})
    world.rule("https://post.example.com/*", respond={"status": 418}, match={"method": "POST"})
    world.rule(
        "https://mixed.example.com/*",
        sequence=[
            {"status": 429, "latency": "3s", "headers": {"Retry-After": ["5", "9"], "Set-Cookie": "a=b"}},
            {"status": 302, "headers": {"Location": "https://app.example.com/"}},
            {"status": 204, "latency": "500ms"},
        ],
    )
    for fault in ("refused", "timeout", "reset", "dns", "tls"):
        world.rule(f"https://{fault}.example.com/*", fault=fault, latency="2s" if fault != "dns" else "0s")
        world.publish(f"https://{fault}.example.com/", retries=1, retry_delay="30000", timeout="20s")
    for hint, headers in enumerate(_HINTS):
        world.rule(f"https://hint{hint}.example.com/*", respond={"status": 429, "headers": headers}, times=1)
        world.publish(f"https://hint{hint}.example.com/", retry_delay="60000")
    for expression in _EXPRESSIONS:
        world.publish(f"https://down.example.com/{len(expression)}", retries=4, retry_delay=expression)
    world.publish("https://down.example.com/default")
    world.publish("https://down.example.com/five", retries=5)
    world.publish("https://down.example.com/none", retries=0)
    for host in ("flaky", "flaky", "twice", "twice", "gone", "gone-without", "mixed", "mixed", "post"):
        world.publish(f"https://{host}.example.com/x", method="GET" if host == "post" else "POST", retry_delay="45000")
    world.look_ahead()
    world.advance("1m")
    world.look_ahead()
    world.advance("1h")
    world.look_ahead()
    world.advance("2d")
    world.look(messages=40)


def callbacks(stage: Stage) -> None:
    """Callbacks and failure callbacks, with options of their own, and callbacks of callbacks."""
    world = stage.world("callbacks", seed=22)
    world.rule("https://down.example.com/*", respond={"status": 500, "body": "broken"})
    world.rule("https://cb-down.example.com/*", respond={"status": 503}, times=3)
    world.rule("https://late.example.com/*", respond={"status": 201, "latency": "90s", "body_base64": "/w=="})
    both: dict[str, object] = {
        "callback": "https://cb.example.com/done",
        "failure_callback": "https://cb.example.com/failed",
    }
    for host in ("app", "down", "late"):
        world.publish(f"https://{host}.example.com/", f"to {host}", retries=2, retry_delay="10000", **both)
    world.publish("https://app.example.com/", callback="https://cb-down.example.com/", callback_retries=4)
    world.publish(
        "https://down.example.com/",
        retries=0,
        callback="https://cb.example.com/",
        callback_method="PUT",
        callback_forward_x_reason="attempt",
        callback_timeout="30s",
        failure_callback="https://cb.example.com/f",
        failure_callback_retries=1,
        failure_callback_retry_delay="1000 * retried",
        failure_callback_label="failures",
        failure_callback_flow_control_key="failing",
        failure_callback_flow_control_value="rate=1,period=1m",
    )
    world.publish(
        "https://app.example.com/chain",
        callback="https://cb.example.com/first",
        callback_callback="https://cb.example.com/second",
        callback_failure_callback="https://cb.example.com/never",
        label="chain",
        delay="1m",
    )
    world.publish(
        "https://app.example.com/hidden",
        "secret",
        redact_fields="body,header[X-Secret]",
        forward_x_secret="s3cret",
        callback="https://cb.example.com/hidden",
        callback_redact_fields="header",
        delay="2m",
    )
    world.publish("https://cb-down.example.com/", retries=0, failure_callback="https://down.example.com/", delay="1h")
    world.enqueue("line", "https://app.example.com/queued", callback="https://cb.example.com/queued")
    world.look_ahead()
    world.advance("5m")
    world.control("GET", "/deliveries", redact="true", url="https://cb.example.com/*")
    world.advance("3d")
    world.look(messages=20)
    for message_id in _callback_ids(world):
        world.call("GET", f"/v2/messages/{message_id}")
        world.control("GET", f"/messages/{message_id}/explain")


def _callback_ids(world: World) -> list[str]:
    """The messages that nobody published: those of the deliveries to the callback's host."""
    found = world.control("GET", "/deliveries", url="https://cb.example.com/*", limit="100").json["deliveries"]
    return list(dict.fromkeys(entry["message_id"] for entry in found))


def dead_letters(stage: Stage) -> None:
    """What failed for good: listed, filtered, published again, deleted, and expired."""
    world = stage.world("dead-letters", seed=23)
    world.call("POST", "/v2/topics/pair/endpoints", {}, {"endpoints": [{"url": "https://down.example.com/a"}]})
    rule = world.rule("https://down.example.com/*", respond={"status": 500, "body": "no", "headers": {"X-Why": "no"}})
    world.rule("https://silent.example.com/*", fault="refused")
    world.rule("https://half.example.com/*", respond={"status": 503, "body_base64": "gIE="})
    for number in range(12):
        host = ("down", "silent", "half")[number % 3]
        world.publish(
            f"https://{host}.example.com/{number}",
            f"number {number}",
            retries=number % 2,
            retry_delay="1000",
            label=("red", "green")[number % 2],
            **({"flow_control_key": "k", "flow_control_value": "parallelism=2"} if number % 4 == 0 else {}),
        )
        world.advance("7s")
    world.publish("pair", "grouped", retries=0)
    world.enqueue("line", "https://down.example.com/queued", retries=0)
    world.schedule("*/5 * * * *", "https://down.example.com/fired", schedule_id="failing", retries=0)
    world.advance("12m")
    world.call("DELETE", "/v2/schedules/failing")
    for query in (
        "count=3",
        "count=3&order=latestFirst",
        "label=red",
        "url=https://down.example.com/3",
        "responseStatus=503",
        "responseStatus=0,503&count=2",
        "queueName=line",
        "topicName=pair",
        "scheduleId=failing",
        "flowControlKey=k",
        "fromDate=1772231410000&toDate=1772231440000",
        "source=workflow",
        "lable=red",
    ):
        world.call("GET", f"/v2/dlq?{query}")
    entries = world.call("GET", "/v2/dlq").json["messages"]
    ids = [entry["dlqId"] for entry in entries]
    world.call("GET", f"/v2/dlq/{ids[0]}")
    world.call("DELETE", f"/v2/dlq/{ids[0]}")
    world.call("DELETE", f"/v2/dlq/{ids[0]}")
    world.call("GET", f"/v2/dlq/{ids[0]}")
    world.call("POST", f"/v2/dlq/retry/{ids[1]}")
    world.call("POST", f"/v2/dlq/retry/{ids[1]}")
    world.call("POST", f"/v2/dlq/retry/{ids[2]}", world.named(retries=1, retry_delay="5000", delay="1m", label="again"))
    world.control("DELETE", f"/destinations/{rule}")
    world.call("POST", f"/v2/dlq/retry?dlqIds={ids[3]}&dlqIds={ids[4]}")
    world.call("POST", "/v2/dlq/retry?label=green&count=2")
    world.call("POST", "/v2/dlq/retry?queueName=line")
    world.call("DELETE", "/v2/dlq", {}, {"dlqIds": [ids[5], "0-0"]})
    world.call("DELETE", "/v2/dlq", {}, {"dlqIds": []})
    world.call("DELETE", "/v2/dlq?label=red&count=1")
    world.look_ahead()
    world.advance("2h")
    world.pages("/v2/dlq?count=2")
    world.look(messages=20)
    world.control("PUT", f"/accounts/{world.account_id}", {"max_dlq_retention_time_milis": 172_800_000})
    world.look_ahead()
    world.advance("47h")
    world.call("GET", "/v2/dlq?count=100")
    world.advance("40d")
    world.call("GET", "/v2/dlq")
    world.control("GET", "/trace")
