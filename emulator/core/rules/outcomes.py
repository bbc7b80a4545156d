"""Outcomes: what an attempt that came back leads to."""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from emulator.core.commands import RecordAttempt
from emulator.core.decision import Decision
from emulator.core.facts import (
    AttemptFinished,
    DeadLettersRemoved,
    MessageCanceled,
    MessageDelivered,
    MessageFailed,
    ResponseDelayed,
)
from emulator.core.identifiers import dead_letter_id as make_dead_letter_id
from emulator.core.model.answers import AttemptOutcome
from emulator.core.model.messages import CreatedBy, Phase, Progress
from emulator.core.model.names import DeadLetterId, MessageId
from emulator.core.model.options import RunPart
from emulator.core.rules import destination_rules, duplicates
from emulator.core.rules.attempts import TIMEOUT_ERROR, admit_waiting
from emulator.core.rules.callbacks import send_callback
from emulator.core.rules.retries import is_spent, next_retry
from emulator.core.rules.workflows import conclusions as workflow_conclusions
from emulator.core.state_view import StateView


def record_attempt(state: StateView, command: RecordAttempt) -> Decision[None]:
    """An attempt came back: finish it, now or when its scripted latency has passed.

    An outcome of an attempt that is not under way (any more) says nothing and is dropped.
    """
    if command.is_duplicate:
        yield from duplicates.finish(state, command)
        return
    progress = state.messages.get(command.message_id)
    if progress is None or progress.phase is not Phase.ACTIVE or progress.retried + 1 != command.number:
        return
    if progress.outcome is not None:
        return
    outcome = command.outcome
    timeout_ms = progress.message.timeout_ms
    due_ms = progress.started_ms + destination_rules.virtual_duration_ms(progress.answer, timeout_ms)
    if destination_rules.times_out(progress.answer, timeout_ms):
        outcome = replace(outcome, response=None, error=TIMEOUT_ERROR, non_retryable=False)
    if due_ms > state.now_ms:
        yield ResponseDelayed(message_id=command.message_id, outcome=outcome, due_ms=due_ms)
    else:
        yield from _finish(state, progress, outcome)


def answer_is_due(state: StateView, message_id: MessageId) -> Decision[None]:
    """The scripted latency of an attempt has passed: its outcome counts now."""
    progress = state.messages[message_id]
    assert progress.outcome is not None
    yield from _finish(state, progress, progress.outcome)


def _finish(state: StateView, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    message = progress.message
    if message.run is not None:
        yield from _finish_in_run(state, progress, message.run, outcome)
        return
    yield _finished(state, progress, outcome)
    if outcome.succeeded:
        yield MessageDelivered(message_id=message.message_id, at_ms=state.now_ms)
        yield from duplicates.schedule(state, progress)
    elif progress.cancel_requested:
        # Canceled messages become no dead letters and have no callbacks (D-018).
        yield MessageCanceled(message_id=message.message_id, at_ms=state.now_ms)
    elif is_spent(progress, outcome):
        yield from _fail(state, progress, outcome)
    else:
        yield next_retry(progress, outcome, state.now_ms)
    if message.callback is not None and (outcome.succeeded or not progress.cancel_requested):
        yield from send_callback(state, message, message.callback, outcome, progress.retried)
    yield from admit_waiting(state, message)


def _finish_in_run(state: StateView, progress: Progress, part: RunPart, outcome: AttemptOutcome) -> Decision[None]:
    outcome = workflow_conclusions.judged(state, progress.message, part, outcome)
    yield _finished(state, progress, outcome)
    yield from workflow_conclusions.conclude(state, progress, part, outcome)
    yield from admit_waiting(state, progress.message)


def _finished(state: StateView, progress: Progress, outcome: AttemptOutcome) -> AttemptFinished:
    return AttemptFinished(
        message_id=progress.message.message_id,
        number=progress.retried + 1,
        started_ms=progress.started_ms,
        at_ms=state.now_ms,
        outcome=outcome,
    )


def _fail(state: StateView, progress: Progress, outcome: AttemptOutcome) -> Decision[None]:
    message = progress.message
    dead_letter_id = DeadLetterId(make_dead_letter_id(state.now_ms, state.counters.dead_letters))
    yield MessageFailed(message_id=message.message_id, at_ms=state.now_ms, dead_letter_id=dead_letter_id)
    if message.failure_callback is not None:
        yield from send_callback(state, message, message.failure_callback, outcome, progress.retried, dead_letter_id)
    owner = state.accounts[message.account_id]
    if message.created_by is CreatedBy.CHAT:
        # Its maker has the answer; nobody could be told another one (D-312).
        yield DeadLettersRemoved(
            account_id=message.account_id, dead_letter_ids=(dead_letter_id,), at_ms=state.now_ms, cause="deleted"
        )
    # The oldest make room (D-045).
    excess = len(owner.dead_letters) - owner.account.max_dlq_size
    if excess > 0:
        oldest = tuple(islice(owner.dead_letters, excess))
        yield DeadLettersRemoved(
            account_id=message.account_id, dead_letter_ids=oldest, at_ms=state.now_ms, cause="size"
        )
