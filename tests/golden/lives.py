"""What the recorded databases hold, and how the worlds in them go on.

The first life ends with a stop, the second one, which goes on from there, with a crash. Each leaves
a little of everything behind, in every state that it can be in.
"""

from __future__ import annotations

from typing import Any

from tests.golden.acts.mixture import Mixture
from tests.golden.worlds import World

# The origin whose deliveries never come back in either life. Nothing answers for it afterwards, so it is captured.
HANGING = "https://hanging.example.com"

_CALLBACKS: dict[str, Any] = {
    "callback": "https://cb.example.com/done",
    "callback_retries": 2,
    "callback_forward_x_reason": "attempt",
    "failure_callback": "https://cb.example.com/failed",
    "failure_callback_label": "failure",
}


def first_life(world: World, beside: World) -> None:
    """A day and a half of history in the default world, a second world, snapshots of both; much is left to do."""
    for each, seed in ((world, 101), (beside, 102)):
        mixed = Mixture(each, seed)
        mixed.prepare()
        mixed.run(40)
    world.control("POST", "/snapshots", {"name": "first"})
    beside.control("POST", "/snapshots", {"name": "of-the-other"})
    world.control("DELETE", "/deliveries")
    _change_settings(world)
    world.advance("1d")
    _leave_much_to_do(world, "first")
    world.call("GET", "/v2/events?count=5")
    _leave_much_to_do(beside, "beside")


def second_life(world: World, beside: World) -> None:
    """What happens after the restart; a part of it is in the history already, the rest is only recorded as facts."""
    world.advance("40s")
    _leave_much_to_do(world, "second")
    world.call("GET", "/v2/events?count=5")
    world.call("POST", "/v2/keys/rotate")
    world.call("DELETE", "/v2/dlq?count=2")
    world.rule("https://new.example.com/*", respond={"status": 503, "headers": {"Retry-After": "600"}}, times=3)
    world.publish("https://new.example.com/unread", retries=4, **_CALLBACKS)
    world.call("POST", "/v2/queues/shut/pause")
    world.manage("POST", "/search", {"name": "second life", "region": "us-central1", "type": "free"})
    world.advance("5s")
    beside.enqueue("line", "https://slower.example.com/second", label="second")
    beside.advance("20s")


def leave_under_way(world: World) -> None:
    """Attempts that are really under way when the process ends, and one that waits behind them."""
    world.publish(f"{HANGING}/first", "under way", retries=1, **_CALLBACKS)
    world.enqueue("line", f"{HANGING}/queued", "waits to leave")
    world.publish("https://app.example.com/behind", "waits to leave too")
    # Until then nothing was cancelled while it was under way.
    world.call("DELETE", f"/v2/messages/{world.message_ids[-3]}")


def go_on(world: World, beside: World) -> None:
    """Three days after the restart: all that is there, what becomes of it, and new work between."""
    for each in (world, beside):
        # Whatever was under way is made again before anything else.
        each.advance("0s")
        each.look(messages=0)
    for name in ("worlds", "snapshots", "team"):
        world.control("GET", f"/{name}")
    world.advance("10m")
    world.publish("https://app.example.com/fresh", "dup", deduplication_id="first-id")
    world.publish("https://app.example.com/fresh", "content of first", content_based_deduplication="true")
    world.publish("https://app.example.com/fresh", flow_control_key="held", flow_control_value="parallelism=3")
    world.publish("fan-first", "to the group")
    world.call("POST", "/v2/queues/shut/resume")
    world.call("POST", "/v2/flowControl/held/resume")
    world.call("POST", "/v2/schedules/asleep-first/resume")
    world.call("POST", "/v2/dlq/retry?count=2")
    world.look_ahead()
    Mixture(world, 103).run(12)
    world.advance("1d")
    world.control("GET", "/trace")
    world.advance("2d")
    world.look(messages=10)
    for period in ("1d", "7d"):
        world.manage("GET", f"/{{queue}}/stats/{world.account_id}", period=period)
    world.manage("GET", "/search")
    beside.advance("3d")
    beside.control("POST", "/snapshots/of-the-other/restore")
    beside.advance("1d")
    beside.look(messages=0)
    world.control("POST", "/snapshots/first/restore")
    world.advance("6h")
    world.control("GET", "/trace")
    world.control("POST", "/reset")
    world.control("GET", "/accounts")
    world.control("GET", "/clock")


def still_there(world: World, beside: World) -> None:
    """What another restart finds."""
    for each in (world, beside):
        each.control("GET", "/clock")
        each.control("GET", "/trace")


