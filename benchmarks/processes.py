"""Processes that are measured: how they are started and ended, and what they cost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.checkouts import Checkout

# A server with a million pending messages writes them all down before it ends.
_PATIENCE_S = 300


@contextmanager
def running(command: list[str], checkout: Checkout) -> Iterator[subprocess.Popen[str]]:
    """A process of a checkout; it is asked to end, and waited for, at the latest when the context ends."""
    with subprocess.Popen(
        command, cwd=checkout.path, env=checkout.environment, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            stop(child)


def stop(child: subprocess.Popen[str]) -> None:
    """End a process in order. Ended already, it stays so."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        child.wait(_PATIENCE_S)


def resident_mb(pid: int) -> float:
    """The memory that a process holds now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def cpu_s(pid: int) -> float:
    """The time that all threads of a process have spent so far, in user and system mode."""
    # The name of the program, in parentheses, may hold blanks; user and system time are the 14th and 15th fields.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# How a program is run whose output nobody reads.
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}


def children_cpu_s() -> float:
    """The same of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
