"""Watching a world: a watcher is woken when something has happened, and learns how the clock was moved.

A watch carries no facts but refused firings, a bounded number of them. A watcher that is woken reads
history, which shows only what is durable, at its own pace; so a slow watcher costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Sequence

from emulator.core.record import Record
from emulator.core.resource_facts import ClockMoved, DestinationHeld, DestinationReleased, ScheduleFired
from emulator.core.state import Fact

# A slow watcher gets at most this many refused firings at once, so that memory stays bounded.
_MOST_REFUSED = 1_000


class ClockMove(Record):
    """Where the clock stands and its rate; `from_ms` is where it was moved from, None if it was not.

    Time that passes by itself is no move (D-223). There is one without `from_ms` when a destination is held, or no
    longer.
    """

    from_ms: int | None
    now_ms: int
    rate: float


class Watch:
    """One watcher's view of a world, from `start` on."""

    def __init__(self) -> None:
        self._refused: deque[ScheduleFired] = deque(maxlen=_MOST_REFUSED)
        self._happened = asyncio.Event()
        self._now_ms = 0
        self._rate = 0.0
        self._moved_from_ms: int | None = None
        self._holds_changed = False

    def start(self, now_ms: int, rate: float) -> ClockMove:
        """Where the clock stands; moves are reported from here on. Call again after a reset of the world."""
        self._now_ms, self._rate, self._moved_from_ms = now_ms, rate, None
        self._holds_changed = False
        self._refused.clear()
        return ClockMove(from_ms=None, now_ms=now_ms, rate=rate)

    def notice(
        self, now_ms: int, refused: Sequence[ScheduleFired] = (), *, is_moving: bool, holds_changed: bool = False
    ) -> None:
        """Something has happened at `now_ms`; `is_moving` during a clock advance.

        `holds_changed` says that a destination was held or released. Firings that made no message are kept here until
        they are sent: history does not show them.
        """
        if is_moving and self._moved_from_ms is None:
            self._moved_from_ms = self._now_ms
        self._now_ms = now_ms
        self._holds_changed |= holds_changed
        self._refused.extend(refused)

    def take_refused(self) -> list[ScheduleFired]:
        """The refused firings since the last call; of very many the latest ones."""
        taken = list(self._refused)
        self._refused.clear()
        return taken

    def wake(self) -> None:
        self._happened.set()

    async def wait(self, seconds: float) -> bool:
        """True once it was woken since the last call, False if it was not for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        happened = self._happened.is_set()
        self._happened.clear()
        return happened

    def take_move(self, now_ms: int, rate: float) -> ClockMove | None:
        """How the clock was moved since the last call, or got another rate, or which destinations are held.

        None if nothing of that changed.
        """
        from_ms, self._moved_from_ms = self._moved_from_ms, None
        holds_changed, self._holds_changed = self._holds_changed, False
        is_moved = from_ms is not None and from_ms != self._now_ms
        if not is_moved and rate == self._rate and not holds_changed:
            return None
        self._rate = rate
        return ClockMove(from_ms=from_ms if is_moved else None, now_ms=now_ms, rate=rate)


class Watches:
    """All watches of one world."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []

    def __len__(self) -> int:
        return len(self._watches)

    def __iter__(self) -> Iterator[Watch]:
        return iter(self._watches)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Watch]:
        """A watch that is woken by what happens, for as long as the context lasts."""
        watch = Watch()
        self._watches.append(watch)
        try:
            yield watch
        finally:
            self._watches.remove(watch)

    def notice(self, now_ms: int, produced: Sequence[Fact], *, is_moving: bool) -> None:
        """Facts were produced; `is_moving` during a clock advance."""
        # Time that passes by itself wakes no watcher.
        is_news = is_moving or any(type(fact) is not ClockMoved for fact in produced)
        refused = [fact for fact in produced if isinstance(fact, ScheduleFired) and fact.error is not None]
        holds_changed = any(isinstance(fact, (DestinationHeld, DestinationReleased)) for fact in produced)
        for watch in self._watches:
            watch.notice(now_ms, refused, is_moving=is_moving, holds_changed=holds_changed)
            if is_news:
                watch.wake()

    def wake(self) -> None:
        for watch in self._watches:
            watch.wake()
