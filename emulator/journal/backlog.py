"""How far the database of a world is behind what has happened in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from emulator.core.facts import Fact, MessageCreated


class Group(NamedTuple):
    """Facts that history is to show next. `unwritten` are those of them that the database does not have."""

    facts: list[Fact]
    unwritten: list[Fact]
    body_bytes: int


@dataclass(slots=True, kw_only=True)
class Backlog:
    """Facts that are still to be written, and those that history does not show yet: of these, the bytes of bodies.

    `appended`, `written`, `projected` and `covered` count facts from the world's first: how many have happened, the
    database has, history shows, and a checkpoint covers.
    """

    appended: int = 0
    written: int = 0
    projected: int = 0
    covered: int = 0
    to_write: list[Fact] = field(default_factory=list)
    to_project: list[Fact] = field(default_factory=list)
    body_bytes: int = 0

    def append(self, facts: Sequence[Fact], *, are_written: bool) -> None:
        """Facts have happened. Without `are_written`, the database gets none, only the history of them."""
        self.appended += len(facts)
        if are_written:
            self.to_write.extend(facts)
        self.to_project.extend(facts)
        for fact in facts:
            if type(fact) is MessageCreated:
                self.body_bytes += len(fact.message.body)

    def take_to_write(self) -> list[Fact]:
        """All facts that are still to be written, whose numbers end with `appended`."""
        facts, self.to_write = self.to_write, []
        return facts

    def take_to_project(self) -> Group:
        """All facts that history does not show, whose numbers end with `appended`."""
        group = Group(self.to_project, self.take_to_write(), self.body_bytes)
        self.to_project, self.body_bytes = [], 0
        return group

    def copy(self) -> Backlog:
        """That of a copy in memory of what the database holds, which shows the same history."""
        return Backlog(
            appended=self.appended,
            written=self.appended,
            projected=self.projected,
            to_project=list(self.to_project),
            body_bytes=self.body_bytes,
        )
