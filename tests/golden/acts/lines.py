"""Lines that messages wait in: queues, flow control keys, and the places of the whole account."""

from __future__ import annotations

from tests.golden.stage import Stage


def queues(stage: Stage) -> None:
    """First in, first out; parallelism, pauses, deletions, retries at the head of the line."""
    world = stage.world("queues", seed=31)
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "20s"})
    world.rule("https://shaky.example.com/*", sequence=[{"status": 500, "latency": "1s"}, {"status": 200}])
    world.rule("https://down.example.com/*", respond={"status": 500})
    world.call("POST", "/v2/queues", {}, {"queueName": "wide", "parallelism": 3})
    world.call("POST", "/v2/queues", {}, {"queueName": "shut", "paused": True})
    world.call("POST", "/v2/queues", {}, {"queueName": "none", "parallelism": 0})
    world.call("GET", "/v2/queues/nowhere")
    for number in range(8):
        for queue in ("narrow", "wide", "shut"):
            host = ("slow", "shaky", "slow", "down")[number % 4]
            world.enqueue(
                queue, f"https://{host}.example.com/{queue}/{number}", f"{number}", retries=1, retry_delay="5000"
            )
    world.enqueue("narrow", "https://app.example.com/ignored", delay="1h", flow_control_key="k", retries=0)
    world.publish("https://app.example.com/by-header", queue_name="wide")
    world.call("GET", "/v2/queues")
    world.look_ahead()
    world.advance("30s")
    world.call("POST", "/v2/queues/narrow/pause")
    world.call("POST", "/v2/queues/shut/resume")
    world.call("POST", "/v2/queues/shut/resume")
    world.advance("1m")
    world.call("GET", "/v2/queues")
    world.look_ahead()
    world.call("POST", "/v2/queues", {}, {"queueName": "wide", "parallelism": 1})
    world.call("POST", "/v2/queues", {}, {"queueName": "shut", "parallelism": 5})
    world.call("DELETE", f"/v2/messages/{world.message_ids[12]}")
    world.advance("20s")
    world.call("POST", "/v2/queues/narrow/resume")
    world.advance("10s")
    world.call("DELETE", "/v2/queues/narrow")
    world.call("DELETE", "/v2/queues/narrow")
    world.call("POST", "/v2/queues/narrow/pause")
    world.enqueue("narrow", "https://slow.example.com/again")
    world.advance("1h")
    world.look(messages=20)


def flow_control(stage: Stage) -> None:
    """Parallelism and rate of keys, limits that change, pauses, pins and resets."""
    world = stage.world("flow-control", seed=32)
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "12s"})
    world.rule("https://shaky.example.com/*", sequence=[{"status": 503, "latency": "1s"}, {"status": 200}])

    def send(count: int, key: str, value: str, host: str = "slow", **options: object) -> None:
        for number in range(count):
            url = f"https://{host}.example.com/{number}"
            world.publish(url, key, flow_control_key=key, flow_control_value=value, retry_delay="3000", **options)

    send(6, "two", "parallelism=2")
    send(7, "rate", "rate=2, period=1m", "shaky")
    send(6, "both/with slash", "parallelism=3, rate=4, period=30s")
    send(4, "second", "rate=1", "app")
    send(3, "later", "parallelism=1", delay="40s")
    world.publish("https://app.example.com/", flow_control_key="counted")
    world.call("GET", "/v2/flowControl")
    world.call("GET", "/v2/flowControl?search=o")
    world.call("GET", "/v2/flowControl/both%2Fwith%20slash")
    world.call("GET", "/v2/flowControl/none")
    world.look_ahead()
    world.advance("13s")
    send(2, "two", "parallelism=4")
    world.call("POST", "/v2/flowControl/rate/pin?rate=3&period=20s")
    world.call("POST", "/v2/flowControl/fresh/pin?parallelism=1")
    world.call("POST", "/v2/flowControl/fresh/pin?speed=1")
    send(3, "fresh", "parallelism=9")
    send(3, "rate", "rate=1,period=1h", "shaky")
    world.call("GET", "/v2/flowControl")
    world.advance("30s")
    world.call("POST", "/v2/flowControl/two/pause")
    send(2, "two", "parallelism=4")
    world.call("POST", "/v2/flowControl/fresh/unpin?parallelism=true")
    world.call("POST", "/v2/flowControl/rate/resetRate")
    world.call("POST", "/v2/flowControl/both%2Fwith%20slash/reset")
    world.call("POST", "/v2/flowControl/none/pause")
    world.look_ahead()
    world.advance("1m")
    world.call("POST", "/v2/flowControl/two/resume")
    world.call("POST", "/v2/flowControl/rate/unpin?rate=true")
    send(4, "rate", "rate=1,period=10m", "shaky")
    world.call("DELETE", f"/v2/messages?{'flowControlKey=rate'}&count=2")
    world.look_ahead()
    world.advance("12m")
    world.look(messages=24)
    world.advance("2h")
    world.call("GET", "/v2/flowControl")
    world.control("GET", "/trace")


def places(stage: Stage) -> None:
    """The account's own parallelism, beside queues and keys, and changed while messages wait."""
    world = stage.world("places", seed=33)
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "10s"})
    world.control("PUT", f"/accounts/{world.account_id}", {"max_global_parallelism": 3})
    for number in range(6):
        world.publish(f"https://slow.example.com/plain/{number}")
        world.enqueue("line", f"https://slow.example.com/line/{number}")
        world.publish(
            f"https://slow.example.com/key/{number}",
            flow_control_key="k",
            flow_control_value="parallelism=2",
            callback="https://slow.example.com/callback" if number == 3 else "https://app.example.com/",
        )
    world.call("GET", "/v2/globalParallelism")
    world.look_ahead()
    world.advance("15s")
    world.control("PUT", f"/accounts/{world.account_id}", {"max_global_parallelism": 1})
    world.call("GET", "/v2/globalParallelism")
    world.advance("25s")
    world.call("DELETE", f"/v2/messages/{world.message_ids[-1]}")
    world.control("PUT", f"/accounts/{world.account_id}", {"max_global_parallelism": 5})
    world.look_ahead()
    world.advance("5m")
    world.look(messages=20)
