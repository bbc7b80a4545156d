"""What the outcome of a call leads to: the next try, the response of a call step, the failure of the run."""

from __future__ import annotations

from base64 import b64encode
from itertools import islice

from msgspec.structs import replace

from emulator.core.decision import Decision
from emulator.core.facts import (
    DeadLettersRemoved,
    MessageCanceled,
    MessageDelivered,
    MessageFailed,
    MessageGivenUp,
)
from emulator.core.identifiers import dead_letter_id as make_dead_letter_id
from emulator.core.model.answers import AttemptOutcome, Via
from emulator.core.model.messages import CreatedBy, Message, Progress
from emulator.core.model.names import DeadLetterId
from emulator.core.model.options import CallbackOptions, CallType, MessageOptions, RunPart
from emulator.core.rules import callbacks
from emulator.core.rules.options import headers_over
from emulator.core.rules.retries import is_spent, next_retry
from emulator.core.rules.workflows.ending import end
from emulator.core.rules.workflows.messages import SDK_VERSION, Delivery, active_run, create, inherited
from emulator.core.state_view import StateView
from emulator.core.workflows import RunState, WorkflowRun

NO_WORKFLOW = (
    "detected a non-workflow destination for trigger/invoke. "
    "make sure you are sending the request to the correct endpoint"
)
NO_HANDSHAKE = "trigger rest api is only usable with sdk versions after v1.0.0 major version"

_JSON = (("Content-Type", "application/json"),)
# Calls whose failure is not the run's.
_SPARED = (CallType.TO_CALLBACK, CallType.FAILURE_CALL)


def judged(state: StateView, message: Message, part: RunPart, outcome: AttemptOutcome) -> AttemptOutcome:
    """The outcome as it counts for the run: a 2xx answer to its first call may be no workflow's (D-365).

    Where no request left the machine, nothing answered that could be one.
    """
    if not outcome.succeeded or outcome.via is Via.CAPTURE or not part.is_init:
        return outcome
    if part.detects_workflow and not _is_from_workflow(outcome):
        return replace(outcome, error=NO_WORKFLOW, non_retryable=True)
    run = active_run(state, message)
    if part.awaits_sdk and run is not None and run.awaits_sdk:
        return replace(outcome, error=NO_HANDSHAKE, non_retryable=True)
    return outcome


def _is_from_workflow(outcome: AttemptOutcome) -> bool:
    """A workflow endpoint's answer names the version of the protocol, behind the dialect's prefix."""
    headers = () if outcome.response is None else outcome.response.headers
    return any(name.lower().endswith(SDK_VERSION) for name, _ in headers)


def conclude(state: StateView, progress: Progress, part: RunPart, outcome: AttemptOutcome) -> Decision[None]:
    """An attempt of a message of a run has finished."""
    message = progress.message
    run = active_run(state, message)
    goes_on = run is not None or part.call_type is CallType.FAILURE_CALL
    if outcome.succeeded:
        yield MessageDelivered(message_id=message.message_id, at_ms=state.now_ms)
    elif progress.cancel_requested:
        yield MessageCanceled(message_id=message.message_id, at_ms=state.now_ms)
    elif goes_on and not is_spent(progress, outcome):
        yield next_retry(progress, outcome, state.now_ms)
        return
    elif run is None or part.call_type in _SPARED:
        yield MessageGivenUp(message_id=message.message_id, at_ms=state.now_ms)
    else:
        yield from _fail(state, run, progress, outcome)
        return
    if run is not None and message.callback is not None:
        yield from _bring_response(state, run, progress, message.callback, outcome)


def _bring_response(
    state: StateView, run: WorkflowRun, progress: Progress, callback: CallbackOptions, outcome: AttemptOutcome
) -> Decision[None]:
    """The response of a call step goes to the workflow, once, for the last attempt, whatever it was (D-366)."""
    message = progress.message
    account = state.accounts[run.account_id].account
    fields = callbacks.fields_of(message, outcome, progress.retried, None, account.max_message_size)
    if _wants_payload(callback.options):
        fields["sourceBody"] = b64encode(run.payload).decode()
    yield from _call_back(state, run, message, callback, fields, CallType.FROM_CALLBACK)


def _call_back(
    state: StateView,
    run: WorkflowRun,
    message: Message,
    callback: CallbackOptions,
    fields: dict[str, object],
    call_type: CallType,
) -> Decision[None]:
    """Tell of a message of the run, as JSON."""
    is_failure = call_type is CallType.FAILURE_CALL
    options = callback.options if is_failure else inherited(run, callback.options, call_type)
    wanted = Delivery(
        url=callback.url,
        options=replace(options, forwarded=headers_over(options.forwarded, _JSON)),
        body=callbacks.encoded(fields),
        call_type=call_type,
        caller_ip=message.caller_ip,
        created_by=CreatedBy.FAILURE_CALLBACK if is_failure else CreatedBy.CALLBACK,
        source_message_id=message.message_id,
    )
    yield from create(state, run, wanted)


def _wants_payload(options: MessageOptions) -> bool:
    return options.workflow is not None and "InitialBody" in options.workflow.features


def _fail(state: StateView, run: WorkflowRun, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    """The run has failed: a dead letter, the failure callback, and the invoker is told."""
    message = progress.message
    dead_letter_id = DeadLetterId(make_dead_letter_id(state.now_ms, state.counters.dead_letters))
    yield MessageFailed(
        message_id=message.message_id, at_ms=state.now_ms, dead_letter_id=dead_letter_id, run_number=run.number
    )
    yield from end(state, run, RunState.FAILED, dead_letter_id=dead_letter_id)
    callback = message.failure_callback or run.options.failure_callback
    if callback is not None:
        yield from call_failure_function(state, run, message, callback, outcome, progress.retried, dead_letter_id)
    owner = state.accounts[run.account_id]
    # The oldest make room (D-045).
    excess = len(owner.dead_letters) - owner.account.max_dlq_size
    if excess > 0:
        oldest = tuple(islice(owner.dead_letters, excess))
        yield DeadLettersRemoved(account_id=run.account_id, dead_letter_ids=oldest, at_ms=state.now_ms, cause="size")


def call_failure_function(
    state: StateView,
    run: WorkflowRun,
    message: Message,
    callback: CallbackOptions,
    outcome: AttemptOutcome,
    retried: int,
    dead_letter_id: DeadLetterId,
) -> Decision[None]:
    """Send the failure callback of a run whose `message` failed with `outcome`."""
    account = state.accounts[run.account_id].account
    fields = callbacks.fields_of(message, outcome, retried, dead_letter_id, account.max_message_size)
    fields |= {
        "url": run.url,
        "sourceBody": b64encode(run.payload).decode(),
        "workflowRunId": run.run_id,
        "workflowCreatedAt": run.created_ms,
        "workflowUrl": run.url,
    }
    yield from _call_back(state, run, message, callback, fields, CallType.FAILURE_CALL)
