"""The clock of one world: where it stands, how a user moves it or changes its rate, and takes a move back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from emulator.core.errors import Conflict, InvalidInput
from emulator.core.language.calendar import LATEST_MS
from emulator.core.state import StateView
from emulator.engine.clock import PacedClock, wall_ms
from emulator.engine.driver import Driver
from emulator.journal.snapshots import Snapshots
from emulator.journal.store import Store
from emulator.queries.reports import (
    AdvanceReport,
    AdvanceRequest,
    ClockChange,
    ClockStatus,
    DrainRequest,
    Until,
    UntilCondition,
)
from emulator.wire.times import format_duration

logger = logging.getLogger(__name__)

# A clock that continues to slip is logged again after so long, in real time.
_SLIP_LOGGED_EVERY_MS = 60_000


class SlipWarnings:
    """Logs that the clock of a world has slipped, now and then. Called each time that it has."""

    def __init__(self, world_id: str, pace: PacedClock) -> None:
        self._world_id = world_id
        self._pace = pace
        self._logged_ms: int | None = None

    def __call__(self) -> None:
        at_ms = wall_ms()
        if self._logged_ms is None or at_ms - self._logged_ms >= _SLIP_LOGGED_EVERY_MS:
            self._logged_ms = at_ms
            logger.warning(
                "the clock of the world %s slips: at rate %g more comes due than can be delivered; %s lost so far",
                self._world_id,
                self._pace.rate,
                format_duration(self._pace.slipped_ms),
            )


class WorldClock:
    """`was_set_back` is called with the instant to which the clock of an unused world was set back,
    `was_moved` after every move and change of rate.
    """

    def __init__(
        self,
        driver: Driver,
        pace: PacedClock,
        *,
        was_set_back: Callable[[int], Awaitable[None]],
        was_moved: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._pace = pace
        self._was_set_back = was_set_back
        self._was_moved = was_moved

    @property
    def rate(self) -> float:
        return self._pace.rate

    @property
    def now_ms(self) -> int:
        """The virtual instant it is now, without doing what has come due meanwhile. Any thread may ask."""
        stands = self._pace.is_frozen or self._driver.is_advancing
        return self._driver.state.now_ms if stands else self._pace.peek_ms()

    async def status(self) -> ClockStatus:
        await self._driver.catch_up()
        return self.status_now()

    def status_now(self) -> ClockStatus:
        """Its status without doing what has come due, also of a world that has stopped."""
        state = self._driver.state
        return ClockStatus(
            now_ms=state.now_ms,
            rate=self._pace.rate,
            next_due_ms=state.timers.next_work_ms(),
            pending=len(state.messages),
            in_flight=self._driver.outbox.departed,
            slipped_ms=self._pace.slipped_ms,
            held=tuple(state.held_destinations.values()),
        )

    async def set(self, change: ClockChange) -> ClockStatus:
        """Change the rate, the instant, or both. Forward does the work on the way; back only in an unused world."""
        state = await self._current_state()
        now_ms, rate = change.now_ms, change.rate
        if now_ms is not None and now_ms > state.now_ms:
            await self._driver.advance.to(now_ms)
        elif now_ms is not None and now_ms < state.now_ms:
            await self._driver.advance.set_back(now_ms)
            await self._was_set_back(now_ms)
        if rate is not None:
            if now_ms is None:
                await self._driver.catch_up()
            self._pace.set_rate(rate, self._driver.state.now_ms)
        await self._was_moved()
        return await self.status()

    async def advance(self, request: AdvanceRequest) -> AdvanceReport:
        """Raises InvalidInput for a duration that ends where no calendar shows it."""
        if request.until is not None:
            return await self._advance_until(request, request.until)
        if request.to_ms is not None:
            return await self._moving(self._driver.advance.to(request.to_ms, request.max_deliveries))
        duration_ms = request.by_ms or 0
        if duration_ms > await self._longest_ms():
            raise InvalidInput("by", "expected a duration that ends in the year 9999 at the latest")
        return await self._moving(self._driver.advance.by(duration_ms, request.max_deliveries))

    async def _advance_until(self, request: AdvanceRequest, until: UntilCondition) -> AdvanceReport:
        state, most = await self._current_state(), request.max_deliveries
        if until.kind is Until.INSTANT:
            report = await self._moving(self._driver.advance.to(until.number, most))
            return replace(report, reached=report.stopped is None)
        if until.kind is Until.NEXT:
            next_ms = state.timers.next_work_ms()
            until = replace(until, number=LATEST_MS if next_ms is None else next_ms)
        move = self._driver.advance.until(
            lambda made: _is_so(state, until, made),
            min(request.horizon_ms, LATEST_MS - state.now_ms),
            most,
            with_schedules=until.kind is not Until.IDLE,
        )
        return await self._moving(move)

    async def advance_to_next(self) -> AdvanceReport:
        """Raises Conflict for an instant that no calendar shows."""
        next_ms = (await self._current_state()).timers.next_work_ms()
        if next_ms is not None and next_ms > LATEST_MS:
            raise Conflict("what is due next is due after the year 9999")
        return await self._moving(self._driver.advance.to_next())

    async def drain(self, request: DrainRequest) -> AdvanceReport:
        """Advance until nothing but schedules is due, as far as the calendar goes at most."""
        horizon_ms = min(request.horizon_ms, await self._longest_ms())
        return await self._moving(self._driver.advance.until_idle(horizon_ms, request.max_deliveries))

    async def _moving(self, move: Awaitable[AdvanceReport]) -> AdvanceReport:
        """A move, and telling where the clock stands then, also after one that was given up (D-323)."""
        try:
            report = await move
        except asyncio.CancelledError:
            await self._was_moved()
            raise
        await self._was_moved()
        return report

    async def _longest_ms(self) -> int:
        return LATEST_MS - (await self._current_state()).now_ms

    async def _current_state(self) -> StateView:
        await self._driver.catch_up()
        return self._driver.state


def _is_so(state: StateView, until: UntilCondition, made: int) -> bool:
    """Whether a condition is true, when the advance has made so many deliveries."""
    match until.kind:
        case Until.INSTANT | Until.NEXT:
            return state.now_ms >= until.number
        case Until.IDLE:
            return state.timers.next_work_ms(schedules=False) is None
        case Until.DEAD_LETTERS:
            return any(owner.dead_letters for owner in state.accounts.values())
        case Until.MESSAGE:
            return until.id not in state.messages
        case Until.RUN:
            return all(until.id not in owner.runs for owner in state.accounts.values())
        case Until.DELIVERIES:
            return made >= until.number
        case unknown:
            assert_never(unknown)


# Each takes as much disk space as the world's history.
_MOST = 100


class UndoableAdvances:
    """The world before each of its latest undoable advances, as files that last as long as the world object."""

    def __init__(self, folder: Path | None, most: int = _MOST) -> None:
        self.snapshots = Snapshots(folder)
        self._most = most
        self._names: list[str] = []
        self._made = 0

    @property
    def last(self) -> str:
        """The snapshot of before the last one. Raises Conflict."""
        if not self._names:
            raise Conflict("there is no advance to take back: none was undoable since the world began or was restored")
        return self._names[-1]

    async def keep(self, store: Store) -> str:
        """Keep the world as it is now, under the name that is answered; of too many the oldest is forgotten.

        Raises Conflict.
        """
        self._made += 1
        name = f"before-{self._made}"
        await self.snapshots.save(name, store)
        self._names.append(name)
        if len(self._names) > self._most:
            await self.forget(self._names[0])
        return name

    async def forget(self, name: str) -> None:
        """Forget one that may be forgotten already."""
        if name in self._names:
            self._names.remove(name)
            await self.snapshots.remove(name)

    async def forget_all(self) -> None:
        while self._names:
            await self.forget(self._names[0])

    async def close(self) -> None:
        await self.snapshots.remove_all()
        await self.snapshots.close()
