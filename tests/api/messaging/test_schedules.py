"""Schedules and flow control."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

# -- schedules over the API: writing, reading, firing, pausing, deleting ---------------------------


URL = "https://api.test/hook"


@with_emulator()
async def test_a_schedule_answers_its_id_and_reads_back(emulator: InProcess) -> None:
    answer = await emulator.post(
        f"/v2/schedules/{URL}?a=1",
        {
            "Svc-Cron": " CRON_TZ=Europe/Berlin */10 * * * *  ",
            "Content-Type": "application/json",
            "Svc-Forward-test-HEADER": "v",
            "Svc-Delay": "10s",
            "Svc-Timeout": "1m",
        },
        "{}",
    )
    assert answer.status == 200
    schedule_id = answer.json["scheduleId"]
    assert answer.json == {"scheduleId": schedule_id}
    assert schedule_id.startswith("scd_")
    record = (await emulator.get(f"/v2/schedules/{schedule_id}")).json
    assert record == {
        "scheduleId": schedule_id,
        "cron": "CRON_TZ=Europe/Berlin */10 * * * *",
        "destination": f"{URL}?a=1",
        "method": "POST",
        "createdAt": EPOCH_MS,
        "isPaused": False,
        "retries": 5,
        "header": {"Content-Type": ["application/json"], "Test-Header": ["v"]},
        "body": "{}",
        "delay": 10,
        "timeout": 60,
        "callerIP": "203.0.113.7",
        "callerIp": "203.0.113.7",
        "nextScheduleTime": EPOCH_MS + 600_000,
    }
    assert (await emulator.get("/v2/schedules")).json == [record]


@with_emulator()
async def test_it_fires_on_the_minute_and_says_how_it_went(emulator: InProcess) -> None:
    await emulator.rule(f"{URL}/down", respond={"status": 500})
    headers = {"Svc-Cron": "*/5 * * * *", "Svc-Schedule-Id": "s.1_a-b", "Svc-Retries": "0"}
    await emulator.post(f"/v2/schedules/{URL}/down", headers, "x")
    report = await emulator.advance("12m")
    assert (report["schedules_fired"], report["deliveries"], report["messages_created"]) == (2, 2, 2)
    record = (await emulator.get("/v2/schedules/s.1_a-b")).json
    assert record["lastScheduleTime"] == EPOCH_MS + 600_000
    assert record["nextScheduleTime"] == EPOCH_MS + 900_000
    assert list(record["lastScheduleStates"].values()) == ["FAIL"]
    deliveries = await emulator.deliveries()
    assert [each["at_ms"] - EPOCH_MS for each in deliveries] == [300_000, 600_000]
    assert deliveries[0]["headers"]["Svc-Schedule-Id"] == ["s.1_a-b"]
    (message_id,) = record["lastScheduleStates"]
    events = (await emulator.get("/v2/events?scheduleId=s.1_a-b&state=CREATED")).json["events"]
    assert events[0]["messageId"] == message_id
    assert events[0]["scheduleId"] == "s.1_a-b"


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@with_emulator()
async def test_pausing_skips_and_never_catches_up(emulator: InProcess, method: str) -> None:
    """D-039."""
    await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
    for _ in range(2):
        assert (await emulator.call(method, "/v2/schedules/s/pause")).status == 200
    record = (await emulator.get("/v2/schedules/s")).json
    assert record["isPaused"] is True
    assert "nextScheduleTime" not in record
    await emulator.advance("10m")
    assert await emulator.deliveries() == []
    for _ in range(2):
        assert (await emulator.call(method, "/v2/schedules/s/resume")).status == 200
    await emulator.advance("1m")
    assert [each["at_ms"] - EPOCH_MS for each in await emulator.deliveries()] == [660_000]


@with_emulator()
async def test_a_schedule_to_a_group_publishes_to_each_endpoint(emulator: InProcess) -> None:
    await emulator.post(
        "/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}, {"url": "https://two.test"}]}
    )
    assert (await emulator.post("/v2/schedules/g", {"Svc-Cron": "* * * * *"})).status == 200
    await emulator.advance("1m")
    assert [each["url"] for each in await emulator.deliveries()] == ["https://one.test", "https://two.test"]
    refused = await emulator.delete("/v2/topics/g")
    assert refused.status == 400


@with_emulator()
async def test_a_destination_without_its_scheme_is_refused_with_the_same_words(emulator: InProcess) -> None:
    """D-262."""
    cron = {"Svc-Cron": "* * * * *"}
    for name in ("example.com", "nobody"):
        published = await emulator.post(f"/v2/publish/{name}")
        scheduled = await emulator.post(f"/v2/schedules/{name}", cron)
        assert (scheduled.status, scheduled.json) == (published.status, published.json)
        assert scheduled.status == 404
    assert (await emulator.get("/v2/schedules")).json == []


@pytest.mark.parametrize(("plan", "retries"), [("free", 3), ("paid", 5)])
@on_loop
async def test_retries_not_named_are_the_plans(plan: str, retries: int) -> None:
    async with in_process(plan=plan) as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
        assert (await emulator.get("/v2/schedules/s")).json["retries"] == retries


@with_emulator()
async def test_what_a_queue_ignores_of_a_schedule_is_logged(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-021: its delay is applied."""
    headers = {"Svc-Cron": "* * * * *", "Svc-Queue-Name": "q", "Svc-Delay": "1h", "Svc-Flow-Control-Key": "k"}
    await emulator.post(f"/v2/schedules/{URL}", headers)
    assert f"Svc-Flow-Control-Key is not applied to a queued message (to {URL})" in caplog.messages


