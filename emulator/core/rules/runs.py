"""Workflow runs: making their messages, ending them, and which of them waits for another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from emulator.core.commands import CancelRun, CancelRuns, FinishRun, PublishItem
from emulator.core.errors import InvalidInput, InvalidRunMessage, LimitReached, PayloadTooLarge, Refused
from emulator.core.message_facts import MessageCreated
from emulator.core.model.messages import CreatedBy, Message, Phase, Source
from emulator.core.model.options import CallType, MessageOptions, Method, Redaction, Reuse, RunPart
from emulator.core.model.workflows import Invoker, RunFilter, RunState, WorkflowRun, WorkflowStep, listed_bytes
from emulator.core.record import AccountId, DeadLetterId, MessageId, RunId
from emulator.core.record import message_id as make_message_id
from emulator.core.rules import limits
from emulator.core.rules.attempts import set_flow_limits
from emulator.core.rules.dead_letters import cancel
from emulator.core.rules.options import (
    delivered_headers,
    first_delivery_ms,
    policy_of,
    reused_options,
    shared,
    with_defaults,
)
from emulator.core.run_facts import RunEnded, StepAccepted
from emulator.core.state import Decision, StateView, account_state, found

# -- messages -----------------------------------------------------------------------------------

# A message of a run is tried again three times, whatever the account's plan says for others (D-362).
DEFAULT_RETRIES = 3

# Forwarded headers of the init message that are about that message alone.
SDK_VERSION = "-workflow-sdk-version"
# How an answer names the version of the client itself.
SDK = "-workflow-sdk"
_OF_INIT_ALONE = ("-workflow-unknown-sdk", "-workflow-invoke-count")


def next_message_id(state: StateView, *, after: int = 0) -> MessageId:
    """The id of the message that is created next, or after so many others."""
    return MessageId(make_message_id(state.event_key, state.counters.messages + 1 + after))


def create_message(
    state: StateView,
    run: WorkflowRun,
    *,
    url: str,
    options: MessageOptions,
    body: bytes,
    call_type: CallType,
    source: Source,
    is_init: bool = False,
    awaits_sdk: bool = False,
    listed: int = 0,
    listed_bytes: int = 0,
) -> Decision[MessageId]:
    """Make a message of a run, which may have ended; the reply is its id. `listed` as in `RunPart`."""
    account = state.accounts[run.account_id].account
    yield from set_flow_limits(state, run.account_id, options.flow_control)
    message_id = next_message_id(state)
    retries = min(DEFAULT_RETRIES, account.max_retries) if options.max_retries is None else options.max_retries
    yield MessageCreated(
        message=Message(
            message_id=message_id,
            number=state.counters.messages + 1,
            account_id=run.account_id,
            created_ms=state.now_ms,
            not_before_ms=first_delivery_ms(options, state.now_ms),
            url=shared(url),
            method=options.method or Method.POST,
            headers=shared(delivered_headers(options)),
            body=body,
            policy=policy_of(
                replace(options, redaction=_redaction(run, options.redaction, call_type)),
                max_retries=retries,
                timeout_ms=limits.timeout_ms(account, options.timeout_ms),
            ),
            source=source,
            run=RunPart(
                run_id=run.run_id,
                run_number=run.number,
                run_created_ms=run.created_ms,
                url=run.url,
                call_type=call_type,
                is_init=is_init,
                awaits_sdk=awaits_sdk,
                detects_workflow=is_init and detects_workflow(options),
                names_sdk=is_init and not awaits_sdk and is_triggered(options),
                listed=listed,
                listed_bytes=listed_bytes,
            ),
        )
    )
    return message_id


def _redaction(run: WorkflowRun, own: Redaction | None, call_type: CallType) -> Redaction | None:
    """What the run hides, and what the message itself hides (D-513).

    What is brought back repeats headers in its body, which is hidden whole then.
    """
    hidden = run.options.redaction
    if hidden is None:
        return own
    if call_type in (CallType.FROM_CALLBACK, CallType.FAILURE_CALL):
        hidden = replace(hidden, body=True)
    return hidden.joined(own)


def append_step(
    state: StateView, run: WorkflowRun, *, url: str, options: MessageOptions, body: bytes, source: Source
) -> Decision[MessageId]:
    """A result joins the run's steps, and the message with it goes to `url`."""
    step = WorkflowStep(message_id=next_message_id(state), body=body)
    yield StepAccepted(
        account_id=run.account_id, run_id=run.run_id, run_number=run.number, step=step, at_ms=state.now_ms
    )
    return (
        yield from create_message(
            state,
            run,
            url=url,
            options=inherited(run, options, CallType.STEP),
            body=body,
            call_type=CallType.STEP,
            source=shared(source),
            listed=len(run.steps) + 1,
            listed_bytes=run.listed_bytes + listed_bytes(step),
        )
    )


