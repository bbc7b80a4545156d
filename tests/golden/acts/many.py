"""Many messages in one call: URL groups, batches and bulk cancellation."""

from __future__ import annotations

from tests.golden.stage import Stage


def groups(stage: Stage) -> None:
    """URL groups, their endpoints and default headers."""
    world = stage.world("groups", seed=51)
    endpoints = [{"url": f"https://{name}.example.com/in", "name": name} for name in ("one", "two", "three")]
    world.call("POST", "/v2/topics/news/endpoints", {}, {"endpoints": endpoints})
    world.call("POST", "/v2/topics/news/endpoints", {}, {"endpoints": [{"url": "https://four.example.com/?a=b"}]})
    world.call(
        "POST", "/v2/topics/news/endpoints", {}, {"endpoints": [{"url": "https://2.example.com/", "name": "two"}]}
    )
    world.call("POST", "/v2/topics/news/endpoints", {}, {"endpoints": []})
    world.call("POST", "/v2/topics/bad name/endpoints".replace(" ", "%20"), {}, {"endpoints": endpoints})
    world.call("GET", "/v2/topics/news")
    world.call("GET", "/v2/topics/none")
    world.publish("news", "plain", callback="https://cb.example.com/")
    defaults = {
        "headers": {
            "Svc-Retries": "1",
            "Svc-Retry-Delay": ["2500"],
            "Svc-Delay": "20s",
            "Svc-Forward-X-Group": "news",
            "Svc-Label": "from-group",
            "Svc-Flow-Control-Key": "group",
            "Svc-Flow-Control-Value": "parallelism=2",
        }
    }
    world.call("PATCH", "/v2/topics/news", {}, defaults)
    world.call("PATCH", "/v2/topics/news", {}, {"headers": {"Svc-Delay": "soon"}})
    world.rule("https://three.example.com/*", respond={"status": 500, "latency": "5s"})
    world.publish("news", "with defaults")
    world.publish("news", "told otherwise", delay="0s", retries=0, forward_x_group="mine", label="own")
    world.publish("news", "at an instant", not_before="1772236800")
    world.enqueue("line", "news", "queued")
    world.look_ahead()
    world.call("DELETE", "/v2/topics/news/endpoints", {}, {"endpoints": [{"name": "one"}, {"url": "https://none/"}]})
    world.call("GET", "/v2/topics")
    world.advance("1m")
    world.publish("news", "to three")
    world.call("PATCH", "/v2/topics/other", {}, {"headers": {"Svc-Retries": "2"}})
    world.publish("other", "to nobody")
    world.call("DELETE", "/v2/topics/news")
    world.call("DELETE", "/v2/topics/news")
    world.publish("news", "nobody")
    world.advance("1d")
    world.look(messages=12)


def batches(stage: Stage) -> None:
    """Batches whose items differ, some of them refused."""
    world = stage.world("batches", seed=52)
    world.call("POST", "/v2/topics/pair/endpoints", {}, {"endpoints": [{"url": "https://a.example.com/"}]})
    url = "https://app.example.com/"
    world.batch(
        [
            {"destination": url, "body": "now"},
            {"destination": url, "headers": {"svc-delay": "10m", "Content-Type": "text/plain", "X-Not-Sent": "1"}},
            {"destination": "pair", "body": "group", "headers": {"Svc-Retries": "0"}},
            {"destination": url, "body": "queued", "queue": "line"},
            {"destination": url, "body": "queued too", "headers": {"Svc-Queue-Name": "line"}},
            {"destination": "ftp://nowhere/"},
            {"destination": url, "headers": {"Svc-Delay": "soon"}},
            {"destination": url, "headers": {"Svc-Cron": "* * * * *"}},
            {"destination": "no-such-group"},
            {"destination": "api/llm"},
            {"destination": url, "body": "keyed", "headers": {"Svc-Flow-Control-Key": "k"}},
            {"destination": url, "body": "ü", "headers": {"Svc-Callback": "https://cb.example.com/"}},
        ]
    )
    # More than are answered before the call returns.
    world.batch({"destination": f"{url}{number}", "body": str(number)} for number in range(70))
    world.batch(
        {"destination": f"{url}later/{number}", "headers": {"Svc-Delay": f"{number % 7}m"}} for number in range(20)
    )
    world.control("PUT", f"/accounts/{world.account_id}", {"max_requests_per_day_hard": 150, "max_message_size": 50})
    world.batch({"destination": url, "body": "x" * (10 * number)} for number in range(12))
    world.look_ahead()
    world.advance("1d")
    world.batch([{"destination": url, "body": "next day"}])
    world.look(messages=8)


def cancellation(stage: Stage) -> None:
    """One message, chosen ones and all of them, waiting, held, retrying and under way."""
    world = stage.world("cancellation", seed=53)
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "1m"})
    world.rule("https://slow-down.example.com/*", respond={"status": 500, "latency": "1m"})
    world.rule("https://down.example.com/*", respond={"status": 500})
    cb: dict[str, object] = {"callback": "https://cb.example.com/", "failure_callback": "https://cb.example.com/f"}
    waiting = world.publish("https://app.example.com/waiting", delay="1h", **cb)
    under_way = world.publish("https://slow.example.com/", **cb)
    failing = world.publish("https://slow-down.example.com/", retries=3, **cb)
    retrying = world.publish("https://down.example.com/", retry_delay="60000", **cb)
    queued = [world.enqueue("line", f"https://slow.example.com/{number}") for number in range(3)]
    for message_id in (waiting, under_way, failing, retrying, *queued, waiting):
        world.call("DELETE", f"/v2/messages/{message_id}")
        world.control("GET", f"/messages/{message_id}/explain")
    world.look_ahead()
    for number in range(24):
        world.publish(
            f"https://app{number % 3}.example.com/{number}",
            delay=f"{number + 1}m",
            label=("a", "b", "a,b")[number % 3],
            **({"flow_control_key": "k"} if number % 5 == 0 else {}),
        )
    world.advance("2m")
    for query in (
        "label=b&count=2",
        "host=app1.example.com&count=1",
        "url=https://app2.example.com/5",
        "path=/6,/7",
        "flowControlKey=k",
        "queueName=line",
        f"messageIds={world.message_ids[-1]},{world.message_ids[-2]},msg_none",
        "fromDate=1772231500000&toDate=1772231500001",
        "lable=b",
        "label=",
    ):
        world.call("DELETE", f"/v2/messages?{query}")
    world.call("DELETE", "/v2/messages", {}, {"messageIds": [world.message_ids[-3]]})
    world.call("DELETE", "/v2/messages", {}, {"label": "a", "count": 2})
    world.call("DELETE", "/v2/messages", {}, {"lable": "a"})
    world.look_ahead()
    world.advance("10m")
    world.call("DELETE", "/v2/messages")
    world.advance("1d")
    world.look(messages=12)
