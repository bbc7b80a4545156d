"""Schedules over the API: writing, reading, firing, pausing, deleting."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@on_loop
async def test_a_schedule_answers_its_id_and_reads_back() -> None:
    async with in_process() as emulator:
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
            "nextScheduleTime": EPOCH_MS + 600_000,
        }
        assert (await emulator.get("/v2/schedules")).json == [record]


@on_loop
async def test_it_fires_on_the_minute_and_says_how_it_went() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_the_same_id_replaces_everything() -> None:
    async with in_process() as emulator:
        first = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s", "Svc-Delay": "1h", "Svc-Label": "l"}
        await emulator.post(f"/v2/schedules/{URL}", first, "body")
        await emulator.advance("1s")
        answer = await emulator.post("/v2/schedules/https://b.test", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "s"})
        assert answer.json == {"scheduleId": "s"}
        (record,) = (await emulator.get("/v2/schedules")).json
        assert (record["destination"], record["cron"], record["createdAt"]) == ("https://b.test", "0 * * * *", EPOCH_MS)
        assert record.keys().isdisjoint({"body", "delay", "label", "labels", "header"})


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@on_loop
async def test_pausing_skips_and_never_catches_up(method: str) -> None:
    """D-039."""
    async with in_process() as emulator:
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


@on_loop
async def test_a_deleted_schedule_fires_no_more() -> None:
    async with in_process() as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
        assert (await emulator.delete("/v2/schedules/s")).status == 200
        assert (await emulator.delete("/v2/schedules/s")).status == 404
        assert (await emulator.advance("1h"))["schedules_fired"] == 0


@on_loop
async def test_a_schedule_to_a_group_publishes_to_each_endpoint() -> None:
    async with in_process() as emulator:
        await emulator.post(
            "/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}, {"url": "https://two.test"}]}
        )
        assert (await emulator.post("/v2/schedules/g", {"Svc-Cron": "* * * * *"})).status == 200
        await emulator.advance("1m")
        assert [each["url"] for each in await emulator.deliveries()] == ["https://one.test", "https://two.test"]
        refused = await emulator.delete("/v2/topics/g")
        assert refused.status == 400


@on_loop
async def test_a_destination_without_its_scheme_is_refused_with_the_same_words() -> None:
    """D-262."""
    async with in_process() as emulator:
        cron = {"Svc-Cron": "* * * * *"}
        for name in ("example.com", "nobody"):
            published = await emulator.post(f"/v2/publish/{name}")
            scheduled = await emulator.post(f"/v2/schedules/{name}", cron)
            assert (scheduled.status, scheduled.json) == (published.status, published.json)
            assert scheduled.status == 404
        assert (await emulator.get("/v2/schedules")).json == []


@on_loop
async def test_a_schedule_whose_firing_is_refused_says_so_and_goes_on() -> None:
    async with in_process() as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
        account_id = emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_day_hard": 0})
        await emulator.advance("1m")
        record = (await emulator.get("/v2/schedules/s")).json
        assert record["error"] == "quota maxRequestsPerDay exceeded, current limit: 0"
        assert record["nextScheduleTime"] == EPOCH_MS + 120_000


@on_loop
async def test_a_queue_of_a_schedule_keeps_its_parallelism() -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 3})
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Queue-Name": "q"})
        await emulator.advance("1m")
        assert (await emulator.get("/v2/queues/q")).json["parallelism"] == 3
        (event,) = (await emulator.get("/v2/events?queueName=q&state=CREATED")).json["events"]
        assert event["queueName"] == "q"


@on_loop
async def test_too_many_schedules_are_412() -> None:
    async with in_process(plan="free") as emulator:
        for number in range(10):
            headers = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": f"s{number}"}
            assert (await emulator.post(f"/v2/schedules/{URL}", headers)).status == 200
        answer = await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *"})
        assert (answer.status, answer.json) == (412, {"error": "quota maxSchedules exceeded, current limit: 10"})
        again = {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "s0"}
        assert (await emulator.post(f"/v2/schedules/{URL}", again)).status == 200


@pytest.mark.parametrize(("plan", "retries"), [("free", 3), ("paid", 5)])
@on_loop
async def test_retries_not_named_are_the_plans(plan: str, retries: int) -> None:
    async with in_process(plan=plan) as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "s"})
        assert (await emulator.get("/v2/schedules/s")).json["retries"] == retries


def test_what_a_queue_ignores_of_a_schedule_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """D-021: its delay is applied."""
    headers = {
        "Svc-Cron": "* * * * *",
        "Svc-Queue-Name": "q",
        "Svc-Delay": "1h",
        "Svc-Flow-Control-Key": "k",
    }

    @on_loop
    async def write() -> None:
        async with in_process() as emulator:
            await emulator.post(f"/v2/schedules/{URL}", headers)

    write()
    assert f"Svc-Flow-Control-Key is not applied to a queued message (to {URL})" in caplog.messages
