"""Killed at any step, a change of whole worlds was done or was not; nothing half made is left after the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.emulators import Answer, InProcess, in_process
from tests.harness.loops import on_loop
from tests.harness.snapshots import HOOK
from tests.harness.stores import copied_at_every_step

pytestmark = pytest.mark.slow


async def of_world(emulator: InProcess, world: str) -> tuple[object, ...]:
    """What makes a world: its clock, its messages and its snapshots."""
    clock = (await emulator.control("GET", f"/clock?world={world}")).json
    messages = (await emulator.control("GET", f"/messages?world={world}")).json["messages"]
    snapshots = (await emulator.control("GET", f"/snapshots?world={world}")).json["snapshots"]
    return clock["now_ms"], tuple(each["message_id"] for each in messages), tuple(each["name"] for each in snapshots)


async def everything(emulator: InProcess) -> dict[str, tuple[object, ...]]:
    listed = (await emulator.control("GET", "/worlds")).json
    assert listed.get("unusable", []) == []
    return {each["id"]: await of_world(emulator, each["id"]) for each in listed["worlds"]}


async def _make(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/worlds", {"id": "new"})


async def _fork(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/worlds/default/fork", {"id": "forked"})


async def _delete(emulator: InProcess) -> Answer:
    return await emulator.control("DELETE", "/worlds/other")


async def _save(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/snapshots", {"name": "second"})


async def _restore(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/snapshots/first/restore")


async def _import(emulator: InProcess) -> Answer:
    content = await emulator.control("GET", "/snapshots/first/file?world=other")
    return await emulator.control("PUT", "/snapshots/given/file", content.body)


async def _advance(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/clock/advance", {"by": "0s", "undoable": True})


async def _undo(emulator: InProcess) -> Answer:
    return await emulator.control("POST", "/clock/undo")


@pytest.mark.parametrize(
    "change",
    [_make, _fork, _delete, _save, _restore, _import, _advance, _undo],
    ids=lambda each: each.__name__,
)
@on_loop
async def test_killed_at_any_step_a_change_of_worlds_was_done_or_was_not(change: Any, tmp_path: Path) -> None:
    """D-550."""
    (tmp_path / "live").mkdir()
    async with in_process(db=str(tmp_path / "live" / "w.db")) as emulator:
        assert (await emulator.control("POST", "/worlds", {"id": "other"})).status == 201
        for world in ("default", "other"):
            await emulator.control("POST", f"/snapshots?world={world}", {"name": "first"})
        for number in range(5):
            await emulator.publish(HOOK, {"Svc-Delay": f"{number}m"})
        await emulator.control("POST", "/clock/advance", {"by": "2m"})
        if change is _undo:
            await emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
        before = await everything(emulator)
        with copied_at_every_step(tmp_path / "live", tmp_path / "copies") as copies:
            answer = await change(emulator)
        assert answer.status < 300
        after = await everything(emulator)
    assert len(copies) > 1
    for copy in copies:
        async with in_process(db=str(copy / "w.db")) as again:
            found = await everything(again)
        assert found in (before, after)
        assert list(copy.rglob(".*")) == []
        known = {"w.db", "w.db-worlds", "w.db-snapshots"}
        assert {path.name for path in copy.iterdir()} <= known
