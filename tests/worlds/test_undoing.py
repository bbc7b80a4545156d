"""What the world was before each undoable advance: the latest are kept."""

from __future__ import annotations

from emulator.worlds.undoing import MOST
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop


@on_loop
async def test_the_latest_advances_can_be_taken_back_and_no_more() -> None:
    async with in_process() as emulator:
        for _ in range(MOST + 2):
            await emulator.control("POST", "/clock/advance", {"by": 1, "undoable": True})
        undone = 0
        while (await emulator.control("POST", "/clock/undo")).status == 200:
            undone += 1
        assert undone == MOST
