"""An application in a process of its own, beside an emulator, and the end of its runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.harness.emulators import Server, control
from tests.harness.processes import PATIENCE_S, ROOT, killed_in_time

# Short in real time, and no matter on a frozen clock.
PAUSES_S = {"realtime": 1, "frozen": 3 * 86_400}
MODES = tuple(PAUSES_S)


@dataclass(frozen=True, kw_only=True)
class App:
    """A running application and the emulator that it publishes to, whose clock is `mode`."""

    url: str
    emulator: Server
    mode: str

    @property
    def pause_s(self) -> int:
        """How long its workflows sleep, seconds."""
        return PAUSES_S[self.mode]

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        response = httpx.post(
            self.url + path, json=body, headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False
        )
        assert response.is_success, response.text
        return response.json()

    def seen(self) -> Any:
        """What it has counted so far."""
        return self.post("/seen", {})

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """A call of the messaging API with the account's token."""
        return httpx.request(
            method,
            self.emulator.url + path,
            json=body,
            headers={"Authorization": f"Bearer {self.emulator.token}", **headers},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=False,
        )

    def now_s(self) -> int:
        """The instant of the emulator, seconds."""
        now_ms: int = control(self.emulator, "GET", "/clock")["now_ms"]
        return now_ms // 1000

    def advance(self, by: str) -> None:
        control(self.emulator, "POST", "/clock/advance", {"by": by})

    def finish(self) -> None:
        """Let all runs come to their end: by moving the clock, or in real time by watching what happens."""
        if self.mode == "frozen":
            assert control(self.emulator, "POST", "/clock/drain", {"horizon": "400d"})["idle"]
            return
        deadline = time.monotonic() + PATIENCE_S
        address = f"{self.emulator.url}/_emulator/stream"
        with httpx.stream("GET", address, timeout=PATIENCE_S, trust_env=False, verify=False) as stream:
            # The answer has begun, so what ends the last run is sent; a line comes every few seconds if nothing is.
            lines = stream.iter_lines()
            while any(
                control(self.emulator, "GET", "/clock")[name] for name in ("pending", "in_flight", "next_due_ms")
            ):
                assert time.monotonic() < deadline, control(self.emulator, "GET", "/upcoming")
                while not next(lines).startswith(("data:", ":")):
                    pass


@contextlib.contextmanager
def running(
    command: Sequence[str], emulator: Server, mode: str, *, folder: Path = ROOT, extra: Mapping[str, str] | None = None
) -> Iterator[App]:
    """The application that prints where it listens, until the block is left. What it prints comes with a failure."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("QSTASH_", "UPSTASH_"))}
    variables = {
        "QSTASH_URL": emulator.url,
        "QSTASH_TOKEN": emulator.token,
        "QSTASH_CURRENT_SIGNING_KEY": emulator.current_signing_key,
        "QSTASH_NEXT_SIGNING_KEY": emulator.next_signing_key,
        "PAUSE_S": str(PAUSES_S[mode]),
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**inherited, **variables, **(extra or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            with killed_in_time(process):
                first = process.stdout.readline()
                assert first.startswith("listening on "), first + process.stdout.read()
            # It must not wait for somebody to read what it prints.
            output: list[str] = []
            reader = threading.Thread(target=output.extend, args=(process.stdout,))
            reader.start()
            try:
                yield App(url=first.split()[-1], emulator=emulator, mode=mode)
            except BaseException:
                process.kill()
                reader.join(PATIENCE_S)
                print("".join(output))
                raise
        finally:
            process.kill()
            process.wait(PATIENCE_S)
