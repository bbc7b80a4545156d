"""The rows of the table: what is measured, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks import advancing, history, pending, publishing, starting, worlds
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure

Measure = Callable[[Checkout], Iterable[Figure]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement of one checkout, which gives several figures, and how often it is made.

    A long one is made only if it is asked for by its name.
    """

    measure: Measure
    rounds: int = 3
    is_long: bool = False


ROWS: dict[str, Row] = {
    "ready": Row(measure=starting.ready),
    "import": Row(measure=starting.imports),
    "publish": Row(measure=publishing.publish, rounds=5),
    "enqueue": Row(measure=publishing.enqueue, rounds=5),
    "batch": Row(measure=publishing.batch),
    "follower": Row(measure=publishing.follower),
    "month": Row(measure=advancing.month),
    "receiver": Row(measure=advancing.receiver),
    "backlog": Row(measure=advancing.backlog),
    "worlds": Row(measure=worlds.worlds),
    "many-worlds": Row(measure=worlds.many, rounds=1),
    "python": Row(measure=worlds.python),
    "snapshots": Row(measure=worlds.snapshots),
    "statistics": Row(measure=history.statistics, rounds=1),
    "pending": Row(measure=pending.pending, rounds=1),
    "million": Row(measure=pending.million, rounds=1, is_long=True),
    "growth": Row(measure=history.growth, rounds=1, is_long=True),
}
