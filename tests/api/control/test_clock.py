"""Advances that can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

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
async def test_an_advance_that_was_refused_and_those_before_a_reset_are_not_taken_back() -> None:
    async with in_process() as emulator:
        for wrong in ({"by": "soon"}, {"by": "1h", "undoable": 1}, {"by": "1h", "undoable": None}):
            refused = await emulator.control("POST", "/clock/advance", {"undoable": True, **wrong})
            assert refused.status == 400
        refused = await emulator.control("POST", "/clock/advance", {"by": "9000000d", "undoable": True})
        assert (refused.status, refused.json["field"]) == (400, "by")
        assert (await emulator.control("POST", "/clock/undo")).status == 409

        for path in ("/reset", "/snapshots/first/restore"):
            await emulator.control("POST", "/snapshots", {"name": "first"})
            await emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
            assert (await emulator.control("POST", path)).status == 200
            undone = await emulator.control("POST", "/clock/undo")
            assert (undone.status, await now(emulator)) == (409, 0)
