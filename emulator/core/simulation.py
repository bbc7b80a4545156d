"""The core's one entry: commands in, facts and a reply out.

`handle` runs the decision of a command, applying each fact as it comes, and then fires every
timer that is due at the present instant. "Now" is no special case: a message without delay is
a timer that is already due.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import takewhile
from typing import Any, Generic, TypeVar

from emulator.core import commands
from emulator.core.commands import AdvanceClock, Command, SetBackClock
from emulator.core.errors import Conflict, Refused, WorldBroken
from emulator.core.message_facts import DeduplicationsExpired, DuplicateStarted
from emulator.core.model.messages import TimerKind
from emulator.core.record import AccountId, FlowKey, MessageId, Record
from emulator.core.resource_facts import AccountSettled, ClockMoved, RateWindowOpened
from emulator.core.rules import (
    accounts,
    attempts,
    dead_letters,
    destination_rules,
    outcomes,
    resources,
    run_publishing,
    run_restarts,
    run_waits,
    runs,
    schedules,
)
from emulator.core.state import Decision, Fact, State, StateView, split_subject
from emulator.core.timers import Timer

# -- the clock ----------------------------------------------------------------------------------


def advance_clock(state: StateView, command: AdvanceClock) -> Decision[None]:
    """Time only moves forward, and never past an instant at which something is due."""
    due_ms = state.timers.next_due_ms()
    if command.to_ms < state.now_ms or (due_ms is not None and due_ms < command.to_ms):
        raise Conflict(f"the clock cannot move from {state.now_ms} to {command.to_ms} in one step")
    if command.to_ms > state.now_ms:
        yield ClockMoved(now_ms=command.to_ms)


def set_back_clock(state: StateView, command: SetBackClock) -> Decision[None]:
    """Refused once a message was created or anything is due."""
    if state.counters.messages or state.timers.next_due_ms() is not None:
        raise Conflict("the clock cannot go back once something has happened in the world; reset it first")
    yield ClockMoved(now_ms=command.to_ms)


# -- the loop -----------------------------------------------------------------------------------

R = TypeVar("R")


class Outcome(Record, Generic[R]):
    """What a command led to: its reply, and every fact in order."""

    reply: R
    facts: list[Fact]


Decisions = Mapping[type[Any], Callable[[StateView, Any], Generator[Fact, None, Any]]]
# What decides each command; a test proves that every command has an entry.
# The generic reply type of a command cannot be carried through a table, so `handle` restores it.
DECISIONS: Decisions = {
    commands.AdvanceClock: advance_clock,
    commands.SetBackClock: set_back_clock,
    commands.RecordAttempt: outcomes.record_attempt,
    commands.AbandonAttempts: outcomes.abandon_attempts,
    commands.Redeliver: outcomes.redeliver,
    commands.HoldDestination: attempts.hold_destination,
    commands.ReleaseDestination: attempts.release_destination,
    commands.Publish: run_publishing.publish,
    commands.PublishBatch: run_publishing.publish_batch,
    commands.TriggerRuns: run_restarts.trigger_runs,
    commands.FinishRun: runs.finish_run,
    commands.CancelRun: runs.cancel_run,
    commands.CancelRuns: runs.cancel_runs,
    commands.ResumeRuns: run_restarts.begin_again,
    commands.RestartRuns: run_restarts.begin_again,
    commands.CallFailureFunction: run_restarts.call_failure_function_again,
    commands.CancelFailureFunction: run_restarts.cancel_failure_function,
    commands.WaitForEvent: run_waits.wait_for_event,
    commands.Notify: run_waits.notify,
    commands.CancelMessage: dead_letters.cancel_message,
    commands.CancelMessages: dead_letters.cancel_messages,
    commands.DeleteDeadLetters: dead_letters.delete_dead_letters,
    commands.RetryDeadLetters: dead_letters.retry_dead_letters,
    commands.WriteSchedule: schedules.write_schedule,
    commands.SetSchedulePaused: schedules.set_schedule_paused,
    commands.DeleteSchedule: schedules.delete_schedule,
    commands.UpsertEndpoints: resources.upsert_endpoints,
    commands.RemoveEndpoints: resources.remove_endpoints,
    commands.DeleteUrlGroup: resources.delete_url_group,
    commands.SetGroupDefaults: resources.set_group_defaults,
    commands.UpsertQueue: resources.upsert_queue,
    commands.SetQueuePaused: resources.set_queue_paused,
    commands.DeleteQueue: resources.delete_queue,
    commands.SetFlowPaused: resources.set_flow_paused,
    commands.PinFlow: resources.pin_flow,
    commands.UnpinFlow: resources.unpin_flow,
    commands.ResetFlow: resources.reset_flow,
    commands.RotateSigningKeys: accounts.rotate_signing_keys,
    commands.ChangeAccount: accounts.change_account,
    commands.RotateToken: accounts.rotate_token,
    commands.SetPlan: accounts.set_plan,
    commands.AmendAccount: accounts.amend_account,
    commands.CreateSearchIndex: accounts.create_search_index,
    commands.ChangeSearchIndex: accounts.change_search_index,
    commands.ResetSearchIndexPassword: accounts.reset_search_index_password,
    commands.DeleteSearchIndex: accounts.delete_search_index,
    commands.AddRule: destination_rules.add_rule,
    commands.RemoveRules: destination_rules.remove_rules,
    commands.OrderRules: destination_rules.order_rules,
}


class Simulation:
    """One world's rules at work on its state."""

    def __init__(self, state: State, decisions: Decisions = DECISIONS) -> None:
        self._state = state
        # The same, to read.
        self.state: StateView = state
        self._decisions = decisions

    @property
    def is_due(self) -> bool:
        """Whether anything is left to do at the present instant: `handle` stopped at its limit."""
        return self._state.timers.due(self._state.now_ms) is not None

    def handle(self, command: Command[R], at_most: int | None = None) -> Outcome[R]:
        """Carry out one command and everything that is due at the instant after it.

        With `at_most` no more than so many timers fire; `continue_instant` does the rest, in the same order. Raises
        Refused, with nothing changed. Raises WorldBroken when a rule failed half-way.
        """
        produced: list[Fact] = []
        reply: R = self._run(self._decisions[type(command)](self._state, command), produced, may_refuse=True)
        self._fire_due(produced, at_most)
        return Outcome(reply=reply, facts=produced)

    def continue_instant(self, at_most: int | None) -> list[Fact]:
        """Do more of what is due at the present instant. Raises WorldBroken when a rule failed half-way."""
        produced: list[Fact] = []
        self._fire_due(produced, at_most)
        return produced

    def _fire_due(self, produced: list[Fact], at_most: int | None) -> None:
        fired = 0
        while fired != at_most and (timer := self._state.timers.due(self._state.now_ms)) is not None:
            fired += 1
            count = len(produced)
            self._run(_fire(self._state, timer), produced, may_refuse=False)
            if len(produced) == count:
                raise WorldBroken(f"the timer {timer.kind} of {timer.subject} fired and nothing came of it")

    def _run(self, decision: Generator[Fact, None, R], produced: list[Fact], *, may_refuse: bool) -> R:
        """The only loop over facts: each is applied before the decision continues."""
        apply = self._state.apply
        try:
            while True:
                fact = next(decision)
                # Recorded before it is applied: a fact that fails half-way counts as one that has happened.
                produced.append(fact)
                apply(fact)
        except StopIteration as stop:
            reply: R = stop.value
            return reply
        except WorldBroken:
            raise
        except Exception as error:
            if may_refuse and not produced:
                raise
            what = f"refused: {error.text}" if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
            raise WorldBroken(f"a rule failed after its first fact: {what}") from error


