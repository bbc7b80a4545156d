"""Moving the clock by a call: going away meanwhile, and taking a move back."""

from __future__ import annotations

import json
from pathlib import Path
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


# -- undoable advances -------------------------------------------------------------------------

HOOK = "https://api.example.com/hook"
HOUR = 3_600_000


async def now(emulator: InProcess) -> int:
    return int((await emulator.control("GET", "/clock")).json["now_ms"]) - EPOCH_MS


@pytest.mark.parametrize("keeps", [False, True])
@on_loop
async def test_undoable_advances_are_taken_back_one_after_the_other(keeps: bool, tmp_path: Path) -> None:
    """D-435: with all that has happened since, and from there on all comes again as it was."""
    async with in_process(db=str(tmp_path / "state.db") if keeps else ":memory:") as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await emulator.publish(HOOK, {"Svc-Delay": "3h"})
        for undoable in (True, False, True):
            moved = await emulator.control("POST", "/clock/advance", {"by": "2h", "undoable": undoable})
            assert moved.status == 200, moved.body
        await emulator.publish(HOOK)
        trace = (await emulator.control("GET", "/trace")).body

        undone = await emulator.control("POST", "/clock/undo")
        assert (undone.status, undone.json["clock"]["now_ms"]) == (200, EPOCH_MS + 4 * HOUR)
        assert len(await emulator.deliveries()) == 2
        await emulator.control("POST", "/clock/undo")
        assert (await now(emulator), await emulator.deliveries()) == (0, [])
        assert (await emulator.control("POST", "/clock/undo")).status == 409

        await emulator.advance("6h")
        await emulator.publish(HOOK)
        assert (await emulator.control("GET", "/trace")).body == trace


@on_loop
async def test_jumps_and_drains_are_taken_back_like_advances() -> None:
    """D-435."""
    async with in_process() as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await emulator.publish(HOOK, {"Svc-Delay": "3h"})
        for move, after in (("next", HOUR), ("drain", 3 * HOUR)):
            assert (await emulator.control("POST", f"/clock/{move}", {"undoable": True})).status == 200
            assert await now(emulator) == after
        for before in (HOUR, 0):
            assert (await emulator.control("POST", "/clock/undo")).status == 200
            assert await now(emulator) == before
        assert await emulator.deliveries() == []


@on_loop
async def test_an_advance_that_was_refused_and_those_before_a_reset_are_not_taken_back() -> None:
    async with in_process() as emulator:
        for wrong in ({"by": "soon"}, {"by": "1h", "undoable": 1}, {"by": "1h", "undoable": None}):
            refused = await emulator.control("POST", "/clock/advance", {"undoable": True, **wrong})
            assert refused.status == 400
        refused = await emulator.control("POST", "/clock/advance", {"by": "9000000d", "undoable": True})
        assert (refused.status, refused.json["field"]) == (400, "by")
        refused = await emulator.control("POST", "/clock/advance", {"to": "2025-01-01", "undoable": True})
        assert refused.status == 409
        assert (await emulator.control("POST", "/clock/undo")).status == 409

        for path in ("/reset", "/snapshots/first/restore"):
            await emulator.control("POST", "/snapshots", {"name": "first"})
            await emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
            assert (await emulator.control("POST", path)).status == 200
            undone = await emulator.control("POST", "/clock/undo")
            assert (undone.status, await now(emulator)) == (409, 0)
