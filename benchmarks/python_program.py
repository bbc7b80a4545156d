"""A program: what a test pays that uses the Python API. Prints milliseconds by name, as JSON.

It runs without the folder it lies in on its path, so that the emulator it imports is the checkout's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median


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


def _median_ms(work: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


if __name__ == "__main__":
    main(int(sys.argv[1]))
