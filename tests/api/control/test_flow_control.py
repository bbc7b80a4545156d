"""`/_emulator/flow-control`: flow control keys and who waits for them."""

from __future__ import annotations

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL, SLOW = "https://api.test/hook", "https://slow.test/"


@on_loop
async def test_a_key_says_what_it_lets_through_and_who_waits() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_the_global_parallelism_counts_attempts_and_who_waits() -> None:
    async with in_process() as emulator:
        account = emulator.world.account()
        await emulator.control("PUT", f"/accounts/{account.id}", {"max_global_parallelism": 1})
        await emulator.rule(SLOW, respond={"latency": "5s"})
        for _ in range(3):
            await emulator.publish(SLOW)
        first = (await emulator.control("GET", "/flow-control")).json["global"][0]
        assert first == {"account_id": account.id, "parallelism": 1, "active": 1, "waiting": 2}