def _change_settings(world: World) -> None:
    """An account, its keys and its indexes, other than they were made."""
    account = world.account_id
    world.call("POST", "/v2/keys/rotate")
    world.manage("POST", f"/{{queue}}/rotate-token/{account}")
    world.renew()
    world.manage("POST", f"/{{queue}}/set-plan/{account}", {"plan_name": "queue_fixed_10m"})
    world.manage("PATCH", f"/{{queue}}/update-budget/{account}", {"budget": 70})
    world.manage("POST", f"/{{queue}}/enable-prodpack/{account}")
    world.control("PUT", f"/accounts/{account}", {"max_global_parallelism": 9, "retention": 6, "max_retries": 30})
    made = world.manage("POST", "/search", {"name": "made", "region": "eu-west-1", "type": "payg"}).json
    world.manage("POST", f"/search/{made['id']}/rename", {"name": "renamed"})
    listed = world.manage("GET", "/search").json
    world.manage("DELETE", f"/search/{listed[0]['id']}")
    second = world.manage("GET", "/{queue}/users").json[1]
    for method, path in (("POST", "publish/https://app.example.com/second?svc-delay=2d"), ("GET", "schedules")):
        world.call(method, f"/v2/{path}", {}, b"of the second account", token=second["token"])


def _leave_much_to_do(world: World, name: str) -> None:
    """Messages, schedules, queues, keys, groups, rules and dead letters, each in several states."""
    down, slow, shaky = (f"https://{kind}-{name}.example.com" for kind in ("down", "slow", "shaky"))
    world.rule(f"{down}/*", respond={"status": 500, "body": "down", "headers": {"X-Why": "down"}})
    world.rule(f"{slow}/*", respond={"status": 201, "latency": "2h", "body_base64": "gP8="})
    world.rule(f"{shaky}/*", sequence=[{"status": 503}, {"status": 200, "latency": "3s"}, {"status": 404}])
    world.rule(f"https://broken-{name}.example.com/*", fault="reset", latency="5s", times=2)
    endpoints = [{"url": f"{shaky}/one", "name": "one"}, {"url": f"{down}/two?a=b"}]
    world.call("POST", f"/v2/topics/fan-{name}/endpoints", {}, {"endpoints": endpoints})
    defaults = {"Svc-Retries": "1", "Svc-Delay": "70m", "Svc-Forward-X-Group": name}
    world.call("PATCH", f"/v2/topics/fan-{name}", {}, {"headers": defaults})
    world.call("POST", "/v2/queues", {}, {"queueName": "shut", "paused": True, "parallelism": 2})
    for number in range(3):
        world.enqueue("shut", f"{shaky}/shut/{number}", f"{number}", retries=1)
        world.enqueue("line", f"{slow}/line/{number}", f"{number}")
        held: dict[str, Any] = {"flow_control_key": "held", "flow_control_value": "parallelism=1,rate=2,period=2h"}
        world.publish(f"{slow}/held/{number}", "held", **held, label="held")
    world.call("POST", "/v2/flowControl/held/pause")
    world.call("POST", f"/v2/flowControl/pinned-{name}/pin?parallelism=2&rate=1&period=30m")
    world.publish(f"{shaky}/pinned", flow_control_key=f"pinned-{name}", retry_delay="900000")
    world.publish(f"{slow}/under-way", "under way on the virtual clock", timeout="1h", **_CALLBACKS)
    world.publish(f"{slow}/cancelled", "cancelled under way", **_CALLBACKS)
    world.call("DELETE", f"/v2/messages/{world.message_ids[-1]}")
    for retry_delay in ("3600000", "pow(2, retried) * 600000", "1"):
        world.publish(f"{down}/retrying", "fails", retries=5, retry_delay=retry_delay, **_CALLBACKS)
    world.publish(f"{down}/dead", "dead", retries=0, label="dead", redact_fields="body")
    world.publish(f"{down}/dead-too", bytes(range(200, 256)), retries=0, method="PUT")
    world.publish(f"https://broken-{name}.example.com/", retries=3)
    world.publish("https://app.example.com/secret", "secret", delay="3h", redact_fields="body,header[X-Secret]")
    world.publish("https://app.example.com/dup", "dup", delay="4h", deduplication_id=f"{name}-id")
    world.publish("https://app.example.com/fresh", f"content of {name}", delay="5h", content_based_deduplication="true")
    world.publish("https://app.example.com/later", {"größe": 1}, {"X-Own": "1"}, header_forward="true", delay="26h")
    world.publish("https://app.example.com/at", not_before=4_102_444_800)
    world.publish(f"fan-{name}", "to the group", label="grouped,both")
    world.schedule("CRON_TZ=Europe/Berlin 30 */4 * * *", f"fan-{name}", schedule_id=f"group-{name}", retries=0)
    world.schedule("*/90 * * * *", f"{slow}/overlap", schedule_id=f"overlap-{name}", **_CALLBACKS)
    world.schedule("15 */3 * * *", f"{shaky}/queued", schedule_id=f"queued-{name}", queue_name="line", delay="10m")
    world.schedule("0 12 * * *", "https://app.example.com/noon", schedule_id=f"asleep-{name}", redact_fields="body")
    world.call("POST", f"/v2/schedules/asleep-{name}/pause")
    world.advance("90s")
