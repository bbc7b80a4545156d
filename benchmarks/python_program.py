"""A program: what a test pays that uses the Python API. Prints figures by name, as JSON.

Its arguments are `main` and how often, or `read` or `fire` and the minutes that a schedule runs.
It runs without the folder it lies in on its path, so that the emulator it imports is the checkout's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any


def main(repeats: int) -> None:
    """Each figure but those of the start is the median of so many times."""
    began = time.perf_counter()
    from emulator import Emulator

    imported_ms = (time.perf_counter() - began) * 1000
    began = time.perf_counter()
    with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
        started_ms = (time.perf_counter() - began) * 1000

        def make_and_remove() -> None:
            with emulator.new_world(epoch="2026-01-01T00:00:00Z"):
                pass

        floor_ms = _median_ms(emulator.clock.status, repeats)
        world_ms = _median_ms(make_and_remove, repeats)
        emulator.mount("https://app.test", lambda request: 200)
        mounted_ms = _median_ms(lambda: emulator.publish("https://app.test/hook"), repeats)
    took = {
        "imported": imported_ms,
        "started": started_ms,
        "floor": floor_ms,
        "world": world_ms,
        "mounted": mounted_ms,
    }
    print(json.dumps(took))


def read(minutes: int) -> None:
    """Seconds of CPU of reading back what a minutely schedule delivered, and of a look for one message beside it."""
    from emulator import Emulator

    with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
        emulator.destinations.respond("https://*", 200)
        emulator.schedules.create("https://app.test/minutely", cron="* * * * *")
        emulator.clock.advance(f"{minutes}m")
        emulator.publish("https://app.test/once")
        # Writes the history that is still to be written.
        emulator.verify("https://app.test/once", times=1)
        verified_s = _best_cpu_s(lambda: emulator.verify("https://app.test/once", times=1))
        read_s = _best_cpu_s(emulator.deliveries)
    print(json.dumps({"verified": verified_s, "read": read_s}))


def fire(minutes: int) -> None:
    """Microseconds of CPU of a firing: answered by a rule, a mounted function and a mounted ASGI application."""
    from emulator import Emulator

    async def asgi(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[object], Any]) -> None:
        if scope["type"] != "http":
            raise RuntimeError("no lifespan")
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    took = {}
    with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
        for name, app in (("rule", None), ("function", lambda request: 200), ("asgi", asgi)):
            with emulator.new_world(epoch="2026-01-01T00:00:00Z") as world:
                if app is None:
                    world.destinations.respond("https://*", 200)
                else:
                    world.mount("https://app.test", app)
                world.schedules.create("https://app.test/minutely", cron="* * * * *")
                world.clock.advance("1h")
                began = time.process_time()
                world.clock.advance(f"{minutes}m")
                took[name] = (time.process_time() - began) / minutes * 1e6
    print(json.dumps(took))


def _best_cpu_s(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _median_ms(work: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


if __name__ == "__main__":
    {"main": main, "read": read, "fire": fire}[sys.argv[1]](int(sys.argv[2]))
