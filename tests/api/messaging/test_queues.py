"""Queues, keys, URL groups."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

# -- queues over the API ---------------------------------------------------------------------------


URL = "https://api.test/hook"


@with_emulator()
async def test_enqueue_makes_the_queue_and_delivers_one_after_the_other(emulator: InProcess) -> None:
    await emulator.rule("https://slow.test/*", respond={"latency": "10s"})
    ids = [(await emulator.post(f"/v2/enqueue/q/https://slow.test/{n}")).json["messageId"] for n in range(3)]
    queue = (await emulator.get("/v2/queues/q")).json
    assert queue == {
        "name": "q",
        "parallelism": 1,
        "createdAt": EPOCH_MS,
        "updatedAt": EPOCH_MS,
        "lag": 3,
        "paused": False,
    }
    assert (await emulator.get(f"/v2/messages/{ids[1]}")).json["queueName"] == "q"
    await emulator.advance("30s")
    assert [each["at_ms"] - EPOCH_MS for each in await emulator.deliveries()] == [0, 10_000, 20_000]
    assert (await emulator.get("/v2/queues/q")).json["lag"] == 0


@with_emulator()
async def test_a_paused_queue_takes_messages_and_delivers_them_when_resumed(emulator: InProcess) -> None:
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 2, "paused": True})
    await emulator.post(f"/v2/enqueue/q/{URL}")
    assert await emulator.deliveries() == []
    assert (await emulator.post("/v2/queues/q/resume")).status == 200
    assert (await emulator.post("/v2/queues/q/resume")).status == 200
    assert len(await emulator.deliveries()) == 1
    assert (await emulator.post("/v2/queues/q/pause")).status == 200
    assert (await emulator.get("/v2/queues/q")).json["paused"] is True
    assert (await emulator.delete("/v2/queues/q")).status == 200
    assert (await emulator.get("/v2/queues")).json == []


@with_emulator(plan="free")
async def test_limits_of_queues_are_412(emulator: InProcess) -> None:
    too_wide = await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 3})
    assert (too_wide.status, too_wide.json) == (412, {"error": "quota maxParallelism exceeded, current limit: 2"})
    for number in range(10):
        assert (await emulator.post("/v2/queues", (), {"queueName": f"q{number}"})).status == 200
    one_more = await emulator.post("/v2/queues", (), {"queueName": "q10"})
    assert (one_more.status, one_more.json) == (412, {"error": "quota maxQueues exceeded, current limit: 10"})
    assert (await emulator.post(f"/v2/enqueue/q10/{URL}")).status == 412
    # Updating one that exists works at the limit too.
    assert (await emulator.post("/v2/queues", (), {"queueName": "q0", "parallelism": 2})).status == 200


# -- the signing keys over the API -----------------------------------------------------------------


@pytest.mark.parametrize("target", ["/v2/keys/rotate", "/v2/rotate"])
@with_emulator()
async def test_rotating_makes_the_next_key_the_current_one(emulator: InProcess, target: str) -> None:
    """D-058."""
    before = (await emulator.get("/v2/keys")).json
    assert before.keys() == {"current", "next"}
    rotated = (await emulator.post(target)).json
    assert rotated["current"] == before["next"]
    assert rotated["next"] not in before.values()
    assert (await emulator.get("/v2/keys")).json == rotated


@with_emulator()
async def test_the_read_only_token_does_not_read_signing_keys(emulator: InProcess) -> None:
    """D-053."""
    refused = await emulator.get("/v2/keys", token=emulator.read_only_token)
    assert refused.status == 403
    assert "signing keys" in refused.json["error"]


# -- uRL groups over the API -----------------------------------------------------------------------


@with_emulator()
async def test_the_life_of_a_url_group(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_group_configures_the_callbacks_of_its_publishes(emulator: InProcess) -> None:
    """D-020: with the URL of one and the options of the other."""
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


@with_emulator()
async def test_default_headers_of_a_group_apply_to_every_publish(emulator: InProcess) -> None:
    """D-057."""
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


@with_emulator()
async def test_wrong_bodies_and_names_are_400_and_change_nothing(emulator: InProcess) -> None:
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": URL}]})
    before = emulator.image()
    for method, target, body, field in (
        ("POST", "/v2/topics/a b/endpoints", {"endpoints": [{"url": URL}]}, "url_group_name"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": URL}, {"name": "x"}]}, "endpoints[1].url"),
        ("DELETE", "/v2/topics/g/endpoints", {"endpoints": [{}]}, "endpoints[0]"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Cron": "* * * * *"}}, "Svc-Cron"),
        ("PATCH", "/v2/topics/g", {"headers": {"svc-Retries": 1}}, "svc-Retries"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Callback": "cb"}}, "Svc-Callback"),
        ("PATCH", "/v2/topics/g", b"", "body"),
        ("POST", "/v2/queues", {"queueName": "a b"}, "queueName"),
        ("POST", "/v2/queues", {"queueName": "q" * 257}, "queueName"),
        ("POST", "/v2/queues", {"queueName": "q", "parallelism": 2**70}, "parallelism"),
        ("POST", "/v2/queues/a b/pause", b"", "queueName"),
        ("GET", "/v2/queues/%F0%9F%98%80", b"", "queueName"),
        ("POST", f"/v2/enqueue/{'q' * 257}/{URL}", b"", "queueName"),
    ):
        answer = await emulator.call(method, target.replace(" ", "%20"), (), body)
        assert (answer.status, answer.json.get("field")) == (400, field), answer.body
        assert answer.json["error"].startswith(f"{field}: "), target
        assert emulator.image() == before, target


@with_emulator()
async def test_default_labels_and_redaction_take_a_list(emulator: InProcess) -> None:
    """D-520. Any other option has one value."""
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}]})
    defaults = {
        "Svc-Label": ["a", "b"],
        "Svc-Redact-Fields": ["body", "header[X-Key]"],
        "Svc-Forward-X-Key": "k",
        "Svc-Callback": "https://back.test",
        "Svc-Callback-Label": ["c", "d"],
    }
    answer = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": defaults})
    assert answer.json["headers"]["Svc-Label"] == ["a", "b"]
    [published] = (await emulator.post("/v2/publish/g", {"Svc-Delay": "1h"}, "secret")).json
    message = (await emulator.get(f"/v2/messages/{published['messageId']}")).json
    assert message["labels"] == ["a", "b"]
    assert message["body"].startswith("REDACTED:")
    assert message["header"]["X-Key"][0].startswith("REDACTED:")
    await emulator.advance("1h")
    called = (await emulator.get("/v2/events?label=d")).json["events"]
    assert {event["url"] for event in called} == {"https://back.test"}
    refused = await emulator.call("PATCH", "/v2/topics/g", (), {"headers": {"Svc-Retries": ["1", "2"]}})
    assert (refused.status, refused.json["field"]) == (400, "Svc-Retries")
