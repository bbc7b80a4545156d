"""The virtual clock of an `AsyncEmulator`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from emulator.client.errors import is_told
from emulator.client.records import moment
from emulator.client.values import Duration, Instant
from emulator.queries.reports import AdvanceReport, ClockStatus

if TYPE_CHECKING:
    from emulator.client.aio.emulator import AsyncEmulator

__tracebackhide__ = is_told


class AsyncClock:
    """The world's virtual clock."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator

    async def now(self) -> datetime:
        """The virtual instant it is, in UTC."""
        return moment((await self.status()).now_ms)

    async def status(self) -> ClockStatus:
        """Where the clock stands, how fast it goes, what is due next (epoch ms) and how much is pending."""
        return await self._emulator._do(self._emulator._here().clock())

    async def advance(self, by: Duration, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock by `1d2h30m`, milliseconds or a timedelta, doing all due work on the way in order.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", headers={"Svc-Delay": "1h"})
            ...     (await emulator.clock.advance("1d")).deliveries
            1

        Returns when nothing is in flight; `max_deliveries` stops it early. Raises Refused during
        another advance.
        """
        return await self._emulator._do(self._emulator._here().advance(by, None, max_deliveries))

    async def advance_to(self, to: Instant, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock to an instant: ISO 8601, epoch ms, or a datetime. See `advance`."""
        return await self._emulator._do(self._emulator._here().advance(None, to, max_deliveries))

    async def next(self) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it."""
        return await self._emulator._do(self._emulator._here().next())

    async def drain(self, horizon: Duration | None = None) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for the horizon of 30 days."""
        return await self._emulator._do(self._emulator._here().drain(horizon))

    async def set(self, now: Instant) -> ClockStatus:
        """Set the clock: forward does the work on the way, back is refused once anything has happened."""
        return await self._emulator._do(self._emulator._here().set_clock(now=now))

    async def rate(self, rate: float) -> ClockStatus:
        """Let time pass by itself: 1 is real time, 60 a virtual minute a second, 0 freezes it."""
        return await self._emulator._do(self._emulator._here().set_clock(rate=rate))
