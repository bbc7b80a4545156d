"""Everything that happens later, ordered by `(due_ms, sequence)`.

The sequence is the order of arming, so ties are broken the same way in every run. At most one
timer lives per `(kind, subject)`: arming again replaces it. Entries that were replaced or
disarmed stay in their heap until they reach its top.

Timers fall into three classes, each with a heap of its own so that each can be asked for its
first: work to do, schedule firings, and quiet expiries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

from emulator.core.model.messages import TimerKind
from emulator.core.record import MessageId, Record

_WORK, _SCHEDULES, _QUIET = range(3)
_HEAP_OF = {
    kind: _SCHEDULES if kind is TimerKind.SCHEDULE else _QUIET if kind.is_quiet else _WORK for kind in TimerKind
}


class Timer(Record, order=True, array_like=True):
    """One wait: `subject` names the message, or the account and the thing in it, that waits.

    Sequences differ, so a comparison never reaches what comes after them. Stored as a list, like messages (D-403).
    """

    due_ms: int
    sequence: int
    kind: TimerKind
    subject: str


class Timers:
    """The heaps. Only `State.apply` arms and disarms."""

    def __init__(self) -> None:
        self._heaps: tuple[list[Timer], ...] = ([], [], [])
        self._live: dict[TimerKind, dict[str, Timer]] = {kind: {} for kind in TimerKind}
        self.sequence = 0

    def arm(self, kind: TimerKind, subject: str, due_ms: int) -> None:
        self.sequence += 1
        timer = Timer(due_ms=due_ms, sequence=self.sequence, kind=kind, subject=subject)
        self._live[kind][subject] = timer
        heapq.heappush(self._heaps[_HEAP_OF[kind]], timer)

    def disarm(self, kind: TimerKind, subject: str) -> None:
        self._live[kind].pop(subject, None)

    def set(self, kind: TimerKind, subject: str, due_ms: int | None) -> None:
        """Arm the timer, or disarm it where nothing is due (None)."""
        if due_ms is None:
            self.disarm(kind, subject)
        else:
            self.arm(kind, subject, due_ms)

    def _first(self, heaps: Iterable[list[Timer]]) -> Timer | None:
        """The first live timer of these heaps."""
        best = None
        live = self._live
        for heap in heaps:
            while heap:
                timer = heap[0]
                if live[timer.kind].get(timer.subject) is timer:
                    if best is None or timer < best:
                        best = timer
                    break
                heapq.heappop(heap)
        return best

    def due(self, now_ms: int) -> Timer | None:
        """The first timer due at or before the instant; it stays armed until a fact disarms it."""
        timer = self._first(self._heaps)
        return None if timer is None or timer.due_ms > now_ms else timer

    def next_due_ms(self) -> int | None:
        """The instant of the first timer of any kind, expiries included."""
        timer = self._first(self._heaps)
        return None if timer is None else timer.due_ms

    def next_work_ms(self, *, schedules: bool = True) -> int | None:
        """The instant of the first timer that stands for something to do, with or without schedule firings."""
        timer = self._first(self._heaps[:_QUIET] if schedules else self._heaps[:_SCHEDULES])
        return None if timer is None else timer.due_ms

    def __iter__(self) -> Iterator[Timer]:
        """All live timers in the order they will fire."""
        return iter(sorted(self._timers()))

    def _timers(self) -> Iterator[Timer]:
        return chain.from_iterable(timers.values() for timers in self._live.values())

    def up_to(self, last_ms: int) -> Iterator[Timer]:
        """Live timers due at an instant or before it, in the order they will fire; only what is taken is sorted."""
        heap = [timer for timer in self._timers() if timer.due_ms <= last_ms]
        heapq.heapify(heap)
        while heap:
            yield heapq.heappop(heap)

    def restore(self, timers: tuple[Timer, ...], sequence: int) -> None:
        """Put back exactly the timers of a checkpoint, sequence numbers and all."""
        self._heaps, self._live = ([], [], []), {kind: {} for kind in TimerKind}
        for timer in timers:
            self._live[timer.kind][timer.subject] = timer
            # They come in the order they will fire, which is that of a heap.
            self._heaps[_HEAP_OF[timer.kind]].append(timer)
        self.sequence = sequence


# -- waiting for a slot -------------------------------------------------------------------------


class WaitList:
    """Messages that wait for a slot, ordered by ticket; leaving from the middle is lazy and cheap."""

    __slots__ = ("_heap", "_tickets")

    def __init__(self) -> None:
        self._heap: list[tuple[int, MessageId]] = []
        self._tickets: dict[MessageId, int] = {}

    def join(self, message_id: MessageId, ticket: int) -> None:
        self._tickets[message_id] = ticket
        heapq.heappush(self._heap, (ticket, message_id))

    def leave(self, message_id: MessageId) -> None:
        self._tickets.pop(message_id, None)

    @property
    def first(self) -> MessageId | None:
        heap = self._heap
        while heap:
            ticket, message_id = heap[0]
            if self._tickets.get(message_id) == ticket:
                return message_id
            heapq.heappop(heap)
        return None

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._tickets

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[MessageId]:
        return iter(sorted(self._tickets, key=self._tickets.__getitem__))