# -- flow control keys and global parallelism over the API -----------------------------------------


@with_emulator()
async def test_a_rate_holds_messages_back_until_the_next_period(emulator: InProcess) -> None:
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


@with_emulator()
async def test_pausing_pinning_and_resetting_a_key(emulator: InProcess) -> None:
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
@with_emulator()
async def test_a_key_is_free_text_slashes_included(emulator: InProcess, spelling: str) -> None:
    await emulator.publish(URL, {"Svc-Flow-Control-Key": "a/b c", "Svc-Flow-Control-Value": "rate=1"})
    assert (await emulator.get(f"/v2/flowControl/{spelling}")).json["flowControlKey"] == "a/b c"
    assert (await emulator.post(f"/v2/flowControl/{spelling}/pause")).status == 200
    assert (await emulator.get(f"/v2/flowControl/{spelling}")).json["isPaused"] is True
    assert (await emulator.post(f"/v2/flowControl/{spelling}/pin?rate=5")).status == 200
    assert (await emulator.post(f"/v2/flowControl/{spelling}/unpin?rate=true")).status == 200
    assert (await emulator.post(f"/v2/flowControl/{spelling}/resetRate")).status == 200
    (record,) = (await emulator.get("/v2/flowControl")).json
    assert (record["rateMax"], record["isPaused"]) == (5, True)


@with_emulator()
async def test_the_list_of_keys_is_searched_by_a_part_of_the_name(emulator: InProcess) -> None:
    """D-059."""
    for key in ("alpha", "beta", "Alphabet"):
        await emulator.publish(URL, {"Svc-Flow-Control-Key": key})
    for query, keys in (
        ("", ["alpha", "beta", "Alphabet"]),
        ("?search=lpha", ["alpha", "Alphabet"]),
        ("?search=x", []),
    ):
        found = (await emulator.get(f"/v2/flowControl{query}")).json
        assert [record["flowControlKey"] for record in found] == keys


@with_emulator(plan="free")
async def test_global_parallelism_counts_what_is_under_way(emulator: InProcess) -> None:
    await emulator.rule("https://slow.test/*", respond={"latency": "1m"})
    assert (await emulator.get("/v2/globalParallelism")).json == {"parallelismMax": 10, "parallelismCount": 0}
    for number in range(12):
        await emulator.publish(f"https://slow.test/{number}")
    assert (await emulator.get("/v2/globalParallelism")).json == {"parallelismMax": 10, "parallelismCount": 10}
    await emulator.advance("2m")
    assert (await emulator.get("/v2/globalParallelism")).json["parallelismCount"] == 0


@with_emulator()
async def test_parallelism_counts_attempts_that_have_left(emulator: InProcess) -> None:
    """D-537."""
    seen: list[Any] = []

    async def receive(_: MountedRequest) -> Response:
        key = (await emulator.get("/v2/flowControl/k")).json
        control = (await emulator.control("GET", "/flow-control")).json
        seen.append(
            (
                key["parallelismCount"],
                (await emulator.get("/v2/globalParallelism")).json["parallelismCount"],
                control["keys"][0]["active"],
                control["global"][0]["active"],
                (await emulator.control("GET", "/clock")).json["in_flight"],
            )
        )
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount("https://app.test", receive)
    for _ in range(3):
        await emulator.publish(
            "https://app.test/",
            {"Svc-Delay": "1s", "Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "parallelism=2"},
        )
    await emulator.advance("1s")

    assert seen == [(1, 1, 1, 1, 1)] * 3
