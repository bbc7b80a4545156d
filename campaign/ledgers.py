"""What a world must hold, going by what it has acknowledged."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from campaign.calls import Caller, NoAnswer, created_bodies, hash_of, pages
from campaign.rounds import Report

# The latest instant at which a message of the random work is due, with all retries.
LAST_DUE = "3d"


@dataclass
class Books:
    """The acknowledged contents of a world; each message is known by its body."""

    delivered_to: dict[str, str] = field(default_factory=dict)  # body of a message -> path at the receiver
    ids: dict[str, str] = field(default_factory=dict)
    canceled: set[str] = field(default_factory=set)
    # True: must be there. False: must not. None: its last change was not acknowledged.
    schedules: dict[str, bool | None] = field(default_factory=dict)


@dataclass
class Doubt:
    """A call that was not acknowledged and replaces the whole world. `witness` is a message that it removes."""

    books: Books
    witness: str
    witness_id: str


@dataclass
class Ledger:
    """One world: its books, those of its snapshots, and all bodies that were ever sent to it."""

    world: str
    seed_of_names: int = 0
    books: Books = field(default_factory=Books)
    snapshots: dict[str, Books] = field(default_factory=dict)
    unsure_snapshot: str | None = None
    attempted: set[str] = field(default_factory=set)
    doubt: Doubt | None = None
    now_ms: int = 0

    def new_name(self, kind: str) -> str:
        self.seed_of_names += 1
        return f"{self.world}-{kind}-{self.seed_of_names}"

    def copied(self) -> Books:
        return copy.deepcopy(self.books)

    # -- after a restart --------------------------------------------------------------------

    def settle(self, owner: Caller, report: Report) -> None:
        """Find out how the call ended that the crash left unanswered. Raises NoAnswer."""
        if self.unsure_snapshot is not None:
            listed = owner.control("GET", "/snapshots").json["snapshots"]
            if self.unsure_snapshot in {each["name"] for each in listed}:
                self.snapshots[self.unsure_snapshot] = self.copied()
            self.unsure_snapshot = None
        if self.doubt is not None:
            found = owner.message("GET", f"messages/{self.doubt.witness_id}")
            is_there = found.status == 200 and found.json.get("body") == self.doubt.witness
            if found.status not in (200, 404):
                report.found("a message cannot be looked up after a restart", f"{self.world}: {found}")
            if not is_there:
                self.books = self.doubt.books
                self.now_ms = 0
                report.count("replacements of a world found done after a kill")
            self.doubt = None

    def check(self, owner: Caller, report: Report) -> None:
        """Hold the world against the books. Raises NoAnswer."""
        try:
            created = created_bodies(owner)
        except NoAnswer as failed:
            report.found("the trace cannot be read after a restart", f"{self.world}: {failed}")
            return
        lost = [body for body in self.books.delivered_to if hash_of(body) not in created]
        report.count("acknowledged messages looked for after a kill", len(self.books.delivered_to))
        report.expect(not lost, "an acknowledged message is lost", f"{self.world}: {lost[:5]} of {len(lost)}")
        self._check_schedules(owner, report)
        now_ms = owner.control("GET", "/clock").json["now_ms"]
        report.expect(now_ms >= self.now_ms, "the clock went back", f"{self.world}: {self.now_ms} -> {now_ms}")

    def _check_schedules(self, owner: Caller, report: Report) -> None:
        answer = owner.message("GET", "schedules")
        if answer.status != 200:
            raise NoAnswer(f"GET schedules: {answer}")
        there = {each["scheduleId"] for each in answer.json}
        for schedule, is_wanted in self.books.schedules.items():
            if is_wanted is not None and (schedule in there) != is_wanted:
                kind = "an acknowledged schedule is lost" if is_wanted else "a deleted schedule is back"
                report.found(kind, f"{self.world}: {schedule}")
        # What was in doubt is certain now.
        self.books.schedules = {name: name in there for name in self.books.schedules}

    # -- at the end -------------------------------------------------------------------------

    def check_deliveries(self, owner: Caller, accepted: set[str], report: Report) -> None:
        """After an advance past everything that was due: each message was delivered, or is a dead letter."""
        dead = {entry.get("body") for entry in pages(owner, "dlq?count=100", "messages")}
        for body, path in self.books.delivered_to.items():
            if body in self.books.canceled:
                continue
            is_done = body in dead if path == "broken" else body in accepted
            report.expect(is_done, "an acknowledged message was never delivered", f"{self.world}: {body} to /{path}")
            report.count("deliveries found")
        for schedule, is_there in self.books.schedules.items():
            if is_there:
                report.expect(schedule in accepted, "a schedule never fired", f"{self.world}: {schedule}")
