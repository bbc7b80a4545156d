"""Moving the clock by a call, and going away meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, http_scope, in_process
from tests.harness.loops import on_loop

URL = "https://api.test/hook"
CENTURY = 36_500 * 86_400_000


async def given_up(emulator: InProcess, path: str, body: dict[str, str]) -> Any:
    """The answer, which nobody reads, to a move whose client goes away as soon as the clock has moved."""
    incoming: list[Any] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        while (await emulator.control("GET", "/clock")).json["now_ms"] == EPOCH_MS:
            pass
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = http_scope("POST", f"/_emulator/clock/{path}".encode(), [("Host", "127.0.0.1:8080")], "127.0.0.1")
    await emulator.emulation.app(scope, receive, send)
    return json.loads(b"".join(each.get("body", b"") for each in sent))


@pytest.mark.parametrize("path", ["advance", "drain"])
@on_loop
async def test_a_move_ends_with_its_client_where_it_has_come_to(path: str) -> None:
    """D-323."""
    async with in_process() as emulator:
        await emulator.rule(URL, respond={"status": 500})
        await emulator.post(
            f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Retries": "20", "Svc-Retry-Delay": "86400000"}
        )

        body = {"by": "36500d"} if path == "advance" else {"horizon": "36500d"}
        await emulator.publish(URL, {"Svc-Retries": "20", "Svc-Retry-Delay": "86400000"})
        answer = await given_up(emulator, path, body)

        clock = (await emulator.control("GET", "/clock")).json
        assert EPOCH_MS < clock["now_ms"] < EPOCH_MS + CENTURY
        assert answer == {"error": f"the move was given up, the clock stands at {clock['now']}"}
        told = await emulator.control("GET", "/stream?follow=false")
        assert f'"now_ms":{clock["now_ms"]}' in told.body.decode()
        further = await emulator.control("POST", "/clock/advance", {"by": "1m"})
        assert further.json["to_ms"] == clock["now_ms"] + 60_000
