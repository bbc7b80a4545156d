"""`svc-emulator serve` of a checkout, in a process of its own.

Nothing of the emulator is imported here, so that the same run can be made with any checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parents[2]
EPOCH = "2026-02-27T22:30:00Z"
# How long a server may take to start, and to stop; it takes a fraction of a second. The run itself has no such limit.
_PATIENCE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: where it listens, and its process."""

    port: int
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """End it as a crash would: it writes nothing more."""
        self.process.kill()
        self.process.wait(_PATIENCE_S)


def environment(checkout: Path) -> dict[str, str]:
    """The variables of this process, without the emulator's own, that let a child import that checkout."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EMULATOR_")}
    return {**inherited, "PYTHONPATH": str(checkout), "PYTHONIOENCODING": "utf-8"}


@contextmanager
def serving(checkout: Path, *options: str) -> Iterator[Server]:
    """A server with a frozen clock; it is stopped at the end if it has not been killed."""
    command = [sys.executable, "-m", "emulator", "serve", "--port", "0", "--log-level", "error"]
    command += ["--clock", "frozen", "--epoch", EPOCH, *options]
    with (
        # An empty folder: it holds no settings file.
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, cwd=folder, env=environment(checkout), stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
        ) as process,
    ):
        # A server that says nothing would be waited for without end.
        watchdog = threading.Timer(_PATIENCE_S, process.kill)
        watchdog.start()
        try:
            port = _port(process, log)
            watchdog.cancel()
            yield Server(port=port, process=process)
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.terminate()
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for a process that was told to end; one that does not is killed."""
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def _port(process: subprocess.Popen[str], log: IO[bytes]) -> int:
    """The port that the server says it listens on, read up to the end of what it says."""
    assert process.stdout is not None
    port: int | None = None
    for line in process.stdout:
        if " listens on " in line:
            port = urlsplit(line.split(" listens on ")[1].strip()).port
        if line.startswith("state:") and port is not None:
            return port
    log.seek(0)
    raise RuntimeError(f"the server did not start: {log.read().decode()}")