def active_run(state: StateView, message: Message) -> WorkflowRun | None:
    """The run that a message belongs to, None once it has ended; a later run of the same id is another one."""
    if message.run is None:
        return None
    run = state.accounts[message.account_id].runs.get(message.run.run_id)
    return run if run is not None and run.number == message.run.run_number else None


def detects_workflow(options: MessageOptions) -> bool:
    """Whether a 2xx answer to this init message must be a workflow endpoint's."""
    return options.workflow is not None and "WF_DetectTrigger" in options.workflow.features


def is_triggered(options: MessageOptions) -> bool:
    """Whether an init message is a trigger's, of which the service writes what a client says of itself (D-370)."""
    return options.workflow is not None and options.workflow.triggered


def inherited(run: WorkflowRun, options: MessageOptions, call_type: CallType) -> MessageOptions:
    """The options of a call to the workflow URL: its own, over those of the run if they hold for all of it.

    The callback of a call step never gets the protocol's version: the client would read it as a list of steps.
    """
    if not run.inherits:
        return options
    own = run.options
    dropped = _OF_INIT_ALONE if call_type is CallType.STEP else (*_OF_INIT_ALONE, SDK_VERSION)
    forwarded = tuple(pair for pair in own.forwarded if not pair[0].lower().endswith(dropped))
    kept = reused_options(own, Reuse.RUN_CALLS)
    return with_defaults(options, replace(kept, forwarded=forwarded))


# -- invoking -----------------------------------------------------------------------------------
# Which run waits for the end of another, and which may: a run tells one that invoked it (D-450).


def waiting_run(state: StateView, account_id: AccountId, invoker: Invoker | None) -> WorkflowRun | None:
    """The run that waits for the run it invoked; None if it has ended, or there is none."""
    if invoker is None:
        return None
    run = state.accounts[account_id].runs.get(invoker.run_id)
    # A client may leave out when the invoker was created.
    return run if run is not None and invoker.run_created_ms in (0, run.created_ms) else None


def notifies_invoker(state: StateView, run: WorkflowRun, invoker: Invoker | None) -> bool:
    """Whether an invocation of an active run lets another run wait for its end."""
    return (
        waiting_run(state, run.account_id, run.invoker) is None
        and waiting_run(state, run.account_id, invoker) is not None
    )


def check_invocation(state: StateView, run: WorkflowRun, invoker: Invoker) -> None:
    """Check the invocation of an active run: no other waits for it, nor it for its invoker (D-450).

    The same step may invoke it again: a call whose answer was lost is repeated. Raises InvalidRunMessage.
    """
    waiting = waiting_run(state, run.account_id, run.invoker)
    if waiting is not None and run.invoker is not None:
        if (run.invoker.run_id, run.invoker.step) != (invoker.run_id, invoker.step):
            raise _refused(f"{run.run_id} is active, and {waiting.run_id} waits for its end")
        return
    seen: set[int] = set()
    outer = waiting_run(state, run.account_id, invoker)
    # An id that is used again can close a circle if a client does not say when its run was created.
    while outer is not None and outer.number not in seen:
        seen.add(outer.number)
        outer = waiting_run(state, run.account_id, outer.invoker)
    if run.number in seen:
        raise _refused(f"{run.run_id} is active, and would wait for itself")


def check_invocations(items: Iterable[PublishItem | Refused]) -> None:
    """Of two invocations of a run by one batch the second would not be notified. Raises InvalidRunMessage (D-450)."""
    invoked: set[RunId] = set()
    for item in items:
        part = None if isinstance(item, Refused) or item.invoker is None else item.options.workflow
        if part is None:
            continue
        if part.run_id in invoked:
            raise _refused(f"{part.run_id} is invoked by another message of the batch")
        invoked.add(part.run_id)


def _refused(reason: str) -> InvalidRunMessage:
    return InvalidRunMessage("Svc-Workflow-RunId", f"expected the id of a run that can be invoked: {reason}")


@contextmanager
def refused_as_run_message() -> Iterator[None]:
    """Raise a plan's refusals of a message as those of a run, which say "give up", not "the run is over" (D-364)."""
    try:
        yield
    except PayloadTooLarge as refusal:
        raise LimitReached(refusal.text) from None
    except InvalidInput as refusal:
        raise InvalidRunMessage(refusal.field, refusal.reason) from None


# -- ending -------------------------------------------------------------------------------------


