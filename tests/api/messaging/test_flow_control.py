"""Flow control keys and global parallelism over the API."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@on_loop
async def test_a_rate_holds_messages_back_until_the_next_period() -> None:
    async with in_process() as emulator:
        flow = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=3, period=1d"}
        for number in range(5):
            await emulator.publish(f"{URL}/{number}", flow)
        assert len(await emulator.deliveries()) == 3
        record = (await emulator.get("/v2/flowControl/k")).json
        assert record == {
            "flowControlKey": "k",
            "waitListSize": 2,
            "parallelismMax": 0,
            "parallelismCount": 0,
            "rateMax": 3,
            "rateCount": 3,
            "ratePeriod": 86_400,
            "ratePeriodStart": EPOCH_MS // 1000,
            "isPaused": False,
            "isPinnedParallelism": False,
            "isPinnedRate": False,
        }
        await emulator.advance("1d")
        assert len(await emulator.deliveries()) == 5


@on_loop
async def test_pausing_pinning_and_resetting_a_key() -> None:
    async with in_process() as emulator:
        flow = {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1,period=1h"}
        target = "/v2/flowControl/k"
        await emulator.publish(URL, flow)
        for action in ("pause", "pause"):
            assert (await emulator.post(f"{target}/{action}")).status == 200
        assert (await emulator.get(target)).json["isPaused"] is True
        await emulator.publish(URL, flow)
        assert (await emulator.post(f"{target}/resetRate")).status == 200
        assert (await emulator.get(target)).json["rateCount"] == 0
        assert len(await emulator.deliveries()) == 1
        await emulator.post(f"{target}/resume")
        assert len(await emulator.deliveries()) == 2
        assert (await emulator.post(f"{target}/pin?parallelism=4&rate=9&period=30")).status == 200
        await emulator.publish(URL, flow)
        pinned = (await emulator.get(target)).json
        assert (pinned["parallelismMax"], pinned["rateMax"], pinned["ratePeriod"]) == (4, 9, 30)
        assert (pinned["isPinnedParallelism"], pinned["isPinnedRate"]) == (True, True)
        await emulator.post(f"{target}/unpin?parallelism=true&rate=true")
        unpinned = (await emulator.get(target)).json
        assert (unpinned["parallelismMax"], unpinned["rateMax"], unpinned["isPinnedRate"]) == (4, 9, False)
        await emulator.publish(URL, flow)
        assert (await emulator.get(target)).json["rateMax"] == 1
        assert (await emulator.post(f"{target}/reset")).status == 200


@pytest.mark.parametrize("spelling", ["a%2Fb%20c", "a/b%20c"])
@on_loop
async def test_a_key_is_free_text_slashes_included(spelling: str) -> None:
    async with in_process() as emulator:
        await emulator.publish(URL, {"Svc-Flow-Control-Key": "a/b c", "Svc-Flow-Control-Value": "rate=1"})
        assert (await emulator.get(f"/v2/flowControl/{spelling}")).json["flowControlKey"] == "a/b c"
        assert (await emulator.post(f"/v2/flowControl/{spelling}/pause")).status == 200
        assert (await emulator.get(f"/v2/flowControl/{spelling}")).json["isPaused"] is True
        assert (await emulator.post(f"/v2/flowControl/{spelling}/pin?rate=5")).status == 200
        assert (await emulator.post(f"/v2/flowControl/{spelling}/unpin?rate=true")).status == 200
        assert (await emulator.post(f"/v2/flowControl/{spelling}/resetRate")).status == 200
        (record,) = (await emulator.get("/v2/flowControl")).json
        assert (record["rateMax"], record["isPaused"]) == (5, True)


@on_loop
async def test_the_list_of_keys_is_searched_by_a_part_of_the_name() -> None:
    """D-059."""
    async with in_process() as emulator:
        for key in ("alpha", "beta", "Alphabet"):
            await emulator.publish(URL, {"Svc-Flow-Control-Key": key})
        for query, keys in (
            ("", ["alpha", "beta", "Alphabet"]),
            ("?search=lpha", ["alpha", "Alphabet"]),
            ("?search=x", []),
        ):
            found = (await emulator.get(f"/v2/flowControl{query}")).json
            assert [record["flowControlKey"] for record in found] == keys


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pin", "parallelism"),
        ("pin?parallelism=0", "parallelism"),
        ("pin?parallelism=-1", "parallelism"),
        ("pin?rate=x", "rate"),
        ("pin?rate=99999999999", "rate"),
        ("pin?rate=1&period=0", "period"),
        ("pin?rate=1&period=604801", "period"),
        ("unpin?rate=maybe", "rate"),
    ],
)
@on_loop
async def test_wrong_pins_are_400(query: str, field: str) -> None:
    async with in_process() as emulator:
        await emulator.publish(URL, {"Svc-Flow-Control-Key": "k"})
        before = emulator.image()
        answer = await emulator.post(f"/v2/flowControl/k/{query}")
        assert (answer.status, answer.json["field"]) == (400, field)
        assert emulator.image() == before


@on_loop
async def test_global_parallelism_counts_what_is_under_way() -> None:
    async with in_process(plan="free") as emulator:
        await emulator.rule("https://slow.test/*", respond={"latency": "1m"})
        assert (await emulator.get("/v2/globalParallelism")).json == {"parallelismMax": 10, "parallelismCount": 0}
        for number in range(12):
            await emulator.publish(f"https://slow.test/{number}")
        assert (await emulator.get("/v2/globalParallelism")).json == {"parallelismMax": 10, "parallelismCount": 10}
        await emulator.advance("2m")
        assert (await emulator.get("/v2/globalParallelism")).json["parallelismCount"] == 0
