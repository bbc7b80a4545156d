"""The only place where core, journal and transport meet.

The driver makes facts durable, performs the attempts that those facts started, and feeds each
outcome back as another command. One engine serves every mode: a frozen world performs its
attempts in start order; a running one also moves its clock, and lets no destination wait for
another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from emulator.core import commands, facts
from emulator.core.commands import Command
from emulator.core.errors import Conflict, InstantExhausted, WorldBroken
from emulator.core.identifiers import jwt_id
from emulator.core.model import Attempt, AttemptOutcome, Message, Phase, ScriptedAnswer, Via
from emulator.core.simulation import Simulation
from emulator.core.state_view import StateView
from emulator.engine.guard import InstantGuard
from emulator.queries.reports import AdvanceReport

logger = logging.getLogger(__name__)

R = TypeVar("R")

REALTIME_CONCURRENCY = 64
ADVANCE_CONCURRENCY = 1
MAX_DELIVERIES = 1_000_000
# How long a call in a frozen world waits for the deliveries it caused. A receiver that cannot
# answer before this call returns (it is the caller, with one thread) must not be waited for.
SETTLE_S = 1.0
# How long an advance waits for attempts that left before it. The caller may be their receiver.
PATIENCE_S = 15
# A clock that runs faster than real time slips when catching up with it takes longer than this.
SLIP_AFTER_MS = 200
# Answers from inside are given without leaving the event loop; others get a turn this often.
_BREATHE_AFTER = 50
_INSIDE_PER_CALL = 64


class Journal(Protocol):
    """What the driver needs of the store: facts go in at once, and are durable after `commit`."""

    def append(self, facts: Sequence[facts.Fact]) -> None: ...
    async def commit(self) -> None: ...
    async def apply_backpressure(self) -> None: ...


class Transport(Protocol):
    """What the driver needs of delivery. Neither method ever raises: failures are outcomes."""

    def answer_inside(self, attempt: Attempt) -> AttemptOutcome | None:
        """Answer without the network (a rule, capture), or None if the attempt has to leave."""

    async def send(self, attempt: Attempt) -> AttemptOutcome: ...


class Pace(Protocol):
    """How virtual time passes by itself: not at all, in real time, or faster."""

    @property
    def is_frozen(self) -> bool: ...
    @property
    def may_slip(self) -> bool:
        """Whether a clock that outruns the machine may pass more slowly than asked."""

    def now_ms(self) -> int:
        """The virtual instant it is now. Asked of running clocks only."""

    def rebase(self, now_ms: int) -> None:
        """Virtual time was moved: it goes on from here."""

    def wall_ms(self) -> int: ...


class _Tally:
    """What a clock advance did."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.schedules_fired = 0
        self.messages_created = 0
        self.stopped: str | None = None

    @property
    def deliveries(self) -> int:
        return self.succeeded + self.failed


