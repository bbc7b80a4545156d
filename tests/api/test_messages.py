"""Publish, enqueue, batch and the life of a message as the API shows it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


async def states(emulator: InProcess, query: str = "order=earliestFirst") -> list[str]:
    events = (await emulator.get(f"/v2/events?{query}")).json["events"]
    return [event["state"] for event in events]


# -- publish ----------------------------------------------------------------------------------


@on_loop
async def test_a_publish_answers_the_id_alone_and_delivers_at_once() -> None:
    async with in_process() as emulator:
        answer = await emulator.post(f"/v2/publish/{URL}", {"Content-Type": "text/plain"}, "hello")
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json.keys() == {"messageId"}
        message_id = answer.json["messageId"]
        assert message_id.startswith("msg_")
        (delivery,) = await emulator.deliveries()
        assert (delivery["message_id"], delivery["method"], delivery["url"]) == (message_id, "POST", URL)
        assert (delivery["body"], delivery["via"], delivery["attempt"]) == ("hello", "capture", 1)
        sent = delivery["headers"]
        assert sent["Content-Type"] == ["text/plain"]
        assert sent["User-Agent"] == ["Svc-Queue"]
        assert sent["Svc-Message-Id"] == [message_id]
        assert sent["Svc-Retried"] == ["0"]
        assert sent["Svc-Caller-Ip"] == ["203.0.113.7"]
        assert sent["svc-region"] == ["US-EAST-1"]
        assert sent["Svc-Signature"][0].count(".") == 2
        assert "Authorization" not in sent


@on_loop
async def test_a_message_record_has_the_fields_that_apply_and_no_null() -> None:
    async with in_process() as emulator:
        message_id = await emulator.publish(
            URL,
            {
                "Content-Type": "application/json",
                "Svc-Delay": "1h",
                "Svc-Method": "put",
                "Svc-Retries": "2",
                "Svc-Retry-Delay": "1000 * (1 + retried)",
                "Svc-Forward-x-trace-ID": "7",
                "Svc-Callback": "https://cb.test/ok",
                "Svc-Callback-Forward-K": "v",
                "Svc-Failure-Callback": "https://cb.test/no",
                "Svc-Label": "red,blue",
                "Svc-Flow-Control-Key": "k",
                "Svc-Flow-Control-Value": "parallelism=2, rate=3, period=1h30m3s",
                "Svc-Telemetry-Sdk": "py",
            },
            "{}",
        )
        assert (await emulator.get(f"/v2/messages/{message_id}")).json == {
            "messageId": message_id,
            "url": URL,
            "method": "PUT",
            "header": {"Content-Type": ["application/json"], "X-Trace-Id": ["7"]},
            "body": "{}",
            "maxRetries": 2,
            "retryDelayExpression": "1000 * (1 + retried)",
            "notBefore": EPOCH_MS + 3_600_000,
            "createdAt": EPOCH_MS,
            "callback": "https://cb.test/ok",
            "callbackHeader": {"K": ["v"]},
            "failureCallback": "https://cb.test/no",
            "callerIP": "203.0.113.7",
            "label": "red",
            "labels": ["red", "blue"],
            "flowControlKey": "k",
            "parallelism": 2,
            "rate": 3,
            "period": 5403,
        }


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"", {}), ("é".encode(), {"body": "é"}), (b"\xff\x00", {"bodyBase64": "/wA="})],
    ids=["empty", "text", "bytes"],
)
@on_loop
async def test_a_body_is_shown_as_text_or_base64(body: bytes, shown: dict[str, str]) -> None:
    async with in_process() as emulator:
        message_id = await emulator.publish(URL, {"Svc-Delay": "1h"}, body)
        record = (await emulator.get(f"/v2/messages/{message_id}")).json
        assert {name: record[name] for name in ("body", "bodyBase64") if name in record} == shown


@pytest.mark.parametrize(
    "target",
    [
        "https://api.test",
        "https://api.test/",
        "http://api.test:8080//a/../b%2Fc?x=1&y=%20",
        "HTTPS://API.test/Path",
        "http://[::1]:9/x?u=https://other.test/?a=b",
        "https://api.test/a%0Ab%00%FF/%E2%80%A8",
    ],
)
@on_loop
async def test_a_destination_is_kept_byte_for_byte(target: str) -> None:
    async with in_process() as emulator:
        message_id = await emulator.publish(target, {"Svc-Delay": "1h"})
        assert (await emulator.get(f"/v2/messages/{message_id}")).json["url"] == target


@on_loop
async def test_query_options_are_not_the_destinations() -> None:
    async with in_process() as emulator:
        message_id = await emulator.publish(f"{URL}?a=1&svc-delay=1h&Svc-Retries=0&b=2")
        record = (await emulator.get(f"/v2/messages/{message_id}")).json
        assert record["url"] == f"{URL}?a=1&b=2"
        assert (record["maxRetries"], record["notBefore"]) == (0, EPOCH_MS + 3_600_000)


@on_loop
async def test_a_group_gets_one_message_for_each_endpoint_in_order() -> None:
    async with in_process() as emulator:
        endpoints = [{"name": "one", "url": "https://one.test"}, {"url": "https://two.test/"}]
        assert (await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": endpoints})).status == 200
        answer = await emulator.post("/v2/publish/g", (), "x")
        assert answer.status == 200
        assert [item["url"] for item in answer.json] == ["https://one.test", "https://two.test/"]
        assert all(item.keys() == {"messageId", "url"} for item in answer.json)
        first, second = [(await emulator.get(f"/v2/messages/{item['messageId']}")).json for item in answer.json]
        assert (first["topicName"], first["endpointName"]) == ("g", "one")
        assert second["topicName"] == "g"
        assert "endpointName" not in second
        assert [each["headers"]["Svc-Topic-Name"] for each in await emulator.deliveries()] == [["g"], ["g"]]


@on_loop
async def test_a_duplicate_is_202_with_the_first_id_until_ten_minutes_have_passed() -> None:
    async with in_process() as emulator:
        first = await emulator.publish(URL, {"Svc-Deduplication-Id": "d"})
        again = await emulator.post(f"/v2/publish/{URL}", {"Svc-Deduplication-Id": "d"})
        assert (again.status, again.json) == (202, {"messageId": first, "deduplicated": True})
        assert len(await emulator.deliveries()) == 1
        await emulator.advance("10m")
        assert await emulator.publish(URL, {"Svc-Deduplication-Id": "d"}) != first


@on_loop
async def test_content_deduplication_looks_at_destination_body_type_and_forwarded_headers() -> None:
    async with in_process() as emulator:
        base = {"Svc-Content-Based-Deduplication": "True", "Content-Type": "a/b", "Svc-Forward-A": "1"}
        first = await emulator.publish(URL, base, "x")
        assert (await emulator.post(f"/v2/publish/{URL}", base, "x")).json["messageId"] == first
        for url, headers, body in (
            (URL + "2", base, "x"),
            (URL, base, "y"),
            (URL, {**base, "Content-Type": "a/c"}, "x"),
            (URL, {**base, "Svc-Forward-A": "2"}, "x"),
        ):
            assert (await emulator.post(f"/v2/publish/{url}", headers, body)).status == 200


@on_loop
async def test_a_group_is_deduplicated_endpoint_by_endpoint() -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}]})
        once = {"Svc-Deduplication-Id": "d"}
        (first,) = (await emulator.post("/v2/publish/g", once)).json
        await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://two.test"}]})
        answer = await emulator.post("/v2/publish/g", once)
        assert answer.status == 200
        assert [item.get("deduplicated", False) for item in answer.json] == [True, False]
        assert answer.json[0]["messageId"] == first["messageId"]
        assert (await emulator.post("/v2/publish/g", once)).status == 202


# -- enqueue ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "logged"),
    [
        pytest.param("enqueue/q", {"Svc-Delay": "1h"}, "Svc-Delay is", id="delay"),
        pytest.param("enqueue/q", {"Svc-Not-Before": "9999999999"}, "Svc-Not-Before is", id="not-before"),
        pytest.param(
            "publish",
            {"Svc-Queue-Name": "q", "Svc-Flow-Control-Key": "k", "Svc-Delay": "1h"},
            "Svc-Delay, Svc-Flow-Control-Key are",
            id="publish-into-a-queue",
        ),
    ],
)
def test_what_a_queue_ignores_is_logged(
    path: str, headers: dict[str, str], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """D-021."""

    @on_loop
    async def enqueue() -> None:
        async with in_process() as emulator:
            await emulator.post(f"/v2/{path}/{URL}", headers=headers)
            assert len(await emulator.deliveries()) == 1

    enqueue()
    assert f"{logged} not applied to a queued message (to {URL})" in caplog.text


def test_what_a_queue_ignores_in_a_batch_is_logged_for_each_item(caplog: pytest.LogCaptureFixture) -> None:
    """D-021."""
    delayed = {"destination": URL, "headers": {"Svc-Delay": "1h"}}
    batch = [delayed, {**delayed, "queue": "q"}, {"destination": URL, "queue": "q"}, {"destination": "x y"}]

    @on_loop
    async def publish() -> None:
        async with in_process() as emulator:
            await emulator.post("/v2/batch", (), batch)
            assert len(await emulator.deliveries()) == 2

    publish()
    assert [message for message in caplog.messages if "queued" in message] == [
        f"Svc-Delay is not applied to a queued message (to {URL})"
    ]


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
        assert await states(emulator) == ["CREATED", "CANCEL_REQUESTED", "CANCELED"]
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


# -- batch ------------------------------------------------------------------------------------


@on_loop
async def test_a_batch_answers_every_item_in_its_place() -> None:
    async with in_process() as emulator:
        await emulator.post(
            "/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}, {"url": "https://two.test"}]}
        )
        items: list[dict[str, Any]] = [
            {"destination": URL, "body": "a", "headers": {"svc-forward-A": "1", "Content-Type": "text/plain"}},
            {"destination": "nowhere"},
            {"destination": "g", "body": None, "queue": None},
            {"destination": URL, "headers": {"Svc-Delay": "never"}},
            {"destination": URL, "queue": "q", "headers": None},
            {"destination": "ftp://x.test"},
            {"destination": URL, "headers": {"Svc-Retries": "21"}},
        ]
        answer = await emulator.post("/v2/batch", {"Content-Type": "application/json"}, items)
        assert answer.status == 200
        good, unknown, group, delay, queued, scheme, retries = answer.json
        assert good.keys() == {"messageId"}
        assert unknown == {"error": "topic nowhere not found"}
        assert [item["url"] for item in group] == ["https://one.test", "https://two.test"]
        assert delay["field"] == "Svc-Delay"
        assert queued.keys() == {"messageId"}
        assert scheme["field"] == "destination"
        assert retries == {"error": "Svc-Retries: quota maxRetries exceeded, current limit: 20", "field": "Svc-Retries"}
        assert (await emulator.get(f"/v2/messages/{queued['messageId']}")).json["queueName"] == "q"
        assert (await emulator.get(f"/v2/messages/{good['messageId']}")).json["header"] == {
            "Content-Type": ["text/plain"],
            "A": ["1"],
        }
        assert len(await emulator.deliveries()) == 4


@on_loop
async def test_a_batch_item_that_repeats_an_earlier_one_is_marked() -> None:
    async with in_process() as emulator:
        item = {"destination": URL, "headers": {"Svc-Deduplication-Id": "d"}}
        answer = await emulator.post("/v2/batch", (), [item, item])
        first, second = answer.json
        assert answer.status == 200
        assert second == {"messageId": first["messageId"], "deduplicated": True}


# -- the log ----------------------------------------------------------------------------------


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
        assert [event["state"] for event in in_progress] == ["RETRY", "ERROR", "ACTIVE"]


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


# -- after the end ----------------------------------------------------------------------------


@on_loop
async def test_a_message_is_readable_for_60_virtual_seconds_after_its_end() -> None:
    """D-009."""
    async with in_process() as emulator:
        message_id = await emulator.publish(URL, (), "x")
        record = (await emulator.get(f"/v2/messages/{message_id}")).json
        assert record["body"] == "x"
        await emulator.advance(59_999)
        assert (await emulator.get(f"/v2/messages/{message_id}")).json == record
        await emulator.advance(1)
        answer = await emulator.get(f"/v2/messages/{message_id}")
        assert (answer.status, answer.json) == (404, {"error": f"message {message_id} not found"})


@on_loop
async def test_a_finished_message_cannot_be_cancelled() -> None:
    """D-009."""
    async with in_process() as emulator:
        message_id = await emulator.publish(URL)
        answer = await emulator.delete(f"/v2/messages/{message_id}")
        assert (answer.status, answer.json) == (404, {"error": f"message {message_id} not found"})


# -- bulk cancel ------------------------------------------------------------------------------


@on_loop
async def test_cancelling_counts_each_message_once() -> None:
    """D-062."""
    async with in_process() as emulator:
        ids = [await emulator.publish(f"{URL}/{n}", {"Svc-Delay": "1h"}) for n in range(4)]
        assert (await emulator.delete(f"/v2/messages/{ids[0]}")).json == {"cancelled": 1}
        assert (await emulator.delete(f"/v2/messages/{ids[0]}")).status == 404
        two = await emulator.delete("/v2/messages", (), {"messageIds": [ids[0], ids[1], ids[1], ids[2]]})
        assert (two.status, two.json) == (200, {"cancelled": 2})
        assert (await emulator.delete("/v2/messages", {"Content-Type": "application/json"})).json == {"cancelled": 1}
        assert (await emulator.delete("/v2/messages", (), {"messageIds": []})).json == {"cancelled": 0}
        await emulator.advance("2h")
        assert await emulator.deliveries() == []


@pytest.mark.parametrize(
    ("query", "cancelled"),
    [
        ("", 4),
        ("?count=3", 3),
        ("?label=red", 2),
        ("?label=red&label=blue", 3),
        ("?label=red&url=https://a.test/1", 1),
        ("?url=https://a.test/1,https://a.test/2", 2),
        ("?host=a.test", 2),
        ("?path=/2", 1),
        ("?scheduleId=none", 0),
        ("?fromDate=1767225600001", 0),
        ("?toDate=1767225600000", 4),
        ("?callerIp=203.0.113.7", 4),
        ("?messageIds=msg_none&label=red", 0),
    ],
)
@on_loop
async def test_filters_of_bulk_cancel(query: str, cancelled: int) -> None:
    async with in_process() as emulator:
        for url, label in (("a.test/1", "red"), ("a.test/2", "blue"), ("b.test/1", "red"), ("c.test/3", "green")):
            await emulator.publish(f"https://{url}", {"Svc-Delay": "1h", "Svc-Label": label})
        assert (await emulator.delete(f"/v2/messages{query}")).json == {"cancelled": cancelled}


@pytest.mark.parametrize("query", ["lable=red", "count=0", "count=501", "label=", "fromDate=yesterday"])
@on_loop
async def test_a_wrong_filter_cancels_nothing(query: str) -> None:
    async with in_process() as emulator:
        await emulator.publish(URL, {"Svc-Delay": "1h"})
        before = emulator.image()
        answer = await emulator.delete(f"/v2/messages?{query}")
        assert (answer.status, answer.json["field"]) == (400, query.partition("=")[0])
        assert emulator.image() == before
