"""What a part of the campaign is given to play one round, and where it reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

# Of one kind of finding, so many are printed; the rest are counted.
_EXAMPLES = 3


@dataclass
class Report:
    """What was done, how often, and what was found. `repeat` is the command line without the round."""

    repeat: str
    round: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def highest(self, what: str, value: float) -> None:
        """Keep the highest value of a measurement."""
        self.counts[what] = max(self.counts[what], round(value))

    def found(self, kind: str, text: str) -> None:
        """Something that must not be. `kind` groups findings: it is the same for the same fault."""
        self.findings[kind] += 1
        if self.findings[kind] <= _EXAMPLES:
            shown = text if len(text) <= 600 else f"{text[:400]} ... {text[-200:]}"
            print(f"FOUND {kind}: {shown!r}\n      again: {self.repeat} --round {self.round}", flush=True)

    def expect(self, holds: bool, kind: str, text: str) -> None:
        """Report `text` unless it holds."""
        if not holds:
            self.found(kind, text)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: its number, its own random choices, an empty folder, and what the rounds of a run share."""

    number: int
    random: Random
    folder: Path
    report: Report
    shared: dict[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the campaign.

    `limit_s` is how long a round may take on a busy machine. `namespaces` are options of `unshare`:
    where it is allowed, the part gets a mount table or a network of its own.
    """

    what: str
    play: Callable[[Round], None]
    limit_s: int = 180
    namespaces: tuple[str, ...] = ()
