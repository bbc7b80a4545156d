"""The rows of the table: what is measured, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import advancing, history, pending, publishing, scale, starting, worlds
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure

Measure = Callable[[Checkout], Iterable[Figure]]
GROWTH = "growth"


class NoRow(Exception):
    """There is no such row, or none of that form; the text says so in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement of one checkout, which gives several figures, and how often it is made.

    `short` is the same with less of everything. A long row is made only if it is asked for by its name.
    """

    measure: Measure
    rounds: int = 3
    short: Measure | None = None
    is_long: bool = False


ROWS: dict[str, Row] = {
    # What those pay first who run tests.
    "per-test": Row(measure=worlds.per_test, rounds=1),
    "firing": Row(measure=worlds.firing, short=partial(worlds.firing, minutes=1_440)),
    "python": Row(measure=worlds.python, short=partial(worlds.python, repeats=50)),
    "reading": Row(measure=worlds.reading, rounds=1, short=partial(worlds.reading, minutes=1_440)),
    "ready": Row(measure=starting.ready, short=partial(starting.ready, starts=1)),
    "import": Row(measure=starting.imports),
    "publish": Row(measure=publishing.publish, rounds=5, short=partial(publishing.publish, requests=600)),
    "enqueue": Row(measure=publishing.enqueue, rounds=5),
    "batch": Row(measure=publishing.batch, short=partial(publishing.batch, sizes={100: 15})),
    "telemetry": Row(
        measure=publishing.telemetry, rounds=1, short=partial(publishing.telemetry, starts=1, requests=1000)
    ),
    "follower": Row(measure=publishing.follower, short=partial(publishing.follower, requests=600)),
    "month": Row(measure=advancing.month, short=partial(advancing.month, days=2, places=[False])),
    "receiver": Row(
        measure=advancing.receiver, short=partial(advancing.receiver, hours=12, at_once=500, places=[False])
    ),
    "backlog": Row(measure=advancing.backlog),
    "worlds": Row(measure=worlds.worlds, short=partial(worlds.worlds, repeats=10)),
    "many-worlds": Row(measure=worlds.many, rounds=1),
    "snapshots": Row(measure=worlds.snapshots),
    "pending": Row(measure=pending.pending, rounds=1),
    "scale": Row(measure=scale.scale, rounds=1, is_long=True),
    "workers": Row(measure=scale.workers, rounds=1, is_long=True),
    "million": Row(measure=pending.million, rounds=1, is_long=True),
    GROWTH: Row(measure=history.growth, rounds=1, is_long=True),
}


def chosen(names: Sequence[str] | None, *, is_short: bool = False) -> list[Row]:
    """The rows of these names, or without names those that are not long; short, those that have a short form.

    Raises NoRow.
    """
    forms = {name: Row(measure=row.short, rounds=1) for name, row in ROWS.items() if row.short} if is_short else ROWS
    wanted = [name for name, row in forms.items() if not row.is_long] if names is None else names
    missing = [name for name in wanted if name not in forms]
    if missing:
        raise NoRow(f"no such row{' in short' if is_short else ''}: {', '.join(missing)}; there are {', '.join(forms)}")
    return [forms[name] for name in wanted]
