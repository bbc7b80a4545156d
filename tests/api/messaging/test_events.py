"""The event log over the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

URL = "https://api.test/hook"


async def states(emulator: InProcess, query: str = "order=earliestFirst") -> list[str]:
    events = (await emulator.get(f"/v2/events?{query}")).json["events"]
    return [event["state"] for event in events]


@with_emulator()
async def test_the_events_of_a_delivery_of_failures_and_of_a_cancellation(emulator: InProcess) -> None:
    await emulator.rule("https://down.test/*", respond={"status": 500, "body": "sorry"})
    good = await emulator.publish(URL)
    assert await states(emulator, f"messageId={good}&order=earliestFirst") == ["CREATED", "ACTIVE", "DELIVERED"]
    assert await states(emulator, f"messageId={good}") == ["DELIVERED", "ACTIVE", "CREATED"]
    bad = await emulator.publish("https://down.test/0", {"Svc-Retries": "0"})
    assert await states(emulator, f"messageId={bad}&order=earliestFirst") == ["CREATED", "ACTIVE", "ERROR", "FAILED"]
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


@with_emulator()
async def test_an_event_shows_the_message_and_what_came_back(emulator: InProcess) -> None:
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
    assert (error["body"], error["timeout"], error["maxRetries"], error["method"]) == ("Ym9keQ==", 30_000, 1, "POST")
    assert error["retryDelayExpr"] == error["retryDelayExpression"] == "5000"
    assert (error["callback"], error["label"], error["labels"]) == ("https://cb.test/", "l", ["l"])
    (retry,) = (await emulator.get(f"/v2/events?messageId={message_id}&state=RETRY")).json["events"]
    assert retry["nextDeliveryTime"] == error["nextDeliveryTime"] == EPOCH_MS + 5_000
    in_progress = (await emulator.get(f"/v2/events?messageId={message_id}&state=IN_PROGRESS")).json["events"]
    assert [event["state"] for event in in_progress] == ["RETRY", "ERROR", "ACTIVE", "CREATED"]


@with_emulator()
async def test_in_progress_finds_the_entries_of_messages_that_have_not_ended(emulator: InProcess) -> None:
    """D-013."""
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


@with_emulator()
async def test_events_page_by_cursor_which_the_last_page_does_not_have(emulator: InProcess) -> None:
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
@with_emulator()
async def test_events_are_shown_as_long_as_the_account_retains_them(
    emulator: InProcess, retention: int, shown_days: int
) -> None:
    """D-002: days of the virtual clock, 14 at most."""
    account_id = emulator.world.account().id
    changed = await emulator.control("PUT", f"/accounts/{account_id}", {"retention": retention})
    assert changed.status == 200, changed.body
    await emulator.publish(URL)
    await emulator.advance(f"{shown_days}d")
    assert len(await states(emulator)) == 3
    await emulator.advance(1)
    assert await states(emulator) == []


@with_emulator()
async def test_filters_of_the_log(emulator: InProcess) -> None:
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://g.test/"}]})
    await emulator.publish("https://a.test/1", {"Svc-Label": "red"})
    await emulator.publish("https://b.test/1", {"Svc-Label": "blue", "Svc-Flow-Control-Key": "k"})
    await emulator.post("/v2/publish/g")
    await emulator.post("/v2/enqueue/q/https://c.test/2")
    for query, found in (
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
    ):
        events = (await emulator.get(f"/v2/events?{query}")).json["events"]
        assert len({event["messageId"] for event in events}) == found, query


# -- messages with their events ---------------------------------------------------------------


async def grouped(emulator: InProcess, query: str = "", path: str = "/v2/logs") -> Any:
    answer = await emulator.get(f"{path}?groupBy=messageId{query}")
    assert answer.status == 200, answer.body
    return answer.json


def told(answer: Any) -> list[tuple[str, list[str]]]:
    return [(each["messageId"], [event["state"] for event in each["events"]]) for each in answer["messages"]]


@pytest.mark.parametrize("path", ["/v2/logs", "/v2/events"])
@with_emulator()
async def test_events_are_grouped_by_their_messages(emulator: InProcess, path: str) -> None:
    """D-525."""
    await emulator.rule("https://down.test/*", respond={"status": 500})
    first = await emulator.publish(URL, {"Svc-Label": "one"}, body="hello")
    second = await emulator.publish("https://down.test/", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    third = await emulator.publish(URL)
    await emulator.advance("1s")
    failed = [second, ["FAILED", "ERROR", "ACTIVE", "RETRY", "ERROR", "ACTIVE", "CREATED"]]
    good = ["DELIVERED", "ACTIVE", "CREATED"]
    answer = await grouped(emulator, path=path)
    assert told(answer) == [tuple(failed), (third, good), (first, good)]
    assert "cursor" not in answer
    assert {**answer["messages"][2], "events": None} == {
        **(await emulator.get(f"/v2/messages/{first}")).json,
        "events": None,
    }
    in_order = await grouped(emulator, "&order=earliestFirst", path)
    assert told(in_order) == [(first, good[::-1]), (second, failed[1][::-1]), (third, good[::-1])]
    assert told(await grouped(emulator, "&state=DELIVERED&label=one", path)) == [(first, good)]
    assert told(await grouped(emulator, "&state=CANCELED", path)) == []


@with_emulator()
async def test_pages_of_messages_have_each_message_once(emulator: InProcess) -> None:
    """D-525."""
    published = [await emulator.publish(URL) for _ in range(12)]
    for order, expected in (("latestFirst", published[::-1]), ("earliestFirst", published)):
        found, cursor = [], ""
        for size in (5, 5, 2):
            page = await grouped(emulator, f"&order={order}&count=5{cursor}")
            assert len(page["messages"]) == size
            found += [each["messageId"] for each in page["messages"]]
            cursor = f"&cursor={page['cursor']}" if size == 5 else ""
        assert found == expected
        assert "cursor" not in page
    assert len((await grouped(emulator))["messages"]) == 10
    assert len((await grouped(emulator, "&count=1000"))["messages"]) == 12


@with_emulator()
async def test_another_grouping_is_refused_and_bodies_are_cut_on_demand(emulator: InProcess) -> None:
    """D-387, D-525."""
    await emulator.publish(URL, body="hello")
    for query in ("groupBy=workflowRunId", "groupBy=url"):
        answer = await emulator.get(f"/v2/logs?{query}")
        assert (answer.status, answer.json["field"]) == (400, "groupBy")
    [cut] = (await grouped(emulator, "&trimBody=2"))["messages"]
    assert (cut["body"], {event["body"] for event in cut["events"]}) == ("he", {"aGU="})
    [without] = (await grouped(emulator, "&trimBody=-1"))["messages"]
    assert not [each for each in (without, *without["events"]) if "body" in each]
    answer = await emulator.get("/v2/events?trimBody=x")
    assert (answer.status, answer.json["field"]) == (400, "trimBody")


@with_emulator()
async def test_a_cursor_of_milliseconds_begins_at_that_instant(emulator: InProcess) -> None:
    """D-526."""
    first = await emulator.publish(URL)
    await emulator.advance("1s")
    second = await emulator.publish(URL)
    for path in ("/v2/events", "/v2/logs"):
        for query, expected in (
            (f"cursor={EPOCH_MS}", {first}),
            (f"cursor={EPOCH_MS + 1000}&order=earliestFirst", {second}),
            (f"cursor={EPOCH_MS + 999}&groupBy=messageId", {first}),
        ):
            answer = (await emulator.get(f"{path}?{query}")).json
            listed = answer["messages"] if "groupBy" in query else answer["events"]
            assert {event["messageId"] for event in listed} == expected


@with_emulator()
async def test_hosts_compare_without_letter_case(emulator: InProcess) -> None:
    """D-522."""
    await emulator.publish("https://API.Test/a", {"Svc-Delay": "1h"})
    await emulator.publish("https://other.test/a", {"Svc-Delay": "1h"})
    assert await states(emulator, "host=api.TEST") == ["CREATED"]
    assert (await emulator.delete("/v2/messages?host=aPi.test")).json == {"cancelled": 1}
