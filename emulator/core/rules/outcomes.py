"""Outcomes: what an attempt that came back leads to."""

from __future__ import annotations

from base64 import b64encode
from itertools import islice

from msgspec.structs import replace

from emulator.core.commands import AbandonAttempts, RecordAttempt, Redeliver
from emulator.core.errors import Conflict
from emulator.core.message_facts import (
    AttemptFinished,
    CancelRequested,
    DeadLettersRemoved,
    DuplicateFinished,
    DuplicateScheduled,
    DuplicateStarted,
    MessageCanceled,
    MessageDelivered,
    MessageFailed,
    MessageGivenUp,
    ResponseDelayed,
)
from emulator.core.model.messages import (
    OUTCOME_UNKNOWN,
    AttemptOutcome,
    CreatedBy,
    Dispatch,
    Duplicate,
    Message,
    Phase,
    Progress,
    Source,
    Via,
    abandoned_attempt,
)
from emulator.core.model.options import CallbackOptions, CallType, RunPart
from emulator.core.model.resources import Disturbance
from emulator.core.model.workflows import RunState, WorkflowRun
from emulator.core.record import AccountId, DeadLetterId, MessageId
from emulator.core.record import dead_letter_id as make_dead_letter_id
from emulator.core.rules import callbacks, destination_rules
from emulator.core.rules.attempts import TIMEOUT_ERROR, admit_waiting
from emulator.core.rules.callbacks import send_callback
from emulator.core.rules.options import headers_over
from emulator.core.rules.retries import is_spent, next_retry
from emulator.core.rules.runs import SDK, SDK_VERSION, active_run, create_message, end_run, inherited
from emulator.core.state import Decision, StateView, duplicate_subject, is_called_off

# -- duplicates ---------------------------------------------------------------------------------
# Deliveries that a destination rule or a call has made again, as at-least-once delivery allows. A
# duplicate repeats an attempt that was delivered. It goes where that one went, counts on no limit,
# and whatever it is answered, its message stays what it is (D-421).


def schedule_duplicate(state: StateView, delivered: Progress) -> Decision[None]:
    """A message was delivered: if a rule says so, deliver it again, at once or later."""
    answer, message = delivered.dispatch.answer, delivered.message
    if answer is None or answer.duplicate_ms is None or message.source.created_by is CreatedBy.CHAT:
        return
    yield DuplicateScheduled(
        duplicate=Duplicate(
            message=message,
            number=delivered.dispatch.retried + 1,
            due_ms=state.now_ms + answer.duplicate_ms,
            answer=replace(answer, latency_ms=0, duplicate_ms=None, disturbance=Disturbance(is_duplicate=True)),
        )
    )


def redeliver(state: StateView, command: Redeliver) -> Decision[int]:
    """Send an attempt again at once, where it would go now by the destination rules as they are (D-705, D-706).

    The message has the body that it delivers. Raises Conflict for one whose answer its caller has waited for.
    """
    message, number = command.message, command.number
    if message.source.created_by is CreatedBy.CHAT:
        raise Conflict("a chat completion was answered to the call that asked for it, and cannot be sent again")
    redelivery = state.counters.redeliveries + 1
    dispatch = Dispatch(retried=number - 1)
    attempt = Progress(message=message, phase=Phase.ACTIVE, due_ms=state.now_ms, dispatch=dispatch)
    answer = destination_rules.answer_for(state, attempt) if state.rules else None
    if answer is not None and answer.disturbance is not None:
        # It leaves now, is answered at once, and is repeated by no rule.
        stays = replace(answer.disturbance, latency_ms=0, is_postponed=False)
        answer = replace(answer, duplicate_ms=None, disturbance=stays)
    yield DuplicateScheduled(
        duplicate=Duplicate(message=message, number=number, due_ms=state.now_ms, answer=answer, redelivery=redelivery)
    )
    yield DuplicateStarted(message_id=message.message_id, number=number, at_ms=state.now_ms, redelivery=redelivery)
    return redelivery


