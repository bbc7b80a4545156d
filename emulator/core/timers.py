"""Everything that happens later, ordered by `(due_ms, sequence)`.

The sequence is the order of arming, so ties are broken the same way in every run. At most one
timer lives per `(kind, subject)`: arming again replaces it. Entries that were replaced or
disarmed stay in their heap until they reach its top.

Timers fall into three classes, each with a heap of its own so that each can be asked for its
first: work to do, schedule firings, and quiet expiries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from emulator.core.model import TimerKind
from emulator.core.record import Record

_Entry = tuple[int, int, TimerKind, str]


class Timer(Record):
    """One wait: `subject` names the message, or the account and the thing in it, that waits."""

    due_ms: int
    sequence: int
    kind: TimerKind
    subject: str


class Timers:
    """The heaps. Only `State.apply` arms and disarms."""

    def __init__(self) -> None:
        self._work: list[_Entry] = []
        self._schedules: list[_Entry] = []
        self._quiet: list[_Entry] = []
        self._live: dict[tuple[TimerKind, str], _Entry] = {}
        self._sequence = 0

    def arm(self, kind: TimerKind, subject: str, due_ms: int) -> None:
        self._sequence += 1
        entry = (due_ms, self._sequence, kind, subject)
        self._live[kind, subject] = entry
        heapq.heappush(self._heap_of(kind), entry)

    def disarm(self, kind: TimerKind, subject: str) -> None:
        self._live.pop((kind, subject), None)

    def set(self, kind: TimerKind, subject: str, due_ms: int | None) -> None:
        """Arm the timer, or disarm it where nothing is due (None)."""
        if due_ms is None:
            self.disarm(kind, subject)
        else:
            self.arm(kind, subject, due_ms)

    def _heap_of(self, kind: TimerKind) -> list[_Entry]:
        if kind is TimerKind.SCHEDULE:
            return self._schedules
        return self._quiet if kind.is_quiet else self._work

    def _first(self, heap: list[_Entry]) -> _Entry | None:
        while heap:
            entry = heap[0]
            if self._live.get((entry[2], entry[3])) is entry:
                return entry
            heapq.heappop(heap)
        return None

    def _first_of_all(self) -> _Entry | None:
        best = self._first(self._work) if self._work else None
        for heap in (self._schedules, self._quiet):
            # Sequences differ, so the comparison never reaches the kinds.
            if heap and (entry := self._first(heap)) is not None and (best is None or entry < best):
                best = entry
        return best

    def due(self, now_ms: int) -> Timer | None:
        """The first timer due at or before the instant; it stays armed until a fact disarms it."""
        entry = self._first_of_all()
        if entry is None or entry[0] > now_ms:
            return None
        return Timer(due_ms=entry[0], sequence=entry[1], kind=entry[2], subject=entry[3])

    def next_due_ms(self) -> int | None:
        """The instant of the first timer of any kind, expiries included."""
        entry = self._first_of_all()
        return None if entry is None else entry[0]

    def next_work_ms(self, *, schedules: bool = True) -> int | None:
        """The instant of the first timer that stands for something to do, with or without schedule firings."""
        instants = [
            entry[0]
            for entry in (self._first(self._work), self._first(self._schedules) if schedules else None)
            if entry is not None
        ]
        return min(instants, default=None)

    def __iter__(self) -> Iterator[Timer]:
        """All live timers in the order they will fire."""
        for due_ms, sequence, kind, subject in sorted(self._live.values(), key=lambda entry: entry[:2]):
            yield Timer(due_ms=due_ms, sequence=sequence, kind=kind, subject=subject)

    def up_to(self, last_ms: int) -> Iterator[Timer]:
        """Live timers due at an instant or before it, in the order they will fire; only what is taken is sorted."""
        heap = [entry for entry in self._live.values() if entry[0] <= last_ms]
        heapq.heapify(heap)
        while heap:
            due_ms, sequence, kind, subject = heapq.heappop(heap)
            yield Timer(due_ms=due_ms, sequence=sequence, kind=kind, subject=subject)

    def restore(self, timers: tuple[Timer, ...], sequence: int) -> None:
        """Put back exactly the timers of a checkpoint, sequence numbers and all."""
        self._work, self._schedules, self._quiet, self._live = [], [], [], {}
        for timer in timers:
            entry = (timer.due_ms, timer.sequence, timer.kind, timer.subject)
            self._live[timer.kind, timer.subject] = entry
            heapq.heappush(self._heap_of(timer.kind), entry)
        self._sequence = sequence

    @property
    def sequence(self) -> int:
        return self._sequence
