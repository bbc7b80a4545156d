"""Watching a world: to be woken when something has happened in it, and to learn how its clock was moved.

A watch carries no facts. Whoever is woken reads history, which shows only what is durable, and
reads it at its own pace: nothing waits for it in memory.
"""

from __future__ import annotations

import asyncio
import contextlib

from emulator.core.record import Record


class ClockMove(Record):
    """Where the clock stands and how fast it goes; `from_ms` is where it was moved from, None if it was not.

    Time that passes by itself is no move (D-223).
    """

    from_ms: int | None
    now_ms: int
    rate: float


class Watch:
    """One watcher's view of a world, from `start` on."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._now_ms = 0
        self._rate = 0.0
        self._moved_from_ms: int | None = None

    def start(self, now_ms: int, rate: float) -> ClockMove:
        """Where the clock stands; moves are told from here on. Again for another life of the world."""
        self._now_ms, self._rate, self._moved_from_ms = now_ms, rate, None
        return ClockMove(from_ms=None, now_ms=now_ms, rate=rate)

    def notice(self, now_ms: int, *, is_moving: bool) -> None:
        """Something has happened at `now_ms`; `is_moving` while the clock is being moved by somebody."""
        if is_moving and self._moved_from_ms is None:
            self._moved_from_ms = self._now_ms
        self._now_ms = now_ms

    def wake(self) -> None:
        self._happened.set()

    async def wait(self, seconds: float) -> bool:
        """Return True once it was woken since the last call, False if it was not for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        happened = self._happened.is_set()
        self._happened.clear()
        return happened

    def take_move(self, now_ms: int, rate: float) -> ClockMove | None:
        """How the clock was moved since the last call, or got another pace; None if neither."""
        from_ms, self._moved_from_ms = self._moved_from_ms, None
        is_moved = from_ms is not None and from_ms != self._now_ms
        if not is_moved and rate == self._rate:
            return None
        self._rate = rate
        return ClockMove(from_ms=from_ms if is_moved else None, now_ms=now_ms, rate=rate)