class Driver:
    """One world at work.

    `concurrency` is how many attempts may be under way at once: per destination origin in a
    running world, in all during a clock advance; None means 64 and 1.
    """

    def __init__(
        self,
        simulation: Simulation,
        journal: Journal,
        transport: Transport,
        pace: Pace,
        *,
        concurrency: int | None = None,
        max_attempts_per_instant: int = 10_000,
        observe: Callable[[StateView, Sequence[facts.Fact]], None] | None = None,
    ) -> None:
        self._simulation = simulation
        self._journal = journal
        self._transport = transport
        self._pace = pace
        self._window = concurrency or ADVANCE_CONCURRENCY
        self._per_origin = concurrency or REALTIME_CONCURRENCY
        self._guard = InstantGuard(max_attempts_per_instant)
        self._observe = observe
        self._outbox: deque[Attempt] = deque()
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._changed = asyncio.Event()
        self._asleep_until_ms: int | None = None
        # Only as long as an attempt holds or wants a place there.
        self._origins: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._drain_task: asyncio.Task[None] | None = None
        self._advancing = False
        self._tally = _Tally()
        # Why this instant would never end, if that has been found out in the background.
        self._exhausted: InstantExhausted | None = None
        self._outcomes = 0
        self._broken: str | None = None
        self._closing = False
        self._closed = False

    # -- reading ----------------------------------------------------------------------------

    @property
    def state(self) -> StateView:
        return self._simulation.state

    @property
    def in_flight(self) -> int:
        """Attempts that have started and not come back, those that wait to leave included."""
        return len(self._outbox) + self._under_way

    @property
    def is_advancing(self) -> bool:
        return self._advancing

    async def catch_up(self) -> None:
        """In a running world, do what has come due since the last call. Call before reading state."""
        self._check()
        if self._pace.is_frozen or self._advancing:
            return
        target_ms = self._pace.now_ms()
        began_ms = self._pace.wall_ms()
        simulation = self._simulation
        steps = 0
        while (due_ms := simulation.next_due_ms) is not None and due_ms <= target_ms and not self._advancing:
            self._handle(commands.AdvanceClock(to_ms=max(due_ms, simulation.now_ms)))
            steps += 1
            if steps % _BREATHE_AFTER == 0:
                self._pump()
                await self._commit()
                await asyncio.sleep(0)
                self._check()
                if self._pace.may_slip and self._pace.wall_ms() - began_ms > SLIP_AFTER_MS:
                    # Otherwise each round would have more to catch up with than the one before.
                    self._pace.rebase(simulation.now_ms)
                    break
        else:
            if target_ms > simulation.now_ms and not self._advancing:
                self._handle(commands.AdvanceClock(to_ms=target_ms))
        if steps:
            self._pump()

    # -- the only door ----------------------------------------------------------------------

    async def submit(self, command: Command[R]) -> R:
        """Carry out a command; when this returns, what it did is durable.

        In a frozen world it also returns only when the deliveries it caused have come back, or
        after `SETTLE_S`; not so when others were under way already, because the caller may be
        one of their receivers. Raises Refused, with nothing changed; WorldBroken.
        """
        await self.catch_up()
        was_quiet = self.in_flight == 0
        reply = self._handle(command)
        if self._outbox and not self._advancing and self._drain_task is None:
            self._answer_inside(_INSIDE_PER_CALL)
        try:
            await self._commit()
        finally:
            # Also for a caller that has gone away: what it published is accepted.
            self._pump()
        if was_quiet and self.in_flight and self._pace.is_frozen and not self._advancing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._quiet.wait()
        return reply

    def _handle(self, command: Command[R]) -> R:
        """Synchronous, so that nothing comes between a decision and its facts' way to the journal."""
        self._check()
        try:
            outcome = self._simulation.handle(command)
        except WorldBroken as error:
            self._break(str(error), error)
            raise
        produced = outcome.facts
        if produced:
            self._journal.append(produced)
            self._take_in(produced)
            self._wake_for_sooner()
            if self._observe is not None:
                self._observe(self.state, produced)
        return outcome.reply

    async def _commit(self) -> None:
        """Return when everything that has happened is durable. Raises WorldBroken if that cannot be."""
        self._check()
        try:
            await self._journal.commit()
        except WorldBroken as error:
            self._break(str(error))
            raise

    async def _apply_backpressure(self) -> None:
        try:
            await self._journal.apply_backpressure()
        except WorldBroken as error:
            self._break(str(error))
            raise

    def _take_in(self, produced: Sequence[facts.Fact]) -> None:
        tally = self._tally
        for fact in produced:
            kind = type(fact)
            if kind is facts.AttemptStarted:
                assert isinstance(fact, facts.AttemptStarted)
                if self._quiet.is_set() and self._exhausted is None:
                    # What is there by now was published before this began to move, not on the way.
                    self._begin_instant()
                progress = self.state.messages[fact.message_id]
                self._outbox.append(self._attempt(progress.message, fact.number, fact.at_ms, fact.answer))
                self._quiet.clear()
            elif kind is facts.MessageCreated:
                tally.messages_created += 1
            elif kind is facts.AttemptFinished:
                assert isinstance(fact, facts.AttemptFinished)
                if fact.outcome.succeeded:
                    tally.succeeded += 1
                else:
                    tally.failed += 1
            elif kind is facts.ScheduleFired:
                tally.schedules_fired += 1
            elif kind is facts.ClockMoved:
                # The state has taken in all of `produced`, and so what the new instant itself has caused.
                self._begin_instant()

    def _begin_instant(self) -> None:
        """What is there now is the instant's own work, however much it is."""
        self._guard.begin(self.state.counters.messages)
        self._exhausted = None

    def _wake_for_sooner(self) -> None:
        if self._changed.is_set() or self._pace.is_frozen:
            return
        due_ms = self._simulation.next_due_ms
        if due_ms is not None and (self._asleep_until_ms is None or due_ms < self._asleep_until_ms):
            self._changed.set()

    def _attempt(self, message: Message, number: int, at_ms: int, answer: ScriptedAnswer | None) -> Attempt:
        account = self.state.accounts[message.account_id].account
        return Attempt(
            message=message,
            number=number,
            at_ms=at_ms,
            answer=answer,
            signing_key=account.signing_keys.current,
            region=account.region,
            # Retries are far fewer than 2^20, so that every attempt of the world has its own number.
            token_id=jwt_id(self.state.key, (message.number << 20) + number),
        )

    # -- performing attempts ----------------------------------------------------------------

    def _pump(self) -> None:
        """See to it that what waits to leave leaves."""
        if not self._outbox or self._advancing or self._closing or self._broken is not None:
            return
        if self._pace.is_frozen:
            if self._drain_task is None and self._exhausted is None:
                self._drain_task = self._spawn(self._drain_in_background())
        else:
            self._dispatch()

    def _answer_inside(self, limit: int) -> None:
        """Answer what needs no network at once, as long as it comes first in line."""
        while self._outbox and limit > 0 and (self._under_way == 0 or not self._pace.is_frozen):
            outcome = self._inside_answer(self._outbox[0])
            if outcome is None:
                return
            attempt = self._outbox.popleft()
            self._record(attempt, outcome)
            limit -= 1

    def _dispatch(self) -> None:
        """A running world: every attempt leaves now, as far as its own destination has room."""
        while self._outbox:
            attempt = self._outbox.popleft()
            self._under_way += 1
            self._spawn(self._perform(attempt))

    async def _perform(self, attempt: Attempt) -> None:
        outcome = self._inside_answer(attempt)
        if outcome is None:
            async with self._room_at(_origin_of(attempt.message.url)):
                await self._commit()
                outcome = await self._send(attempt)
        await self.catch_up()
        self._under_way -= 1
        self._record(attempt, outcome)
        self._pump()
        await self._commit()

    def _inside_answer(self, attempt: Attempt) -> AttemptOutcome | None:
        try:
            return self._transport.answer_inside(attempt)
        except Exception as error:  # An edge: a fault of the transport is a failed attempt.
            return _fault_of_transport(error)

    async def _send(self, attempt: Attempt) -> AttemptOutcome:
        try:
            return await self._transport.send(attempt)
        except Exception as error:  # An edge: a fault of the transport is a failed attempt.
            return _fault_of_transport(error)

    def _room_at(self, origin: str) -> asyncio.Semaphore:
        room = self._origins.get(origin)
        if room is None:
            room = self._origins[origin] = asyncio.Semaphore(self._per_origin)
        return room

    async def _drain_in_background(self) -> None:
        """A frozen world: what is due leaves in start order, without anybody asking."""
        try:
            await self._drain(in_background=True)
        except InstantExhausted as refusal:
            # Not again until the clock moves or somebody asks for an advance; who waits for it need not wait.
            self._exhausted = refusal
            self._quiet.set()
            logger.error("%s", refusal.text)
        finally:
            self._drain_task = None
        await self._commit()

    async def _drain(self, max_deliveries: int | None = None, *, in_background: bool = False) -> None:
        """Perform everything that has started, outcomes applied in start order, until nothing is in flight.

        In the background it hands over to an advance as soon as one begins. Raises InstantExhausted
        when one instant takes more attempts than it may.
        """
        window: deque[_UnderWay] = deque()
        turns = 0
        try:
            while self._outbox or window:
                while self._outbox and len(window) < self._window:
                    if in_background and self._advancing:
                        break
                    if max_deliveries is not None and self._tally.deliveries + len(window) >= max_deliveries:
                        break
                    try:
                        self._guard_the_instant()
                    except InstantExhausted:
                        if window:
                            break  # What is under way comes back first.
                        raise
                    under_way = _UnderWay(self._outbox.popleft())
                    self._under_way += 1
                    window.append(under_way)
                    await self._start(under_way)
                if not window:
                    return
                first = window[0]
                outcome = first.outcome if first.task is None else await first.task
                assert outcome is not None
                window.popleft()
                self._under_way -= 1
                self._record(first.attempt, outcome)
                turns += 1
                if turns % _BREATHE_AFTER == 0:
                    await self._apply_backpressure()
                    await asyncio.sleep(0)
        finally:
            # On the way out early (a refusal, a cancellation) what was not recorded is tried again.
            for under_way in reversed(window):
                if under_way.task is not None:
                    under_way.task.cancel()
                self._under_way -= 1
                self._outbox.appendleft(under_way.attempt)
            self._note_quiet()

    async def _start(self, under_way: _UnderWay) -> None:
        attempt = under_way.attempt
        under_way.outcome = self._inside_answer(attempt)
        if under_way.outcome is not None:
            return
        await self._commit()
        if self._window == 1:
            under_way.outcome = await self._send(attempt)
        else:
            under_way.task = asyncio.get_running_loop().create_task(self._send(attempt))

    def _guard_the_instant(self) -> None:
        """Raises InstantExhausted if this instant would never end."""
        self._guard.count(
            self._outbox[0],
            waiting=len(self._outbox),
            advancing=self._advancing,
            now_ms=self.state.now_ms,
        )

    def _record(self, attempt: Attempt, outcome: AttemptOutcome) -> None:
        self._outcomes += 1
        self._handle(
            commands.RecordAttempt(message_id=attempt.message.message_id, number=attempt.number, outcome=outcome)
        )
        self._note_quiet()

    def _note_quiet(self) -> None:
        if self.in_flight == 0:
            # Nothing goes on for ever here: whatever comes next was asked for anew.
            self._begin_instant()
            self._quiet.set()

    # -- moving the clock -------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[_Tally]:
        """Only one advance at a time, and only when nothing is in flight any more."""
        await self.catch_up()
        if self._advancing:
            raise Conflict("the clock is being advanced already; a receiver cannot advance it from its handler")
        self._advancing = True
        before_ms = self._simulation.now_ms
        try:
            await self._wait_for_tasks()
            self._check()
            self._tally = _Tally()
            self._begin_instant()
            yield self._tally
        finally:
            self._advancing = False
            if self._simulation.now_ms != before_ms and not self._closed:
                self._pace.rebase(self._simulation.now_ms)
            self._pump()
            self._note_quiet()
            self.poke()

    async def _wait_for_tasks(self) -> None:
        """What left before an advance comes back on its own; what has not left yet waits in the outbox.

        Raises Conflict when no attempt has come back for a while.
        """
        while self._tasks:
            outcomes = self._outcomes
            _, pending = await asyncio.wait(tuple(self._tasks), timeout=PATIENCE_S)
            if pending and self._outcomes == outcomes:
                raise Conflict(
                    f"{self._under_way} attempts are still under way after {PATIENCE_S} s, and time moves only when "
                    "none is; a receiver cannot advance the clock from its handler"
                )
            if not pending:
                return

    async def advance_to(self, target_ms: int, max_deliveries: int = MAX_DELIVERIES) -> AdvanceReport:
        """Move the clock to the target, doing all due work on the way, each at its own instant.

        Returns when nothing is in flight. Raises Conflict during another advance or for a target
        in the past, InstantExhausted when one instant would never end.
        """
        began_ms = self._pace.wall_ms()
        async with self._exclusively() as tally:
            from_ms = self._simulation.now_ms
            if target_ms < from_ms:
                raise Conflict("the clock cannot go back")
            await self._run_to(target_ms, max_deliveries)
            return await self._report(tally, from_ms, began_ms)

    async def advance_by(self, duration_ms: int, max_deliveries: int = MAX_DELIVERIES) -> AdvanceReport:
        """As `advance_to`, for a duration from the instant at which the advance begins."""
        began_ms = self._pace.wall_ms()
        async with self._exclusively() as tally:
            from_ms = self._simulation.now_ms
            await self._run_to(from_ms + duration_ms, max_deliveries)
            return await self._report(tally, from_ms, began_ms)

    async def set_back(self, to_ms: int) -> None:
        """Move the clock back, which only an unused world allows. Raises Conflict."""
        async with self._exclusively():
            self._handle(commands.SetBackClock(to_ms=to_ms))
            await self._commit()

    async def advance_to_next(self, max_deliveries: int = MAX_DELIVERIES) -> AdvanceReport:
        """Jump to the next instant at which something is to be done, and do it."""
        began_ms = self._pace.wall_ms()
        async with self._exclusively() as tally:
            from_ms = self._simulation.now_ms
            await self._drain(max_deliveries)
            next_ms = self.state.timers.next_work_ms()
            if next_ms is not None:
                await self._run_to(next_ms, max_deliveries)
            return await self._report(tally, from_ms, began_ms)

    async def advance_until_idle(self, horizon_ms: int, max_deliveries: int = MAX_DELIVERIES) -> AdvanceReport:
        """Run until nothing is due but future schedule firings, at most for `horizon_ms`."""
        began_ms = self._pace.wall_ms()
        async with self._exclusively() as tally:
            from_ms = self._simulation.now_ms
            await self._drain(max_deliveries)
            while tally.stopped is None:
                next_ms = self.state.timers.next_work_ms(schedules=False)
                if next_ms is None:
                    break
                await self._run_to(min(next_ms, from_ms + horizon_ms), max_deliveries)
                if next_ms > from_ms + horizon_ms:
                    break
            is_idle = self.state.timers.next_work_ms(schedules=False) is None and not self._outbox
            return await self._report(tally, from_ms, began_ms, idle=is_idle)

    async def _run_to(self, target_ms: int, max_deliveries: int) -> None:
        simulation, tally = self._simulation, self._tally
        steps = 0
        while True:
            if self._outbox:
                await self._drain(max_deliveries)
            if tally.deliveries >= max_deliveries and self._has_work_until(target_ms):
                tally.stopped = "max_deliveries"
                return
            due_ms = simulation.next_due_ms
            if due_ms is None or due_ms > target_ms:
                break
            self._handle(commands.AdvanceClock(to_ms=due_ms))
            steps += 1
            if steps % _BREATHE_AFTER == 0:
                await self._apply_backpressure()
                await asyncio.sleep(0)
        if target_ms > simulation.now_ms:
            self._handle(commands.AdvanceClock(to_ms=target_ms))

    def _has_work_until(self, target_ms: int) -> bool:
        next_ms = self.state.timers.next_work_ms()
        return bool(self._outbox) or (next_ms is not None and next_ms <= target_ms)

    async def _report(self, tally: _Tally, from_ms: int, began_ms: int, idle: bool | None = None) -> AdvanceReport:
        await self._commit()
        return AdvanceReport(
            from_ms=from_ms,
            to_ms=self._simulation.now_ms,
            deliveries=tally.deliveries,
            succeeded=tally.succeeded,
            failed=tally.failed,
            schedules_fired=tally.schedules_fired,
            messages_created=tally.messages_created,
            wall_ms=self._pace.wall_ms() - began_ms,
            stopped=tally.stopped,
            idle=idle,
        )

    async def settle(self) -> None:
        """Return when nothing is in flight. Raises InstantExhausted when that would never be."""
        while self.in_flight:
            self._check()
            if self._closing:
                raise Conflict("this world is being reset or removed")
            if self._exhausted is not None:
                raise InstantExhausted(self._exhausted.text)
            self._pump()
            await self._quiet.wait()

    # -- the running clock ------------------------------------------------------------------

    async def sleep_until_due(self, seconds_to: Callable[[int], float]) -> None:
        """Sleep until the next instant at which anything is due, or something sooner comes up, or `poke`.

        `seconds_to` says how far away a virtual instant is in real seconds.
        """
        self._asleep_until_ms = self._simulation.next_due_ms
        self._changed.clear()
        try:
            if self._asleep_until_ms is None or self._advancing:
                self._asleep_until_ms = None
                await self._changed.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, seconds_to(self._asleep_until_ms))):
                        await self._changed.wait()
        finally:
            self._asleep_until_ms = None

    def poke(self) -> None:
        """Wake the clock: it was moved, or passes at another pace now."""
        self._changed.set()

    async def flush(self) -> None:
        """Return when everything that has happened is durable."""
        await self._commit()

    # -- life and death ---------------------------------------------------------------------

    def resume(self) -> None:
        """After a restart: attempts that were under way are made again (at least once)."""
        under_way = [
            progress
            for progress in self.state.messages.values()
            if progress.phase is Phase.ACTIVE and progress.outcome is None
        ]
        for progress in sorted(under_way, key=lambda each: each.started_ms):
            number = progress.retried + 1
            self._outbox.append(self._attempt(progress.message, number, progress.started_ms, progress.answer))
        self._begin_instant()
        if self._outbox:
            self._quiet.clear()
            self._pump()

    async def close(self, grace_s: float = 0.5) -> None:
        """Let what is in flight finish for a moment, then stop; the rest is attempted after the next start."""
        self._closing = True
        # Who waits for deliveries need not: what it asked for is durable, and is answered while there is time.
        self._quiet.set()
        tasks = tuple(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        self._closed = True
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._quiet.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(str(error) or type(error).__name__, error)

    def _break(self, reason: str, error: BaseException | None = None) -> None:
        if self._broken is None:
            self._broken = reason
            logger.error("the world has stopped: %s", reason, exc_info=error)
        self._quiet.set()

    def _check(self) -> None:
        if self._broken is not None:
            raise WorldBroken(f"this world has stopped: {self._broken}")
        if self._closed:
            raise Conflict("this world is being reset or removed")


class _UnderWay:
    """An attempt in the window of a drain, and its outcome or the task that will have it."""

    __slots__ = ("attempt", "outcome", "task")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.outcome: AttemptOutcome | None = None
        self.task: asyncio.Task[AttemptOutcome] | None = None


def _fault_of_transport(error: Exception) -> AttemptOutcome:
    logger.error("an attempt could not be made", exc_info=error)
    return AttemptOutcome(response=None, error=f"the emulator failed: {type(error).__name__}", via=Via.NETWORK)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