def finish_duplicate(state: StateView, command: RecordAttempt) -> Decision[None]:
    """A duplicate came back. One that is not under way (any more) says nothing and is dropped."""
    duplicate = state.duplicates.get(duplicate_subject(command.message_id, command.number, command.redelivery))
    if duplicate is None or duplicate.started_ms is None:
        return
    outcome = command.outcome
    if command.redelivery:
        outcome = replace(outcome, redelivery=command.redelivery)
        if not outcome.abandoned and destination_rules.times_out(duplicate.answer, duplicate.message.policy.timeout_ms):
            outcome = replace(outcome, response=None, error=TIMEOUT_ERROR, non_retryable=False)
    yield DuplicateFinished(
        message_id=command.message_id,
        number=command.number,
        started_ms=duplicate.started_ms,
        at_ms=state.now_ms,
        outcome=outcome,
    )


# -- calls of a workflow run --------------------------------------------------------------------

NO_WORKFLOW = (
    "detected a non-workflow destination for trigger/invoke. "
    "make sure you are sending the request to the correct endpoint"
)
TOO_LONG_FOR_A_STEP = (
    "the answer is too long for the result of a step, which is at most 1 MiB unpacked, and at most the plan's "
    "message size"
)
NO_HANDSHAKE = "trigger rest api is only usable with sdk versions after v1.0.0 major version"

_JSON = (("Content-Type", "application/json"),)
# Calls whose failure is not the run's.
_NOT_OF_THE_RUN = (CallType.TO_CALLBACK, CallType.FAILURE_CALL)


def judged(state: StateView, message: Message, part: RunPart, outcome: AttemptOutcome) -> AttemptOutcome:
    """The outcome as it counts for the run: a 2xx answer to its first call may be no workflow's (D-365).

    Where no request left the machine, nothing answered that could be one. An answer to a call step that is longer than
    what is kept is a failure: of half a text no step should make its result (D-790).
    """
    if not outcome.succeeded:
        return outcome
    if part.call_type is CallType.TO_CALLBACK and _answer_to_call(state, message, outcome).error is not None:
        return replace(outcome, error=TOO_LONG_FOR_A_STEP, non_retryable=True)
    if outcome.via is Via.CAPTURE or not part.is_init:
        return outcome
    # A workflow endpoint's answer names the version of the protocol, behind the dialect's prefix.
    headers = () if outcome.response is None else outcome.response.headers
    if part.detects_workflow and not any(name.lower().endswith(SDK_VERSION) for name, _ in headers):
        return replace(outcome, error=NO_WORKFLOW, non_retryable=True)
    if part.names_sdk and not any(name.lower().endswith(SDK) for name, _ in headers):
        return replace(outcome, error=NO_HANDSHAKE, non_retryable=True)
    run = active_run(state, message)
    if part.awaits_sdk and run is not None and run.awaits_sdk:
        return replace(outcome, error=NO_HANDSHAKE, non_retryable=True)
    return outcome


def _conclude_in_run(state: StateView, progress: Progress, part: RunPart, outcome: AttemptOutcome) -> Decision[None]:
    """An attempt of a message of a run has finished."""
    message = progress.message
    run = active_run(state, message)
    goes_on = run is not None or part.call_type is CallType.FAILURE_CALL
    if outcome.succeeded:
        yield MessageDelivered(message_id=message.message_id, at_ms=state.now_ms)
    elif progress.dispatch.cancel_requested:
        yield MessageCanceled(message_id=message.message_id, at_ms=state.now_ms)
    elif goes_on and not is_spent(progress, outcome):
        yield next_retry(progress, outcome, state.now_ms)
        return
    elif run is None or part.call_type in _NOT_OF_THE_RUN:
        yield MessageGivenUp(message_id=message.message_id, at_ms=state.now_ms)
    else:
        yield from _fail_run(state, run, progress, outcome)
        return
    if run is not None and message.policy.callback is not None:
        yield from _send_response(state, run, progress, message.policy.callback, outcome)


def _send_response(
    state: StateView, run: WorkflowRun, progress: Progress, callback: CallbackOptions, outcome: AttemptOutcome
) -> Decision[None]:
    """The response of a call step goes to the workflow, once, for the last attempt, whatever it was (D-366)."""
    message = progress.message
    account = state.accounts[run.account_id].account
    answer = _answer_to_call(state, message, outcome)
    fields = callbacks.fields_of(message, answer, progress.dispatch.retried, None, account.max_message_size)
    part = callback.options.workflow
    if part is not None and "InitialBody" in part.features:
        fields["sourceBody"] = b64encode(run.payload).decode()
    yield from _call_back(state, run, message, callback, fields, CallType.FROM_CALLBACK)


