"""URL groups over the API."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@on_loop
async def test_the_life_of_a_url_group() -> None:
    async with in_process() as emulator:
        assert (await emulator.get("/v2/topics")).json == []
        added = [{"name": "my one", "url": "https://one.test"}, {"url": "https://two.test"}]
        assert (await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": added})).status == 200
        await emulator.advance("1s")
        moved = [{"name": "my one", "url": "https://uno.test"}]
        assert (await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": moved})).status == 200
        group = {
            "name": "g",
            "createdAt": EPOCH_MS,
            "updatedAt": EPOCH_MS + 1_000,
            "endpoints": [{"name": "my one", "url": "https://uno.test"}, {"url": "https://two.test"}],
        }
        assert (await emulator.get("/v2/topics/g")).json == group
        assert (await emulator.get("/v2/topics")).json == [group]
        unknown = await emulator.delete("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://x.test"}]})
        assert unknown.status == 404
        gone = await emulator.delete("/v2/topics/g/endpoints", (), {"endpoints": [{"name": "my one"}]})
        assert gone.status == 200
        assert (await emulator.get("/v2/topics/g")).json["endpoints"] == [{"url": "https://two.test"}]
        # The group goes with its last endpoint.
        await emulator.delete("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://two.test"}]})
        assert (await emulator.get("/v2/topics/g")).status == 404
        assert (await emulator.delete("/v2/topics/g")).status == 200


@on_loop
async def test_a_group_configures_the_callbacks_of_its_publishes() -> None:
    """D-020: with the URL of one and the options of the other."""
    async with in_process() as emulator:
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}]})
        defaults = {
            "Svc-Callback": "https://back.test/default",
            "Svc-Callback-Forward-Key": "of the group",
            "Svc-Failure-Callback-Method": "PUT",
        }
        await emulator.call("PATCH", "/v2/topics/g", (), {"headers": defaults})
        await emulator.post("/v2/publish/g", {"Svc-Callback-Method": "PATCH"})
        await emulator.post("/v2/publish/g", {"Svc-Callback": "https://back.test/own"})
        await emulator.rule("https://one.test", respond={"status": 500})
        await emulator.post("/v2/publish/g", {"Svc-Failure-Callback": "https://back.test/failed", "Svc-Retries": "0"})
        called = [each for each in await emulator.deliveries() if each["url"] != "https://one.test"]
        assert [(each["method"], each["url"], each["headers"].get("Key")) for each in called] == [
            ("PATCH", "https://back.test/default", ["of the group"]),
            ("POST", "https://back.test/own", ["of the group"]),
            ("PUT", "https://back.test/failed", None),
            ("POST", "https://back.test/default", ["of the group"]),
        ]
        refused = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {"Svc-Callback-Retries": "21"}})
        assert (refused.status, refused.json["field"]) == (412, "Svc-Callback-Retries")


@on_loop
async def test_default_headers_of_a_group_apply_to_every_publish() -> None:
    """D-057."""
    async with in_process() as emulator:
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})
        headers = {"Svc-Delay": "1h", "svc-forward-Team": ["a", "b"], "Svc-Retries": "1"}
        answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": headers})
        assert answer.status == 200
        assert answer.json["headers"] == {"Svc-Delay": ["1h"], "svc-forward-Team": ["a", "b"], "Svc-Retries": ["1"]}
        (sent,) = (await emulator.post("/v2/publish/g", {"Svc-Retries": "7"})).json
        record = (await emulator.get(f"/v2/messages/{sent['messageId']}")).json
        assert record["header"] == {"Team": ["a", "b"]}
        assert record["notBefore"] == EPOCH_MS + 3_600_000
        # What the publish itself says wins.
        assert record["maxRetries"] == 7
        assert (await emulator.call("PATCH", "/v2/topics/nope", (), {"headers": {}})).status == 404
        assert (await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {}})).json.keys().isdisjoint({"headers"})


@pytest.mark.parametrize(
    ("method", "target", "body", "field"),
    [
        ("POST", "/v2/topics/a b/endpoints", {"endpoints": [{"url": URL}]}, "url_group_name"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": []}, "endpoints"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": URL}, {"name": "x"}]}, "endpoints[1].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": "x.test"}]}, "endpoints[0].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": 1}]}, "endpoints[0].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": "x"}, "endpoints"),
        ("DELETE", "/v2/topics/g/endpoints", {"endpoints": [{}]}, "endpoints[0]"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Cron": "* * * * *"}}, "Svc-Cron"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Retries": "-1"}}, "Svc-Retries"),
        ("PATCH", "/v2/topics/g", {"headers": {"svc-Retries": 1}}, "svc-Retries"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Callback": "cb"}}, "Svc-Callback"),
        ("PATCH", "/v2/topics/g", {}, "headers"),
        ("PATCH", "/v2/topics/g", b"", "body"),
        ("POST", "/v2/queues", {"queueName": "a b"}, "queueName"),
        ("POST", "/v2/queues", {"queueName": ""}, "queueName"),
        ("POST", "/v2/queues", {"queueName": "q" * 257}, "queueName"),
        ("POST", "/v2/queues", {"queueName": "q", "parallelism": 0}, "parallelism"),
        ("POST", "/v2/queues", {"queueName": "q", "parallelism": 1.5}, "parallelism"),
        ("POST", "/v2/queues", {"queueName": "q", "parallelism": 2**70}, "parallelism"),
        ("POST", "/v2/queues", {"queueName": "q", "paused": "yes"}, "paused"),
        ("POST", "/v2/queues", [], "body"),
        ("POST", "/v2/queues/a b/pause", b"", "queueName"),
        ("GET", "/v2/queues/%F0%9F%98%80", b"", "queueName"),
        ("POST", f"/v2/enqueue/{'q' * 257}/{URL}", b"", "queueName"),
    ],
)
@on_loop
async def test_wrong_bodies_and_names_are_400_and_change_nothing(
    method: str, target: str, body: object, field: str
) -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})
        before = emulator.image()
        answer = await emulator.call(method, target.replace(" ", "%20"), (), body)
        assert (answer.status, answer.json.get("field")) == (400, field), answer.body
        assert answer.json["error"].startswith(f"{field}: ")
        assert emulator.image() == before


@on_loop
async def test_limits_of_groups_are_412() -> None:
    async with in_process(plan="free") as emulator:
        many = [{"url": f"https://{n}.test"} for n in range(101)]
        answer = await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": many})
        assert (answer.status, answer.json["error"]) == (412, "quota maxEndpointsPerTopic exceeded, current limit: 100")
        assert (await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": many[:100]})).status == 200
        second = await emulator.post("/v2/topics/h/endpoints", (), {"endpoints": many[:1]})
        assert second.status == 412
