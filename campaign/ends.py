"""The end of a server, by a signal, while all kinds of calls are under way: in time, in order, without a traceback."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from campaign.calls import Caller, NoAnswer, caller
from campaign.followers import connected, request_stream
from campaign.programs import EPOCH, Server, in_text, serving
from campaign.rounds import Report, Round

_ENDS = 8
# How long the end of a server may take on a busy machine; a second is promised at rest.
_END_S = 20.0
_CLOCKS = (("--clock", "frozen", "--epoch", EPOCH), ("--clock", "realtime"), ("--clock", "3600"))


@dataclass
class _Load:
    """What is under way at one server until it has ended."""

    port: int
    silent_port: int
    random: Random
    over: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    # Answers of 500, and those whose body is not whole.
    wrong: list[str] = field(default_factory=list)
    answered: int = 0

    def start(self, kind: Callable[[_Load], None]) -> None:
        thread = threading.Thread(target=self._run, args=(kind,))
        self.threads.append(thread)
        thread.start()

    def _run(self, kind: Callable[[_Load], None]) -> None:
        # The end of the server ends it.
        with contextlib.suppress(NoAnswer, OSError):
            kind(self)

    def call(self, owner: Caller, method: str, path: str, body: object = None) -> None:
        answer = owner.control(method, path, body)
        self.answered += 1
        if answer.status == 500:
            self.wrong.append(f"{method} {path}: {answer}")

    def end(self) -> bool:
        """Whether everything that was under way has ended."""
        self.over.set()
        for each in self.sockets:
            each.close()
        for thread in self.threads:
            thread.join(_END_S)
        return not any(thread.is_alive() for thread in self.threads)


def play(round: Round) -> None:
    """Servers of both kinds, a random load each, and a signal at a random moment."""
    random, report = round.random, round.report
    choices = list(itertools.product(("uvicorn", "hypercorn"), (signal.SIGINT, signal.SIGTERM)))
    for number in range(_ENDS):
        server, sent = choices[number % len(choices)]
        folder = round.folder / str(number)
        folder.mkdir()
        options = ["--server", server, *random.choice(_CLOCKS), "--external", "capture"]
        options += ["--db", "state.db"] if random.random() < 0.5 else []
        with _silent_receiver() as silent_port, serving(folder, *options) as emulator:
            load = _Load(port=emulator.port, silent_port=silent_port, random=random)
            kinds = random.sample(KINDS, random.randint(1, len(KINDS)))
            try:
                for kind in kinds:
                    load.start(kind)
                threading.Event().wait(random.uniform(0.05, 1.5))
                _end(emulator, sent, f"{server} {sent.name} {' '.join(each.__name__ for each in kinds)}", report)
            finally:
                has_ended = load.end()
            report.expect(has_ended, "a call did not end with its server", str(kinds))
            report.expect(not load.wrong, "an answer of 500 at the end of a server", "; ".join(load.wrong[:3]))
            report.count("calls answered before the ends", load.answered)
        report.count(f"ends of {server} by {sent.name}")


def _end(server: Server, sent: signal.Signals, what: str, report: Report) -> None:
    code = server.stop(within_s=_END_S, by=sent)
    report.expect(code == 0, "the exit code at the end of a server", f"{code} ({what}): {server.err[-400:]}")
    at = server.err.find("Traceback")
    report.expect(not in_text(server.err), "the log of a server's end", f"({what}): {server.err[max(0, at - 200) :]}")


@contextlib.contextmanager
def _silent_receiver() -> Iterator[int]:
    """A port where connections are taken and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        yield listener.getsockname()[1]


# -- what is under way --------------------------------------------------------------------------


def idle_followers(load: _Load) -> None:
    for _ in range(30):
        load.sockets.append(request_stream(load.port, "?from=start"))
    owner, number = caller(load.port), 0
    while not load.over.is_set():
        number += 1
        owner.message("POST", "publish/http://a.example/", {}, "x" * 30_000)


def reading_followers(load: _Load) -> None:
    def read(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass

    for _ in range(5):
        load.sockets.append(request_stream(load.port))
        load.threads.append(threading.Thread(target=read, args=(load.sockets[-1],)))
        load.threads[-1].start()


def advances(load: _Load) -> None:
    owner = caller(load.port)
    for number in range(20):
        headers = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": f"minutely-{number}"}
        owner.message("POST", "schedules/http://a.example/", headers, "x")
    while not load.over.is_set():
        load.call(owner, "POST", "/clock/advance", {"by": "2d"})


def waiting_advances(load: _Load) -> None:
    """They wait for attempts that nobody answers."""
    owner = caller(load.port)
    for _ in range(10):
        owner.message("POST", f"publish/http://127.0.0.1:{load.silent_port}/", {"Svc-Delay": "1m"}, "x")
    while not load.over.is_set():
        load.call(owner, "POST", "/clock/advance", {"by": "1h"})


def silent_deliveries(load: _Load) -> None:
    owner = caller(load.port)
    while not load.over.is_set():
        owner.message("POST", f"publish/http://127.0.0.1:{load.silent_port}/", {"Svc-Timeout": "15m"}, "x")


def batches(load: _Load) -> None:
    owner = caller(load.port)
    items = ",".join(['{"destination":"http://a.example/","body":"x"}'] * 100)
    while not load.over.is_set():
        owner.message("POST", "batch", {"Content-Type": "application/json"}, f"[{items}]")


def half_requests(load: _Load) -> None:
    """Connections without a request, and with a part of one."""
    for text in (
        b"",
        b"GET /_emul",
        b"POST /v2/publish/http://a.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
    ):
        load.sockets += [connected(load.port, text) for _ in range(5)]


def reads(load: _Load) -> None:
    owner = caller(load.port)
    while not load.over.is_set():
        for path in ("/trace", "/deliveries", "/timeline", "/worlds", "/snapshots"):
            load.call(owner, "GET", path)


def changes_of_worlds(load: _Load) -> None:
    number = 0
    owner = caller(load.port)
    while not load.over.is_set():
        number += 1
        load.call(owner, "POST", "/snapshots", {"name": f"s{number}"})
        load.call(owner, "POST", "/worlds/default/fork", {"id": f"f{number}"})
        load.call(owner, "DELETE", f"/worlds/f{number}")


KINDS: tuple[Callable[[_Load], None], ...] = (
    *(idle_followers, reading_followers, advances, waiting_advances, silent_deliveries),
    *(batches, half_requests, reads, changes_of_worlds),
)
