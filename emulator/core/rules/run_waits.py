"""Waiting for events: a step waits, an event or its deadline resumes it, and webhooks are events."""

from __future__ import annotations

from base64 import b64encode

import msgspec
from msgspec.structs import replace

from emulator.core.commands import Notify, WaitForEvent
from emulator.core.errors import InvalidRunMessage, RunOver
from emulator.core.model.messages import CreatedBy, Source
from emulator.core.model.options import MessageOptions
from emulator.core.model.workflows import NotifiedWaiter, SavedEvent, Waiter, WorkflowRun, WorkflowStep
from emulator.core.record import MessageId, RunId
from emulator.core.rules import limits
from emulator.core.rules.runs import append_step, completed, refused_as_run_message
from emulator.core.run_facts import EventSaved, SavedEventTaken, WaitBegan, WaitEnded
from emulator.core.state import AccountView, Decision, StateView, account_state, split_waiter_subject

# What the step of a wait says whose time is over.
TIMED_OUT = {"waitTimeout": True}


class _WebhookStep(msgspec.Struct):
    # Named as on the wire; `out` is JSON in a text.
    stepType: str  # noqa: N815
    out: str


class _Webhook(msgspec.Struct):
    webhookUrl: str  # noqa: N815


_WEBHOOK_STEP = msgspec.json.Decoder(_WebhookStep)
_WEBHOOK = msgspec.json.Decoder(_Webhook)


def wait_for_event(state: StateView, command: WaitForEvent) -> Decision[None]:
    """A step waits; if its event was saved before, the oldest such event resumes it at once (D-368)."""
    owner, asked = account_state(state, command.account_id), command.waiter
    limits.check_account_is_active(owner.account)
    with refused_as_run_message():
        limits.check_message_size(owner.account, len(asked.step))
        limits.check_options(owner.account, asked.options, state.now_ms)
        limits.check_options(owner.account, asked.timeout_options, state.now_ms)
    if asked.deadline_ms > owner.account.max_delay * 1000:
        raise InvalidRunMessage("timeout", f"quota maxDelay exceeded, current limit: {owner.account.max_delay}")
    run = owner.runs.get(command.run_id)
    if run is None:
        raise RunOver(f"workflow run {command.run_id} has ended, or never began")
    waiter = replace(asked, number=state.counters.waiters + 1, deadline_ms=state.now_ms + asked.deadline_ms)
    saved = next((event for event in run.saved_events if event.event_id == waiter.event_id), None)
    if saved is None:
        yield WaitBegan(
            account_id=command.account_id, run_id=run.run_id, run_number=run.number, at_ms=state.now_ms, waiter=waiter
        )
    else:
        yield SavedEventTaken(account_id=command.account_id, run_id=run.run_id, event_id=saved.event_id)
        yield from _resume(state, run, waiter, saved.body)


def notify(state: StateView, command: Notify) -> Decision[tuple[NotifiedWaiter, ...]]:
    """An event resumes the waiters in the order of waiting.

    For one run, it resumes all that wait in it, or else is saved; for a run that has ended it is lost (D-369),
    unless another one continues with its webhooks (D-451).
    """
    owner = account_state(state, command.account_id)
    wanted = None if command.run_id is None else run_of_event(owner, command.run_id, command.event_id)
    limits.check_account_is_active(owner.account)
    limits.check_message_size(owner.account, len(command.body))
    waiting = [(run, waiter) for run, waiter in waiters_of(owner, command.event_id) if wanted in (None, run.run_id)]
    notified = []
    for run, waiter in waiting:
        yield WaitEnded(account_id=command.account_id, run_id=run.run_id, waiter_number=waiter.number)
        message_id = yield from _resume(state, owner.runs[run.run_id], waiter, command.body)
        notified.append(
            NotifiedWaiter(
                waiter=waiter,
                message_id=message_id,
                run_id=run.run_id,
                run_created_ms=run.created_ms,
                redaction=run.options.redaction,
            )
        )
    if not waiting and wanted is not None and wanted in owner.runs:
        event = SavedEvent(event_id=command.event_id, body=command.body)
        yield EventSaved(account_id=command.account_id, run_id=wanted, event=event)
    return tuple(notified)


def run_of_event(owner: AccountView, run_id: RunId, event_id: str) -> RunId:
    """The run that an event for one run reaches: the named one, or a resumed run that has its webhook (D-451)."""
    if run_id in owner.waiting_runs.get(event_id, {}).values():
        return run_id
    path = f"/{run_id}/{event_id}"
    resumed = (run for run in owner.runs.values() if run.from_dead_letter is not None)
    return next((run.run_id for run in resumed if any(_has_webhook(step, path) for step in run.steps)), run_id)


def _has_webhook(step: WorkflowStep, path: str) -> bool:
    """Whether a step is the result of creating the webhook whose URL ends so."""
    if path.encode() not in step.body:
        return False
    try:
        result = _WEBHOOK_STEP.decode(step.body)
        return result.stepType == "CreateWebhook" and _WEBHOOK.decode(result.out).webhookUrl.endswith(path)
    except msgspec.MsgspecError:
        return False


def deadline(state: StateView, subject: str) -> Decision[None]:
    """A waiter's time is over: its step has its result, which says so."""
    account_id, number, run_id = split_waiter_subject(subject)
    runs = state.accounts[account_id].runs
    waiter = _waiter(runs[run_id], number)
    yield WaitEnded(account_id=account_id, run_id=run_id, waiter_number=number)
    yield from _publish(
        state, runs[run_id], waiter.timeout_url, waiter.timeout_options, completed(waiter.step, TIMED_OUT)
    )


def waiters_of(owner: AccountView, event_id: str) -> tuple[tuple[WorkflowRun, Waiter], ...]:
    """Who waits for an event, each with its run, in the order of waiting."""
    waiting = ((owner.runs[run_id], number) for number, run_id in owner.waiting_runs.get(event_id, {}).items())
    return tuple((run, _waiter(run, number)) for run, number in waiting)


def _waiter(run: WorkflowRun, number: int) -> Waiter:
    return next(waiter for waiter in run.waiters if waiter.number == number)


def _resume(state: StateView, run: WorkflowRun, waiter: Waiter, event: bytes) -> Decision[MessageId]:
    result = {"out": b64encode(event).decode(), "waitEventId": waiter.event_id, "timeout": waiter.timeout}
    return (yield from _publish(state, run, waiter.url, waiter.options, completed(waiter.step, result)))


def _publish(state: StateView, run: WorkflowRun, url: str, options: MessageOptions, body: bytes) -> Decision[MessageId]:
    return (
        yield from append_step(
            state,
            run,
            url=url,
            options=replace(options, delay_ms=None, not_before_ms=None),
            body=body,
            source=Source(caller_ip=run.caller_ip, created_by=CreatedBy.WORKFLOW, traceparent=run.traceparent),
        )
    )
