"""An example where its reader has it: copied out of the project, its commands on the PATH."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import PATIENCE_S, ROOT, environment

EXAMPLES = ROOT / "examples"
# Made by running an example in its place.
_LEFT_BEHIND = shutil.ignore_patterns("node_modules", "package-lock.json", "__pycache__", ".*_cache")
_CLIENTS_OWN = ("QSTASH_", "UPSTASH_", "SVC_", "APP_", "NODE_", "PYTEST_", "FLASK_")


@dataclass(frozen=True, slots=True)
class Workplace:
    """A copy of an example; `variables` are those of its commands."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, *command: str, timeout_s: float = PATIENCE_S, expect: int = 0, **variables: str) -> str:
        """What a command prints on standard output. Raises: AssertionError with all of it for another exit code."""
        with self._started(command, variables, stderr=subprocess.PIPE) as process:
            output, errors = process.communicate(timeout=timeout_s)
        assert process.returncode == expect, output + errors
        return output

    @contextlib.contextmanager
    def running(self, *command: str, **variables: str) -> Iterator[Program]:
        """A program and all that it starts, until the block is left."""
        with self._started(command, variables, stderr=subprocess.STDOUT) as process:
            # A program that says nothing would be waited for without end.
            watchdog = threading.Timer(PATIENCE_S, _kill, (process,))
            watchdog.start()
            try:
                yield Program(process)
            finally:
                watchdog.cancel()

    @contextlib.contextmanager
    def _started(
        self, command: Sequence[str], variables: Mapping[str, str], *, stderr: int
    ) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self._variables(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                _kill(process)

    def _variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in environment().items() if not name.startswith(_CLIENTS_OWN)}
        path = os.pathsep.join((str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)))
        return {**inherited, "PATH": path, "PYTHONUNBUFFERED": "1", **self.variables}


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs, and what it prints."""

    process: subprocess.Popen[str]

    def line_with(self, text: str) -> str:
        """The next line that holds a text. Raises: AssertionError with all lines if the program ends before."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            if text in line:
                return line.rstrip("\n")
            seen.append(line)
        raise AssertionError(f"no line with {text!r} in:\n{''.join(seen)}")


def _kill(process: subprocess.Popen[str]) -> None:
    """End a program and whatever it has started and left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def workplace(name: str, folder: Path, **variables: str) -> Workplace:
    """A copy of an example in a folder."""
    return Workplace(shutil.copytree(EXAMPLES / name, folder / name, ignore=_LEFT_BEHIND), variables)


def free_port() -> int:
    """A port that nobody listens on, for programs that have to be told one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def missing(*programs: str) -> bool:
    """Whether to skip for want of programs. Never in CI: there a test that is not run would go unnoticed."""
    return not os.environ.get("CI") and any(shutil.which(program) is None for program in programs)
