"""URL groups, flow control, global parallelism and signing keys over the API."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


# -- URL groups -------------------------------------------------------------------------------


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
        ("POST", "/v2/topics/a b/endpoints", {"endpoints": [{"url": URL}]}, "name"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": []}, "endpoints"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": URL}, {"name": "x"}]}, "endpoints[1].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": "x.test"}]}, "endpoints[0].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": [{"url": 1}]}, "endpoints[0].url"),
        ("POST", "/v2/topics/g/endpoints", {"endpoints": "x"}, "endpoints"),
        ("DELETE", "/v2/topics/g/endpoints", {"endpoints": [{}]}, "endpoints[0]"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Cron": "* * * * *"}}, "Svc-Cron"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Retries": "-1"}}, "Svc-Retries"),
        ("PATCH", "/v2/topics/g", {"headers": {"Svc-Retries": 1}}, "headers[...]"),
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
        ("POST", f"/v2/enqueue/{'q' * 257}/{URL}", b"", "queue"),
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


# -- flow control -----------------------------------------------------------------------------


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


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/v2/keys/rotate", "/v2/rotate"])
@on_loop
async def test_rotating_makes_the_next_key_the_current_one(target: str) -> None:
    """D-058."""
    async with in_process() as emulator:
        before = (await emulator.get("/v2/keys")).json
        assert before.keys() == {"current", "next"}
        rotated = (await emulator.post(target)).json
        assert rotated["current"] == before["next"]
        assert rotated["next"] not in before.values()
        assert (await emulator.get("/v2/keys")).json == rotated
