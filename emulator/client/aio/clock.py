"""The virtual clock of an `AsyncEmulator`, and the snapshots to which it returns."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

import msgspec

from emulator.client.aio.link import Part
from emulator.client.arguments import Duration, Instant, Lengths, check_filter, duration, given, instant, length
from emulator.client.control import segment
from emulator.client.errors import has_to_be_awaited, is_emulator_error
from emulator.client.records import read_snapshot
from emulator.queries.reports import AdvanceReport, ClockStatus, Snapshot, not_reached

__tracebackhide__ = is_emulator_error


@has_to_be_awaited
class AsyncClock(Part):
    """The world's virtual clock."""

    async def now(self) -> datetime:
        """The virtual instant it is, in UTC."""
        return (await self.status()).now

    async def status(self) -> ClockStatus:
        """The instant and the rate of the clock, what is due next (epoch ms) and how much is pending."""
        return await self._link.run(self._link.session.clock())

    async def advance(
        self,
        by: Duration | None = None,
        *,
        until: str | None = None,
        horizon: Duration | None = None,
        max_deliveries: int | None = None,
        undoable: bool = False,
        **lengths: Unpack[Lengths],
    ) -> AdvanceReport:
        """Move the clock by `"1d2h30m"`, a timedelta or `days=1` and the like, doing all due work on the way.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
            ...     (await emulator.clock.advance("1d")).deliveries
            1

        Returns when nothing is in flight; `max_deliveries` stops it early, `undo` takes an `undoable`
        one back. Raises Refused during another advance, and in the handler of a receiver, and TypeError
        for a number, which has no unit.

        `until` instead of a length is a condition that is looked at after each instant: `"next"`, `"idle"`,
        `"dead-letters"`, `"message ID"` and `"run ID"` (it has ended), `"deliveries 3"` (made by this call), or an
        instant. Raises AssertionError if it is not true at the end, at most `horizon` (30 days) later.
        """
        wanted: dict[str, Any] = {"max_deliveries": max_deliveries, "undoable": undoable or None}
        if until is None:
            if horizon is not None:
                raise TypeError("horizon: expected only beside until")
            return await self._move("advance", by=length(by, lengths), **wanted)
        if by is not None or lengths:
            raise TypeError("until: expected alone, without a length")
        check_filter("until", until)
        limit = None if horizon is None else duration("horizon", horizon)
        report = await self._move("advance", until=until, horizon=limit, **wanted)
        if not report.reached:
            raise AssertionError(not_reached(until, report))
        return report

    async def advance_to(
        self, to: Instant, *, max_deliveries: int | None = None, undoable: bool = False
    ) -> AdvanceReport:
        """Move the clock to an instant: ISO 8601, or a datetime with its time zone. See `advance`."""
        return await self._move(
            "advance", to=instant("to", to), max_deliveries=max_deliveries, undoable=undoable or None
        )

    async def undo(self) -> ClockStatus:
        """Take the last undoable advance back, with all that has happened since; again, the one before.

            >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
            ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
            ...     report = await emulator.clock.advance("1d", undoable=True)
            ...     status = await emulator.clock.undo()
            ...     (report.deliveries, str(await emulator.clock.now()), await emulator.deliveries())
            (1, '2026-01-01 00:00:00+00:00', [])

        What a receiver was sent stays sent. Raises Refused without an advance to take back.
        """
        self._check_may_move()
        return msgspec.convert((await self._link.control("POST", "clock/undo", refresh=True))["clock"], ClockStatus)

    async def next(self, *, undoable: bool = False) -> AdvanceReport:
        """Jump to the next instant at which something is due, and do it; `undo` takes an `undoable` jump back."""
        return await self._move("next", undoable=undoable or None)

    async def drain(self, horizon: Duration | None = None, *, undoable: bool = False) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for the horizon of 30 days.

        `undo` takes an `undoable` one back.
        """
        limit = None if horizon is None else duration("horizon", horizon)
        return await self._move("drain", horizon=limit, undoable=undoable or None)

    async def set(self, now: Instant) -> ClockStatus:
        """Set the clock: forward does the work on the way, back is refused once anything has happened."""
        self._check_may_move()
        return await self._set({"now": instant("now", now)})

    async def rate(self, rate: float) -> ClockStatus:
        """Let time pass by itself: 1 is real time, 60 a virtual minute a second, 0 freezes it."""
        return await self._set({"rate": rate})

    async def _move(self, how: str, **wanted: Any) -> AdvanceReport:
        self._check_may_move()
        report = await self._link.control("POST", f"clock/{how}", given(wanted))
        return msgspec.convert({"stopped": None, "idle": None, "reached": None, **report}, AdvanceReport)

    async def _set(self, change: dict[str, Any]) -> ClockStatus:
        return msgspec.convert(await self._link.control("PUT", "clock", change), ClockStatus)

    def _check_may_move(self) -> None:
        session = self._link.session
        session.server.check_may_move_clock(session.world)


@has_to_be_awaited
class AsyncSnapshots(Part):
    """Copies of the whole world: clock, pending work, history, random source.

        >>> async with AsyncEmulator() as emulator:
        ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
        ...     snapshot = await emulator.snapshots.save("before")
        ...     once = await emulator.clock.advance("1h")
        ...     await emulator.snapshots.restore("before")
        ...     again = await emulator.clock.advance("1h")
        ...     (snapshot.pending, once.deliveries, again.deliveries)
        (1, 1, 1)

    Names are letters, digits, hyphens, underscores and periods. Each method raises Refused with what
    the server says.
    """

    async def save(self, name: str) -> Snapshot:
        """Save the world as it is under a new name."""
        return read_snapshot(await self._link.control("POST", "snapshots", {"name": name}))

    async def restore(self, name: str) -> None:
        """Make the world what it was. It continues as the original would have: same ids, same trace."""
        await self._link.control("POST", f"snapshots/{segment(name)}/restore", refresh=True)

    async def all(self) -> list[Snapshot]:
        """The world's snapshots."""
        return [read_snapshot(each) for each in (await self._link.control("GET", "snapshots"))["snapshots"]]

    async def delete(self, name: str) -> None:
        """Delete a snapshot."""
        await self._link.control("DELETE", f"snapshots/{segment(name)}")

    async def export_to(self, file: str | Path, name: str) -> None:
        """Write a snapshot to a SQLite file, which `svc-emulator serve --db` can open as well. Raises OSError."""
        await self._link.run(self._link.session.export_snapshot(name, Path(file)))

    async def import_from(self, file: str | Path, name: str) -> Snapshot:
        """Take a file in as a snapshot. What is no world's is refused, with nothing changed. Raises OSError."""
        return read_snapshot(await self._link.run(self._link.session.import_snapshot(name, Path(file))))
