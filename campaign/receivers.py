"""Hostile receivers: nothing else is held up, memory stays bounded, and every attempt ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from campaign.calls import Caller, NoAnswer, caller
from campaign.hostile import HARMLESS, KINDS
from campaign.programs import ROOT, Server, environment, in_text, serving
from campaign.receiver import Receiver, receiving
from campaign.rounds import Report, Round

# Attempts under way at one hostile receiver, in origins of their own as far as the server can tell.
_HOSTS = 6
_PER_HOST = 4
_TIMEOUT_S = 3
_PROBES = 30
# A publish and its delivery take some milliseconds. On a machine that others use, so much may be added.
_BOUND_S = 1.0
_MEMORY = 700 * 1024 * 1024
# Here the server is ended, before the machine has none left.
_TOO_MUCH = 3 * 1024 * 1024 * 1024
_ATTEMPTS_END_S = 30.0


def play(round: Round) -> None:
    """Every kind, one after the other, with a server each."""
    kinds = list(KINDS)
    round.random.shuffle(kinds)
    with receiving() as receiver:
        calm = _probe_alone(round, receiver)
        for number, kind in enumerate(kinds):
            folder = round.folder / str(number)
            folder.mkdir()
            with (
                serving(folder, "--log-level", "warning") as server,
                _hostile(kind, round.random.randrange(10**6)) as port,
            ):
                attack = _Attack(server, receiver, kind, round.report, calm)
                try:
                    attack.play(port)
                except NoAnswer as failed:
                    round.report.found(f"{kind}: no answer", str(failed))


def _probe_alone(round: Round, receiver: Receiver) -> float:
    """The longest a probe takes without an attack, now, on this machine."""
    folder = round.folder / "calm"
    folder.mkdir()
    with serving(folder, "--log-level", "warning") as server:
        return max(_probe(caller(server.port), receiver, f"calm-{number}") for number in range(_PROBES))


@contextlib.contextmanager
def _hostile(kind: str, seed: int) -> Iterator[int]:
    """The port of a hostile receiver."""
    process = subprocess.Popen(
        [sys.executable, "-m", "campaign.hostile", kind, str(seed)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _probe(owner: Caller, receiver: Receiver, body: str) -> float:
    """The seconds from before a publish to its arrival at a good receiver; infinite without one."""
    began = time.monotonic()
    owner.message("POST", f"publish/{receiver.url('hook')}", {"Svc-Retries": "0"}, body)
    pause = threading.Event()
    while time.monotonic() - began < 20:
        arrived = next((each.at_s for each in reversed(receiver.arrivals) if each.body == body), None)
        if arrived is not None:
            return arrived - began
        pause.wait(0.002)
    return float("inf")


class _Attack:
    """One kind of hostile receiver against one server."""

    def __init__(self, server: Server, receiver: Receiver, kind: str, report: Report, calm_s: float) -> None:
        self._server = server
        self._receiver = receiver
        self._kind = kind
        self._report = report
        self._calm_s = calm_s
        self._memory = 0
        self._over = threading.Event()

    def play(self, port: int) -> None:
        before = self._server.memory
        watcher = threading.Thread(target=self._watch_memory)
        watcher.start()
        try:
            self._publish(port)
            self._probe()
            self._await_ends()
        finally:
            self._over.set()
            watcher.join()
        grown = self._memory - before
        self._report.highest("MiB of memory at most", grown / 1024**2)
        self._expect(grown < _MEMORY, "memory", f"{grown // 1024**2} MiB more")
        self._expect(not in_text(self._server.err), "the log", self._server.err[-600:])
        code = self._server.stop(within_s=20)
        self._expect(code == 0, "the exit code", f"{code} after SIGTERM: {self._server.err[-300:]}")
        self._report.count("attacks")

    def _expect(self, holds: bool, what: str, text: str) -> None:
        self._report.expect(holds, f"{self._kind}: {what}", text)

    def _watch_memory(self) -> None:
        while not self._over.wait(0.05):
            self._memory = max(self._memory, self._server.memory)
            if self._memory > _TOO_MUCH:
                self._server.kill()
                return

    def _publish(self, port: int) -> None:
        owner = caller(self._server.port)
        for number in range(_HOSTS * _PER_HOST):
            destination = f"http://h{number % _HOSTS}.localhost:{port}/{number}"
            asked = {"Svc-Retries": "0", "Svc-Timeout": f"{_TIMEOUT_S}s"}
            answer = owner.message("POST", f"publish/{destination}", asked, f"attack-{number}")
            self._expect(answer.is_good, "a publish to it", str(answer))

    def _probe(self) -> None:
        """Publish to a good receiver meanwhile, and see how long that takes."""
        owner = caller(self._server.port)
        taken = [_probe(owner, self._receiver, f"{self._kind}-{number}") for number in range(_PROBES)]
        worst, bound = max(taken), _BOUND_S + 3 * self._calm_s
        self._expect(worst < bound, "another delivery was held up", f"{worst:.2f} s, at rest {self._calm_s:.3f} s")
        if worst != float("inf"):
            self._report.highest("ms that another delivery took at most", worst * 1000)
        self._report.count("other deliveries", len(taken))

    def _await_ends(self) -> None:
        """Every attempt ends soon after its time is up."""
        owner = caller(self._server.port)
        pause, end = threading.Event(), time.monotonic() + _ATTEMPTS_END_S
        while (under_way := owner.control("GET", "/clock").json["in_flight"]) and time.monotonic() < end:
            pause.wait(0.2)
        self._expect(under_way == 0, "attempts do not end", f"{under_way} after {_ATTEMPTS_END_S:.0f} s")
        entries = owner.control("GET", "/deliveries", url="http://h*", limit="1000").json["deliveries"]
        outcomes = [each["response"]["status"] if each["response"] else each["error"] for each in entries]
        if self._kind in HARMLESS:
            self._expect(set(outcomes) == {200}, "nothing is wrong with its answer", str(sorted(map(str, outcomes))))
        self._report.count("hostile attempts", len(outcomes))
