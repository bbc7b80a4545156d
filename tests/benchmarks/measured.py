"""Figures and rows of the benchmarks that are written down instead of measured."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit
from benchmarks.rows import Row


def rate(value: float, *, floor: float = 1000, what: str = "publish") -> Figure:
    """A rate whose target is half of the floor."""
    return Figure(what=what, value=value, unit=Unit.PER_SECOND, floor=floor, target=Target(limit=0.5, of_floor=True))


def seconds(value: float, *, what: str = "month", limit: float | None = None) -> Figure:
    target = None if limit is None else Target(limit=limit)
    return Figure(what=what, value=value, unit=Unit.SECONDS, count=43_200, things="firings", target=target)


def growing(*steps: float) -> Figure:
    return Figure(
        what="growth", value=steps[-1], unit=Unit.MICROSECONDS, count=100_000, things="deliveries", steps=steps
    )


def row_of(*rounds: list[Figure], seen: list[Checkout] | None = None) -> Row:
    """A row that gives these figures, one list in each round; `seen` gets the checkouts that it is asked about."""
    remaining = iter(rounds)

    def measure(checkout: Checkout) -> Iterator[Figure]:
        if seen is not None:
            seen.append(checkout)
        yield from next(remaining)

    return Row(measure=measure)
