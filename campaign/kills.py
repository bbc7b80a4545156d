"""Random work under `kill -9`: what was acknowledged is there, and is delivered at least once.

What was acknowledged as cancelled with an attempt in flight is not delivered again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from campaign import cancelling
from campaign.calls import Answer, Caller, NoAnswer, caller
from campaign.cancelling import Canceler
from campaign.ledgers import LAST_DUE, Books, Doubt, Ledger
from campaign.programs import EPOCH, DidNotStart, begin, ended, in_text, serving
from campaign.receiver import Receiver, receiving
from campaign.rounds import Report, Round

_KILLS = 8
_RATES: tuple[float, ...] = (0, 0, 1, 60)
_PATHS = ("hook", "hook", "hook", "flaky", "broken")


def play(round: Round) -> None:
    """One database, some worlds at work side by side, and a kill in the midst of it, again and again."""
    report, random = round.report, round.random
    options = ("--db", str(round.folder / "state.db"), "--clock", "frozen", "--epoch", EPOCH)
    ledgers = [Ledger(world=f"w{number}") for number in range(len(_RATES))]
    with receiving() as receiver:
        canceler = Canceler(receiver, Random(random.random()), report)
        for kill in range(_KILLS):
            if kill and random.random() < 0.3:
                _kill_at_start(round, options)
            with serving(round.folder, *options) as server:
                if kill == 0:
                    _make_worlds(server.port, ledgers)
                else:
                    _check_all(server.port, ledgers, report)
                    canceler.check_after_restart(server.port)
                work = [
                    Worker(caller(server.port, ledger.world), ledger, receiver, Random(random.random()), report)
                    for ledger in ledgers
                ]
                with ThreadPoolExecutor(len(work) + 1) as threads:
                    running = [threads.submit(each.run) for each in work]
                    running.append(threads.submit(canceler.run, server.port))
                    threading.Event().wait(random.uniform(0.05, 1.2))
                    server.kill()
                    for each in running:
                        each.result()
                report.count("kills")
                report.expect(not in_text(server.err), "the log of a killed server", server.err[-600:])
        _finish(round.folder, options, ledgers, receiver, report)
        canceler.check_arrivals()


def _kill_at_start(round: Round, options: tuple[str, ...]) -> None:
    """A kill while the last one is recovered from."""
    with ended(begin(round.folder, *options)):
        threading.Event().wait(round.random.uniform(0.0, 1.0))
    round.report.count("kills at a start")


def _make_worlds(port: int, ledgers: list[Ledger]) -> None:
    # A call to a frozen world would wait for the answers that are held back.
    names = {ledger.world: rate for ledger, rate in zip(ledgers, _RATES, strict=True)} | {cancelling.WORLD: 1}
    for name, rate in names.items():
        made = Caller(port).control("POST", "/worlds", {"id": name, "rate": rate, "epoch": EPOCH})
        if made.status != 201:
            raise NoAnswer(f"the world {name} was not made: {made}")


def _check_all(port: int, ledgers: list[Ledger], report: Report) -> None:
    for ledger in ledgers:
        owner = caller(port, ledger.world)
        ledger.settle(owner, report)
        ledger.check(owner, report)


def _finish(folder: Path, options: tuple[str, ...], ledgers: list[Ledger], receiver: Receiver, report: Report) -> None:
    """Let everything come due, then hold the deliveries against the books."""
    try:
        with serving(folder, *options) as server:
            _check_all(server.port, ledgers, report)
            for ledger in ledgers:
                owner = caller(server.port, ledger.world, timeout_s=120)
                owner.control("PUT", "/clock", {"rate": 0})
                moved = owner.control("POST", "/clock/advance", {"by": LAST_DUE})
                report.expect(moved.is_good, "the clock cannot be moved after kills", str(moved))
                ledger.check_deliveries(owner, receiver.accepted(), report)
            code = server.stop()
            report.expect(code == 0, "the exit code after kills", f"{code}: {server.err[-400:]}")
    except DidNotStart as failed:
        report.found("no start after a kill", str(failed))
    known = set[str]().union(*(ledger.attempted for ledger in ledgers))
    never_made = receiver.bodies() - known
    report.expect(not never_made, "a delivery of a message that was never made", str(sorted(never_made)[:5]))
    report.count("arrivals", len(receiver.arrivals))


class Worker:
    """One world's owner, who does one thing after the other until the server is gone."""

    def __init__(self, owner: Caller, ledger: Ledger, receiver: Receiver, random: Random, report: Report) -> None:
        self._owner = owner
        self._ledger = ledger
        self._receiver = receiver
        self._random = random
        self._report = report
        self._deeds: tuple[tuple[int, Callable[[], None]], ...] = (
            (40, self._publish),
            (10, self._batch),
            (6, self._cancel),
            (6, self._schedule),
            (3, self._unschedule),
            (10, self._advance),
            (3, self._save),
            (2, self._restore),
            (1, self._reset),
        )

    def run(self) -> None:
        weights = [weight for weight, _ in self._deeds]
        try:
            while True:
                _, deed = self._random.choices(self._deeds, weights)[0]
                deed()
        except NoAnswer:
            pass  # The kill.

    def _is_done(self, answer: Answer) -> bool:
        """Whether a call was acknowledged; a failure of the server is reported."""
        self._report.count("calls acknowledged" if answer.is_good else "calls refused")
        if answer.status >= 500:
            self._report.found("a failure of the server under kills", f"{self._ledger.world}: {answer}")
        return answer.is_good

    # -- messages ---------------------------------------------------------------------------

    def _asked(self, path: str) -> dict[str, str]:
        """Options of a message: it is over within LAST_DUE."""
        asked = {"Svc-Retries": "1" if path == "broken" else "3", "Svc-Retry-Delay": "2000"}
        if self._random.random() < 0.5:
            asked["Svc-Delay"] = self._random.choice(("1s", "20s", "5m", "3h", "1d"))
        if self._random.random() < 0.2:
            asked["Svc-Callback"] = self._receiver.url("callback")
        return asked

    def _publish(self) -> None:
        path = self._random.choice(_PATHS)
        body = self._new_body()
        verb = self._random.choice(("publish", "publish", f"enqueue/q{self._random.randrange(2)}"))
        asked = self._asked(path)
        answer = self._owner.message("POST", f"{verb}/{self._receiver.url(path)}", asked, body)
        if self._is_done(answer):
            self._accept(body, path, answer.json["messageId"])

    def _batch(self) -> None:
        items = [(self._new_body(), self._random.choice(_PATHS)) for _ in range(self._random.randint(2, 12))]
        content = [
            {"destination": self._receiver.url(path), "body": body, "headers": self._asked(path)}
            for body, path in items
        ]
        answer = self._owner.message("POST", "batch", {"Content-Type": "application/json"}, json.dumps(content))
        if self._is_done(answer):
            for (body, path), entry in zip(items, answer.json, strict=True):
                if "messageId" in entry:
                    self._accept(body, path, entry["messageId"])

    def _new_body(self) -> str:
        body = self._ledger.new_name("m")
        self._ledger.attempted.add(body)
        return body

    def _accept(self, body: str, path: str, message_id: str) -> None:
        self._ledger.books.delivered_to[body] = path
        self._ledger.books.ids[body] = message_id

    def _cancel(self) -> None:
        books = self._ledger.books
        if books.ids:
            body = self._random.choice(sorted(books.ids))
            books.canceled.add(body)
            self._is_done(self._owner.message("DELETE", f"messages/{books.ids.pop(body)}"))

    # -- schedules and the clock ------------------------------------------------------------

    def _schedule(self) -> None:
        schedules = self._ledger.books.schedules
        if sum(is_there is not False for is_there in schedules.values()) >= 3:
            return
        name = self._ledger.new_name("s")
        self._ledger.attempted.add(name)
        schedules[name] = None
        asked = {"Svc-Cron": "*/30 * * * *", "Svc-Schedule-Id": name}
        if self._is_done(self._owner.message("POST", f"schedules/{self._receiver.url('hook')}", asked, name)):
            schedules[name] = True

    def _unschedule(self) -> None:
        schedules = self._ledger.books.schedules
        there = sorted(name for name, is_there in schedules.items() if is_there)
        if there:
            name = self._random.choice(there)
            schedules[name] = None
            if self._is_done(self._owner.message("DELETE", f"schedules/{name}")):
                schedules[name] = False

    def _advance(self) -> None:
        by = self._random.choice(("0s", "1s", "30s", "10m", "2h"))
        answer = self._owner.control("POST", "/clock/advance", {"by": by})
        if self._is_done(answer):
            self._ledger.now_ms = answer.json["to_ms"]

    # -- whole worlds -----------------------------------------------------------------------

    def _save(self) -> None:
        name = self._ledger.new_name("snapshot")
        # A running clock does nothing that the books of a snapshot would have to know.
        self._ledger.unsure_snapshot = name
        if self._is_done(self._owner.control("POST", "/snapshots", {"name": name})):
            self._ledger.snapshots[name] = self._ledger.copied()
        self._ledger.unsure_snapshot = None

    def _restore(self) -> None:
        if self._ledger.snapshots:
            name = self._random.choice(sorted(self._ledger.snapshots))
            books = self._ledger.snapshots[name]
            self._replace(books, lambda: self._owner.control("POST", f"/snapshots/{name}/restore"))

    def _reset(self) -> None:
        self._replace(Books(), lambda: self._owner.control("POST", "/reset", {}))

    def _replace(self, books: Books, call: Callable[[], Answer]) -> None:
        """Replace the world, after a message that is not in what it becomes."""
        ledger, witness = self._ledger, self._new_body()
        made = self._owner.message("POST", f"publish/{self._receiver.url('hook')}", {"Svc-Delay": "300d"}, witness)
        if not self._is_done(made):
            return
        replaced = Ledger(world=ledger.world, books=books).copied()
        ledger.doubt = Doubt(books=replaced, witness=witness, witness_id=made.json["messageId"])
        if self._is_done(call()):
            ledger.books = replaced
            ledger.now_ms = 0
        ledger.doubt = None