def _answer_to_call(state: StateView, message: Message, outcome: AttemptOutcome) -> AttemptOutcome:
    """What a call step was answered: a failure, if that is longer than what is kept of it (D-790)."""
    if outcome.response is None:
        return outcome
    max_size = state.accounts[message.account_id].account.max_message_size
    if not callbacks.read_response(outcome.response, message, max_size).is_truncated:
        return outcome
    return replace(outcome, response=None, error=TOO_LONG_FOR_A_STEP)


def _call_back(
    state: StateView,
    run: WorkflowRun,
    message: Message,
    callback: CallbackOptions,
    fields: dict[str, object],
    call_type: CallType,
) -> Decision[None]:
    """Publish a call about a message of the run, with JSON as its body."""
    is_failure = call_type is CallType.FAILURE_CALL
    options = callback.options if is_failure else inherited(run, callback.options, call_type)
    yield from create_message(
        state,
        run,
        url=callback.url,
        options=replace(
            options,
            forwarded=headers_over(options.forwarded, _JSON),
            redaction=callbacks.redaction_of(message, options.redaction),
        ),
        body=callbacks.encoded(fields),
        call_type=call_type,
        source=Source(
            caller_ip=message.source.caller_ip,
            created_by=CreatedBy.FAILURE_CALLBACK if is_failure else CreatedBy.CALLBACK,
            source_message_id=message.message_id,
            traceparent=message.source.traceparent,
        ),
    )


