"""Worlds: made, reset, saved and restored over HTTP, and used through the Python API."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
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
    took = _python(checkout, "main", repeats)
    yield Figure(what="Emulator, import", value=took["imported"], unit=Unit.MILLISECONDS)
    yield Figure(what="Emulator, first start", value=took["started"], unit=Unit.MILLISECONDS)
    beside = "asking for the clock"
    yield _beside_floor("a fresh world for a test", took["world"], took["floor"], beside, Target(limit=2))
    yield _beside_floor("publish and deliver to a mount", took["mounted"], took["floor"], beside, Target(limit=0.4))


def reading(checkout: Checkout, *, minutes: int = 43_200) -> Iterator[Figure]:
    """Reading 30 days of a minutely schedule back in Python, and a look for one message beside them: CPU."""
    took = _python(checkout, "read", minutes)
    yield Figure(
        what=f"deliveries() of {minutes:,}",
        value=took["read"],
        unit=Unit.CPU_SECONDS,
        count=minutes,
        things="deliveries",
        target=Target(limit=1.0),
    )
    yield Figure(
        what=f"verify of one URL beside {minutes:,}, CPU",
        value=took["verified"] * 1000,
        unit=Unit.MILLISECONDS,
        target=Target(limit=50),
    )


def firing(checkout: Checkout, *, minutes: int = 10_080) -> Iterator[Figure]:
    """A week of a minutely schedule into an application that a test has mounted, beside what a rule answers: CPU."""
    took = _python(checkout, "fire", minutes)
    for name, what, limit in (("function", "a mounted function", 150), ("asgi", "a mounted ASGI application", 200)):
        yield Figure(
            what=f"a firing into {what}, CPU",
            value=took[name],
            unit=Unit.MICROSECONDS,
            floor=took["rule"],
            beside="one that a rule answers",
            target=Target(limit=limit),
        )


_TESTS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it({arguments}):
    {body}
"""
_PUBLISH = """emulator.publish("https://app.test/hook", delay="1h")
    emulator.clock.advance("2h")
    emulator.verify("https://app.test/hook", status=200)"""


def per_test(checkout: Checkout, *, count: int = 500) -> Iterator[Figure]:
    """A test that takes `emulator` beside one that takes nothing: the CPU of each, and of a run with one alone."""
    kinds = (("number", "pass"), ("emulator, number", _PUBLISH), ("emulator, number", "pass"))
    (empty_s, empty_ms), (_, published_ms), (alone_s, idle_ms) = _tests_cpu(checkout, count, kinds)
    for what, took_ms, limit in (
        ("a test that publishes, advances and verifies, CPU", published_ms, 7),
        ("a test that takes emulator and does nothing, CPU", idle_ms, 4),
    ):
        yield _beside_floor(what, took_ms, empty_ms, "an empty test", Target(limit=limit))
    yield Figure(
        what="what one such test adds to a run of one test, CPU",
        value=alone_s - empty_s,
        unit=Unit.CPU_SECONDS,
        target=Target(limit=0.3),
    )


def _tests_cpu(checkout: Checkout, count: int, kinds: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
    """Seconds of CPU of a run of pytest with one test, and milliseconds of each further one, for each kind of test.

    The least of four runs, the kinds in turns: a machine may be twice as fast for a few seconds.
    """
    cpu_s: dict[tuple[tuple[str, str], int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, each in tuple(product(kinds, (1, 1 + count))) * 4:
            path = write_tests(Path(folder), each, *kind)
            began = processes.children_cpu_s()
            subprocess.run(
                pytest_command(path, "-p", "no:xdist"), cwd=folder, env=checkout.environment, **processes.QUIET
            )
            cpu_s[kind, each] = min(processes.children_cpu_s() - began, cpu_s.get((kind, each), math.inf))
    return [(cpu_s[kind, 1], (cpu_s[kind, 1 + count] - cpu_s[kind, 1]) / count * 1000) for kind in kinds]


def write_tests(folder: Path, count: int, arguments: str = "emulator, number", body: str = _PUBLISH) -> Path:
    """A file of so many tests, which publish, advance and verify unless said otherwise."""
    path = folder / "test_it.py"
    path.write_text(_TESTS.format(count=count, arguments=arguments, body=body), "utf-8")
    return path


def pytest_command(tests: Path, *options: str) -> list[str]:
    """A run of pytest that reads no configuration."""
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests.parent), str(tests)]
    return [*command, "-p", "no:cacheprovider", "-p", "no:randomly", *options]


def _python(checkout: Checkout, *arguments: object) -> dict[str, float]:
    """What the program prints that uses the Python API of a checkout."""
    # Without its folder on the path: modules here have names that are those of others too.
    command = [sys.executable, "-P", str(Path(python_program.__file__)), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=checkout.path, env=checkout.environment, stdout=subprocess.PIPE, text=True, check=True
    )
    took: dict[str, float] = json.loads(done.stdout)
    return took


def _beside_floor(what: str, took_ms: float, floor_ms: float, beside: str, target: Target) -> Figure:
    return Figure(what=what, value=took_ms, unit=Unit.MILLISECONDS, floor=floor_ms, beside=beside, target=target)


def _best_ms(call: Callable[[], httpx.Response], repeats: int = _REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        call().raise_for_status()
        best = min(best, (time.perf_counter() - began) * 1000)
    return best
