"""The attempts of one world that have started: those that wait to leave, and those under way.

Outcomes come back in one of two orders. In order: a frozen world and a clock advance keep a window
of attempts under way and record outcomes in start order. The window of an advance has one place by
default; outside an advance it is as wide as real time is, and what starts meanwhile leaves at once.
By origin: in a running world each attempt is a task of its own, and only attempts to the same
origin wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from emulator.core.commands import Command, RecordAttempt
from emulator.core.errors import Conflict
from emulator.core.model.messages import (
    NOT_SENT,
    OUTCOME_UNKNOWN,
    Attempt,
    AttemptOutcome,
    Message,
    Via,
    abandoned_attempt,
    destination_origin,
)
from emulator.core.record import MessageId
from emulator.core.state import StateView
from emulator.delivery.transport import Inside, Leaves, Route
from emulator.engine.clock import PacedClock
from emulator.engine.limits import Limits
from emulator.queries.history import waiting_for_slots

logger = logging.getLogger(__name__)

R = TypeVar("R")

# The end of every refusal to move the clock while an attempt is under way.
NOT_FROM_A_HANDLER = "a receiver cannot move the clock from its handler"

# How many attempts are under way at once where no setting says so: per origin in a running world,
# in all in a frozen one that nobody advances.
_IN_REAL_TIME = 64

# How many attempts one call, or one task of a running world, answers without leaving the event loop.
_INSIDE_PER_CALL = 64


class DriverPort(Protocol):
    """What the outbox and an advance need of the driver."""

    @property
    def state(self) -> StateView: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_catching_up(self) -> bool: ...
    def handle(self, command: Command[R]) -> R: ...
    def is_called_off(self, attempt: Attempt, *, was_cut_off: bool) -> bool: ...
    def completed(self, attempt: Attempt) -> Attempt: ...
    def check(self) -> None: ...
    def stop(self, reason: str, error: BaseException | None = None) -> None: ...
    async def commit(self) -> None: ...
    async def yield_to_loop(self) -> None: ...
    async def finish_instant(self) -> None: ...
    async def catch_up(self) -> None: ...


class Transport(Protocol):
    """What the outbox needs of delivery. Neither method raises: failures are outcomes."""

    def route(self, attempt: Attempt) -> Route: ...
    async def send(self, attempt: Attempt, route: Leaves) -> AttemptOutcome: ...


class _Entry:
    """An attempt, its route once that is known, and in a window what sends it.

    `was_cut_off`: it has left before, and its outcome was not awaited.
    """

    __slots__ = ("attempt", "route", "sending", "was_cut_off")
    sending: asyncio.Task[AttemptOutcome] | Coroutine[None, None, AttemptOutcome]

    def __init__(self, attempt: Attempt, *, was_cut_off: bool = False) -> None:
        self.attempt = attempt
        self.was_cut_off = was_cut_off
        self.route: Route | None = None


class Outbox:
    """Performs the attempts of one world: each is routed, made durable, sent if it has to leave, and recorded."""

    def __init__(self, driver: DriverPort, transport: Transport, clock: PacedClock, limits: Limits) -> None:
        self._driver = driver
        self._transport = transport
        self._clock = clock
        self._limits = limits
        # The room of each origin in a running world, as long as an attempt has a place in it or waits for one.
        self.origin_limits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: deque[_Entry] = deque()
        # What the background drain has under way in a frozen world, in start order.
        self._background: deque[_Entry] = deque()
        # Attempts that have started and are not recorded, those that wait to leave included.
        self.in_flight = 0
        # Those among them that have not left.
        self._not_left: set[_Entry] = set()
        # The messages of the attempts that have left and are not recorded, by destination, oldest first.
        self.left: dict[str, dict[object, Message]] = {}
        # Set when nothing is in flight, or when that will never be.
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
        state, most = self._driver.state, self._limits.most_due
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

    @property
    def departed(self) -> int:
        """How many attempts have left and are not recorded."""
        # Those are what is counted as under way (D-537).
        return self.in_flight - len(self._not_left)

    def waiting_to_leave(self) -> Iterator[Attempt]:
        """The attempts that have started and have not left, in no order."""
        return (entry.attempt for entry in self._not_left)

    async def wait_until_quiet(self) -> None:
        """Return when nothing is in flight. Raises Conflict or WorldBroken if that cannot be."""
        while self.in_flight:
            self._driver.check()
            if self._is_stopped:
                raise Conflict("this world is being reset or removed")
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

    def release_waiting_calls(self) -> None:
        """Let the calls in `wait_for_a_moment` return."""
        for limit in self._waiting_calls:
            # One that is over returns in its next turn, and cannot be changed any more.
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    # -- leaving ----------------------------------------------------------------------------

    def add(self, attempt: Attempt) -> None:
        """Take in an attempt that has started. `pump` or an advance lets it leave."""
        entry = _Entry(attempt)
        self._waiting.append(entry)
        self._not_left.add(entry)
        self.in_flight += 1
        self._quiet.clear()

    def withdraw(self, origin: str, message_id: MessageId) -> tuple[MessageId, ...]:
        """Give back the attempts to a destination that wait to leave; their messages.

        Not those that a rule answers, but for that of `message_id`: no application publishes on their account. Nor
        duplicates, which are few, nor what was canceled, which ends without leaving.
        """
        withdrawn = [
            entry
            for entry in self._waiting
            if destination_origin(entry.attempt.message.url) == origin
            and not (entry.attempt.is_duplicate or entry.attempt.redelivery)
            and not self._driver.is_called_off(entry.attempt, was_cut_off=entry.was_cut_off)
            and (entry.attempt.answer is None or entry.attempt.message.message_id == message_id)
        ]
        if withdrawn:
            gone = set(withdrawn)
            self._waiting = deque(entry for entry in self._waiting if entry not in gone)
            self._not_left -= gone
            self.in_flight -= len(gone)
            if self.in_flight == 0:
                self._quiet.set()
        return tuple(entry.attempt.message.message_id for entry in withdrawn)

    def answer_inside(self) -> None:
        """Answer attempts that need no network at once, as long as they are first in line."""
        if self.is_held or self._is_draining:
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
                together = [self._waiting.popleft() for _ in range(min(len(self._waiting), _INSIDE_PER_CALL))]
                self._spawn(self._perform_together(together) if len(together) > 1 else self._perform(together[0]))
        elif self._is_draining:
            # The drain waits for the first of its window. When that is empty, it continues by itself.
            if self._background:
                self._fill(self._background, self._may_leave, self._limits.concurrency or _IN_REAL_TIME)
        else:
            self._is_draining = True
            self._spawn(self._drain_in_background())

    async def drain(self, may_start: Callable[[int], bool]) -> None:
        """Perform what waits, outcomes recorded in start order, until nothing is left or may start.

        `may_start` is asked before each attempt, with the number under way.
        """
        await self._drain(deque(), may_start, self._limits.concurrency or 1)

    async def _drain(self, window: deque[_Entry], may_start: Callable[[int], bool], places: int) -> None:
        try:
            while self._fill(window, may_start, places):
                entry = window[0]
                outcome = entry.route.outcome if isinstance(entry.route, Inside) else await entry.sending
                window.popleft()
                self._record(entry, outcome)
                await self._driver.yield_to_loop()
        finally:
            # After a cancellation, what was not recorded is attempted again.
            for entry in reversed(window):
                if isinstance(entry.route, Leaves) and isinstance(entry.sending, asyncio.Task):
                    entry.sending.cancel()
                    # asyncio would log an exception that was never retrieved.
                    entry.sending.add_done_callback(lambda task: task.cancelled() or task.exception())
                self._has_come_back(entry)
                again = _Entry(entry.attempt, was_cut_off=entry.was_cut_off or entry not in self._not_left)
                self._waiting.appendleft(again)
                self._not_left.discard(entry)
                self._not_left.add(again)
            window.clear()

    def _fill(self, window: deque[_Entry], may_start: Callable[[int], bool], places: int) -> bool:
        """Start attempts until all places of the window are taken; whether any is under way."""
        while self._waiting and len(window) < places and may_start(len(window)):
            entry = self._waiting[0]
            if window and not self._may_share(entry):
                break
            self._waiting.popleft()
            window.append(entry)
            route = self._route(entry)
            if isinstance(route, Leaves):
                sending = self._leave(entry, route)
                # Alone in its window it is awaited next, and needs no task.
                entry.sending = sending if places == 1 else asyncio.get_running_loop().create_task(sending)
        return bool(window)

    def _may_share(self, entry: _Entry) -> bool:
        """Whether an attempt may leave beside others."""
        # Applications in the test's own process take turns, unless the setting says otherwise (D-538).
        if self._limits.concurrency is not None:
            return True
        route = self._route(entry)
        return isinstance(route, Inside) or route.mount is None

    def _may_leave(self, _: int) -> bool:
        return not self.is_held and not self._is_stopped

    async def _drain_in_background(self) -> None:
        """Let what is due in a frozen world leave, until an advance takes over."""
        try:
            await self._drain(self._background, self._may_leave, self._limits.concurrency or _IN_REAL_TIME)
        finally:
            self._is_draining = False
        await self._driver.commit()

    async def _perform(self, entry: _Entry) -> None:
        """One attempt of a running world, which leaves when its origin has room."""
        route = self._route(entry)
        if isinstance(route, Inside):
            outcome = route.outcome
        else:
            room = asyncio.Semaphore(self._limits.concurrency or _IN_REAL_TIME)
            async with self.origin_limits.setdefault(route.origin, room):
                outcome = await self._leave(entry, route)
        await self._record_now(entry, outcome)
        self.pump()
        await self._driver.commit()

    async def _perform_together(self, entries: Iterable[_Entry]) -> None:
        """Attempts of a running world that started together. Those that need no network need no task of their own."""
        for entry in entries:
            route = self._route(entry)
            if isinstance(route, Inside):
                await self._record_now(entry, route.outcome)
            else:
                self._spawn(self._perform(entry))
        self.pump()
        await self._driver.commit()

    async def _record_now(self, entry: _Entry, outcome: AttemptOutcome) -> None:
        """Record the outcome of an attempt of a running world, at the instant that it is by now."""
        if not self._driver.is_catching_up:
            # Otherwise it is recorded at the instant that was reached: what is due next may wait for it.
            await self._driver.catch_up()
        self._record(entry, outcome)

    def _route(self, entry: _Entry) -> Route:
        """Where an attempt goes. The transport is asked once."""
        if entry.route is None:
            if self._driver.is_called_off(entry.attempt, was_cut_off=entry.was_cut_off):
                entry.route = Inside(outcome=_abandoned(entry))
                return entry.route
            try:
                entry.route = self._transport.route(entry.attempt)
            except Exception as error:  # An edge: a fault of the transport is a failed attempt.
                entry.route = Inside(outcome=_fault_of_transport(error))
        return entry.route

    async def _leave(self, entry: _Entry, route: Leaves) -> AttemptOutcome:
        """Send an attempt, once its facts are durable."""
        await self._driver.commit()
        if self._driver.is_called_off(entry.attempt, was_cut_off=entry.was_cut_off):
            return _abandoned(entry)
        self._not_left.discard(entry)
        message = entry.attempt.message
        self.left.setdefault(destination_origin(message.url), {})[entry] = message
        try:
            # Only now: of all that wait to leave, few hold the long list that a call of a run delivers.
            return await self._transport.send(self._driver.completed(entry.attempt), route)
        except Exception as error:  # An edge: a fault of the transport is a failed attempt.
            return _fault_of_transport(error)

    def _record(self, entry: _Entry, outcome: AttemptOutcome) -> None:
        attempt = entry.attempt
        try:
            self._driver.handle(
                RecordAttempt(
                    message_id=attempt.message.message_id,
                    number=attempt.number,
                    outcome=outcome,
                    is_duplicate=attempt.is_duplicate,
                    redelivery=attempt.redelivery,
                )
            )
        finally:
            self._not_left.discard(entry)
            if self.left:
                self._has_come_back(entry)
            self.in_flight -= 1
            self._came_back.set()
            if self.in_flight == 0:
                self._quiet.set()

    def _has_come_back(self, entry: _Entry) -> None:
        """An attempt that may have left has an outcome, or never will."""
        origin = destination_origin(entry.attempt.message.url)
        entries = self.left.get(origin)
        if entries is not None and entry in entries:
            del entries[entry]
            if not entries:
                del self.left[origin]

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
                if under_way == 0:
                    # The tasks that are left record outcomes.
                    raise Conflict(
                        f"all attempts have come back, and what became of them is still being written after "
                        f"{patience_s:g} s; time moves only when it is durable (is the disk very slow?)"
                    )
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
            self._driver.stop(str(error) or type(error).__name__, error)


def _abandoned(entry: _Entry) -> AttemptOutcome:
    return abandoned_attempt(OUTCOME_UNKNOWN if entry.was_cut_off else NOT_SENT)


def _fault_of_transport(error: Exception) -> AttemptOutcome:
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        # No fault of ours (D-565).
        return AttemptOutcome(
            response=None, error="the emulator has no file descriptor left (ulimit -n)", via=Via.NETWORK
        )
    logger.error("an attempt could not be made", exc_info=error)
    return AttemptOutcome(response=None, error=f"the emulator failed: {type(error).__name__}", via=Via.NETWORK)
