"""The record of a message, how long it is readable, and cancelling."""

from __future__ import annotations

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

URL = "https://api.test/hook"


@with_emulator()
async def test_a_message_record_has_the_fields_that_apply_and_no_null(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_message_is_readable_for_60_virtual_seconds_after_its_end(emulator: InProcess) -> None:
    """D-009."""
    message_id = await emulator.publish(URL, (), "x")
    record = (await emulator.get(f"/v2/messages/{message_id}")).json
    assert record["body"] == "x"
    await emulator.advance(59_999)
    assert (await emulator.get(f"/v2/messages/{message_id}")).json == record
    await emulator.advance(1)
    answer = await emulator.get(f"/v2/messages/{message_id}")
    assert (answer.status, answer.json) == (404, {"error": f"message {message_id} not found"})


@with_emulator()
async def test_a_finished_message_cannot_be_cancelled(emulator: InProcess) -> None:
    """D-009."""
    message_id = await emulator.publish(URL)
    answer = await emulator.delete(f"/v2/messages/{message_id}")
    assert (answer.status, answer.json) == (404, {"error": f"message {message_id} not found"})


# -- bulk cancel ------------------------------------------------------------------------------


@with_emulator()
async def test_cancelling_counts_each_message_once(emulator: InProcess) -> None:
    """D-062."""
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
@with_emulator()
async def test_filters_of_bulk_cancel(emulator: InProcess, query: str, cancelled: int) -> None:
    for url, label in (("a.test/1", "red"), ("a.test/2", "blue"), ("b.test/1", "red"), ("c.test/3", "green")):
        await emulator.publish(f"https://{url}", {"Svc-Delay": "1h", "Svc-Label": label})
    assert (await emulator.delete(f"/v2/messages{query}")).json == {"cancelled": cancelled}
