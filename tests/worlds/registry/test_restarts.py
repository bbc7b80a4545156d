"""Worlds over a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.errors import Conflict
from emulator.engine.clock import Anchor, wall_ms
from emulator.queries.reports import ClockChange
from emulator.server import bootstrap
from emulator.server.settings import Settings
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import DEFAULT
from tests.harness.emulators import EPOCH, EPOCH_MS, InProcess, in_process
from tests.harness.loops import PATIENCE_S, cancelled, on_loop, spawn, turns
from tests.worlds.registry.callers import FAST, HASTY, HOOK, HOUR, MINUTE, Caller, Gate, by, create, delivered, receiver


async def run_and_leave(db: str, **settings: Any) -> None:
    async with in_process(db=db, **settings) as emulator:
        worlds = emulator.emulation.worlds
        for world_id in ("kept", "dropped"):
            caller = Caller(emulator, await create(worlds, world_id))
            await caller.publish(headers={"Svc-Delay": "1h"})
            await caller.publish()
        await emulator.publish(HOOK, {"Svc-Delay": "2h"})
        await emulator.advance("30m")
        await worlds.delete("dropped")


@on_loop
async def test_worlds_come_back_after_a_restart_and_deleted_ones_do_not(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    await run_and_leave(db)

    async with in_process(db=db) as emulator:
        worlds = emulator.emulation.worlds
        assert {world.id for world in worlds.all()} == {DEFAULT, "kept"}
        kept = Caller(emulator, worlds.get("kept"))
        found = worlds.by_token(kept.world.account().token)
        assert found is not None
        assert found.world is kept.world
        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS + 30 * MINUTE
        assert (await kept.world.clock.status()).now_ms == EPOCH_MS
        assert len(await kept.deliveries()) == 1

        await kept.world.clock.advance(by(HOUR))
        await emulator.advance("90m")

        assert len(await kept.deliveries()) == 2
        assert [each["at_ms"] for each in await emulator.deliveries()] == [EPOCH_MS + 2 * HOUR]
        assert sorted(path.name for path in (tmp_path / "w.db-worlds").glob("*.db")) == ["kept.db"]


@on_loop
async def test_attempt_under_way_at_a_restart_is_made_again(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    gate = Gate()

    async with receiver(gate) as url:
        emulation = await bootstrap.start(Settings(clock="frozen", epoch=EPOCH, db=db), limits=HASTY)
        emulator = InProcess(emulation)
        await emulator.publish(f"{url}/slow")
        await gate.entered.wait()
        await emulator.world.driver.close(grace_s=0)
        await emulation.close()
        gate.opened.set()
        async with in_process(db=db) as again:
            assert len(await delivered(again, 1)) == 1
            assert (await again.world.clock.status()).pending == 0
    assert gate.paths == ["/slow", "/slow"]


def test_running_world_delivers_at_once_what_came_due_while_it_was_down(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")

    @on_loop
    async def leave() -> None:
        async with in_process(db=db, clock="realtime", epoch="") as emulator:
            await emulator.publish(HOOK, {"Svc-Delay": "1h"})
            # The same as an hour without the server: the correspondence of the clocks is an hour older.
            anchor = emulator.world.pace.anchor
            emulator.world.pace.anchor = Anchor(
                virtual_ms=anchor.virtual_ms, wall_ms=anchor.wall_ms - HOUR - MINUTE, rate=anchor.rate
            )
            await emulator.world._clock_was_moved()
            # Not seen by the clock before the end.
            emulator.world.pace.anchor = anchor

    @on_loop
    async def come_back() -> None:
        async with in_process(db=db, clock="realtime", epoch="") as emulator:
            (only,) = await delivered(emulator, 1)
            status = await emulator.world.clock.status()
            # At the instant at which it was due, and once.
            assert status.now_ms - only["at_ms"] >= MINUTE
            assert status.pending == 0
            assert status.now_ms - wall_ms() < HOUR + 2 * MINUTE

    leave()
    come_back()


@on_loop
async def test_overdue_message_of_a_restarted_running_world_is_sent_once(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    gate = Gate()
    gate.opened.set()

    async with receiver(gate) as url:
        async with in_process(db=db) as emulator:
            for number in range(5):
                await emulator.publish(f"{url}/{number}", {"Svc-Delay": "1s"})
        async with in_process(db=db, clock=str(FAST)) as again:
            await delivered(again, 5)
            await again.world.driver.settle()
    assert sorted(gate.paths) == ["/0", "/1", "/2", "/3", "/4"]


@pytest.mark.parametrize(
    ("made_with", "changed_to", "restarted_with", "expected"),
    [
        pytest.param("frozen", None, "frozen", 0, id="same setting"),
        pytest.param("frozen", 60, "frozen", 60, id="same setting, changed meanwhile"),
        pytest.param("frozen", None, "60", 60, id="another setting"),
        pytest.param("frozen", 7, "60", 60, id="another setting, changed meanwhile"),
        pytest.param("60", 0, "60", 0, id="frozen meanwhile"),
        pytest.param("60", None, "frozen", 0, id="frozen by the setting"),
    ],
)
@on_loop
async def test_pace_after_a_restart(
    tmp_path: Path, made_with: str, changed_to: float | None, restarted_with: str, expected: float
) -> None:
    db = str(tmp_path / "w.db")

    async with in_process(db=db, clock=made_with) as emulator:
        if changed_to is not None:
            await emulator.world.clock.set(ClockChange(rate=changed_to, now_ms=None))
        await create(emulator.emulation.worlds, "other", rate=5.0)
        before_ms = (await emulator.world.clock.status()).now_ms
    # Twice: what the setting decided is what the next start finds.
    for _ in range(2):
        async with in_process(db=db, clock=restarted_with) as again:
            assert again.world.clock.rate == expected
            assert (await again.world.clock.status()).now_ms >= before_ms
            # The setting is about the default world.
            assert again.emulation.worlds.get("other").clock.rate == 5.0


@on_loop
async def test_names_of_devices_are_refused_for_files(tmp_path: Path) -> None:
    """D-305."""
    async with in_process(db=str(tmp_path / "state.db")) as kept, in_process() as in_memory:
        for name in ("con", "NUL", "Aux.old", "com1", "lpt9", "team."):
            refused = await kept.control("POST", "/worlds", {"id": name})
            assert (refused.status, refused.json["field"]) == (400, "id"), name
            assert (await in_memory.control("POST", "/worlds", {"id": name})).status == 201
            for emulator in (kept, in_memory):
                refused = await emulator.control("POST", "/snapshots", {"name": name})
                assert (refused.status, refused.json["field"]) == (400, "name"), name
        for name in ("console", "com10", "a.con", "team.1"):
            assert (await kept.control("POST", "/worlds", {"id": name})).status == 201


@on_loop
async def test_worlds_that_are_kept_differ_in_more_than_the_case_of_their_ids(tmp_path: Path) -> None:
    """On macOS and Windows they would share a file (D-296)."""
    async with in_process(db=str(tmp_path / "state.db")) as kept, in_process() as in_memory:
        worlds = kept.emulation.worlds
        await create(worlds, "Team-a")
        with pytest.raises(Conflict, match="world Team-a exists already, and some file systems"):
            await create(worlds, "team-A")
        with pytest.raises(Conflict, match="world default exists already, and some file systems"):
            await create(worlds, "DEFAULT")
        await worlds.delete("Team-a")
        await create(worlds, "team-A")
        await create(in_memory.emulation.worlds, "Team-a")
        await create(in_memory.emulation.worlds, "team-A")


CHANGES: dict[str, Callable[[Worlds], Awaitable[object]]] = {
    "create": lambda worlds: create(worlds, "other"),
    "fork": lambda worlds: worlds.fork(worlds.get("busy"), replace(worlds.new_setup(), id="other")),
    "delete": lambda worlds: worlds.delete("busy"),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("change", CHANGES)
@on_loop
async def test_a_change_of_worlds_that_is_cut_off_is_over_when_the_server_is(
    tmp_path: Path, change: str, is_kept: bool
) -> None:
    """D-566: what is half open keeps its thread, and so the process."""
    gate = Gate()
    async with receiver(gate) as url:
        for count in (2, 20):
            settings = {"db": str(tmp_path / f"{count}.db")} if is_kept else {}
            async with in_process(limits=HASTY, **settings) as emulator:
                worlds = emulator.emulation.worlds
                # With a delivery under way, whose end the removal of a world waits for.
                origin = Caller(emulator, await create(worlds, "origin"))
                await origin.publish(f"{url}/slow")
                await worlds.fork(origin.world, replace(worlds.new_setup(), id="busy"))
                running = spawn(_awaited(CHANGES[change](worlds)))
                await turns(count)
                await cancelled(running) if not running.done() else running.result()
            for thread in [each for each in threading.enumerate() if "connection_worker" in each.name]:
                # One that has closed its connection may need a moment.
                thread.join(PATIENCE_S)
                assert not thread.is_alive()
            assert [each for each in asyncio.all_tasks() if "converse" not in str(each)] == [asyncio.current_task()]
            if is_kept:
                async with in_process(limits=HASTY, **settings) as emulator:
                    there = {world.id for world in emulator.emulation.worlds.all()} - {DEFAULT, "origin"}
                    assert there in ([{"busy"}, set()] if change == "delete" else [{"busy"}, {"busy", "other"}])
                    assert not emulator.emulation.worlds.unusable
        gate.opened.set()


async def _awaited(change: Awaitable[object]) -> None:
    await change
