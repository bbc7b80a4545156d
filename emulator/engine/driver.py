"""One world at work: the only place where core, journal and transport meet.

The driver makes facts durable, hands the attempts that they started to the outbox, and carries out
each outcome as another command. One engine serves every mode: a frozen world moves only when its
clock is moved, and a running one catches up with its clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from emulator.core import commands, message_facts, resource_facts
from emulator.core.commands import Command
from emulator.core.errors import Conflict, WorldBroken
from emulator.core.model.messages import Attempt, Duplicate, HeldDestination, Message, Phase, Progress
from emulator.core.simulation import Simulation
from emulator.core.state import Fact, StateView, delivered_message, duplicate_subject, is_called_off
from emulator.engine.advance import Advance
from emulator.engine.clock import PacedClock
from emulator.engine.limits import Limits, Loop, LoopGuard
from emulator.engine.outbox import Outbox, Transport

logger = logging.getLogger(__name__)

R = TypeVar("R")

# So many timers of one instant fire before other tasks get a turn (D-302).
_TIMERS_AT_ONCE = 200
# After so many steps without leaving the event loop, other tasks get a turn.
_YIELD_AFTER = 50


class Journal(Protocol):
    """What the driver needs of the store: facts go in at once, and are durable after `commit`."""

    def append(self, facts: Sequence[Fact]) -> None: ...
    async def commit(self) -> None: ...
    async def apply_backpressure(self) -> None: ...


class Driver:
    """One world at work. `submit` carries out commands, and `advance` moves the clock."""

    def __init__(
        self,
        simulation: Simulation,
        journal: Journal,
        transport: Transport,
        clock: PacedClock,
        *,
        limits: Limits | None = None,
        observe: Callable[[StateView, Sequence[Fact]], None] | None = None,
        stopped: Callable[[str, BaseException | None], None] | None = None,
        slipped: Callable[[], None] | None = None,
        held: Callable[[HeldDestination], None] = lambda destination: None,
    ) -> None:
        """`observe` is called with all facts, `slipped` when the clock has lost time, `held` with the end of a loop."""
        limits = limits or Limits()
        self._simulation = simulation
        self.state = simulation.state
        self._journal = journal
        self._clock = clock
        self._observe = observe
        self._stopped = stopped or _log_stop
        self._slipped = slipped
        self._held = held
        # Held while the clock catches up: what is due is done once, by the first caller.
        self._catching_up = asyncio.Lock()
        self._slip_after_ms = limits.slip_after_ms
        self._crowded_s = limits.crowded_s
        self._guard = LoopGuard(limits.max_attempts_per_instant)
        self.outbox = Outbox(self, transport, clock, limits)
        self.advance = Advance(self, self.outbox, clock)
        self._steps = 0
        self._broken: WorldBroken | None = None
        self.is_closed = False

    # -- reading ----------------------------------------------------------------------------

    @property
    def is_advancing(self) -> bool:
        return self.outbox.is_held

    @property
    def is_catching_up(self) -> bool:
        return self._catching_up.locked()

    # -- commands ---------------------------------------------------------------------------

    async def submit(self, command: Command[R]) -> R:
        """Carry out a command; when this returns, what it did is durable.

        In a frozen world it also waits a moment for the deliveries it caused, unless others were in
        flight already: the caller may be one of their receivers. Raises Refused, with nothing
        changed; WorldBroken.
        """
        await self.catch_up()
        was_quiet = self.outbox.in_flight == 0
        reply = self.handle(command)
        self.outbox.answer_inside()
        # Before the commit, so that a caller that goes away meanwhile holds nothing up.
        self.outbox.pump()
        await self.commit()
        if was_quiet and self.outbox.in_flight and self._clock.is_frozen and not self.is_advancing:
            await self.outbox.wait_for_a_moment()
        return reply

    def handle(self, command: Command[R]) -> R:
        """Carry out a command; its facts are durable after the next `commit`.

        For the modules of the engine; everybody else calls `submit`. It is synchronous, so that
        nothing comes between a decision and the journal.
        """
        self.check()
        # While time moves, the advance does the rest of the instant.
        at_most = _TIMERS_AT_ONCE if self.is_advancing or self.is_catching_up else None
        is_watched = self._may_continue_loop(command)
        try:
            outcome = self._simulation.handle(command, 0 if is_watched else at_most)
            if is_watched:
                # Before anything starts: a message too many does not.
                self._hold_loops(command, outcome.facts)
                outcome.facts.extend(self._simulation.continue_instant(at_most))
            if isinstance(command, commands.RecordAttempt) and command.message_id not in self.state.messages:
                self._guard.forget(command.message_id)
        except WorldBroken as error:
            self.stop(str(error), error)
            raise
        self._journal_facts(outcome.facts)
        return outcome.reply

    # -- loops ------------------------------------------------------------------------------

    def _may_continue_loop(self, command: Command[R]) -> bool:
        """Whether an attempt in flight may have caused the messages that a command creates."""
        if isinstance(command, commands.RecordAttempt):
            if not self._guard.has_chain(command.message_id):
                return False
            progress = self.state.messages.get(command.message_id)
            return progress is not None and _may_cause_messages(progress.message)
        return bool(self.outbox.left) and type(command) is not commands.AdvanceClock

    def _hold_loops(self, command: Command[R], produced: list[Fact]) -> None:
        """Count the messages that a command has created, and add the facts that hold what has become a loop."""
        advancing = self.is_advancing
        created = [fact.message for fact in produced if isinstance(fact, message_facts.MessageCreated)]
        for message in created:
            if message.not_before_ms > self.state.now_ms:
                continue  # Time passes before it leaves.
            if isinstance(command, commands.RecordAttempt):
                loop = self._guard.followed(message, command.message_id, advancing=advancing)
            else:
                loop = self._guard.published(message, self.outbox.left, advancing=advancing)
            if loop is not None:
                produced += self._hold(loop)

    def _hold(self, loop: Loop) -> list[Fact]:
        """Let nothing leave to a destination any more. The facts are still to be journaled."""
        if loop.origin in self.state.held_destinations:
            return []
        hold = commands.HoldDestination(
            origin=loop.origin,
            limit=loop.limit,
            cause=loop.cause,
            message_id=loop.message_id,
            withdrawn=self.outbox.withdraw(loop.origin, loop.message_id),
        )
        produced = self._simulation.handle(hold, 0).facts
        self._held(self.state.held_destinations[loop.origin])
        return produced

    async def finish_instant(self) -> None:
        """Do what `handle` left of the present instant, and let other tasks have a turn in between."""
        while self._simulation.is_due:
            await asyncio.sleep(0)
            self.check()
            try:
                produced = self._simulation.continue_instant(_TIMERS_AT_ONCE)
            except WorldBroken as error:
                self.stop(str(error), error)
                raise
            self._journal_facts(produced)
            await self._wait_for_history()

    def _journal_facts(self, produced: Sequence[Fact]) -> None:
        if produced:
            self._journal.append(produced)
            self._start_attempts(produced)
            if not self._clock.is_frozen:
                self._clock.wake_for(self.state.timers.next_due_ms())
            if self._observe is not None:
                self._observe(self.state, produced)

    def _start_attempts(self, produced: Sequence[Fact]) -> None:
        """The state has applied all of `produced` by now."""
        self.advance.count(produced)
        loop: Loop | None = None
        for fact in produced:
            kind = type(fact)
            if kind is message_facts.AttemptStarted:
                assert isinstance(fact, message_facts.AttemptStarted)
                attempt = self._attempt(self.state.messages[fact.message_id])
                self.outbox.add(attempt)
                loop = self._guard.retried(attempt.message, attempt.number) or loop
            elif kind is resource_facts.ClockMoved:
                is_moved = self._clock.is_frozen or self.is_advancing
                self._guard.move_to(self.state.now_ms, rate=0 if is_moved else self._clock.rate)
            elif kind is message_facts.DuplicateStarted:
                assert isinstance(fact, message_facts.DuplicateStarted)
                subject = duplicate_subject(fact.message_id, fact.number, fact.redelivery)
                self.outbox.add(self._duplicate(self.state.duplicates[subject]))
        if loop is not None:
            self._journal_facts(self._hold(loop))

    def _attempt(self, progress: Progress) -> Attempt:
        """The attempt that is under way for a message."""
        message, number = progress.message, progress.dispatch.retried + 1
        account = self.state.accounts[message.account_id].account
        return Attempt(
            message=message,
            number=number,
            at_ms=progress.dispatch.started_ms,
            answer=progress.dispatch.answer,
            signing_key=account.signing_keys.current,
            region=account.region,
        )

    def is_called_off(self, attempt: Attempt, *, was_cut_off: bool) -> bool:
        """Whether an attempt that has started is not sent any more, because its message was canceled (D-780).

        One that was cut off is not sent again either if its run has ended.
        """
        message_id = attempt.message.message_id
        if attempt.is_duplicate or attempt.redelivery:
            subject = duplicate_subject(message_id, attempt.number, attempt.redelivery)
            duplicate = self.state.duplicates.get(subject)
            return duplicate is not None and duplicate.is_called_off
        progress = self.state.messages.get(message_id)
        if progress is None:
            return False
        return progress.dispatch.cancel_requested or (was_cut_off and is_called_off(self.state, progress))

    def completed(self, attempt: Attempt) -> Attempt:
        """The attempt with the body that it sends."""
        return replace(attempt, message=delivered_message(self.state, attempt.message))

    def _duplicate(self, duplicate: Duplicate) -> Attempt:
        """The duplicate that is under way: the same attempt again, with a signature of its own."""
        message, number = duplicate.message, duplicate.number
        account = self.state.accounts[message.account_id].account
        assert duplicate.started_ms is not None
        return Attempt(
            message=message,
            number=number,
            at_ms=duplicate.started_ms,
            answer=duplicate.answer,
            signing_key=account.signing_keys.current,
            region=account.region,
            is_duplicate=duplicate.redelivery == 0,
            redelivery=duplicate.redelivery,
        )

    async def commit(self) -> None:
        """Return when everything that has happened is durable. Raises WorldBroken if that cannot be."""
        self.check()
        try:
            await self._journal.commit()
        except WorldBroken as error:
            self.stop(str(error), is_disk_full=error.is_disk_full)
            raise

    async def yield_to_loop(self) -> None:
        """Called after each step of long work: every so many steps, wait for history and yield to other tasks."""
        self._steps += 1
        task = asyncio.current_task()
        # A cancellation takes effect only where a task yields.
        if self._steps % _YIELD_AFTER == 0 or (task is not None and task.cancelling()):
            await self._wait_for_history()
            await asyncio.sleep(0)

    async def _wait_for_history(self) -> None:
        try:
            await self._journal.apply_backpressure()
        except WorldBroken as error:
            self.stop(str(error))
            raise

    async def settle(self) -> None:
        """Return when nothing is in flight."""
        await self.outbox.wait_until_quiet()

    # -- time that passes by itself ---------------------------------------------------------

    async def keep_time(self) -> None:
        """Let time pass until cancelled. A frozen clock costs nothing until it is unfrozen."""
        # What `resume` did.
        await self.commit()
        while True:
            if self._passes:
                await self.catch_up()
                await self.commit()
                if self._clock.rate > 1 and self.outbox.is_crowded:
                    if not await self.outbox.wait_for_outcome(self._crowded_s):
                        # Receivers that do not answer must not stop the clock for good.
                        await self._step_on()
                    continue
            await self._clock.sleep_until(None if self.is_advancing else self.state.timers.next_due_ms())

    @property
    def _passes(self) -> bool:
        """Whether time passes by itself."""
        return not self._clock.is_frozen and not self.is_advancing

    async def catch_up(self) -> None:
        """In a running world, do what has come due since the last call. Call before reading state.

        Where more comes due than can be done, a clock that is faster than real time slips (D-300).
        """
        self.check()
        if not self._passes:
            return
        async with self._catching_up:
            self.check()
            if self._passes:
                await self._catch_up(self._clock.now_ms())

    async def _catch_up(self, target_ms: int) -> None:
        began_ms: int | None = None
        steps = 0
        while (due_ms := self.state.timers.next_due_ms()) is not None and due_ms <= target_ms and self._passes:
            if self._clock.rate > 1 and self.outbox.is_crowded:
                if (target_ms - due_ms) / self._clock.rate > self._slip_after_ms:
                    self._slip()
                break
            if began_ms is None:
                began_ms = self._clock.wall_ms()
            await self._step_to(due_ms)
            steps += 1
            if steps % _YIELD_AFTER == 0:
                await self._yield_to_attempts()
                if self._clock.rate > 1 and self._clock.wall_ms() - began_ms > self._slip_after_ms:
                    # Otherwise each round would have more to catch up with than the one before.
                    self._slip()
                    break
        else:
            if target_ms > self.state.now_ms and self._passes:
                self.handle(commands.AdvanceClock(to_ms=target_ms))
        if steps:
            self.outbox.pump()

    async def _step_to(self, due_ms: int) -> None:
        """Do what is due at an instant, or should have been done then."""
        self.handle(commands.AdvanceClock(to_ms=max(due_ms, self.state.now_ms)))
        await self.finish_instant()
        self.outbox.answer_inside()

    async def _yield_to_attempts(self) -> None:
        """Send attempts and yield to other tasks. In real time, wait for outcomes if too much is due."""
        self.outbox.pump()
        await self.commit()
        await self._wait_for_history()
        await asyncio.sleep(0)
        while self._clock.rate <= 1 and self.outbox.is_crowded and await self.outbox.wait_for_outcome(self._crowded_s):
            self.check()
        self.check()

    async def _step_on(self) -> None:
        """Do what is due at one instant, however much is due."""
        async with self._catching_up:
            due_ms = self.state.timers.next_due_ms()
            if self._passes and due_ms is not None and due_ms <= self._clock.now_ms():
                await self._step_to(due_ms)
                self.outbox.pump()

    def _slip(self) -> None:
        self._clock.slip(self.state.now_ms)
        if self._slipped is not None:
            self._slipped()

    # -- beginning and end ------------------------------------------------------------------

    def resume(self) -> None:
        """After a restart: attempts that were under way are made again (at least once).

        Those of canceled messages are not: these messages end (D-780). Destinations that were held by another
        maximum are held no longer (D-786).
        """
        under_way = [
            progress
            for progress in self.state.messages.values()
            if progress.phase is Phase.ACTIVE and progress.dispatch.outcome is None
        ]
        again = [progress for progress in under_way if not is_called_off(self.state, progress)]
        for progress in sorted(again, key=lambda each: each.dispatch.started_ms):
            self.outbox.add(self._attempt(progress))
        started = [each for each in self.state.duplicates.values() if each.started_ms is not None]
        repeated = [each for each in started if not each.is_called_off]
        for duplicate in repeated:
            self.outbox.add(self._duplicate(duplicate))
        if len(again) < len(under_way) or len(repeated) < len(started):
            # After the others: what it lets start started later than they did.
            self.handle(commands.AbandonAttempts())
        for held in tuple(self.state.held_destinations.values()):
            if held.limit not in self._guard.limits:
                self.handle(commands.ReleaseDestination(origin=held.origin))
        self.outbox.pump()

    async def close(self, grace_s: float = 0.5) -> int:
        """Let what is in flight finish for a moment, then stop; the rest is attempted after the next start.

        Returns how many attempts were cut off.
        """
        await self.outbox.finish(grace_s)
        self.is_closed = True
        cut_off = self.outbox.in_flight
        await self.outbox.cancel()
        return cut_off

    def stop(self, reason: str, error: BaseException | None = None, *, is_disk_full: bool = False) -> None:
        """Stop this driver for good, because state and journal could differ: every call raises WorldBroken from now."""
        if self._broken is None:
            self._broken = WorldBroken(f"this world has stopped: {reason}", is_disk_full=is_disk_full)
            self._stopped(reason, error)
        self.outbox.stop()

    @property
    def broken(self) -> str | None:
        """Why it has stopped, if it has."""
        return None if self._broken is None else str(self._broken)

    def check(self) -> None:
        """Raises WorldBroken if the world has stopped, Conflict if it was closed."""
        if self._broken is not None:
            raise WorldBroken(str(self._broken), is_disk_full=self._broken.is_disk_full)
        if self.is_closed:
            raise Conflict("this world is being reset or removed")


def _may_cause_messages(message: Message) -> bool:
    """Whether the outcome of an attempt may create other messages."""
    return message.policy.callback is not None or message.policy.failure_callback is not None or message.run is not None


def _log_stop(reason: str, error: BaseException | None) -> None:
    logger.error("the world has stopped: %s", reason, exc_info=error)
