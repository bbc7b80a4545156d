"""The attempts of one world that have started: those that wait to leave, and those under way.

Outcomes come back in one of two orders. In order: a frozen world and a clock advance keep a window
of attempts under way and record outcomes in start order. By origin: in a running world each attempt
is a task of its own, and only attempts to the same origin wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from emulator.core.commands import Command, RecordAttempt
from emulator.core.errors import Conflict, InstantExhausted
from emulator.core.model.answers import AttemptOutcome, Via
from emulator.core.model.messages import Attempt
from emulator.core.state_view import StateView
from emulator.delivery.route import Inside, Leaves, Route
from emulator.engine.clock import PacedClock
from emulator.engine.guard import InstantGuard
from emulator.engine.limits import Limits
from emulator.queries.waiting import waiting_for_slots

logger = logging.getLogger(__name__)

R = TypeVar("R")

# The end of every refusal to move the clock while an attempt is under way.
NOT_FROM_A_HANDLER = "a receiver cannot move the clock from its handler"

# How many attempts one call answers without leaving the event loop.
_INSIDE_PER_CALL = 64


class Door(Protocol):
    """What the outbox and an advance need of the driver."""

    @property
    def state(self) -> StateView: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_catching_up(self) -> bool: ...
    def handle(self, command: Command[R]) -> R: ...
    def check(self) -> None: ...
    def stop(self, reason: str, error: BaseException | None = None) -> None: ...
    async def commit(self) -> None: ...
    async def breathe(self) -> None: ...
    async def finish_instant(self) -> None: ...
    async def catch_up(self) -> None: ...


class Transport(Protocol):
    """What the outbox needs of delivery. Neither method raises: failures are outcomes."""

    def route(self, attempt: Attempt) -> Route: ...
    async def send(self, attempt: Attempt, route: Leaves) -> AttemptOutcome: ...


class Rooms:
    """How many attempts may be under way at once, counted for each origin that has or wants one."""

    def __init__(self, per_origin: int) -> None:
        self._per_origin = per_origin
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def at(self, origin: str) -> asyncio.Semaphore:
        room = self._rooms.get(origin)
        if room is None:
            room = self._rooms[origin] = asyncio.Semaphore(self._per_origin)
        return room


class _Entry:
    """An attempt, its route once that is known, and in a window what sends it."""

    __slots__ = ("attempt", "route", "sending")
    sending: asyncio.Task[AttemptOutcome] | Coroutine[None, None, AttemptOutcome]

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.route: Route | None = None


class Outbox:
    """Performs the attempts of one world: each is routed, made durable, sent if it has to leave, and recorded."""

    def __init__(
        self, door: Door, transport: Transport, clock: PacedClock, guard: InstantGuard, limits: Limits
    ) -> None:
        self._door = door
        self._transport = transport
        self._clock = clock
        self._guard = guard
        self._limits = limits
        self._window = limits.concurrency or 1
        self._rooms = Rooms(limits.concurrency or 64)
        self._waiting: deque[_Entry] = deque()
        # Attempts that have started and are not recorded, those that wait to leave included.
        self.in_flight = 0
        # Set when nothing is in flight, or waiting for that would be in vain.
        self._quiet = asyncio.Event()
        self._quiet.set()
        # Set by every outcome that is recorded.
        self._came_back = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        # The time limits of the calls that wait for the deliveries they caused.
        self._waiting_calls: set[asyncio.Timeout] = set()
        self._is_draining = False
        # Whether an advance has the outbox to itself.
        self.is_held = False
        self._is_stopped = False

    @property
    def is_waiting(self) -> bool:
        """Whether an attempt waits to leave."""
        return bool(self._waiting)

    @property
    def is_crowded(self) -> bool:
        """Whether so many messages are due that time should wait until attempts in flight come back (D-300)."""
        state, most = self._door.state, self._limits.most_due
        if self.in_flight == 0 or len(state.messages) < most:
            return False
        return self.in_flight >= most or self.in_flight + waiting_for_slots(state) >= most

    async def wait_for_outcome(self, seconds: float) -> bool:
        """Return True when an attempt has come back, False if none does for so long."""
        self._came_back.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._came_back.wait()
        return self._came_back.is_set()

    @property
    def _under_way(self) -> int:
        return self.in_flight - len(self._waiting)

    async def wait_until_quiet(self) -> None:
        """Return when nothing is in flight. Raises InstantExhausted, Conflict or WorldBroken if that cannot be."""
        while self.in_flight:
            self._door.check()
            if self._is_stopped:
                raise Conflict("this world is being reset or removed")
            if self._guard.refusal is not None:
                raise InstantExhausted(self._guard.refusal.text)
            self.pump()
            await self._quiet.wait()

    async def wait_for_a_moment(self) -> None:
        """Return when nothing is in flight, or after `settle_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.settle_s) as limit:
                self._waiting_calls.add(limit)
                try:
                    await self._quiet.wait()
                finally:
                    self._waiting_calls.discard(limit)

    def hurry(self) -> None:
        """Let the calls in `wait_for_a_moment` go on."""
        for limit in self._waiting_calls:
            limit.reschedule(asyncio.get_running_loop().time())

    # -- leaving ----------------------------------------------------------------------------

    def add(self, attempt: Attempt) -> None:
        """Take in an attempt that has started. `pump` or an advance lets it leave."""
        if self.in_flight == 0:
            self._guard.begin()
        self._waiting.append(_Entry(attempt))
        self.in_flight += 1
        self._quiet.clear()

    def answer_inside(self) -> None:
        """Answer attempts that need no network at once, as long as they are first in line."""
        if self.is_held or self._is_draining or self._guard.refusal is not None:
            return
        for _ in range(_INSIDE_PER_CALL):
            if not self._waiting or (self._under_way and self._clock.is_frozen):
                return
            entry = self._waiting[0]
            route = self._route(entry)
            if isinstance(route, Leaves):
                return
            self._waiting.popleft()
            self._record(entry, route.outcome)

    def pump(self) -> None:
        """Let what waits leave, unless an advance does that."""
        if not self._waiting or self.is_held or self._is_stopped:
            return
        if not self._clock.is_frozen:
            while self._waiting:
                self._spawn(self._perform(self._waiting.popleft()))
        elif not self._is_draining and self._guard.refusal is None:
            self._is_draining = True
            self._spawn(self._drain_in_background())

    async def drain(self, may_start: Callable[[int], bool]) -> None:
        """Perform what waits, outcomes recorded in start order, until nothing is left or may start.

        `may_start` is asked before each attempt, with the number under way. Raises InstantExhausted
        when one instant takes more attempts than it may.
        """
        window: deque[_Entry] = deque()
        try:
            while self._fill(window, may_start):
                entry = window[0]
                outcome = entry.route.outcome if isinstance(entry.route, Inside) else await entry.sending
                window.popleft()
                self._record(entry, outcome)
                await self._door.breathe()
        finally:
            # After a refusal or a cancellation, what was not recorded is attempted again.
            for entry in reversed(window):
                if isinstance(entry.route, Leaves) and isinstance(entry.sending, asyncio.Task):
                    entry.sending.cancel()
                    # asyncio would report an exception that nobody has looked at.
                    entry.sending.add_done_callback(lambda task: task.cancelled() or task.exception())
                self._waiting.appendleft(_Entry(entry.attempt))

    def _fill(self, window: deque[_Entry], may_start: Callable[[int], bool]) -> bool:
        """Start attempts until the window is full; whether any is under way."""
        while self._waiting and len(window) < self._window and may_start(len(window)):
            entry = self._waiting[0]
            try:
                self._guard.count(entry.attempt, waiting=len(self._waiting), advancing=self.is_held)
            except InstantExhausted:
                if window:
                    break  # Their outcomes are recorded first.
                raise
            self._waiting.popleft()
            window.append(entry)
            route = self._route(entry)
            if isinstance(route, Leaves):
                sending = self._leave(entry.attempt, route)
                # Alone in its window it is awaited next, and needs no task.
                entry.sending = sending if self._window == 1 else asyncio.get_running_loop().create_task(sending)
        return bool(window)

    async def _drain_in_background(self) -> None:
        """Let what is due in a frozen world leave, until an advance takes over."""
        try:
            await self.drain(lambda _: not self.is_held)
        except InstantExhausted as refusal:
            # Nothing leaves until the clock moves or somebody asks for an advance.
            self._guard.refusal = refusal
            self._quiet.set()
            logger.error("%s", refusal.text)
        finally:
            self._is_draining = False
        await self._door.commit()

    async def _perform(self, entry: _Entry) -> None:
        """One attempt of a running world, which leaves when its origin has room."""
        route = self._route(entry)
        if isinstance(route, Inside):
            outcome = route.outcome
        else:
            async with self._rooms.at(route.origin):
                outcome = await self._leave(entry.attempt, route)
        if not self._door.is_catching_up:
            # Otherwise it is recorded at the instant that was reached: what is due next may wait for it.
            await self._door.catch_up()
        self._record(entry, outcome)
        self.pump()
        await self._door.commit()

    def _route(self, entry: _Entry) -> Route:
        """Where an attempt goes. The transport is asked once."""
        if entry.route is None:
            try:
                entry.route = self._transport.route(entry.attempt)
            except Exception as error:  # An edge: a fault of the transport is a failed attempt.
                entry.route = Inside(outcome=_fault_of_transport(error))
        return entry.route

    async def _leave(self, attempt: Attempt, route: Leaves) -> AttemptOutcome:
        """Send an attempt, once its facts are durable."""
        await self._door.commit()
        try:
            return await self._transport.send(attempt, route)
        except Exception as error:  # An edge: a fault of the transport is a failed attempt.
            return _fault_of_transport(error)

    def _record(self, entry: _Entry, outcome: AttemptOutcome) -> None:
        attempt = entry.attempt
        try:
            self._door.handle(
                RecordAttempt(
                    message_id=attempt.message.message_id,
                    number=attempt.number,
                    outcome=outcome,
                    is_duplicate=attempt.is_duplicate,
                )
            )
        finally:
            self.in_flight -= 1
            self._came_back.set()
            if self.in_flight == 0:
                self._quiet.set()

    # -- being held, and the end ------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Have the outbox to oneself: nothing is under way, and nothing leaves but by `drain`.

        Raises Conflict while another holds it, and when no attempt under way has come back for
        `patience_s`, or for `deadlock_s` if a call waits for it.
        """
        if self.is_held:
            raise Conflict(f"the clock is being advanced already; {NOT_FROM_A_HANDLER}")
        self.is_held = True
        try:
            await self._wait_for_tasks()
            yield
        finally:
            self.is_held = False
            self.pump()

    async def _wait_for_tasks(self) -> None:
        while self._tasks:
            under_way = self._under_way
            patience_s = self._limits.patience_s
            if self._waiting_calls:
                patience_s = min(patience_s, self._limits.deadlock_s)
            _, pending = await asyncio.wait(tuple(self._tasks), timeout=patience_s)
            if pending and self._under_way == under_way:
                attempts = "1 attempt is" if under_way == 1 else f"{under_way} attempts are"
                raise Conflict(
                    f"{attempts} still under way after {patience_s:g} s, and time moves only when none is; "
                    f"{NOT_FROM_A_HANDLER}"
                )

    def stop(self) -> None:
        """Let nothing leave any more, and release those that wait for deliveries."""
        self._is_stopped = True
        self._quiet.set()

    async def finish(self, grace_s: float) -> None:
        """Stop, and give what is under way a moment to come back."""
        self.stop()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=grace_s)

    async def cancel(self) -> None:
        """End what is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # New attempts may have been taken in since `stop`.
        self._quiet.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._door.stop(str(error) or type(error).__name__, error)


def _fault_of_transport(error: Exception) -> AttemptOutcome:
    logger.error("an attempt could not be made", exc_info=error)
    return AttemptOutcome(response=None, error=f"the emulator failed: {type(error).__name__}", via=Via.NETWORK)
