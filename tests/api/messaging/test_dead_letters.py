"""The dead letter queue over the API: listing, paging, deleting, publishing again."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

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


@with_emulator()
async def test_a_failed_message_is_listed_with_its_last_response(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_failure_without_an_answer_has_status_0(emulator: InProcess) -> None:
    await emulator.rule(f"{DOWN}/*", fault="refused")
    await fail(emulator)
    (entry,) = await entries(emulator)
    assert entry["responseStatus"] == 0
    assert "responseHeader" not in entry
    assert "responseBody" not in entry


@with_emulator()
async def test_a_response_in_gzip_is_shown_unpacked_and_kept_packed(emulator: InProcess) -> None:
    """D-440."""
    packed = base64.b64encode(gzip.compress("zu früh".encode(), mtime=0)).decode()
    asked = {"Svc-Callback": "https://back.test", "Svc-Failure-Callback": "https://back.test/failed"}
    headers = {"Content-Encoding": "gzip", "X-Why": "down"}
    await emulator.rule(f"{DOWN}/*", respond={"status": 425, "body_base64": packed, "headers": headers})
    message_id = await fail(emulator, headers=asked)
    (entry,) = await entries(emulator)
    assert (entry["responseBody"], entry["responseHeader"]) == ("zu früh", {"X-Why": ["down"]})
    failure = (await emulator.get(f"/v2/events?messageId={message_id}&state=ERROR")).json["events"][0]
    assert base64.b64decode(failure["responseBody"]).decode() == "zu früh"
    assert failure["responseHeaders"] == {"X-Why": ["down"]}
    first, *told = await emulator.deliveries()
    assert (first["response"]["body"], first["response"]["body_base64"]) == ("zu früh", packed)
    assert first["response"]["headers"]["Content-Encoding"] == ["gzip"]
    callbacks = [json.loads(each["body"]) for each in told]
    assert [base64.b64decode(each["body"]).decode() for each in callbacks] == ["zu früh"] * 2
    assert [each["header"] for each in callbacks] == [{"X-Why": ["down"]}] * 2

    await fail(emulator, "/own", {**asked, "Svc-Forward-Accept-Encoding": "gzip"})
    (_, entry) = await entries(emulator)
    assert entry["responseBodyBase64"] == packed
    assert json.loads((await emulator.deliveries())[-1]["body"])["body"] == packed


@pytest.mark.parametrize(
    ("path", "key", "counts"),
    [
        ("/v2/dlq?count=100", "messages", [15, 5]),
        # Two of the four events of each have the answer.
        ("/v2/events?count=1000", "events", [29, 31, 20]),
        ("/v2/logs?groupBy=messageId&count=100", "messages", [7, 7, 6]),
        ("/_emulator/deliveries?limit=1000", "deliveries", [15, 5]),
    ],
)
@with_emulator()
async def test_long_answers_make_pages_short(emulator: InProcess, path: str, key: str, counts: list[int]) -> None:
    """D-562: a thousand answers of a kilobyte would be a gigabyte when they are unpacked."""
    packed = base64.b64encode(gzip.compress(bytes(1_100_000), mtime=0)).decode()
    headers = {"Content-Encoding": "gzip"}
    await emulator.rule(f"{DOWN}/*", respond={"status": 500, "body_base64": packed, "headers": headers})
    for _ in range(20):
        await fail(emulator)
    seen, cursor = [], ""
    while cursor is not None:
        answer = await emulator.get(f"{path}{cursor and f'&cursor={cursor}'}")
        seen.append(len(answer.json[key]))
        cursor = answer.json.get("cursor")
    assert seen == counts


@pytest.mark.parametrize(
    ("method", "path", "key"), [("POST", "/v2/dlq/retry", "responses"), ("DELETE", "/v2/dlq", "deleted")]
)
@with_emulator()
async def test_long_answers_leave_no_named_entry_out_of_a_bulk_operation(
    emulator: InProcess, method: str, path: str, key: str
) -> None:
    """Clients that name entries by id look at no cursor (D-562)."""
    await emulator.rule(f"{DOWN}/*", respond={"status": 500, "body": "x" * 1_100_000})
    for _ in range(20):
        await fail(emulator)
    assert len((await emulator.get("/v2/dlq")).json["messages"]) < 20
    await emulator.delete("/_emulator/destinations")
    ids = [f"{EPOCH_MS}-{number}" for number in range(20)]
    answer = (await emulator.call(method, f"{path}?dlqIds={','.join(ids)}")).json
    assert not answer.get("cursor")
    assert (len(answer[key]) if key == "responses" else answer[key]) == 20


@with_emulator()
async def test_deleting_an_entry_twice_is_404(emulator: InProcess) -> None:
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


@with_emulator()
async def test_retrying_an_entry_makes_a_new_message_and_takes_it_out(emulator: InProcess) -> None:
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


@with_emulator()
async def test_configuration_headers_of_a_retry_win(emulator: InProcess) -> None:
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


@with_emulator()
async def test_deduplication_options_of_a_retry_are_ignored_and_logged(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-046."""
    given = {"Svc-Queue-Name": "q", "Svc-Deduplication-Id": "d", "Svc-Content-Based-Deduplication": "true"}
    await broken(emulator)
    await fail(emulator)
    assert (await emulator.post("/v2/dlq/retry", given)).status == 201
    (entry,) = await entries(emulator)
    assert entry["queueName"] == "q"
    assert (await emulator.post("/v2/publish/https://ok.test", {"Svc-Deduplication-Id": "d"})).status == 200
    assert [message for message in caplog.messages if "ignored" in message] == [
        "Svc-Deduplication-Id, Svc-Content-Based-Deduplication are ignored: a dead letter is always published again"
        " (POST /v2/dlq/retry)"
    ]