def _fail_run(state: StateView, run: WorkflowRun, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    """The run has failed: a dead letter, the failure callback, and the invoker is notified."""
    message = progress.message
    dead_letter_id = DeadLetterId(make_dead_letter_id(state.now_ms, state.counters.dead_letters))
    yield MessageFailed(
        message_id=message.message_id, at_ms=state.now_ms, dead_letter_id=dead_letter_id, run_number=run.number
    )
    yield from end_run(state, run, RunState.FAILED, dead_letter_id=dead_letter_id)
    callback = message.policy.failure_callback or run.options.failure_callback
    if callback is not None:
        yield from call_failure_function(
            state, run, message, callback, outcome, progress.dispatch.retried, dead_letter_id
        )
    yield from _make_room(state, run.account_id)


def _make_room(state: StateView, account_id: AccountId) -> Decision[None]:
    """The oldest dead letters leave a queue that has more than the account may have (D-045)."""
    owner = state.accounts[account_id]
    excess = len(owner.dead_letters) - owner.account.max_dlq_size
    if excess > 0:
        oldest = tuple(islice(owner.dead_letters, excess))
        yield DeadLettersRemoved(account_id=account_id, dead_letter_ids=oldest, at_ms=state.now_ms, cause="size")


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


# -- attempts -----------------------------------------------------------------------------------


def record_attempt(state: StateView, command: RecordAttempt) -> Decision[None]:
    """An attempt came back: finish it, now or when its scripted latency has passed.

    An outcome of an attempt that is not under way (any more) says nothing and is dropped.
    """
    if command.is_duplicate or command.redelivery:
        yield from finish_duplicate(state, command)
        return
    progress = state.messages.get(command.message_id)
    if progress is None or progress.phase is not Phase.ACTIVE or progress.dispatch.retried + 1 != command.number:
        return
    if progress.dispatch.outcome is not None:
        return
    outcome = command.outcome
    if outcome.abandoned:
        yield from _abandon(state, progress, outcome)
        yield from admit_waiting(state, progress.message)
        return
    timeout_ms = progress.message.policy.timeout_ms
    due_ms = progress.dispatch.started_ms + destination_rules.virtual_duration_ms(progress.dispatch.answer, timeout_ms)
    if destination_rules.times_out(progress.dispatch.answer, timeout_ms):
        outcome = replace(outcome, response=None, error=TIMEOUT_ERROR, non_retryable=False)
    if due_ms > state.now_ms:
        yield ResponseDelayed(message_id=command.message_id, outcome=outcome, due_ms=due_ms)
    else:
        yield from _finish(state, progress, outcome)


def abandon_attempts(state: StateView, command: AbandonAttempts) -> Decision[None]:
    """End the canceled messages that have an attempt in flight, without knowing how it went (D-780).

    So end the redeliveries in flight that were called off with their messages, which may have ended since.
    As with a cancellation, what was held is given on only after the last of them.
    """
    lost = [
        progress
        for progress in state.messages.values()
        if progress.phase is Phase.ACTIVE and progress.dispatch.outcome is None and is_called_off(state, progress)
    ]
    for progress in lost:
        yield from _abandon(state, progress, abandoned_attempt(OUTCOME_UNKNOWN))
    for duplicate in tuple(state.duplicates.values()):
        if duplicate.is_called_off and duplicate.started_ms is not None:
            abandoned = RecordAttempt(
                message_id=duplicate.message.message_id,
                number=duplicate.number,
                outcome=abandoned_attempt(OUTCOME_UNKNOWN),
                is_duplicate=duplicate.redelivery == 0,
                redelivery=duplicate.redelivery,
            )
            yield from finish_duplicate(state, abandoned)
    for progress in lost:
        yield from admit_waiting(state, progress.message)


def _abandon(state: StateView, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    message_id = progress.message.message_id
    if not progress.dispatch.cancel_requested:
        # A call whose run has ended.
        yield CancelRequested(message_id=message_id, at_ms=state.now_ms)
    yield _end_of_attempt(progress, outcome, state.now_ms)
    yield MessageCanceled(message_id=message_id, at_ms=state.now_ms)


def answer_is_due(state: StateView, message_id: MessageId) -> Decision[None]:
    """The scripted latency of an attempt has passed: its outcome counts now."""
    progress = state.messages[message_id]
    assert progress.dispatch.outcome is not None
    yield from _finish(state, progress, progress.dispatch.outcome)


def _end_of_attempt(progress: Progress, outcome: AttemptOutcome, now_ms: int) -> AttemptFinished:
    return AttemptFinished(
        message_id=progress.message.message_id,
        number=progress.dispatch.retried + 1,
        started_ms=progress.dispatch.started_ms,
        at_ms=now_ms,
        outcome=outcome,
    )


def _finish(state: StateView, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    message = progress.message
    if message.run is not None:
        outcome = judged(state, message, message.run, outcome)
    yield _end_of_attempt(progress, outcome, state.now_ms)
    if message.run is not None:
        yield from _conclude_in_run(state, progress, message.run, outcome)
    elif outcome.succeeded:
        yield MessageDelivered(message_id=message.message_id, at_ms=state.now_ms)
        if not progress.dispatch.cancel_requested:
            yield from schedule_duplicate(state, progress)
    elif progress.dispatch.cancel_requested:
        # Canceled messages become no dead letters and have no callbacks (D-018).
        yield MessageCanceled(message_id=message.message_id, at_ms=state.now_ms)
    elif is_spent(progress, outcome):
        yield from _fail(state, progress, outcome)
    else:
        yield next_retry(progress, outcome, state.now_ms)
    callback = message.policy.callback if message.run is None else None
    if callback is not None and (outcome.succeeded or not progress.dispatch.cancel_requested):
        yield from send_callback(state, message, callback, outcome, progress.dispatch.retried)
    yield from admit_waiting(state, message)


def _fail(state: StateView, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    message = progress.message
    dead_letter_id = DeadLetterId(make_dead_letter_id(state.now_ms, state.counters.dead_letters))
    yield MessageFailed(message_id=message.message_id, at_ms=state.now_ms, dead_letter_id=dead_letter_id)
    if message.policy.failure_callback is not None:
        yield from send_callback(
            state, message, message.policy.failure_callback, outcome, progress.dispatch.retried, dead_letter_id
        )
    if message.source.created_by is CreatedBy.CHAT:
        # The client has the answer; another could not be sent (D-312).
        yield DeadLettersRemoved(
            account_id=message.account_id, dead_letter_ids=(dead_letter_id,), at_ms=state.now_ms, cause="deleted"
        )
    yield from _make_room(state, message.account_id)
