"""Queues over the API."""

from __future__ import annotations

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@on_loop
async def test_enqueue_makes_the_queue_and_delivers_one_after_the_other() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_a_paused_queue_takes_messages_and_delivers_them_when_resumed() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_a_deleted_queue_drops_its_messages() -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/queues", (), {"queueName": "q", "paused": True})
        message_id = (await emulator.post(f"/v2/enqueue/q/{URL}")).json["messageId"]
        await emulator.delete("/v2/queues/q")
        events = (await emulator.get("/v2/events?order=earliestFirst")).json["events"]
        assert [event["state"] for event in events] == ["CREATED", "CANCEL_REQUESTED", "CANCELED"]
        assert (await emulator.delete(f"/v2/messages/{message_id}")).status == 404


@on_loop
async def test_limits_of_queues_are_412() -> None:
    async with in_process(plan="free") as emulator:
        too_wide = await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 3})
        assert (too_wide.status, too_wide.json) == (412, {"error": "quota maxParallelism exceeded, current limit: 2"})
        for number in range(10):
            assert (await emulator.post("/v2/queues", (), {"queueName": f"q{number}"})).status == 200
        one_more = await emulator.post("/v2/queues", (), {"queueName": "q10"})
        assert (one_more.status, one_more.json) == (412, {"error": "quota maxQueues exceeded, current limit: 10"})
        assert (await emulator.post(f"/v2/enqueue/q10/{URL}")).status == 412
        # Updating one that exists works at the limit too.
        assert (await emulator.post("/v2/queues", (), {"queueName": "q0", "parallelism": 2})).status == 200