@with_emulator()
async def test_bulk_retry_answers_201_and_an_empty_cursor(emulator: InProcess) -> None:
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


@with_emulator()
async def test_filters_that_match_nothing_select_nothing(emulator: InProcess) -> None:
    await broken(emulator)
    await fail(emulator)
    for query in (
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
    ):
        assert await entries(emulator, f"?{query}") == [], query
        assert (await emulator.post(f"/v2/dlq/retry?{query}")).json == {"cursor": "", "responses": []}, query
        assert (await emulator.delete(f"/v2/dlq?{query}")).json == {"deleted": 0}, query
        assert len(await entries(emulator)) == 1, query


@with_emulator()
async def test_filters_and_order_of_the_list(emulator: InProcess) -> None:
    await emulator.rule(f"{DOWN}/c", respond={"status": 500})
    await broken(emulator)
    await fail(emulator, "/a", {"Svc-Label": "red"})
    await fail(emulator, "/b")
    await emulator.post(f"/v2/enqueue/q/{DOWN}/c", {"Svc-Retries": "0"})
    for query, paths in (
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
    ):
        assert "".join(entry["url"][-1] for entry in await entries(emulator, f"?{query}")) == paths, query


@with_emulator()
async def test_pages_of_the_list_and_of_bulk_operations(emulator: InProcess) -> None:
    """D-061."""
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


@with_emulator()
async def test_deleting_by_a_body_counts_what_was_there(emulator: InProcess) -> None:
    await broken(emulator)
    for number in range(3):
        await fail(emulator, f"/{number}")
    ids = [entry["dlqId"] for entry in await entries(emulator)]
    answer = await emulator.delete("/v2/dlq", (), {"dlqIds": [ids[0], ids[0], "1-1", ids[1]]})
    assert answer.json == {"deleted": 2}
    assert (await emulator.delete("/v2/dlq", (), {"dlqIds": []})).json == {"deleted": 0}
    assert len(await entries(emulator)) == 1


@with_emulator()
async def test_ids_make_other_filters_of_a_bulk_operation_count_for_nothing(emulator: InProcess) -> None:
    """D-521."""
    await broken(emulator)
    for path in ("/a", "/b", "/c"):
        await fail(emulator, path, {"Svc-Label": "l"})
    first, second, third = [entry["dlqId"] for entry in await entries(emulator)]
    assert await entries(emulator, f"?dlqIds={first}&label=other") == []
    answer = await emulator.delete(f"/v2/dlq?dlqIds={first}&label=other&responseStatus=200")
    assert answer.json == {"deleted": 1}
    answer = await emulator.delete("/v2/dlq?label=other", body=json.dumps({"dlqIds": [second]}))
    assert answer.json == {"deleted": 1}
    answer = await emulator.post(f"/v2/dlq/retry?dlqIds={third}&url=https://other.test/")
    assert (answer.status, len(answer.json["responses"])) == (201, 1)


@with_emulator()
async def test_bodies_of_dead_letters_are_cut_on_demand(emulator: InProcess) -> None:
    """D-387."""
    await broken(emulator)
    await fail(emulator, body="hello")
    [cut] = await entries(emulator, "?trimBody=1")
    assert (cut["body"], cut["responseBody"]) == ("h", "o")
    [without] = await entries(emulator, "?trimBody=-1")
    assert not {"body", "responseBody"} & without.keys()
    answer = await emulator.delete("/v2/dlq?trimBody=1")
    assert (answer.status, answer.json["field"]) == (400, "trimBody")
