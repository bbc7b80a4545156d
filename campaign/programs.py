"""The program in processes of its own; each is ended by the caller that started it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
# How long a start or an end may take on a busy machine.
PATIENCE_S = 60
EPOCH = "2026-01-01T00:00:00Z"
# Everything but a line's end that a terminal acts upon.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class DidNotStart(Exception):
    """The program ended before it listened."""

    def __init__(self, code: int, out: str, err: str) -> None:
        super().__init__(f"exit {code}: {err.strip() or out.strip() or '(nothing said)'}")
        self.code = code
        self.out = out
        self.err = err


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process, without those that change what the program does."""
    ours = ("EMULATOR_", "NO_COLOR", "FORCE_COLOR", "CLICOLOR")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **(extra or {})}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "emulator", *arguments]


def in_text(text: str) -> list[str]:
    """What is wrong with the text that a program wrote for people."""
    found = []
    if "Traceback (most recent call last)" in text:
        found.append("a traceback")
    if _CONTROL.search(text):
        found.append("control characters")
    if any(len(line) > 2000 for line in text.splitlines()):
        found.append("a line of more than 2,000 characters")
    return found


@dataclass
class Server:
    """A server that listens. Its standard error goes to the file `log`."""

    process: subprocess.Popen[str]
    log: Path
    port: int = 0
    banner: list[str] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def err(self) -> str:
        """What it has written to standard error so far."""
        return self.log.read_text("utf-8", "replace")

    @property
    def memory(self) -> int:
        """The bytes of memory it uses now; 0 when it has ended."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self, *, within_s: float = PATIENCE_S, by: signal.Signals = signal.SIGTERM) -> int | None:
        """End it in order: its exit code, or None if it had to be killed after that time."""
        self.process.send_signal(by)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


def begin(
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    prepare: Callable[[], None] | None = None,
) -> Server:
    """Start `serve` with a free port, and do not wait for it. `before` is a program that runs it."""
    log = folder / "serve.log"
    with log.open("wb") as err:
        process = subprocess.Popen(
            [*before, *command("serve", "--port", "0", *options)],
            cwd=folder,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            encoding="utf-8",
            preexec_fn=prepare,
        )
    return Server(process, log)


def await_start(server: Server) -> None:
    """Wait until it listens. Raises DidNotStart."""
    process = server.process
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            server.banner.append(line.rstrip("\n"))
            if " listens on " in line:
                server.port = urlsplit(line.split(" listens on ")[1].strip()).port or 0
            if line.startswith("state:"):
                return
        raise DidNotStart(process.wait(PATIENCE_S), "\n".join(server.banner), server.err)
    finally:
        watchdog.cancel()


@contextlib.contextmanager
def ended(server: Server) -> Iterator[Server]:
    """Kill it at the end, if it still runs."""
    try:
        yield server
    finally:
        if server.is_running:
            server.kill()
        if server.process.stdout is not None:
            server.process.stdout.close()


@contextlib.contextmanager
def serving(
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    prepare: Callable[[], None] | None = None,
) -> Iterator[Server]:
    """A server that listens; killed at the end if it has not ended. Raises DidNotStart."""
    with ended(begin(folder, *options, env=env, before=before, prepare=prepare)) as server:
        await_start(server)
        yield server


def run(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command to its end. Raises subprocess.TimeoutExpired."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
    )