def finish_run(state: StateView, command: FinishRun) -> Decision[None]:
    """A run returned its result. One that has ended stays as it is; NotFound for one that never began (D-363)."""
    run = _run(state, command.account_id, command.run_id, has_existed=command.has_existed)
    if run is not None:
        yield from end_run(state, run, RunState.SUCCESS, response=command.response)


def cancel_run(state: StateView, command: CancelRun) -> Decision[None]:
    """Cancel a run. One that has ended stays as it is; NotFound for one that never began (D-363)."""
    run = _run(state, command.account_id, command.run_id, has_existed=command.has_existed)
    if run is not None:
        yield from end_run(state, run, RunState.CANCELED)


def cancel_runs(state: StateView, command: CancelRuns) -> Decision[int]:
    """Cancel the live runs that a filter means, oldest first; ids of others do not count."""
    owner = account_state(state, command.account_id)
    found = [run for run in owner.runs.values() if matches(run, command.wanted)][: command.count]
    for run in found:
        # The end of one run may reach another.
        present = owner.runs.get(run.run_id)
        if present is not None and present.number == run.number:
            yield from end_run(state, present, RunState.CANCELED)
    return len(found)


def live_run_of(state: StateView, account_id: AccountId, run_id: RunId) -> WorkflowRun:
    """A run that has not ended. Raises NotFound."""
    return found(account_state(state, account_id).runs, run_id, "workflow run")


def _run(state: StateView, account_id: AccountId, run_id: RunId, *, has_existed: bool) -> WorkflowRun | None:
    owner = account_state(state, account_id)
    return owner.runs.get(run_id) if has_existed else found(owner.runs, run_id, "workflow run")


def matches(run: WorkflowRun, wanted: RunFilter) -> bool:
    """Whether a run passes a filter; with ids given, only they count."""
    if wanted.run_ids:
        return run.run_id in wanted.run_ids
    flow = run.options.flow_control
    return (
        (not wanted.urls or (run.url in wanted.urls if wanted.url_is_exact else run.url.startswith(wanted.urls)))
        and (wanted.from_ms is None or run.created_ms >= wanted.from_ms)
        and (wanted.to_ms is None or run.created_ms <= wanted.to_ms)
        and (not wanted.caller_ips or run.caller_ip in wanted.caller_ips)
        and (not wanted.flow_keys or (flow is not None and flow.key in wanted.flow_keys))
        and (not wanted.labels or not set(wanted.labels).isdisjoint(run.options.labels))
    )


def end_run(
    state: StateView,
    run: WorkflowRun,
    ending: RunState,
    *,
    response: bytes | None = None,
    dead_letter_id: DeadLetterId | None = None,
) -> Decision[None]:
    """Give a run its final state, drop what waits for it, and tell the run that invoked it.

    Calls in flight continue, and what they publish is refused. Those of a run that is canceled are canceled too: their
    outcome is their end (D-780).
    """
    yield RunEnded(
        account_id=run.account_id,
        run_id=run.run_id,
        run_number=run.number,
        at_ms=state.now_ms,
        state=ending,
        response=response,
        dead_letter_id=dead_letter_id,
    )
    ended = []
    for message_id in state.accounts[run.account_id].run_messages.get(run.number, {}):
        progress = state.messages[message_id]
        part = progress.message.run
        is_call = part is not None and part.call_type is not CallType.FAILURE_CALL
        goes_on = progress.phase is Phase.ACTIVE and ending is not RunState.CANCELED
        if is_call and not goes_on and not progress.dispatch.cancel_requested:
            ended.append(message_id)
    yield from cancel(state, ended)
    yield from _tell_invoker(state, run, ending, response)


def _tell_invoker(state: StateView, run: WorkflowRun, ending: RunState, response: bytes | None) -> Decision[None]:
    """The invoke step of the parent has its result; a parent that has ended gets no call."""
    invoker, parent = run.invoker, waiting_run(state, run.account_id, run.invoker)
    if invoker is None or parent is None:
        return
    out: dict[str, object] = {
        "isFailed": ending is RunState.FAILED,
        "isCanceled": ending is RunState.CANCELED,
    }
    if response:
        out["body"] = response.decode("utf-8", "replace")
    yield from append_step(
        state,
        parent,
        url=invoker.url,
        options=replace(invoker.options, delay_ms=None, not_before_ms=None),
        body=completed(invoker.step, {"out": json.dumps(out, separators=(",", ":"), ensure_ascii=False)}),
        source=Source(caller_ip=parent.caller_ip, created_by=CreatedBy.WORKFLOW, traceparent=parent.traceparent),
    )


def completed(step: bytes, result: Mapping[str, object]) -> bytes:
    """A step with its result: the JSON object, and these fields."""
    text = json.dumps({**json.loads(step), **result}, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")
