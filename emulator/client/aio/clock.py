"""The virtual clock of an `AsyncEmulator`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_emulator_error
from emulator.client.records import moment, read_clock, read_report
from emulator.client.values import Duration, Instant, duration, given, instant
from emulator.queries.reports import AdvanceReport, ClockStatus

__tracebackhide__ = is_emulator_error


class AsyncClock:
    """The world's virtual clock."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def now(self) -> datetime:
        """The virtual instant it is, in UTC."""
        return moment((await self.status()).now_ms)

    async def status(self) -> ClockStatus:
        """The instant and the rate of the clock, what is due next (epoch ms) and how much is pending."""
        return await self._link.run(self._link.session.clock())

    async def advance(
        self, by: Duration, *, max_deliveries: int | None = None, undoable: bool = False
    ) -> AdvanceReport:
        """Move the clock by `1d2h30m`, milliseconds or a timedelta, doing all due work on the way in order.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
            ...     (await emulator.clock.advance("1d")).deliveries
            1

        Returns when nothing is in flight; `max_deliveries` stops it early, `undo` takes an `undoable`
        one back. Raises Refused during another advance, and in the handler of a receiver.
        """
        return await self._move("advance", by=duration(by), max_deliveries=max_deliveries, undoable=undoable or None)

    async def advance_to(
        self, to: Instant, *, max_deliveries: int | None = None, undoable: bool = False
    ) -> AdvanceReport:
        """Move the clock to an instant: ISO 8601, epoch ms, or a datetime. See `advance`."""
        return await self._move("advance", to=instant(to), max_deliveries=max_deliveries, undoable=undoable or None)

    async def undo(self) -> ClockStatus:
        """Take the last undoable advance back, with all that has happened since; again, the one before (D-435).

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
            ...     report = await emulator.clock.advance("1d", undoable=True)
            ...     status = await emulator.clock.undo()
            ...     (report.deliveries, str(await emulator.clock.now()), await emulator.deliveries())
            (1, '2026-01-01 00:00:00+00:00', [])

        What a receiver was sent stays sent. Raises Refused without an advance to take back.
        """
        self._check_may_move()
        return read_clock((await self._link.control("POST", "clock/undo", refresh=True))["clock"])

    async def next(self, *, undoable: bool = False) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it; `undo` takes an `undoable` jump back."""
        return await self._move("next", undoable=undoable or None)

    async def drain(self, horizon: Duration | None = None, *, undoable: bool = False) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for the horizon of 30 days.

        `undo` takes an `undoable` one back.
        """
        limit = None if horizon is None else duration(horizon)
        return await self._move("drain", horizon=limit, undoable=undoable or None)

    async def set(self, now: Instant) -> ClockStatus:
        """Set the clock: forward does the work on the way, back is refused once anything has happened."""
        self._check_may_move()
        return read_clock(await self._link.control("PUT", "clock", {"now": instant(now)}))

    async def rate(self, rate: float) -> ClockStatus:
        """Let time pass by itself: 1 is real time, 60 a virtual minute a second, 0 freezes it."""
        return read_clock(await self._link.control("PUT", "clock", {"rate": rate}))

    async def _move(self, how: str, **wanted: Any) -> AdvanceReport:
        self._check_may_move()
        return read_report(await self._link.control("POST", f"clock/{how}", given(wanted)))

    def _check_may_move(self) -> None:
        session = self._link.session
        session.server.check_may_move_clock(session.world)
