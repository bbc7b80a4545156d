"""The virtual clock of an `Emulator`.

Made from `aio/clock.py` by `python -m tests.client.faces`; edit that file, not this one.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from emulator.client.errors import is_told
from emulator.client.records import moment
from emulator.client.values import Duration, Instant
from emulator.queries.reports import AdvanceReport, ClockStatus

if TYPE_CHECKING:
    from emulator.client.sync.emulator import Emulator

__tracebackhide__ = is_told


class Clock:
    """The world's virtual clock."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def now(self) -> datetime:
        """The virtual instant it is, in UTC."""
        return moment((self.status()).now_ms)

    def status(self) -> ClockStatus:
        """Where the clock stands, how fast it goes, what is due next (epoch ms) and how much is pending."""
        return self._emulator._do(self._emulator._here().clock())

    def advance(self, by: Duration, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock by `1d2h30m`, milliseconds or a timedelta, doing all due work on the way in order.

            >>> with Emulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = emulator.publish("https://app.example.com", headers={"Svc-Delay": "1h"})
            ...     (emulator.clock.advance("1d")).deliveries
            1

        Returns when nothing is in flight; `max_deliveries` stops it early. Raises Refused during
        another advance.
        """
        return self._emulator._do(self._emulator._here().advance(by, None, max_deliveries))

    def advance_to(self, to: Instant, *, max_deliveries: int | None = None) -> AdvanceReport:
        """Move the clock to an instant: ISO 8601, epoch ms, or a datetime. See `advance`."""
        return self._emulator._do(self._emulator._here().advance(None, to, max_deliveries))

    def next(self) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it."""
        return self._emulator._do(self._emulator._here().next())

    def drain(self, horizon: Duration | None = None) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for the horizon of 30 days."""
        return self._emulator._do(self._emulator._here().drain(horizon))

    def set(self, now: Instant) -> ClockStatus:
        """Set the clock: forward does the work on the way, back is refused once anything has happened."""
        return self._emulator._do(self._emulator._here().set_clock(now=now))

    def rate(self, rate: float) -> ClockStatus:
        """Let time pass by itself: 1 is real time, 60 a virtual minute a second, 0 freezes it."""
        return self._emulator._do(self._emulator._here().set_clock(rate=rate))
