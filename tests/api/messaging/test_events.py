"""The event log over the API."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


async def states(emulator: InProcess, query: str = "order=earliestFirst") -> list[str]:
    events = (await emulator.get(f"/v2/events?{query}")).json["events"]
    return [event["state"] for event in events]


@on_loop
async def test_the_events_of_a_delivery_of_failures_and_of_a_cancellation() -> None:
    async with in_process() as emulator:
        await emulator.rule("https://down.test/*", respond={"status": 500, "body": "sorry"})
        good = await emulator.publish(URL)
        assert await states(emulator, f"messageId={good}&order=earliestFirst") == ["CREATED", "ACTIVE", "DELIVERED"]
        assert await states(emulator, f"messageId={good}") == ["DELIVERED", "ACTIVE", "CREATED"]
        bad = await emulator.publish("https://down.test/0", {"Svc-Retries": "0"})
        assert await states(emulator, f"messageId={bad}&order=earliestFirst") == [
            "CREATED",
            "ACTIVE",
            "ERROR",
            "FAILED",
        ]
        worse = await emulator.publish("https://down.test/1", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
        await emulator.advance("1s")
        assert await states(emulator, f"messageId={worse}&order=earliestFirst") == [
            "CREATED",
            "ACTIVE",
            "ERROR",
            "RETRY",
            "ACTIVE",
            "ERROR",
            "FAILED",
        ]
        canceled = await emulator.publish(URL, {"Svc-Delay": "1h"})
        assert (await emulator.delete(f"/v2/messages/{canceled}")).json == {"cancelled": 1}
        assert await states(emulator, f"messageId={canceled}&order=earliestFirst") == [
            "CREATED",
            "CANCEL_REQUESTED",
            "CANCELED",
        ]


@on_loop
async def test_an_event_shows_the_message_and_what_came_back() -> None:
    async with in_process() as emulator:
        await emulator.rule("https://down.test/*", respond={"status": 503, "body": "sorry", "headers": {"x-y": "z"}})
        message_id = await emulator.publish(
            "https://down.test/",
            {
                "Svc-Retries": "1",
                "Svc-Retry-Delay": "5000",
                "Svc-Timeout": "30s",
                "Svc-Callback": "https://cb.test/",
                "Svc-Label": "l",
            },
            "body",
        )
        (error,) = (await emulator.get(f"/v2/events?messageId={message_id}&state=ERROR")).json["events"]
        assert error["time"] == EPOCH_MS
        assert error["responseStatus"] == 503
        assert error["responseBody"] == "c29ycnk="
        assert error["responseHeader"] == error["responseHeaders"] == {"X-Y": ["z"]}
        assert (error["body"], error["timeout"], error["maxRetries"], error["method"]) == (
            "Ym9keQ==",
            30_000,
            1,
            "POST",
        )
        assert error["retryDelayExpr"] == error["retryDelayExpression"] == "5000"
        assert (error["callback"], error["label"], error["labels"]) == ("https://cb.test/", "l", ["l"])
        (retry,) = (await emulator.get(f"/v2/events?messageId={message_id}&state=RETRY")).json["events"]
        assert retry["nextDeliveryTime"] == error["nextDeliveryTime"] == EPOCH_MS + 5_000
        in_progress = (await emulator.get(f"/v2/events?messageId={message_id}&state=IN_PROGRESS")).json["events"]
        assert [event["state"] for event in in_progress] == ["RETRY", "ERROR", "ACTIVE", "CREATED"]


@on_loop
async def test_in_progress_finds_the_entries_of_messages_that_have_not_ended() -> None:
    """D-013."""
    async with in_process() as emulator:
        await emulator.rule(f"{URL}/down", respond={"status": 500})
        waiting = await emulator.publish(f"{URL}/later", {"Svc-Delay": "1h"})
        delivered = await emulator.publish(URL)
        await emulator.publish(f"{URL}/down", {"Svc-Retries": "0"})
        for path, key in (("/v2/events", "events"), ("/v2/logs", "logs")):
            found = (await emulator.get(f"{path}?state=IN_PROGRESS")).json[key]
            assert [(event["messageId"], event["state"]) for event in found] == [(waiting, "CREATED")]
            found = (await emulator.get(f"{path}?state=IN_PROGRESS,DELIVERED")).json[key]
            assert [(event["messageId"], event["state"]) for event in found] == [
                (delivered, "DELIVERED"),
                (waiting, "CREATED"),
            ]
        await emulator.advance("1h")
        assert (await emulator.get("/v2/logs?state=IN_PROGRESS")).json["logs"] == []


@on_loop
async def test_events_page_by_cursor_which_the_last_page_does_not_have() -> None:
    async with in_process() as emulator:
        for number in range(4):
            await emulator.publish(f"{URL}/{number}")
        seen: list[tuple[str, str]] = []
        target = "/v2/events?count=5"
        sizes = []
        while True:
            page = (await emulator.get(target)).json
            sizes.append(len(page["events"]))
            seen += [(event["messageId"], event["state"]) for event in page["events"]]
            if "cursor" not in page:
                break
            assert isinstance(page["cursor"], str)
            target = f"/v2/events?count=5&cursor={page['cursor']}"
        assert sizes == [5, 5, 2]
        assert len(set(seen)) == 12
        exact = (await emulator.get("/v2/events?count=12")).json
        assert "cursor" not in exact
        logs = (await emulator.get("/v2/logs?count=5")).json
        assert logs["logs"] == logs["events"]
        assert (await emulator.get("/v2/logs?count=101")).status == 400
        assert (await emulator.get("/v2/events?count=1001")).status == 400


@pytest.mark.parametrize(("retention", "shown_days"), [(1, 1), (30, 14)])
@on_loop
async def test_events_are_shown_as_long_as_the_account_retains_them(retention: int, shown_days: int) -> None:
    """D-002: days of the virtual clock, 14 at most."""
    async with in_process() as emulator:
        account_id = emulator.world.account().id
        changed = await emulator.control("PUT", f"/accounts/{account_id}", {"retention": retention})
        assert changed.status == 200, changed.body
        await emulator.publish(URL)
        await emulator.advance(f"{shown_days}d")
        assert len(await states(emulator)) == 3
        await emulator.advance(1)
        assert await states(emulator) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("label=red", 1),
        ("label=red&label=blue", 2),
        ("label=red,blue", 2),
        ("label=Red", 0),
        ("url=https://a.test/1", 1),
        ("host=b.test", 1),
        ("path=/1", 2),
        ("path=/1&host=a.test", 1),
        ("queueName=q", 1),
        ("topicName=g", 1),
        ("flowControlKey=k", 1),
        ("callerIp=203.0.113.7", 4),
        ("callerIP=10.0.0.1", 0),
        ("fromDate=1767225600000&toDate=1767225600000", 4),
        ("fromDate=1767225600001", 0),
        ("state=delivered", 4),
        ("state=CANCELLED", 0),
        ("messageIds=msg_a&messageIds=msg_b", 0),
        ("unknown=1", 4),
    ],
)
@on_loop
async def test_filters_of_the_log(query: str, found: int) -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://g.test/"}]})
        await emulator.publish("https://a.test/1", {"Svc-Label": "red"})
        await emulator.publish("https://b.test/1", {"Svc-Label": "blue", "Svc-Flow-Control-Key": "k"})
        await emulator.post("/v2/publish/g")
        await emulator.post("/v2/enqueue/q/https://c.test/2")
        events = (await emulator.get(f"/v2/events?{query}")).json["events"]
        assert len({event["messageId"] for event in events}) == found
