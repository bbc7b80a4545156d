"""The servers that benchmarks use: the emulator of a checkout, a bare floor, a receiver."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks import processes
from benchmarks.checkouts import HERE, Checkout

EPOCH = "2026-01-01T00:00:00Z"
FROZEN = ("--clock", "frozen", "--epoch", EPOCH)
MEMORY = ":memory:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A running emulator, a client of it, and the header that its messaging calls need."""

    process: subprocess.Popen[str]
    port: int
    client: httpx.Client
    token: dict[str, str]

    @property
    def cpu_s(self) -> float:
        return processes.cpu_s(self.process.pid)

    @property
    def resident_mb(self) -> float:
        return processes.resident_mb(self.process.pid)

    def settle(self) -> None:
        """Return when history is written, which it is behind what happens; its cost belongs to what caused it."""
        self.client.get("/v2/events?count=1", headers=self.token).raise_for_status()

    def advance(self, by: str | int) -> dict[str, int]:
        """Move the clock; the report of it."""
        answer = self.client.post("/_emulator/clock/advance", json={"by": by}).raise_for_status()
        report: dict[str, int] = answer.json()
        return report

    def rule(self, url: str, **rule: object) -> None:
        """Script what a destination answers."""
        self.client.post("/_emulator/destinations", json={"match": {"url": url}, **rule}).raise_for_status()

    def schedule(self, cron: str, destination: str) -> None:
        headers = self.token | {"Svc-Cron": cron}
        self.client.post(f"/v2/schedules/{destination}", headers=headers, content=b"tick").raise_for_status()

    def batch(self, item: Mapping[str, object], count: int) -> None:
        """Publish the same message so many times, a thousand in each call."""
        for start in range(0, count, 1000):
            items = [item] * min(1000, count - start)
            self.client.post("/v2/batch", headers=self.token, json=items).raise_for_status()


@contextmanager
def emulator(checkout: Checkout, *options: str, program: Path | None = None) -> Iterator[Emulator]:
    """A checkout's `svc-emulator serve` on a free port, ready; see `Checkout.serve`."""
    with processes.running(checkout.serve("--port", "0", *options, program=program), checkout) as child:
        port = _announced_port(child)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=1200, trust_env=False) as client:
            token = client.get("/_emulator/credentials").json()["queue"]["token"]
            yield Emulator(process=child, port=port, client=client, token={"Authorization": f"Bearer {token}"})


def _announced_port(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None
    for line in child.stdout:
        for word in line.split():
            if word.startswith("http://"):
                return urlsplit(word).port or 0
    raise RuntimeError("the emulator did not start")


@contextmanager
def database(*, in_memory: bool) -> Iterator[str]:
    """Where an emulator is to keep its state."""
    with tempfile.TemporaryDirectory() as folder:
        yield MEMORY if in_memory else str(Path(folder) / "state.db")


@contextmanager
def floor() -> Iterator[int]:
    """A bare handler on the same HTTP server as the emulator's; gives its port."""
    with _program("floor") as port:
        yield port


@contextmanager
def receiver() -> Iterator[int]:
    """A destination that costs as little as possible; gives its port."""
    with _program("receiver") as port:
        yield port


@contextmanager
def _program(name: str) -> Iterator[int]:
    """A module of this folder as a process that says on which port it listens; always this checkout's."""
    with processes.running([sys.executable, "-m", f"benchmarks.{name}"], HERE) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())
