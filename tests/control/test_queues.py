"""Queues, flow control keys and URL groups of all accounts."""

from __future__ import annotations

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

URL, DOWN, SLOW = "https://api.test/hook", "https://down.test/hook", "https://slow.test/"


@with_emulator()
async def test_a_queue_names_who_has_its_slots_and_who_waits(emulator: InProcess) -> None:
    await emulator.rule(SLOW, respond={"latency": "5s"})
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    ids = [(await emulator.post(f"/v2/enqueue/q/{SLOW}")).json["messageId"] for _ in range(13)]
    (queue,) = (await emulator.control("GET", "/queues")).json["queues"]
    assert (queue["name"], queue["parallelism"], queue["paused"], queue["lag"]) == ("q", 1, False, 13)
    assert (queue["holders"], queue["waiting"], queue["next_in_line"]) == (ids[:1], 12, ids[1:11])
    await emulator.post("/v2/queues/q/pause")
    await emulator.advance("5s")
    (queue,) = (await emulator.control("GET", "/queues")).json["queues"]
    assert (queue["paused"], queue["lag"], queue["holders"], queue["waiting"]) == (True, 12, [], 12)


@with_emulator()
async def test_a_key_says_what_it_lets_through_and_who_waits(emulator: InProcess) -> None:
    limited = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1, period=1m"}
    ids = [await emulator.publish(URL, limited) for _ in range(3)]
    await emulator.publish(URL, {**limited, "Svc-Delay": "1h"})
    (key,) = (await emulator.control("GET", "/flow-control")).json["keys"]
    assert (key["key"], key["rate"], key["period_ms"], key["parallelism"]) == ("k", 1, 60_000, None)
    assert (key["rate_count"], key["rate_period_start_ms"], key["lag"]) == (1, EPOCH_MS, 3)
    assert key["waits"] == "held by flow control key k (rate)"
    assert (key["waiting"], key["next_in_line"]) == (2, ids[1:])
    await emulator.post("/v2/flowControl/k/pause")
    await emulator.post("/v2/flowControl/k/pin?parallelism=2")
    (key,) = (await emulator.control("GET", "/flow-control")).json["keys"]
    assert (key["paused"], key["pinned_parallelism"], key["pinned_rate"], key["parallelism"]) == (
        True,
        True,
        False,
        2,
    )
    assert key["waits"] == "held by flow control key k (paused)"
    await emulator.post("/v2/flowControl/k/resume")
    await emulator.advance("10m")
    (key,) = (await emulator.control("GET", "/flow-control")).json["keys"]
    assert (key["waits"], key["waiting"], key["lag"]) == (None, 0, 1)


@with_emulator()
async def test_the_global_parallelism_counts_attempts_and_who_waits(emulator: InProcess) -> None:
    account = emulator.world.account()
    await emulator.control("PUT", f"/accounts/{account.id}", {"max_global_parallelism": 1})
    await emulator.rule(SLOW, respond={"latency": "5s"})
    for _ in range(3):
        await emulator.publish(SLOW)
    first = (await emulator.control("GET", "/flow-control")).json["global"][0]
    assert first == {"account_id": account.id, "parallelism": 1, "active": 1, "waiting": 2}


@with_emulator()
async def test_a_group_shows_its_endpoints_and_hides_what_its_messages_hide(emulator: InProcess) -> None:
    endpoints = [{"url": URL}, {"url": DOWN, "name": "down"}]
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": endpoints})
    headers = {"Svc-Retries": ["1"], "Svc-Forward-Key": ["secret"], "Svc-Redact-Fields": ["header[key]"]}
    assert (await emulator.call("PATCH", "/v2/topics/g", (), {"headers": headers})).status == 200
    answer = await emulator.control("GET", "/url-groups")
    (group,) = answer.json["url_groups"]
    assert group["name"] == "g"
    assert group["endpoints"] == [{"name": None, "url": URL}, {"name": "down", "url": DOWN}]
    assert group["headers"]["Svc-Retries"] == ["1"]
    assert "Svc-Forward-Key" in group["headers"]
    assert b"secret" not in answer.body
