"""Moving the clock: the work of every due instant on the way is done before time continues."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from emulator.core import commands, message_facts, resource_facts
from emulator.core.errors import Conflict
from emulator.core.state import Fact
from emulator.engine.clock import PacedClock
from emulator.engine.outbox import DriverPort, Outbox
from emulator.queries.reports import DEFAULT_MAX_DELIVERIES, AdvanceReport
from emulator.wire.times import iso


@dataclass(slots=True, kw_only=True)
class _Move:
    """One move of the clock, and what happened on the way."""

    from_ms: int
    began_ms: int
    max_deliveries: int
    deliveries: int = 0
    succeeded: int = 0
    schedules_fired: int = 0
    messages_created: int = 0
    is_cut_short: bool = False
    # What else ended it early.
    stopped: str | None = None

    def count(self, produced: Sequence[Fact]) -> None:
        for fact in produced:
            kind = type(fact)
            if kind is message_facts.MessageCreated:
                self.messages_created += 1
            elif kind is resource_facts.ScheduleFired:
                self.schedules_fired += 1
            elif kind is message_facts.AttemptFinished:
                assert isinstance(fact, message_facts.AttemptFinished)
                self.deliveries += 1
                self.succeeded += fact.outcome.succeeded
            elif kind is message_facts.DuplicateFinished:
                assert isinstance(fact, message_facts.DuplicateFinished)
                self.deliveries += 1
                self.succeeded += fact.outcome.succeeded

    def may_start(self, under_way: int) -> bool:
        return self.deliveries + under_way < self.max_deliveries


class Advance:
    """The clock of one world as a call moves it, one call at a time.

    Each move returns when nothing is in flight, and what happened on the way is durable then. Raises
    Conflict during another move or when attempts that left before it do not come back. A destination
    that would never let an instant end is held, and the move continues without it.
    """

    def __init__(self, driver: DriverPort, outbox: Outbox, clock: PacedClock) -> None:
        self._driver = driver
        self._outbox = outbox
        self._clock = clock
        self._move: _Move | None = None

    def count(self, produced: Sequence[Fact]) -> None:
        """Add facts to the report of the move that is under way, if there is one."""
        if self._move is not None:
            self._move.count(produced)

    async def to(self, target_ms: int, max_deliveries: int = DEFAULT_MAX_DELIVERIES) -> AdvanceReport:
        """Move to an instant, doing all due work on the way, each at its own instant. Not into the past."""
        async with self._moving(max_deliveries) as move:
            if target_ms < move.from_ms:
                raise Conflict(f"the clock cannot go back from {iso(move.from_ms)} to {iso(target_ms)}")
            await self._run_to(target_ms, move)
            return await self._report(move)

    async def by(self, duration_ms: int, max_deliveries: int = DEFAULT_MAX_DELIVERIES) -> AdvanceReport:
        """As `to`, for a duration from the instant at which the move begins."""
        async with self._moving(max_deliveries) as move:
            await self._run_to(move.from_ms + duration_ms, move)
            return await self._report(move)

    async def to_next(self) -> AdvanceReport:
        """Jump to the next instant at which something is to be done, and do it."""
        async with self._moving(DEFAULT_MAX_DELIVERIES) as move:
            await self._outbox.drain(move.may_start)
            next_ms = self._driver.state.timers.next_work_ms()
            if next_ms is not None:
                await self._run_to(next_ms, move)
            return await self._report(move)

    async def until_idle(self, horizon_ms: int, max_deliveries: int = DEFAULT_MAX_DELIVERIES) -> AdvanceReport:
        """Run until nothing but future schedule firings is due, at most for `horizon_ms`."""
        timers = self._driver.state.timers
        async with self._moving(max_deliveries) as move:
            horizon_ms += move.from_ms
            await self._outbox.drain(move.may_start)
            while not move.is_cut_short:
                next_ms = timers.next_work_ms(schedules=False)
                if next_ms is None:
                    break
                await self._run_to(min(next_ms, horizon_ms), move)
                if next_ms > horizon_ms:
                    break
            is_idle = timers.next_work_ms(schedules=False) is None and not self._outbox.is_waiting
            return await self._report(move, idle=is_idle)

    async def until(
        self,
        is_reached: Callable[[int], bool],
        horizon_ms: int,
        max_deliveries: int = DEFAULT_MAX_DELIVERIES,
        *,
        with_schedules: bool = True,
    ) -> AdvanceReport:
        """Run until a condition is true, which is called with how many deliveries were made, after each instant.

        At most for `horizon_ms`; without `with_schedules` no further than to the last work but future firings.
        """
        timers = self._driver.state.timers
        async with self._moving(max_deliveries) as move:
            horizon_ms += move.from_ms
            await self._outbox.drain(move.may_start)
            while not (reached := is_reached(move.deliveries)) and not move.is_cut_short:
                next_ms = timers.next_work_ms(schedules=with_schedules)
                if next_ms is None:
                    move.stopped = "nothing_due"
                    break
                await self._run_to(min(next_ms, horizon_ms), move)
                if next_ms > horizon_ms:
                    reached = is_reached(move.deliveries)
                    move.stopped = None if reached else "horizon"
                    break
            return await self._report(move, reached=reached)

    async def set_back(self, to_ms: int) -> None:
        """Move the clock back, which only an unused world allows."""
        async with self._moving(DEFAULT_MAX_DELIVERIES):
            self._driver.handle(commands.SetBackClock(to_ms=to_ms))
            await self._driver.commit()

    @contextlib.asynccontextmanager
    async def _moving(self, max_deliveries: int) -> AsyncIterator[_Move]:
        """The one way to move the clock by a call. It begins when nothing is under way any more."""
        began_ms = self._clock.wall_ms()
        await self._driver.catch_up()
        try:
            async with self._outbox.held():
                self._driver.check()
                from_ms = self._driver.state.now_ms
                self._move = _Move(from_ms=from_ms, began_ms=began_ms, max_deliveries=max_deliveries)
                try:
                    yield self._move
                finally:
                    self._move = None
                    # The clock of a closed world may already be that of its successor.
                    if self._driver.state.now_ms != from_ms and not self._driver.is_closed:
                        self._clock.rebase(self._driver.state.now_ms)
        finally:
            # A clock that began to sleep during the move does not know what is due.
            self._clock.wake()

    async def _run_to(self, target_ms: int, move: _Move) -> None:
        timers = self._driver.state.timers
        while True:
            if self._outbox.is_waiting:
                await self._outbox.drain(move.may_start)
            if move.deliveries >= move.max_deliveries:
                next_ms = timers.next_work_ms()
                if self._outbox.is_waiting or (next_ms is not None and next_ms <= target_ms):
                    move.is_cut_short = True
                    return
            due_ms = timers.next_due_ms()
            if due_ms is None or due_ms > target_ms:
                break
            self._driver.handle(commands.AdvanceClock(to_ms=due_ms))
            await self._driver.finish_instant()
            await self._driver.yield_to_loop()
        if target_ms > self._driver.state.now_ms:
            self._driver.handle(commands.AdvanceClock(to_ms=target_ms))

    async def _report(self, move: _Move, *, idle: bool | None = None, reached: bool | None = None) -> AdvanceReport:
        await self._driver.commit()
        return AdvanceReport(
            from_ms=move.from_ms,
            to_ms=self._driver.state.now_ms,
            deliveries=move.deliveries,
            succeeded=move.succeeded,
            failed=move.deliveries - move.succeeded,
            schedules_fired=move.schedules_fired,
            messages_created=move.messages_created,
            wall_ms=self._clock.wall_ms() - move.began_ms,
            stopped="max_deliveries" if move.is_cut_short and not reached else move.stopped,
            idle=idle,
            reached=reached,
            held=tuple(self._driver.state.held_destinations.values()),
        )
