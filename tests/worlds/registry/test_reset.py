"""Worlds over a reset, and over a restore where it is the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from emulator.core.errors import Conflict
from emulator.engine.clock import wall_ms
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.snapshots import restore, save
from tests.worlds.registry.callers import (
    DAY,
    HASTY,
    HOOK,
    HOUR,
    MINUTE,
    SECOND,
    Caller,
    Gate,
    by,
    create,
    receiver,
)


async def renew(emulator: InProcess, how: str) -> None:
    if how == "reset":
        await emulator.world.reset()
    else:
        await restore(emulator)


@pytest.mark.parametrize("how", ["reset", "restore"])
@on_loop
async def test_what_is_under_way_is_forgotten(how: str) -> None:
    gate = Gate()

    async with in_process(limits=HASTY) as emulator, receiver(gate) as url:
        await save(emulator)
        await emulator.publish(f"{url}/slow")
        await emulator.publish(f"{url}/waits")
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await gate.entered.wait()

        await renew(emulator, how)
        gate.opened.set()
        await emulator.advance("1d")

        status = await emulator.world.clock.status()
        assert (status.pending, status.in_flight) == (0, 0)
        assert await emulator.deliveries() == []


@pytest.mark.parametrize("how", ["reset", "restore"])
@with_emulator()
async def test_publishing_meanwhile_is_accepted_whole_or_refused(emulator: InProcess, how: str) -> None:
    await save(emulator)

    async def publish() -> int:
        return (await emulator.post(f"/v2/publish/{HOOK}")).status

    statuses, *_ = await asyncio.gather(
        asyncio.gather(*(publish() for _ in range(20))), renew(emulator, how), renew(emulator, how)
    )

    assert set(statuses) <= {200, 409}
    await renew(emulator, how)
    await emulator.publish(HOOK)
    assert len(await emulator.deliveries()) == 1


@on_loop
async def test_reset_during_an_advance_ends_it_and_leaves_the_clock_at_its_beginning() -> None:
    gate = Gate()

    async with in_process() as emulator, receiver(gate) as url:
        await emulator.publish(f"{url}/slow", {"Svc-Delay": "1h"})
        advance = asyncio.get_running_loop().create_task(emulator.world.clock.advance(by(DAY)))
        await gate.entered.wait()

        await emulator.world.reset()
        gate.opened.set()
        with pytest.raises(Conflict):
            await advance

        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
        assert emulator.world.pace.anchor.virtual_ms == EPOCH_MS
        await emulator.publish(HOOK)
        assert len(await emulator.deliveries()) == 1


@with_emulator()
async def test_reset_of_a_world_without_a_given_epoch_takes_a_new_one(emulator: InProcess) -> None:
    """D-261: a real-time world stands at the wall clock again, and its ids are other ones."""
    fixtures = {"schedules": [{"cron": "* * * * *", "destination": HOOK}]}
    long_ago = wall_ms() - 5 * HOUR - 30 * SECOND
    wanted = {"epoch_ms": long_ago, "epoch_is_given": False, "rate": 1.0, "fixtures": fixtures}
    caller = Caller(emulator, await create(emulator.emulation.worlds, "old", **wanted))
    credentials, first = caller.world.credentials(), await caller.publish()

    for body in ({}, {"fixtures": fixtures}):
        before_ms = wall_ms()
        reset = await caller.control("POST", "/reset", body)
        assert before_ms <= caller.world.setup.epoch_ms <= reset["clock"]["now_ms"] <= wall_ms()
        assert reset["clock"]["next_due_ms"] - caller.world.setup.epoch_ms <= MINUTE
        assert caller.world.credentials() == credentials
        assert await caller.publish() != first


def test_new_epoch_of_a_reset_outlives_a_restart(tmp_path: Path) -> None:
    """D-261."""
    db, ids = str(tmp_path / "w.db"), []

    @on_loop
    async def life() -> None:
        async with in_process(db=db, epoch="", clock="realtime") as emulator:
            assert abs((await emulator.world.clock.status()).now_ms - wall_ms()) < SECOND
            assert emulator.world.pace.anchor.virtual_ms == emulator.world.pace.anchor.wall_ms
            await emulator.world.reset()
            ids.append(await emulator.publish(HOOK))
            anchor = emulator.world.pace.anchor
            assert anchor.virtual_ms == anchor.wall_ms == emulator.world.setup.epoch_ms

    life()
    life()
    assert ids[0] != ids[1]


@with_emulator()
async def test_reset_of_a_world_with_a_given_epoch_returns_to_it(emulator: InProcess) -> None:
    """D-261."""
    ids = []
    for _ in range(2):
        ids.append(await emulator.publish(HOOK))
        await emulator.advance("1h")
        await emulator.world.reset()
        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
    assert ids[0] == ids[1]


@pytest.mark.parametrize("turns", range(12))
@with_emulator()
async def test_reset_whose_caller_goes_away_is_finished(emulator: InProcess, turns: int) -> None:
    """Half of one would leave the world standing still for good."""
    await emulator.publish("https://app.example.com")
    asking = asyncio.create_task(emulator.world.reset())
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait((asking,))
    # The next one has its turn after it.
    await emulator.world.reset()
    await emulator.publish("https://app.example.com")
    assert len(await emulator.deliveries()) == 1
