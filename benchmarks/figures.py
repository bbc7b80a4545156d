"""A figure: what was measured, how much it is, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What a figure counts in, and how people read it."""

    SECONDS = "s"
    CPU_SECONDS = "s of CPU"
    MILLISECONDS = "ms"
    MICROSECONDS = "µs"
    MEGABYTES = "MB"
    PER_SECOND = "a second"

    @property
    def is_more_better(self) -> bool:
        return self is Unit.PER_SECOND

    def text(self, value: float) -> str:
        decimals = {Unit.SECONDS: 2, Unit.CPU_SECONDS: 2, Unit.MILLISECONDS: 1}.get(self, 0)
        if self is Unit.SECONDS and value < 1:
            decimals = 3
        return f"{value:,.{decimals}f} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure should come to: a value, or with `of_floor` a ratio to the floor."""

    limit: float
    of_floor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement of one thing.

    `floor` is in the same unit and from the same moment: what no emulator could beat, or what the
    same one does without the load in question; `beside` says which. `count` is how many things the
    time was spent on, `things` what they are. `steps` has what the same took in each of the equal
    steps of the work, where the figure is about its growth.
    """

    what: str
    value: float
    unit: Unit
    floor: float | None = None
    beside: str = "the floor"
    count: int = 0
    things: str = ""
    steps: tuple[float, ...] = ()
    target: Target | None = None

    @property
    def to_floor(self) -> float | None:
        """The ratio to the floor."""
        return None if self.floor is None else self.value / self.floor

    @property
    def target_text(self) -> str:
        if self.target is None:
            return "(no target)"
        bound = "at least" if self.unit.is_more_better else "at most"
        if not self.target.of_floor:
            return f"{bound} {self.unit.text(self.target.limit)}"
        return f"{bound} {self.target.limit} {'of' if self.unit.is_more_better else 'times'} {self.beside}"

    @property
    def is_met(self) -> bool:
        """Whether the target is reached; a figure without one is as good as it is."""
        if self.target is None:
            return True
        value = self.to_floor if self.target.of_floor else self.value
        assert value is not None
        return value >= self.target.limit if self.unit.is_more_better else value <= self.target.limit

    @property
    def is_ratio(self) -> bool:
        """Whether the ratio to the floor says more than the value: a busy machine changes both."""
        if self.floor is None:
            return False
        return self.unit.is_more_better if self.target is None else self.target.of_floor

    @property
    def rank(self) -> float:
        """The larger, the better."""
        value = self.to_floor if self.is_ratio else self.value
        assert value is not None
        return value if self.unit.is_more_better else -value

    @property
    def text(self) -> str:
        shown = self.unit.text(self.value)
        if self.floor is not None and self.to_floor is not None:
            ratio = ratio_text(self.to_floor)
            if not self.unit.is_more_better:
                return f"{shown}, {ratio} times {self.beside} ({self.unit.text(self.floor)})"
            if self.target is not None and not self.target.of_floor:
                return f"{shown}, {ratio} of {self.beside} ({self.unit.text(self.floor)})"
            return f"{ratio} of {self.beside} ({self.value:,.0f} of {self.floor:,.0f} a second)"
        if self.count and self.unit is Unit.SECONDS:
            return f"{shown} ({self.count / self.value:,.0f} {self.things} a second)"
        if self.count and self.unit is Unit.CPU_SECONDS:
            return f"{shown} for {self.count:,} {self.things} ({self.value / self.count * 1e6:,.0f} µs each)"
        return shown


def ratio_text(ratio: float) -> str:
    """A ratio with as many digits as can mean something."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"
