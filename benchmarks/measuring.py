"""Measuring: one checkout several times, or two of them in turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import httpx

from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure
from benchmarks.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same figure of this checkout and of another one, from pairs measured one right after the other."""

    pairs: Sequence[tuple[Figure, Figure]]

    @property
    def what(self) -> str:
        return self.pairs[0][0].what

    @property
    def ours(self) -> Figure:
        """The median one of this checkout."""
        return _middle([ours for ours, _ in self.pairs])

    @property
    def theirs(self) -> Figure:
        """The median one of the other checkout."""
        return _middle([theirs for _, theirs in self.pairs])

    @property
    def ratios(self) -> list[float]:
        """This checkout's value to the other's in each pair, the smallest first."""
        return sorted(ours.value / theirs.value if theirs.value else float("nan") for ours, theirs in self.pairs)

    @property
    def ratio(self) -> float:
        """The median of the ratios: what the machine did meanwhile, it did to both of a pair."""
        return median(self.ratios)


def best(row: Row, checkout: Checkout, rounds: int) -> list[Figure]:
    """The best of every figure of a row: whatever disturbs makes it worse.

    Of a ratio it is the median: it is too good where the floor alone was disturbed.
    """
    found: dict[str, list[Figure]] = {}
    for _ in range(rounds):
        for figure in row.measure(checkout):
            found.setdefault(figure.what, []).append(figure)
    ranked = [sorted(each, key=lambda figure: figure.rank) for each in found.values()]
    return [each[len(each) // 2] if each[0].is_ratio else each[-1] for each in ranked]


def compare(row: Row, ours: Checkout, theirs: Checkout, rounds: int) -> list[Comparison]:
    """Every figure of a row, of both checkouts in turns; whichever came second comes first in the next round.

    No figure, and a line that says so, if the other one lacks something that is measured.
    """
    pairs: dict[str, list[tuple[Figure, Figure]]] = {}
    for number in range(rounds):
        try:
            if number % 2 == 0:
                one = _measured(row, ours)
                other = _measured_elsewhere(row, theirs)
            else:
                other = _measured_elsewhere(row, theirs)
                one = _measured(row, ours)
        except _Lacking as lacking:
            print(f"{', '.join(one)}: left out, {theirs.commit} lacks something of it: {lacking}", file=sys.stderr)
            return []
        for what in [what for what in one if what in other]:
            pairs.setdefault(what, []).append((one[what], other[what]))
    return [Comparison(pairs=each) for each in pairs.values()]


def _measured(row: Row, checkout: Checkout) -> dict[str, Figure]:
    return {figure.what: figure for figure in row.measure(checkout)}


class _Lacking(Exception):
    """A checkout cannot do what is measured; the text says what failed."""


def _measured_elsewhere(row: Row, checkout: Checkout) -> dict[str, Figure]:
    """As `_measured`. Raises _Lacking."""
    try:
        return _measured(row, checkout)
    except (subprocess.CalledProcessError, httpx.HTTPStatusError, RuntimeError) as error:
        raise _Lacking(error) from error


def _middle(figures: list[Figure]) -> Figure:
    return sorted(figures, key=lambda figure: figure.value)[len(figures) // 2]
