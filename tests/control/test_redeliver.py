"""Sending an attempt again by a call: a delivery of its own, which changes nothing of its message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from emulator.engine.limits import Limits
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

URL = "https://api.test/hook"


async def seen(emulator: InProcess) -> list[tuple[int, int | None, int | None]]:
    """Attempt, status and redelivery of each delivery."""
    return [
        (each["attempt"], each["response"] and each["response"]["status"], each.get("redelivery"))
        for each in await emulator.deliveries()
    ]


async def message_of(emulator: InProcess, message_id: str) -> Any:
    return (await emulator.control("GET", f"/messages?id={message_id}")).json["messages"]


async def redelivered(emulator: InProcess, seq: int, query: str = "") -> Any:
    answer = await emulator.control("POST", f"/deliveries/{seq}/redeliver{query}")
    assert answer.status == 200, answer.body
    return answer.json


@with_emulator()
async def test_a_redelivery_is_a_delivery_of_its_own_and_changes_nothing_of_the_message(emulator: InProcess) -> None:
    """D-705: neither of one that retries, nor of a dead letter, nor of one with callbacks that was delivered."""
    await emulator.rule(URL, sequence=[{"status": 500}, {"status": 200}, {"status": 503}, {"status": 204}])
    callbacks = {"Svc-Callback": "https://app.test/back", "Svc-Failure-Callback": "https://app.test/failed"}
    message_id = await emulator.publish(URL, {"Svc-Retries": "1", "Svc-Retry-Delay": "60000", **callbacks}, b"hi")
    retrying = await message_of(emulator, message_id)
    [first, callback] = await emulator.deliveries()
    again = (await redelivered(emulator, first["seq"]))["delivery"]
    assert await message_of(emulator, message_id) == retrying
    await emulator.advance("1h")
    failed = await message_of(emulator, message_id)
    await redelivered(emulator, first["seq"])

    own = ("attempt", "method", "url", "body", "message_id")
    assert {name: again[name] for name in own} == {name: first[name] for name in own}
    assert again["headers"]["Svc-Signature"] != first["headers"]["Svc-Signature"]
    assert [each for each in await seen(emulator) if each[1] != callback["response"]["status"] or each[2]] == [
        (1, 500, None),
        (1, 200, 1),
        (2, 503, None),
        (1, 204, 2),
    ]
    assert (await message_of(emulator, message_id)) == failed
    assert len((await emulator.control("GET", "/dead-letters")).json["dead_letters"]) == 1
    reasons = (await emulator.control("GET", f"/messages/{message_id}/explain")).json["reasons"]
    assert [each["text"] for each in reasons if each["kind"] == "redelivery"] == [
        f"attempt 1 was sent again by a call and was answered {status}, which changes nothing" for status in (200, 204)
    ]


@pytest.mark.parametrize("keeps", [False, True])
@on_loop
async def test_redeliveries_are_part_of_the_trace_and_continue_after_a_restart(keeps: bool, tmp_path: Path) -> None:
    traces = []
    for run in ("first", "second"):
        settings: dict[str, Any] = {"db": str(tmp_path / f"{run}.db")} if keeps else {}
        async with in_process(**settings) as emulator:
            await emulator.publish(URL)
            seq = (await emulator.deliveries())[0]["seq"]
            assert (await redelivered(emulator, seq))["redelivery"] == 1
            traces.append((await emulator.control("GET", "/trace")).body)
        if keeps:
            async with in_process(**settings) as emulator:
                assert (await emulator.control("GET", "/trace")).body == traces[-1]
                assert (await redelivered(emulator, seq))["redelivery"] == 2
    assert traces[0] == traces[1]
    assert b'"redelivery":1' in traces[0]


@with_emulator()
async def test_a_rule_is_asked_anew_and_a_redelivery_counts_as_its_use(emulator: InProcess) -> None:
    """D-706."""
    await emulator.publish(URL)
    seq = (await emulator.deliveries())[0]["seq"]
    await emulator.rule(URL, respond={"status": 418, "latency": "1h"}, times=1)
    found = (await redelivered(emulator, seq))["delivery"]
    assert (found["via"], found["response"]["status"], found["duration_ms"]) == ("rule", 418, 0)
    assert (await redelivered(emulator, seq))["delivery"]["via"] == "capture"
    await emulator.rule(URL, fault="timeout")
    assert (await redelivered(emulator, seq))["delivery"]["error"] == "timeout: no response in time"


@with_emulator()
async def test_what_a_message_redacts_is_hidden_unless_the_originals_are_asked_for(emulator: InProcess) -> None:
    await emulator.publish(URL, {"Svc-Redact-Fields": "body"}, b"secret")
    seq = (await emulator.deliveries())[0]["seq"]
    hidden, shown = [(await redelivered(emulator, seq, query))["delivery"] for query in ("", "?redact=false")]
    assert ("secret" in hidden["body"], shown["body"]) == (False, "secret")


@pytest.mark.parametrize(
    ("seq", "status", "error"),
    [
        pytest.param("99", 404, "delivery 99 not found", id="unknown"),
        pytest.param("0", 404, "delivery 0 not found", id="zero"),
        pytest.param("msg_1", 404, "delivery msg_1 not found", id="no-number"),
    ],
)
@with_emulator()
async def test_a_redelivery_of_nothing_is_refused(emulator: InProcess, seq: str, status: int, error: str) -> None:
    answer = await emulator.control("POST", f"/deliveries/{seq}/redeliver")
    assert (answer.status, answer.json["error"].startswith(error)) == (status, True), answer.body


@with_emulator(limits=Limits(settle_s=0.05))
async def test_a_receiver_that_asks_for_a_redelivery_does_not_wait_for_itself(emulator: InProcess) -> None:
    """D-707: while attempts are in flight the answer may come without the delivery, which comes later."""
    await emulator.publish("https://app.test/other")
    seq = (await emulator.deliveries())[0]["seq"]
    answers: list[Any] = []

    async def app(request: MountedRequest) -> Response:
        answers.append(await redelivered(emulator, seq))
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount("https://inside.test", app)
    async with asyncio.timeout(10):
        await emulator.publish("https://inside.test/hook")
        await emulator.advance(0)
    assert [each["redelivery"] for each in answers] == [1]
    assert [each[2] for each in await seen(emulator)].count(1) == 1
