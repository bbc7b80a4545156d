"""Worlds side by side share nothing but the process."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop
from tests.worlds.registry.callers import DAY, FAST, HASTY, HOOK, HOUR, Caller, by, create, delivered, receiver


@on_loop
async def test_worlds_have_clocks_of_their_own() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        early, late = await create(worlds, "early"), await create(worlds, "late", epoch_ms=EPOCH_MS + DAY)
        for world in (early, late):
            await Caller(emulator, world).publish(headers={"Svc-Delay": "1h"})

        await early.clock.advance(by(2 * HOUR))

        assert (await early.clock.status()).now_ms == EPOCH_MS + 2 * HOUR
        assert (await late.clock.status()).now_ms == EPOCH_MS + DAY
        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
        assert len(await Caller(emulator, early).deliveries()) == 1
        assert await Caller(emulator, late).deliveries() == []


@on_loop
async def test_running_and_frozen_worlds_live_together() -> None:
    async with in_process() as emulator:
        fast = await create(emulator.emulation.worlds, "fast", rate=FAST)
        await emulator.publish(HOOK, {"Svc-Delay": "10s"})
        await Caller(emulator, fast).publish(headers={"Svc-Delay": "10s"})

        await delivered(emulator, 1, fast)

        assert await emulator.deliveries() == []


@on_loop
async def test_new_world_is_frozen_and_named_unless_it_asks_otherwise() -> None:
    async with in_process(clock="realtime") as emulator:
        worlds = emulator.emulation.worlds

        first, second = await create(worlds), await create(worlds)

        assert first.clock.rate == 0
        assert first.id != second.id
        assert len(worlds) == 3


@pytest.mark.slow
@on_loop
async def test_slow_receiver_of_one_world_does_not_hold_up_another() -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    async def handle(path: str, _: bytes) -> int:
        if path == "/slow":
            entered.set()
            await opened.wait()
        return 200

    async with in_process(limits=HASTY) as emulator, receiver(handle) as url:
        other = Caller(emulator, await create(emulator.emulation.worlds, "other"))
        await emulator.publish(f"{url}/slow")
        await entered.wait()

        await other.publish(f"{url}/quick")
        assert len(await delivered(emulator, 1, other.world)) == 1
        assert await emulator.deliveries() == []

        opened.set()
        await emulator.world.driver.settle()
        assert len(await emulator.deliveries()) == 1
