"""The dead letter queue over the API: listing, paging, deleting, publishing again."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

DOWN = "https://down.test"


async def fail(emulator: InProcess, path: str = "/a", headers: dict[str, str] | None = None, body: str = "b") -> str:
    """A message that has failed for good; its id."""
    return await emulator.publish(f"{DOWN}{path}", {"Svc-Retries": "0", **(headers or {})}, body)


async def broken(emulator: InProcess, **respond: Any) -> None:
    await emulator.rule(f"{DOWN}/*", respond={"status": 502, "body": "oh", "headers": {"X-Why": "down"}, **respond})


async def entries(emulator: InProcess, query: str = "") -> list[Any]:
    answer = await emulator.get(f"/v2/dlq{query}")
    assert answer.status == 200, answer.body
    messages: list[Any] = answer.json["messages"]
    return messages


@on_loop
async def test_a_failed_message_is_listed_with_its_last_response() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        message_id = await fail(emulator, headers={"Svc-Label": "l", "Content-Type": "text/plain"})
        answer = (await emulator.get("/v2/dlq")).json
        assert answer.keys() == {"messages"}
        (entry,) = answer["messages"]
        assert entry == {
            "messageId": message_id,
            "url": f"{DOWN}/a",
            "method": "POST",
            "header": {"Content-Type": ["text/plain"]},
            "body": "b",
            "maxRetries": 0,
            "notBefore": EPOCH_MS,
            "createdAt": EPOCH_MS,
            "callerIP": "203.0.113.7",
            "label": "l",
            "labels": ["l"],
            "dlqId": f"{EPOCH_MS}-0",
            "responseStatus": 502,
            "responseHeader": {"X-Why": ["down"]},
            "responseBody": "oh",
        }
        assert (await emulator.get(f"/v2/dlq/{entry['dlqId']}")).json == entry


@on_loop
async def test_a_failure_without_an_answer_has_status_0() -> None:
    async with in_process() as emulator:
        await emulator.rule(f"{DOWN}/*", fault="refused")
        await fail(emulator)
        (entry,) = await entries(emulator)
        assert entry["responseStatus"] == 0
        assert "responseHeader" not in entry
        assert "responseBody" not in entry


@on_loop
async def test_a_response_that_is_no_text_is_shown_in_base64() -> None:
    async with in_process() as emulator:
        await emulator.rule(f"{DOWN}/*", respond={"status": 500, "body_base64": "/wA="})
        await fail(emulator)
        (entry,) = await entries(emulator)
        assert entry["responseBodyBase64"] == "/wA="
        assert "responseBody" not in entry


@on_loop
async def test_a_response_in_gzip_is_shown_unpacked_and_kept_packed() -> None:
    """D-440."""
    packed = base64.b64encode(gzip.compress("zu früh".encode(), mtime=0)).decode()
    asked = {"Svc-Callback": "https://back.test", "Svc-Failure-Callback": "https://back.test/failed"}
    async with in_process() as emulator:
        headers = {"Content-Encoding": "gzip", "X-Why": "down"}
        await emulator.rule(f"{DOWN}/*", respond={"status": 425, "body_base64": packed, "headers": headers})
        message_id = await fail(emulator, headers=asked)
        (entry,) = await entries(emulator)
        assert (entry["responseBody"], entry["responseHeader"]) == ("zu früh", {"X-Why": ["down"]})
        failure = (await emulator.get(f"/v2/events?messageId={message_id}&state=ERROR")).json["events"][0]
        assert base64.b64decode(failure["responseBody"]).decode() == "zu früh"
        assert failure["responseHeaders"] == {"X-Why": ["down"]}
        first, *told = await emulator.deliveries()
        assert first["response"]["body_base64"] == packed
        assert first["response"]["headers"]["Content-Encoding"] == ["gzip"]
        callbacks = [json.loads(each["body"]) for each in told]
        assert [base64.b64decode(each["body"]).decode() for each in callbacks] == ["zu früh"] * 2
        assert [each["header"] for each in callbacks] == [{"X-Why": ["down"]}] * 2

        await fail(emulator, "/own", {**asked, "Svc-Forward-Accept-Encoding": "gzip"})
        (_, entry) = await entries(emulator)
        assert entry["responseBodyBase64"] == packed
        assert json.loads((await emulator.deliveries())[-1]["body"])["body"] == packed


@on_loop
async def test_deleting_an_entry_twice_is_404() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator)
        (entry,) = await entries(emulator)
        target = f"/v2/dlq/{entry['dlqId']}"
        assert (await emulator.delete(target)).status == 200
        again = await emulator.delete(target)
        assert (again.status, again.json) == (404, {"error": f"dlq message {entry['dlqId']} not found"})
        assert (await emulator.get(target)).status == 404
        assert (await emulator.post(f"/v2/dlq/retry/{entry['dlqId']}")).status == 404
        assert await entries(emulator) == []


@on_loop
async def test_retrying_an_entry_makes_a_new_message_and_takes_it_out() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        old = await fail(emulator, headers={"Svc-Forward-A": "1"}, body="kept")
        (entry,) = await entries(emulator)
        await emulator.control("DELETE", "/destinations")
        answer = await emulator.post(f"/v2/dlq/retry/{entry['dlqId']}")
        assert answer.status == 201
        assert answer.json.keys() == {"messageId"}
        assert answer.json["messageId"] != old
        assert await entries(emulator) == []
        _, delivery = await emulator.deliveries()
        assert (delivery["url"], delivery["body"], delivery["headers"]["A"]) == (f"{DOWN}/a", "kept", ["1"])
        assert delivery["response"]["status"] == 200


@on_loop
async def test_a_retry_that_fails_again_is_a_new_entry() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator)
        (entry,) = await entries(emulator)
        answer = await emulator.post(f"/v2/dlq/retry/{entry['dlqId']}")
        (again,) = await entries(emulator)
        assert again["messageId"] == answer.json["messageId"]
        assert again["dlqId"] != entry["dlqId"]


@on_loop
async def test_configuration_headers_of_a_retry_win() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator, headers={"Svc-Forward-A": "1", "Svc-Label": "old"})
        (entry,) = await entries(emulator)
        answer = await emulator.post(
            f"/v2/dlq/retry/{entry['dlqId']}",
            {"Svc-Delay": "1h", "Svc-Retries": "4", "Svc-Forward-A": "2", "Svc-Label": "new", "Svc-Method": "PUT"},
        )
        record = (await emulator.get(f"/v2/messages/{answer.json['messageId']}")).json
        assert (record["notBefore"], record["maxRetries"]) == (EPOCH_MS + 3_600_000, 4)
        assert (record["header"], record["label"], record["method"]) == ({"A": ["2"]}, "new", "PUT")


def test_deduplication_options_of_a_retry_are_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """D-046."""
    given = {"Svc-Queue-Name": "q", "Svc-Deduplication-Id": "d", "Svc-Content-Based-Deduplication": "true"}

    @on_loop
    async def retry() -> None:
        async with in_process() as emulator:
            await broken(emulator)
            await fail(emulator)
            assert (await emulator.post("/v2/dlq/retry", given)).status == 201
            (entry,) = await entries(emulator)
            assert entry["queueName"] == "q"
            assert (await emulator.post("/v2/publish/https://ok.test", {"Svc-Deduplication-Id": "d"})).status == 200

    retry()
    assert [message for message in caplog.messages if "ignored" in message] == [
        "Svc-Deduplication-Id, Svc-Content-Based-Deduplication are ignored: a dead letter is always published again"
        " (POST /v2/dlq/retry)"
    ]


@on_loop
async def test_bulk_retry_answers_201_and_an_empty_cursor() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator, "/a")
        await fail(emulator, "/b")
        first, second = await entries(emulator)
        await emulator.control("DELETE", "/destinations")
        answer = await emulator.post(f"/v2/dlq/retry?dlqIds={first['dlqId']}&dlqIds={second['dlqId']}")
        assert answer.status == 201
        assert answer.json["cursor"] == ""
        assert [item.keys() for item in answer.json["responses"]] == [{"messageId"}, {"messageId"}]
        # Ids that were just published again are not there to be deleted, which is no error.
        gone = await emulator.delete(f"/v2/dlq?dlqIds={first['dlqId']}")
        assert (gone.status, gone.json) == (200, {"deleted": 0})


@pytest.mark.parametrize(
    "query",
    [
        "messageId=msg_x",
        "url=https://nobody.test",
        "topicName=g",
        "scheduleId=s",
        "queueName=q",
        "callerIp=1.2.3.4",
        "label=l",
        "flowControlKey=k",
        "responseStatus=999",
        "fromDate=1767225600001",
        "toDate=1",
        "source=workflow",
    ],
)
@on_loop
async def test_filters_that_match_nothing_select_nothing(query: str) -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator)
        assert await entries(emulator, f"?{query}") == []
        assert (await emulator.post(f"/v2/dlq/retry?{query}")).json == {"cursor": "", "responses": []}
        assert (await emulator.delete(f"/v2/dlq?{query}")).json == {"deleted": 0}
        assert len(await entries(emulator)) == 1


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("responseStatus=502", "ab"),
        ("responseStatus=502,500", "abc"),
        ("label=red", "a"),
        (f"url={DOWN}/a&url={DOWN}/b", "ab"),
        (f"url={DOWN}/a,{DOWN}/b&label=red", "a"),
        ("queueName=q", "c"),
        ("callerIp=203.0.113.7", "abc"),
        ("order=latestFirst", "cba"),
        ("order=earliestFirst", "abc"),
        ("count=1", "a"),
        ("count=1&order=latestFirst", "c"),
        ("api=llm", "abc"),
    ],
)
@on_loop
async def test_filters_and_order_of_the_list(query: str, paths: str) -> None:
    async with in_process() as emulator:
        await emulator.rule(f"{DOWN}/c", respond={"status": 500})
        await broken(emulator)
        await fail(emulator, "/a", {"Svc-Label": "red"})
        await fail(emulator, "/b")
        await emulator.post(f"/v2/enqueue/q/{DOWN}/c", {"Svc-Retries": "0"})
        assert "".join(entry["url"][-1] for entry in await entries(emulator, f"?{query}")) == paths


@on_loop
async def test_pages_of_the_list_and_of_bulk_operations() -> None:
    """D-061."""
    async with in_process() as emulator:
        await broken(emulator)
        for number in range(5):
            await fail(emulator, f"/{number}")
        first = (await emulator.get("/v2/dlq?count=2")).json
        second = (await emulator.get(f"/v2/dlq?count=2&cursor={first['cursor']}")).json
        last = (await emulator.get(f"/v2/dlq?count=2&cursor={second['cursor']}")).json
        assert "cursor" not in last
        urls = [entry["url"] for page in (first, second, last) for entry in page["messages"]]
        assert urls == [f"{DOWN}/{number}" for number in range(5)]
        assert "cursor" not in (await emulator.get("/v2/dlq?count=5")).json
        deleted = (await emulator.delete("/v2/dlq?count=2")).json
        assert deleted.keys() == {"deleted", "cursor"}
        assert (await emulator.delete(f"/v2/dlq?count=2&cursor={deleted['cursor']}")).json["deleted"] == 2
        assert (await emulator.delete("/v2/dlq")).json == {"deleted": 1}
        assert (await emulator.delete("/v2/dlq")).json == {"deleted": 0}


@on_loop
async def test_deleting_by_a_body_counts_what_was_there() -> None:
    async with in_process() as emulator:
        await broken(emulator)
        for number in range(3):
            await fail(emulator, f"/{number}")
        ids = [entry["dlqId"] for entry in await entries(emulator)]
        answer = await emulator.delete("/v2/dlq", (), {"dlqIds": [ids[0], ids[0], "1-1", ids[1]]})
        assert answer.json == {"deleted": 2}
        assert (await emulator.delete("/v2/dlq", (), {"dlqIds": []})).json == {"deleted": 0}
        assert len(await entries(emulator)) == 1


@pytest.mark.parametrize(
    "query", ["host=x", "path=/", "lable=x", "order=sideways", "count=101", "cursor=!", "toDate=x"]
)
@on_loop
async def test_a_wrong_filter_selects_nothing_and_is_named(query: str) -> None:
    async with in_process() as emulator:
        await broken(emulator)
        await fail(emulator)
        before = emulator.image()
        for method, target in (("GET", "/v2/dlq"), ("DELETE", "/v2/dlq"), ("POST", "/v2/dlq/retry")):
            answer = await emulator.call(method, f"{target}?{query}")
            assert (answer.status, answer.json["field"]) == (400, query.partition("=")[0]), answer.body
        assert emulator.image() == before


@on_loop
async def test_an_entry_ends_with_the_plans_retention() -> None:
    async with in_process(plan="free") as emulator:
        await broken(emulator)
        await fail(emulator)
        await emulator.advance(259_200_000 - 1)
        assert len(await entries(emulator)) == 1
        await emulator.advance(1)
        assert await entries(emulator) == []
