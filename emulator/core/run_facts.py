"""What happened to workflow runs: their steps, what they wait for, and their ends."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.model.messages import TimerKind
from emulator.core.model.workflows import RunState, SavedEvent, Waiter, WorkflowRun, WorkflowStep, listed_bytes
from emulator.core.record import AccountId, DeadLetterId, RunId
from emulator.core.state import AccountState, Fact, State, UnloggedFact, waiter_subject

# So many runs that have ended are remembered for the depth of those that they invoke (D-600).
MOST_ENDED_DEPTHS = 10_000


class RunStarted(Fact):
    """A run began; its first step is its payload."""

    run: WorkflowRun

    def apply(self, state: State) -> None:
        state.counters.runs += 1
        state.accounts[self.run.account_id].runs[self.run.run_id] = self.run


class RunRewritten(Fact):
    """The endpoint of a triggered run published the init message itself: other options and payload from now on.

    Or a run was invoked after its first call, and keeps all but its invoker.
    """

    run: WorkflowRun

    def apply(self, state: State) -> None:
        state.accounts[self.run.account_id].runs[self.run.run_id] = self.run


class StepAccepted(Fact):
    """A result joined the steps of a run."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    step: WorkflowStep
    at_ms: int

    def apply(self, state: State) -> None:
        runs = state.accounts[self.account_id].runs
        run = runs[self.run_id]
        runs[self.run_id] = replace(
            run, steps=(*run.steps, self.step), listed_bytes=run.listed_bytes + listed_bytes(self.step)
        )


class RunEnded(Fact):
    """A run has its final state: `response` of a success, the dead letter of a failure."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    at_ms: int
    state: RunState
    response: bytes | None = None
    dead_letter_id: DeadLetterId | None = None

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        run = owner.runs.pop(self.run_id)
        owner.ended_runs[run.number] = run
        if run.depth:
            owner.ended_depths.pop(run.run_id, None)
            owner.ended_depths[run.run_id] = run.depth
            if len(owner.ended_depths) > MOST_ENDED_DEPTHS:
                del owner.ended_depths[next(iter(owner.ended_depths))]
        forget_ended(state, owner, run.number)
        for waiter in run.waiters:
            owner.stop_waiting(waiter.event_id, waiter.number)
            state.timers.disarm(TimerKind.WAIT, waiter_subject(self.account_id, waiter.number, self.run_id))


class WaitBegan(Fact):
    """A step of a run waits for an event, until the waiter's deadline."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    at_ms: int
    waiter: Waiter

    def apply(self, state: State) -> None:
        owner, waiter = state.accounts[self.account_id], self.waiter
        run = owner.runs[self.run_id]
        state.counters.waiters += 1
        owner.runs[self.run_id] = replace(run, waiters=(*run.waiters, waiter))
        owner.waiting_runs.setdefault(waiter.event_id, {})[waiter.number] = self.run_id
        subject = waiter_subject(self.account_id, waiter.number, self.run_id)
        state.timers.arm(TimerKind.WAIT, subject, waiter.deadline_ms)


class WaitEnded(UnloggedFact):
    """The event came, or the deadline; the step's result is published."""

    account_id: AccountId
    run_id: RunId
    waiter_number: int

    def apply(self, state: State) -> None:
        owner = state.accounts[self.account_id]
        run = owner.runs[self.run_id]
        (waiter,) = (each for each in run.waiters if each.number == self.waiter_number)
        waiters = tuple(each for each in run.waiters if each is not waiter)
        owner.runs[self.run_id] = replace(run, waiters=waiters)
        owner.stop_waiting(waiter.event_id, waiter.number)
        state.timers.disarm(TimerKind.WAIT, waiter_subject(self.account_id, waiter.number, self.run_id))


class EventSaved(UnloggedFact):
    """An event came for a run that did not wait for it (yet)."""

    account_id: AccountId
    run_id: RunId
    event: SavedEvent

    def apply(self, state: State) -> None:
        runs = state.accounts[self.account_id].runs
        run = runs[self.run_id]
        runs[self.run_id] = replace(run, saved_events=(*run.saved_events, self.event))


class SavedEventTaken(UnloggedFact):
    """The oldest saved event of an id was used by a wait."""

    account_id: AccountId
    run_id: RunId
    event_id: str

    def apply(self, state: State) -> None:
        runs = state.accounts[self.account_id].runs
        run = runs[self.run_id]
        saved = list(run.saved_events)
        del saved[next(at for at, event in enumerate(saved) if event.event_id == self.event_id)]
        runs[self.run_id] = replace(run, saved_events=tuple(saved))


def forget_ended(state: State, owner: AccountState, run_number: int) -> None:
    """Forget an ended run if no message is left that delivers the list of its steps."""
    if run_number in owner.ended_runs and run_number not in owner.run_messages:
        parts = (duplicate.message.run for duplicate in state.duplicates.values())
        if all(part is None or part.run_number != run_number for part in parts):
            del owner.ended_runs[run_number]
