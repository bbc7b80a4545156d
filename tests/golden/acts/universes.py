"""The clock, snapshots, resets, fixtures, and worlds beside each other."""

from __future__ import annotations

from typing import Any

from tests.golden.stage import Stage
from tests.golden.worlds import World

_URL = "https://app.example.com/"
_FIXTURES: dict[str, Any] = {
    "accounts": [
        {"plan": "payg", "token": "first-token", "current_signing_key": "sig_a", "next_signing_key": "sig_b"},
        {"plan": "free", "customer_id": "second@example.com", "max_requests_per_day_hard": 5},
    ],
    "search_indexes": [{"name": "given", "type": "free", "region": "us-central1", "age": "9d"}],
    "team": [{"name": "Dora", "email": "dora@example.com", "role": "admin"}],
    "url_groups": [
        {
            "name": "fan",
            "endpoints": [{"url": "https://one.example.com/", "name": "one"}, {"url": "https://two.example.com/"}],
            "headers": {"Svc-Retries": "0", "Svc-Forward-X-From": ["fixture"]},
        }
    ],
    "queues": [{"name": "mail", "parallelism": 2}, {"name": "shut", "paused": True, "account": "second@example.com"}],
    "schedules": [
        {"id": "daily", "cron": "CRON_TZ=Europe/Berlin 0 9 * * *", "destination": "fan", "body": "good morning"},
        {"id": "asleep", "cron": "* * * * *", "destination": _URL, "paused": True},
        {"cron": "*/30 * * * *", "destination": _URL, "headers": {"Svc-Delay": "5m"}, "account": 2},
    ],
    "destinations": [{"match": {"url": "https://two.example.com/*"}, "respond": {"status": 503}, "times": 2}],
}


def clock(stage: Stage) -> None:
    """Every way to move a clock, and what ends a move early."""
    world = stage.world("clock", seed=71)
    world.control("PUT", "/clock", {"now": "2026-01-01T12:00:00+01:00"})
    world.control("POST", "/clock/next")
    world.rule("https://slow.example.com/*", respond={"status": 200, "latency": "30s"})
    world.rule("https://down.example.com/*", respond={"status": 500})
    for number in range(12):
        world.publish(f"{_URL}{number}", delay=f"{number * 10}s")
        world.publish(f"https://slow.example.com/{number}", delay=f"{number * 10}s")
    world.publish("https://down.example.com/", delay="1h", retries=6)
    world.schedule("* * * * *", _URL, schedule_id="every")
    world.control("PUT", "/clock", {"now": "2025-12-31T00:00:00Z"})
    world.control("POST", "/clock/advance", {"by": "1m", "max_deliveries": 4})
    world.control("POST", "/clock/advance", {"by": 90_000, "max_deliveries": 1})
    world.control("POST", "/clock/advance", {"by": 0})
    for _ in range(5):
        world.control("POST", "/clock/next")
        world.control("GET", "/clock")
    world.control("POST", "/clock/drain", {"horizon": "2m"})
    world.control("POST", "/clock/drain", {"horizon": "1d", "max_deliveries": 7})
    world.control("POST", "/clock/advance", {"to": "2026-01-01T13:00:00Z"})
    world.control("POST", "/clock/advance", {"to": 1_767_274_200_000})
    world.control("PUT", "/clock", {"now": "2026-01-01T13:45:00Z", "rate": 0})
    world.call("DELETE", "/v2/schedules/every")
    world.control("POST", "/clock/drain")
    world.control("POST", "/clock/drain", {"horizon": "60d"})
    world.control("DELETE", "/deliveries")
    world.publish(f"{_URL}after-clearing")
    world.look(messages=12)


def snapshots(stage: Stage) -> None:
    """Saved, gone back to, gone on from differently, and carried into another world."""
    world = stage.world("snapshots", seed=72)
    _live(world)
    world.control("POST", "/snapshots", {"name": "early"})
    world.advance("3m")
    _live(world)
    world.control("POST", "/snapshots", {"name": "late"})
    world.control("POST", "/snapshots", {"name": "late"})
    world.control("GET", "/snapshots")
    world.advance("20m")
    world.control("GET", "/trace")
    world.control("POST", "/snapshots/late/restore")
    world.advance("20m")
    world.control("GET", "/trace")
    world.control("POST", "/snapshots/early/restore")
    world.publish(f"{_URL}otherwise", delay="10s")
    world.advance("5m")
    world.look(messages=15)
    other = stage.world("other", seed=73, epoch="2026-06-01T00:00:00Z")
    exported = world.client.call("GET", "/_emulator/snapshots/late/file?world=snapshots", {}, b"")
    other.control("PUT", "/snapshots/carried/file", exported.body)
    other.control("PUT", "/snapshots/broken/file", b"not a database")
    other.publish(f"{_URL}forgotten")
    other.control("POST", "/snapshots/carried/restore")
    other.renew()
    other.publish(f"{_URL}in-the-other")
    other.advance("30m")
    other.look(messages=5)
    world.control("DELETE", "/snapshots/early")
    world.control("POST", "/snapshots/early/restore")


def _live(world: World) -> None:
    """A little of everything."""
    world.rule("https://shaky.example.com/*", sequence=[{"status": 500, "latency": "2s"}, {"status": 200}])
    world.schedule("*/2 * * * *", "https://shaky.example.com/tick", schedule_id="tick", retry_delay="7000")
    for number in range(4):
        world.publish(f"{_URL}{number}", delay=f"{number}m", deduplication_id=f"d{number}")
        world.enqueue("line", f"https://shaky.example.com/{number}", retry_delay="4000")
        world.publish(
            "https://shaky.example.com/", flow_control_key="k", flow_control_value="rate=1,period=1m", label="live"
        )


def resets(stage: Stage) -> None:
    """A world made anew, of the same fixtures and of others; and what was made stays deterministic."""
    world = stage.world("resets", seed=74, fixtures=_FIXTURES)
    world.control("GET", "/team")
    for _ in range(2):
        _live(world)
        world.publish("fan", "to the group")
        world.advance("50m")
        world.control("GET", "/trace")
        world.control("POST", "/reset")
        world.renew()
    world.control("GET", "/upcoming")
    world.control("POST", "/reset", {"fixtures": {"queues": [{"name": "only", "parallelism": 4}]}})
    world.renew()
    world.enqueue("only", _URL)
    world.control("POST", "/reset")
    world.renew()
    world.look(messages=0)
    world.control("POST", "/reset", {"fixtures": _FIXTURES})
    world.renew()
    world.publish("fan", "again")
    world.advance("2d")
    world.look(messages=2)


def worlds(stage: Stage) -> None:
    """Worlds of other seeds and plans; the same seed under two names; deletion."""
    first = stage.world("seed-1", seed=1)
    again = stage.world("seed-1-again", seed=1)
    poor = stage.world("poor", seed=-5, plan="free", epoch="2026-12-31T23:59:00Z")
    stage.world("seed-1", seed=2)
    for world in (first, again, poor):
        _live(world)
        world.advance("6m")
        world.control("GET", "/trace")
    poor.look(messages=3)
    first.call("GET", "/v2/queues", token=again.token)
    stage.client.call("DELETE", "/_emulator/worlds/seed-1-again", {}, b"")
    again.control("GET", "/clock")
    first.call("GET", "/v2/queues", token=again.token)
    first.control("GET", "/worlds/seed-1")
