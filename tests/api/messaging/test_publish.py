"""Publish, enqueue and batch: what they answer, and what is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


@with_emulator()
async def test_a_publish_answers_the_id_alone_and_delivers_at_once(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_destination_is_kept_byte_for_byte(emulator: InProcess) -> None:
    for target in (
        "https://api.test",
        "https://api.test/",
        "http://api.test:8080//a/../b%2Fc?x=1&y=%20",
        "HTTPS://API.test/Path",
        "http://[::1]:9/x?u=https://other.test/?a=b",
        "https://api.test/a%0Ab%00%FF/%E2%80%A8",
    ):
        message_id = await emulator.publish(target, {"Svc-Delay": "1h"})
        assert (await emulator.get(f"/v2/messages/{message_id}")).json["url"] == target, target


@with_emulator()
async def test_query_options_are_not_the_destinations(emulator: InProcess) -> None:
    message_id = await emulator.publish(f"{URL}?a=1&svc-delay=1h&Svc-Retries=0&b=2")
    record = (await emulator.get(f"/v2/messages/{message_id}")).json
    assert record["url"] == f"{URL}?a=1&b=2"
    assert (record["maxRetries"], record["notBefore"]) == (0, EPOCH_MS + 3_600_000)


@with_emulator()
async def test_a_group_gets_one_message_for_each_endpoint_in_order(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_duplicate_is_202_with_the_first_id_until_ten_minutes_have_passed(emulator: InProcess) -> None:
    first = await emulator.publish(URL, {"Svc-Deduplication-Id": "d"})
    again = await emulator.post(f"/v2/publish/{URL}", {"Svc-Deduplication-Id": "d"})
    assert (again.status, again.json) == (202, {"messageId": first, "deduplicated": True})
    assert len(await emulator.deliveries()) == 1
    await emulator.advance("10m")
    assert await emulator.publish(URL, {"Svc-Deduplication-Id": "d"}) != first


@with_emulator()
async def test_a_group_is_deduplicated_endpoint_by_endpoint(emulator: InProcess) -> None:
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://one.test"}]})
    once = {"Svc-Deduplication-Id": "d"}
    (first,) = (await emulator.post("/v2/publish/g", once)).json
    await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": "https://two.test"}]})
    answer = await emulator.post("/v2/publish/g", once)
    assert answer.status == 200
    assert [item.get("deduplicated", False) for item in answer.json] == [True, False]
    assert answer.json[0]["messageId"] == first["messageId"]
    assert (await emulator.post("/v2/publish/g", once)).status == 202


# -- what a queue ignores ----------------------------------------------------------------------


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
@with_emulator()
async def test_what_a_queue_ignores_is_logged(
    emulator: InProcess, path: str, headers: dict[str, str], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """D-021."""
    await emulator.post(f"/v2/{path}/{URL}", headers=headers)
    assert len(await emulator.deliveries()) == 1
    assert f"{logged} not applied to a queued message (to {URL})" in caplog.text


@with_emulator()
async def test_what_a_queue_ignores_in_a_batch_is_logged_for_each_item(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-021."""
    delayed = {"destination": URL, "headers": {"Svc-Delay": "1h"}}
    batch = [delayed, {**delayed, "queue": "q"}, {"destination": URL, "queue": "q"}, {"destination": "x y"}]
    await emulator.post("/v2/batch", (), batch)
    assert len(await emulator.deliveries()) == 2
    assert [message for message in caplog.messages if "queued" in message] == [
        f"Svc-Delay is not applied to a queued message (to {URL})"
    ]


# -- options beside a batch --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "headers", "field"),
    [("/v2/batch", {"svc-cron": "* * * * *"}, "Svc-Cron"), ("/v2/batch?Svc-Cron=*+*+*+*+*", {}, "svc-cron")],
)
@with_emulator()
async def test_a_cron_expression_beside_a_batch_is_refused(
    emulator: InProcess, target: str, headers: dict[str, str], field: str
) -> None:
    """D-074."""
    answer = await emulator.post(target, headers, [{"destination": URL}])
    assert (answer.status, answer.json["field"]) == (400, field)
    assert answer.json["error"] == f"{field}: expected only when a schedule is created"
    assert await emulator.deliveries() == []


@with_emulator()
async def test_options_beside_a_batch_are_ignored_and_logged(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-074."""
    headers = {"Svc-Delay": "1h", "Svc-Forward-A": "b", "Svc-Retries": "", "Svc-Telemetry-Sdk": "x", "X-Own": "1"}
    await emulator.post("/v2/batch?svc-label=a", headers, [{"destination": URL}])
    (delivery,) = await emulator.deliveries()
    assert "A" not in delivery["headers"]
    assert [message for message in caplog.messages if "ignored" in message] == [
        "Svc-Delay, Svc-Forward-A, svc-label are ignored: expected in the headers of the items (POST /v2/batch)"
    ]


# -- batch ------------------------------------------------------------------------------------


@with_emulator()
async def test_a_batch_answers_every_item_in_its_place(emulator: InProcess) -> None:
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


# -- the daily quota --------------------------------------------------------------------------

Call = Callable[[InProcess], Awaitable[Answer]]
BATCH = [{"destination": "https://x.test/"}, {"destination": "https://y.test/"}]
LATER = {"Svc-Delay": "1h"}


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        pytest.param(lambda emulator: emulator.post("/v2/publish/https://x.test/", LATER), 1, id="publish"),
        pytest.param(lambda emulator: emulator.post("/v2/enqueue/q/https://x.test/"), 1, id="enqueue"),
        pytest.param(lambda emulator: emulator.post("/v2/batch", body=BATCH), 2, id="batch"),
    ],
)
@on_loop
async def test_calls_at_the_same_time_each_tell_what_was_left_of_the_day_after_them(
    call: Call, cost: int, tmp_path: Path
) -> None:
    """D-028."""
    # A file database, so that each call waits for its commit while the others are carried out.
    async with in_process(db=str(tmp_path / "world.db")) as emulator:
        answers = await asyncio.gather(*(call(emulator) for _ in range(3)))
        limits = {int(answer.headers["ratelimit-limit"]) for answer in answers}
        remaining = [int(answer.headers["ratelimit-remaining"]) for answer in answers]
        (limit,) = limits
        assert remaining == [limit - cost, limit - 2 * cost, limit - 3 * cost]
        assert {answer.headers["ratelimit-reset"] for answer in answers} == {"1767312000"}
