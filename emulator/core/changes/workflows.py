"""Workflow runs: their steps, what they wait for, and their ends."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.contents import Contents
from emulator.core.model.messages import TimerKind
from emulator.core.state_view import waiter_subject


def run_started(contents: Contents, fact: facts.RunStarted) -> None:
    contents.counters.runs += 1
    contents.accounts[fact.run.account_id].runs[fact.run.run_id] = fact.run


def run_rewritten(contents: Contents, fact: facts.RunRewritten) -> None:
    contents.accounts[fact.run.account_id].runs[fact.run.run_id] = fact.run


def step_accepted(contents: Contents, fact: facts.StepAccepted) -> None:
    runs = contents.accounts[fact.account_id].runs
    run = runs[fact.run_id]
    runs[fact.run_id] = replace(run, steps=(*run.steps, fact.step))


def run_ended(contents: Contents, fact: facts.RunEnded) -> None:
    owner = contents.accounts[fact.account_id]
    run = owner.runs.pop(fact.run_id)
    for waiter in run.waiters:
        owner.stop_waiting(waiter.event_id, waiter.number)
        contents.timers.disarm(TimerKind.WAIT, waiter_subject(fact.account_id, waiter.number, fact.run_id))


def wait_began(contents: Contents, fact: facts.WaitBegan) -> None:
    owner, waiter = contents.accounts[fact.account_id], fact.waiter
    run = owner.runs[fact.run_id]
    contents.counters.waiters += 1
    owner.runs[fact.run_id] = replace(run, waiters=(*run.waiters, waiter))
    owner.waiting_runs.setdefault(waiter.event_id, {})[waiter.number] = fact.run_id
    subject = waiter_subject(fact.account_id, waiter.number, fact.run_id)
    contents.timers.arm(TimerKind.WAIT, subject, waiter.deadline_ms)


def wait_ended(contents: Contents, fact: facts.WaitEnded) -> None:
    owner = contents.accounts[fact.account_id]
    run = owner.runs[fact.run_id]
    (waiter,) = (each for each in run.waiters if each.number == fact.waiter_number)
    waiters = tuple(each for each in run.waiters if each is not waiter)
    owner.runs[fact.run_id] = replace(run, waiters=waiters)
    owner.stop_waiting(waiter.event_id, waiter.number)
    contents.timers.disarm(TimerKind.WAIT, waiter_subject(fact.account_id, waiter.number, fact.run_id))


def event_saved(contents: Contents, fact: facts.EventSaved) -> None:
    runs = contents.accounts[fact.account_id].runs
    run = runs[fact.run_id]
    runs[fact.run_id] = replace(run, saved_events=(*run.saved_events, fact.event))


def saved_event_taken(contents: Contents, fact: facts.SavedEventTaken) -> None:
    runs = contents.accounts[fact.account_id].runs
    run = runs[fact.run_id]
    saved = list(run.saved_events)
    del saved[next(at for at, event in enumerate(saved) if event.event_id == fact.event_id)]
    runs[fact.run_id] = replace(run, saved_events=tuple(saved))
