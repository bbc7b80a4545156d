"""Worlds side by side: traces."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys

import pytest

from emulator.engine.limits import Limits
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.worlds.registry.callers import DAY, FAST, HASTY, HOOK, HOUR, Caller, by, create, delivered, receiver

# -- the same seed, epoch and calls give the same trace --------------------------------------------


async def some_work(caller: Caller, url: str) -> None:
    await caller.publish(f"{url}/first", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    await caller.schedule("*/10 * * * *", f"{url}/cron")
    await caller.publish(HOOK, {"Svc-Delay": "90s", "Svc-Callback": f"{url}/callback", "Svc-Label": "x"})
    await caller.call("POST", f"/v2/enqueue/q/{url}/queued")
    await caller.control("POST", "/clock/advance", {"by": "1h"})


async def traces_of_two_worlds() -> list[bytes]:
    """What two worlds of the same seed made of the same calls; their receiver publishes from inside."""
    callers: dict[str, Caller] = {}

    async def handle(path: str, body: bytes) -> int:
        world_id, name = path.removeprefix("/").split("/")
        if name in ("first", "cron"):
            await callers[world_id].publish(f"{url}/{world_id}/from-inside", {"Svc-Delay": "7s"})
            await callers[world_id].publish(f"{url}/{world_id}/at-once")
        return 500 if name == "first" else 200

    found = []
    # On a busy machine a delivery may take longer than a call usually waits, and the next call would overtake it.
    async with in_process(limits=Limits(settle_s=60)) as emulator, receiver(handle) as url:
        for world_id in ("one", "a-quite-different-name"):
            # The worlds' names are in no path that the trace shows.
            callers["w"] = Caller(emulator, await create(emulator.emulation.worlds, world_id, seed=7))
            await some_work(callers["w"], f"{url}/w")
            found.append(await callers["w"].trace())
    return found


@pytest.mark.slow
def test_same_seed_and_calls_give_the_same_trace_in_two_worlds() -> None:
    """And in two processes."""
    one, other = asyncio.run(traces_of_two_worlds())
    program = (
        "import asyncio, sys; from tests.worlds.registry.test_traces import traces_of_two_worlds;"
        "sys.stdout.buffer.write(asyncio.run(traces_of_two_worlds())[0])"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu"},
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout

    assert one == other == elsewhere
    assert one.count(b'"kind":"attempt"') > 20
    *lines, last = one.splitlines(keepends=True)
    assert json.loads(last) == {"sha256": hashlib.sha256(b"".join(lines)).hexdigest()}


@with_emulator()
async def test_only_the_same_seed_and_the_same_epoch_give_the_same_ids(emulator: InProcess) -> None:
    """D-060, D-260."""
    worlds = emulator.emulation.worlds
    ids: list[list[str]] = []
    keys: list[str] = []
    for epoch_ms, seed in ((EPOCH_MS, 7), (EPOCH_MS, 7), (EPOCH_MS + 1, 7), (EPOCH_MS, 8)):
        caller = Caller(emulator, await create(worlds, epoch_ms=epoch_ms, seed=seed))
        scheduled = await caller.call("POST", f"/v2/schedules/{HOOK}", {"Svc-Cron": "* * * * *"})
        ids.append([await caller.publish(), scheduled.json["scheduleId"]])
        rotated = await caller.call("POST", "/v2/keys/rotate")
        keys.append(rotated.json["next"])
    assert ids[0] == ids[1]
    assert len({text for pair in ids for text in pair}) == 6
    assert keys[0] == keys[1] == keys[2] != keys[3]


@with_emulator()
async def test_reset_world_does_the_same_again(emulator: InProcess) -> None:
    caller = Caller(emulator, emulator.world)
    await some_work(caller, "https://api.example.com")
    first = await caller.trace()

    await emulator.world.reset()
    assert (await caller.trace()).count(b"\n") == 1
    await some_work(caller, "https://api.example.com")

    assert await caller.trace() == first


# -- worlds side by side share nothing but the process ---------------------------------------------


@with_emulator()
async def test_worlds_have_clocks_of_their_own(emulator: InProcess) -> None:
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


@with_emulator()
async def test_running_and_frozen_worlds_live_together(emulator: InProcess) -> None:
    fast = await create(emulator.emulation.worlds, "fast", rate=FAST)
    await emulator.publish(HOOK, {"Svc-Delay": "10s"})
    await Caller(emulator, fast).publish(headers={"Svc-Delay": "10s"})

    await delivered(emulator, 1, fast)

    assert await emulator.deliveries() == []


@with_emulator(clock="realtime")
async def test_new_world_is_frozen_and_named_unless_it_asks_otherwise(emulator: InProcess) -> None:
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
