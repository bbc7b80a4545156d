"""Worlds: made, reset, saved and restored over HTTP, and used through the Python API."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from benchmarks import processes, python_program, servers
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_MESSAGES = 10_000
_WORLDS = 10_000
_REPEATS = 30


def worlds(checkout: Checkout, *, repeats: int = _REPEATS) -> Iterator[Figure]:
    """Making and resetting a world, over HTTP."""
    with servers.emulator(checkout, *servers.FROZEN) as emulator:
        client = emulator.client
        floor_ms = _best_ms(lambda: client.get("/_emulator/health"), repeats)
        made_ms = _best_ms(lambda: client.post("/_emulator/worlds", json={}), repeats)
        reset_ms = _best_ms(lambda: client.post("/_emulator/reset"), repeats)
    yield _beside_floor("new world", made_ms, floor_ms, "a health check", Target(limit=1.2))
    yield _beside_floor("reset", reset_ms, floor_ms, "a health check", Target(limit=1.0))


def many(checkout: Checkout) -> Iterator[Figure]:
    """10,000 worlds in memory, made one after the other over HTTP: what they take, and the end of the server."""
    things = f"{_WORLDS:,} worlds"
    with servers.emulator(checkout, *servers.FROZEN) as emulator:
        idle_mb, began = emulator.resident_mb, time.perf_counter()
        for _ in range(_WORLDS):
            emulator.client.post("/_emulator/worlds", json={}).raise_for_status()
        took_s, resident_mb = time.perf_counter() - began, emulator.resident_mb
        last_ms = _best_ms(lambda: emulator.client.post("/_emulator/worlds", json={}))
        began = time.perf_counter()
        processes.stop(emulator.process)
        stopped_s = time.perf_counter() - began
    seconds, megabytes = Unit.SECONDS, Unit.MEGABYTES
    yield Figure(what=things, value=took_s, unit=seconds, count=_WORLDS, things="worlds", target=Target(limit=60))
    yield Figure(what=f"new world beside {things}", value=last_ms, unit=Unit.MILLISECONDS, target=Target(limit=5))
    yield Figure(
        what=f"resident, {things}",
        value=resident_mb,
        unit=megabytes,
        floor=idle_mb,
        beside="idle",
        target=Target(limit=600),
    )
    yield Figure(what=f"clean stop, {things}", value=stopped_s, unit=seconds, target=Target(limit=10))


def snapshots(checkout: Checkout) -> Iterator[Figure]:
    """Saving and restoring a world of 10,000 delivered messages, in memory and in a file."""
    for in_memory in (True, False):
        with (
            servers.database(in_memory=in_memory) as database,
            servers.emulator(checkout, "--db", database, *servers.FROZEN) as emulator,
        ):
            item: dict[str, object] = {
                "destination": "https://receiver.example.com/hook",
                "body": '{"hello":"world","number":12345}',
            }
            emulator.batch(item, _MESSAGES)
            emulator.advance(0)
            emulator.client.get("/_emulator/deliveries?limit=1").raise_for_status()
            for what, path in (("save", ""), ("restore", "/kept/restore")):
                began = time.perf_counter()
                emulator.client.post(f"/_emulator/snapshots{path}", json={"name": "kept"}).raise_for_status()
                yield Figure(
                    what=f"{what} {_MESSAGES:,} messages, {'in memory' if in_memory else 'file database'}",
                    value=(time.perf_counter() - began) * 1000,
                    unit=Unit.MILLISECONDS,
                )


def python(checkout: Checkout, *, repeats: int = 200) -> Iterator[Figure]:
    """What a test pays: the emulator's start in its process, a world of its own, and a delivery to a mount."""
    # Without its folder on the path: modules here have names that are those of others too.
    command = [sys.executable, "-P", str(Path(python_program.__file__)), str(repeats)]
    done = subprocess.run(
        command, cwd=checkout.path, env=checkout.environment, stdout=subprocess.PIPE, text=True, check=True
    )
    took = json.loads(done.stdout)
    yield Figure(what="Emulator, import", value=took["imported"], unit=Unit.MILLISECONDS)
    yield Figure(what="Emulator, first start", value=took["started"], unit=Unit.MILLISECONDS)
    beside = "asking for the clock"
    yield _beside_floor("a fresh world for a test", took["world"], took["floor"], beside, Target(limit=2))
    yield _beside_floor("publish and deliver to a mount", took["mounted"], took["floor"], beside, Target(limit=0.4))


def _beside_floor(what: str, took_ms: float, floor_ms: float, beside: str, target: Target) -> Figure:
    return Figure(what=what, value=took_ms, unit=Unit.MILLISECONDS, floor=floor_ms, beside=beside, target=target)


def _best_ms(call: Callable[[], httpx.Response], repeats: int = _REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        call().raise_for_status()
        best = min(best, (time.perf_counter() - began) * 1000)
    return best
