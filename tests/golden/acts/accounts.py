"""Accounts, keys and limits, search and vector indexes, and the statistics of them all."""

from __future__ import annotations

from tests.golden.stage import Stage

_URL = "https://app.example.com/"
_PERIODS = ("1h", "3h", "12h", "1d", "3d", "7d", "30d", "1y")


def accounts(stage: Stage) -> None:
    """The management API of queue accounts, rotations, and limits that are met."""
    world = stage.world("accounts", seed=61)
    first = world.account_id
    world.manage("GET", "/{queue}/user")
    users = world.manage("GET", "/{queue}/users").json
    second = users[1]
    world.manage("GET", f"/{{queue}}/user/{second['id']}")
    world.manage("GET", "/{queue}/user/none")
    world.call("POST", f"/v2/publish/{_URL}", world.named(delay="1h"), "second's", token=second["token"])
    world.call("GET", "/v2/keys", token=second["token"])
    world.publish(_URL, "signed by the first key", delay="1m")
    world.call("POST", "/v2/keys/rotate")
    world.publish(_URL, "signed by the second key")
    world.call("POST", "/v2/rotate")
    world.call("GET", "/v2/keys")
    world.manage("POST", f"/{{queue}}/rotate-token/{first}")
    world.publish(_URL, "with the old token")
    world.renew()
    world.publish(_URL, "with the new token", delay="2m")
    for plan in ("queue_fixed_10m", "paid", "gold", "queue_fixed_1m"):
        world.manage("POST", f"/{{queue}}/set-plan/{first}", {"plan_name": plan})
    for budget in (50, 0, 5, "much"):
        world.manage("PATCH", f"/{{queue}}/update-budget/{first}", {"budget": budget})
    world.manage("POST", f"/{{queue}}/enable-prodpack/{first}")
    world.manage("POST", f"/{{queue}}/disable-prodpack/{second['id']}")
    world.manage("POST", "/{queue}/move-to-team", {"queue_id": second["id"], "target_team_id": "team-7"})
    world.manage("POST", "/{queue}/move-to-team", {"queue_id": "none", "target_team_id": "team-7"})
    world.manage("GET", "/{queue}/users")
    world.manage("GET", "/{queue}/ipv4")
    world.call("GET", "/v2/queue/user")
    changes: tuple[dict[str, object], ...] = (
        {"max_retries": 2, "retention": 1, "region": "eu-central-1"},
        {"max_message_size": 10},
        {"max_topics": 1, "max_queues": 1, "max_schedules": 1, "max_endpoints_per_topic": 1},
        {"max_delay": 60, "timeout": 30, "max_parallelism": 2},
        {"id": "other"},
        {"state": ""},
        {"max_requests_per_day": 3, "max_requests_per_day_hard": 8, "enterprise": {"enabled": True}},
        {"state": "suspended"},
        {"state": "passive", "modifying_state": "upgrading"},
    )
    for change in changes:
        world.control("PUT", f"/accounts/{first}", change)
        world.publish(_URL, "a body of some length", retries=3, timeout="1m")
        world.publish(_URL, "short", delay="2h")
        world.enqueue(f"queue-{len(change)}", _URL, "q")
        world.schedule("0 0 1 1 *", _URL, "s")
        endpoints = [{"url": f"https://{name}.example.com/"} for name in ("a", "b")]
        world.call("POST", f"/v2/topics/group-{len(change)}/endpoints", {}, {"endpoints": endpoints})
        world.call("POST", "/v2/queues", {}, {"queueName": "wide", "parallelism": 7})
        world.advance("20m")
    world.control("PUT", "/accounts/none", {"retention": 1})
    world.control("GET", "/accounts")
    world.advance("1d")
    world.publish(_URL, "another day")
    world.call("GET", "/v2/events?count=10")
    world.advance("3d")
    world.call("GET", "/v2/events?count=10")
    for period in _PERIODS:
        world.manage("GET", f"/{{queue}}/stats/{first}", period=period)
    world.manage("GET", f"/{{queue}}/stats/{second['id']}")
    world.manage("GET", "/{queue}/stats/none")
    world.look(messages=10)


def indexes(stage: Stage) -> None:
    """Search indexes made, changed and deleted, and the statistics of both kinds."""
    world = stage.world("indexes", seed=62)
    listed = world.manage("GET", "/search").json
    for body in (
        {"name": "fresh", "region": "eu-west-1", "type": "payg"},
        {"name": "free one", "region": "us-central1", "type": "free"},
        {"name": "fixed", "region": "us-central1", "type": "fixed"},
        {"name": "nowhere", "region": "mars", "type": "free"},
        {"region": "eu-west-1", "type": "free"},
    ):
        world.manage("POST", "/search", body)
    fresh = world.manage("GET", "/search").json[-2]["id"]
    world.manage("GET", f"/search/{fresh}")
    world.manage("POST", f"/search/{fresh}/rename", {"name": "renamed"})
    world.manage("POST", f"/search/{fresh}/reset-password")
    world.manage("POST", f"/search/{listed[0]['id']}/transfer", {"target_account": "free@emulator.example"})
    world.manage("POST", "/search/none/rename", {"name": "x"})
    world.advance("2d")
    world.manage("DELETE", f"/search/{listed[1]['id']}")
    world.manage("DELETE", f"/search/{listed[1]['id']}")
    for period in _PERIODS[:4:3]:
        world.manage("GET", f"/search/{fresh}/stats", period=period)
        world.manage("GET", f"/vector/index/{world.credentials['vector_index_ids'][0]}/stats", period=period)
    world.manage("GET", "/search/stats")
    world.manage("GET", "/vector/index/stats")
    world.manage("GET", "/vector/index/none/stats")
    world.manage("GET", f"/search/{listed[0]['id']}/stats", period="2h")
    world.manage("GET", "/search")
    world.control("GET", "/credentials")
