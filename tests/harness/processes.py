"""The program in processes of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.contracts.answers import Answered, read_from
from tests.harness.forks import Forked

ROOT = Path(__file__).resolve().parent.parent.parent
# How long a process may take for anything; on a quiet machine nothing here takes a tenth of it.
PATIENCE_S = 120


OWN_GROUP = 0
if sys.platform == "win32":
    OWN_GROUP = subprocess.CREATE_NEW_PROCESS_GROUP


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process without those that would change what a command does."""
    # An unbuffered Python loses what a terminal does not take at once.
    ours = ("PYTHONUNBUFFERED", "EMULATOR_", "QSTASH_DEV_", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "TTY_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **(extra or {})}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "emulator", *arguments]


@contextlib.contextmanager
def checked_answers(extra: Mapping[str, str] | None, checked: list[Answered]) -> Iterator[dict[str, str]]:
    """The variables for `tests.harness.watched`; at the end, every answer of the process must be in the contracts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers"
        yield environment({**(extra or {}), "EMULATED_ANSWERS": str(file)})
        for answered in read_from(file):
            answered.check()
            checked.append(answered)


def run(*arguments: str, folder: Path, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    with Forked(
        command(*arguments),
        cwd=folder,
        env=environment(extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            printed, complaint = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, printed, complaint)


@dataclass
class ServerProcess:
    """`svc-emulator serve`, ready. After `stop`: its exit code, the seconds that took, and its log."""

    process: subprocess.Popen[str]
    banner: list[str] = field(default_factory=list)
    # What it has answered, known once it has ended.
    answers: list[Answered] = field(default_factory=list)
    exit_code: int | None = None
    stopping_s: float = 0.0
    log: str = ""

    @property
    def url(self) -> str:
        return self.value_after("listens on ")

    @property
    def variables(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.banner if line.startswith(("SVC_", "QSTASH_")))

    def value_after(self, text: str) -> str:
        return next(line.partition(text)[2] for line in self.banner if text in line)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        _, self.log = self.process.communicate(timeout=PATIENCE_S)

    def stop(self, signal_number: int) -> None:
        began = time.monotonic()
        self.process.send_signal(sent_for(signal_number))
        _, self.log = self.process.communicate(timeout=PATIENCE_S)
        self.stopping_s = time.monotonic() - began
        self.exit_code = self.process.returncode


def sent_for(signal_number: int) -> int:
    """What ends a process in order: on Windows a signal would end it at once."""
    if sys.platform == "win32":
        return signal.CTRL_BREAK_EVENT
    return signal_number


@contextlib.contextmanager
def killed_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """Within it a process lives no longer than PATIENCE_S: to read what one prints has no limit of its own."""
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


@contextlib.contextmanager
def serving(
    *arguments: str,
    folder: Path,
    extra: Mapping[str, str] | None = None,
    port: Sequence[str] = ("--port", "0"),
    command: str = "serve",
) -> Iterator[ServerProcess]:
    """A server that has printed where it listens. It is killed at the end if the test has not stopped it.

    The program is the real one; only its answers are written down, and checked at the end.
    """
    answers: list[Answered] = []
    with (
        checked_answers(extra, answers) as variables,
        Forked(
            [sys.executable, "-m", "tests.harness.watched", command, *port, *arguments],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-Break goes to a whole group, and the tests are not to be in it.
            creationflags=OWN_GROUP,
        ) as process,
    ):
        try:
            server = ServerProcess(process, answers=answers)
            assert process.stdout is not None
            with killed_in_time(process):
                for line in process.stdout:
                    server.banner.append(line.rstrip("\n"))
                    if line.startswith(("state:", "{")):
                        break
                else:
                    raise AssertionError(process.communicate(timeout=PATIENCE_S)[1])
            yield server
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=PATIENCE_S)
