"""How soon an emulator is there, and what it holds when nothing happens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import processes
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_STARTS = 5
_IMPORT_OF_PLUGIN = """
import time
import pytest
began = time.process_time()
import svc_emulator_pytest
print(time.process_time() - began)
"""


def ready(checkout: Checkout, *, starts: int = _STARTS) -> Iterator[Figure]:
    """Process start to the first 200 on health, and memory when idle."""
    took_s, cpu_s, memory_mb = zip(*(start(checkout) for _ in range(starts)), strict=True)
    yield Figure(what="ready", value=min(took_s), unit=Unit.SECONDS, target=Target(limit=0.19))
    yield Figure(what="ready, CPU", value=min(cpu_s), unit=Unit.CPU_SECONDS)
    yield Figure(what="resident when idle", value=min(memory_mb), unit=Unit.MEGABYTES, target=Target(limit=41))


def imports(checkout: Checkout) -> Iterator[Figure]:
    """A process that imports the Python API, or shows the commands, beside one that does nothing; and the plugin."""
    floor_s = min(_cpu_s(checkout, "-c", "pass") for _ in range(_STARTS))
    for what, command in (
        ("from emulator import Emulator, CPU", ("-c", "from emulator import Emulator")),
        ("svc-emulator --version, CPU", ("-m", "emulator", "--version")),
    ):
        took_s = min(_cpu_s(checkout, *command) for _ in range(_STARTS))
        yield Figure(what=what, value=took_s * 1000, unit=Unit.MILLISECONDS, floor=floor_s * 1000, beside="bare Python")
    program = [sys.executable, "-c", _IMPORT_OF_PLUGIN]
    added_s = min(
        float(subprocess.check_output(program, cwd=checkout.path, env=checkout.environment)) for _ in range(_STARTS)
    )
    yield Figure(
        what="import of the pytest plugin beside pytest's own, CPU",
        value=added_s * 1000,
        unit=Unit.MILLISECONDS,
        target=Target(limit=13),
    )


def warm_up(checkout: Checkout) -> None:
    """Start everything once, so that all modules are compiled and read before anything is measured."""
    start(checkout)
    _cpu_s(checkout, "-c", "from emulator import Emulator; Emulator().start().close()")


def start(checkout: Checkout, program: Path | None = None) -> tuple[float, float, float]:
    """Seconds, seconds of CPU and megabytes of one start; see `Checkout.serve`."""
    port = _free_port()
    began = time.perf_counter()
    with processes.running(checkout.serve("--port", str(port), program=program), checkout) as child:
        while not _is_healthy(port):
            pass
        return time.perf_counter() - began, processes.cpu_s(child.pid), processes.resident_mb(child.pid)


def _is_healthy(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /_emulator/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        time.sleep(0.002)
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _cpu_s(checkout: Checkout, *arguments: str) -> float:
    """What a process costs from its start to its end."""
    child = subprocess.Popen(
        [sys.executable, *arguments], cwd=checkout.path, env=checkout.environment, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime
