"""`/_emulator/queues`: queues and who waits for them."""

from __future__ import annotations

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

URL, SLOW = "https://api.test/hook", "https://slow.test/"


@on_loop
async def test_a_queue_names_who_has_its_slots_and_who_waits() -> None:
    async with in_process() as emulator:
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