def _fire(state: StateView, timer: Timer) -> Decision[None]:
    """What a due timer leads to. The first fact of each branch disarms or re-arms it."""
    match timer.kind:
        case TimerKind.DELIVERY:
            yield from attempts.deliver(state, MessageId(timer.subject))
        case TimerKind.DUPLICATE:
            duplicate = state.duplicates[timer.subject]
            message_id = duplicate.message.message_id
            yield DuplicateStarted(message_id=message_id, number=duplicate.number, at_ms=state.now_ms)
        case TimerKind.SCHEDULE:
            yield from schedules.fire(state, timer.subject, timer.due_ms)
        case TimerKind.ANSWER:
            yield from outcomes.answer_is_due(state, MessageId(timer.subject))
        case TimerKind.RATE_WINDOW:
            account_id, key = split_subject(timer.subject)
            yield RateWindowOpened(account_id=account_id, key=FlowKey(key), at_ms=state.now_ms)
            yield from attempts.admit_by_key(state, account_id, FlowKey(key))
        case TimerKind.DEDUPLICATION_EXPIRY:
            account_id = AccountId(timer.subject)
            entries = state.accounts[account_id].deduplications.items()
            expired = takewhile(lambda entry: entry[1][1] <= state.now_ms, entries)
            yield DeduplicationsExpired(account_id=account_id, keys=tuple(key for key, _ in expired))
        case TimerKind.DEAD_LETTER_EXPIRY:
            yield from dead_letters.expire_dead_letters(state, AccountId(timer.subject))
        case TimerKind.WAIT:
            yield from run_waits.deadline(state, timer.subject)
        case TimerKind.ACCOUNT:
            yield AccountSettled(account_id=AccountId(timer.subject))
