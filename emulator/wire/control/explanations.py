"""The reason chain of a message as JSON, and the one sentence that sums it up.

A field that a kind of reason does not have is left out; one that has no value is null.
"""

from __future__ import annotations

from typing import assert_never

from emulator.core.model.messages import CreatedBy, Message, Phase
from emulator.queries import explanations
from emulator.queries.explanations import Explanation, FailureCause, Reason
from emulator.wire.control.instants import instant_fields
from emulator.wire.dialect import Dialect
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso
from emulator.wire.json_fields import Json
from emulator.wire.reasons import WAIT_LISTS, answered, arithmetic, disturbed, held_by, not_applied, waits_for


def explanation_view(explanation: Explanation, dialect: Dialect) -> dict[str, Json]:
    """A message, where it stands, and why; `reasons` in the order in which they came about."""
    message = explanation.message
    return {
        "message_id": message.message_id,
        "account_id": message.account_id,
        "url": message.url,
        "state": explanation.phase.value,
        "summary": summary(explanation),
        "reasons": [reason_view(reason, message, dialect) for reason in explanation.reasons],
    }


# -- the summary ------------------------------------------------------------------------------


def summary(explanation: Explanation) -> str:
    """One plain sentence about where the message stands and why."""
    message = explanation.message
    match explanation.phase:
        case Phase.PENDING:
            delay = format_duration(message.not_before_ms - message.created_ms)
            return f"Waits for its first attempt at {iso(message.not_before_ms)}, {delay} after it was made."
        case Phase.HELD:
            return _held_summary(explanation)
        case Phase.ACTIVE:
            return _active_summary(explanation)
        case Phase.RETRYING:
            return _retrying_summary(explanation)
        case Phase.DELIVERED | Phase.FAILED | Phase.CANCELED:
            return _end_summary(explanation)
        case unknown:
            assert_never(unknown)


def _held_summary(explanation: Explanation) -> str:
    for reason in reversed(explanation.reasons):
        if isinstance(reason, explanations.HeldBack) and reason.now is not None:
            return f"Is due and waits since {iso(reason.at_ms)}: {waits_for(reason.now)}."
    return "Is due and waits in a line."


def _active_summary(explanation: Explanation) -> str:
    attempt = _last_attempt(explanation)
    if attempt is None:
        return "Its attempt is under way."
    if attempt.due_ms is None:
        return f"Attempt {attempt.number} is under way since {iso(attempt.at_ms)}."
    return f"Attempt {attempt.number} is under way, and {_holds_back(attempt)} until {iso(attempt.due_ms)}."


def _holds_back(attempt: explanations.Attempted) -> str:
    rule = "a rule that is gone" if attempt.answered_by is None else attempt.answered_by.rule_id
    return f"{rule} holds its answer back"


def _retrying_summary(explanation: Explanation) -> str:
    for reason in reversed(explanation.reasons):
        if isinstance(reason, explanations.BackedOff):
            retry = f"retry {reason.number} of {explanation.message.max_retries}"
            why = f"{_last_attempt_text(explanation)}; {arithmetic(reason.delay)}"
            return f"Waits for {retry} at {iso(reason.due_ms)}: {why}."
    return "Waits for a retry."


def _end_summary(explanation: Explanation) -> str:
    end = next(each for each in explanation.reasons if isinstance(each, _ENDS))
    at = iso(end.at_ms)
    match end:
        case explanations.Delivered():
            return f"Delivered at {at}: {_last_attempt_text(explanation)}."
        case explanations.Failed():
            return f"Failed at {at}: {_last_attempt_text(explanation)}; {_failure(end, explanation.message)}."
        case explanations.Canceled():
            return f"Canceled at {at} {_after(end.attempts)}."
        case unknown:
            assert_never(unknown)


_ENDS = (explanations.Delivered, explanations.Failed, explanations.Canceled)


def _last_attempt(explanation: Explanation) -> explanations.Attempted | None:
    attempts = [each for each in explanation.reasons if isinstance(each, explanations.Attempted)]
    return attempts[-1] if attempts else None


def _last_attempt_text(explanation: Explanation) -> str:
    attempt = _last_attempt(explanation)
    if attempt is None or attempt.outcome is None:
        return "its attempt is not recorded"
    return f"attempt {attempt.number} {answered(attempt.outcome, attempt.answered_by)}"


def _failure(end: explanations.Failed, message: Message) -> str:
    match end.cause:
        case FailureCause.NON_RETRYABLE:
            return "the answer asked for no further attempt"
        case FailureCause.RETRIES_EXHAUSTED if message.max_retries == 0:
            return "it has no retries"
        case FailureCause.RETRIES_EXHAUSTED:
            return f"all {message.max_retries} retries are made" if message.max_retries > 1 else "its retry is made"
        case unknown:
            assert_never(unknown)


def _after(attempts: int) -> str:
    if attempts == 0:
        return "before its first attempt"
    return "after 1 attempt" if attempts == 1 else f"after {attempts} attempts"


# -- the reasons ------------------------------------------------------------------------------


def reason_view(reason: Reason, message: Message, dialect: Dialect) -> dict[str, Json]:
    """One reason of the chain."""
    match reason:
        case explanations.Created():
            return _created(reason)
        case explanations.Deduplicated():
            return _deduplicated(reason)
        case explanations.NotApplied():
            names = [dialect.rename_field_at_fault(name) for name in reason.names]
            return _at("not_applied", reason.at_ms, not_applied(names)) | {"headers": list(names)}
        case explanations.Delayed():
            delay_ms = reason.until_ms - reason.at_ms
            text = f"no attempt before {iso(reason.until_ms)}, a delay of {format_duration(delay_ms)}"
            return (
                _at("delayed", reason.at_ms, text) | instant_fields("until", reason.until_ms) | {"delay_ms": delay_ms}
            )
        case explanations.HeldBack():
            return _held_back(reason)
        case explanations.Attempted():
            return _attempted(reason)
        case explanations.BackedOff():
            return _backed_off(reason, message)
        case explanations.CalledBack():
            what = "the failure callback" if reason.is_failure else "the callback"
            text = f"{what} was published as {reason.message_id}"
            return _at("callback", reason.at_ms, text) | {"message_id": reason.message_id, "failure": reason.is_failure}
        case explanations.DeliveredAgain():
            how = f"was answered {reason.said}" if reason.said.isdecimal() else f"failed: {reason.said}"
            text = f"chaos: attempt {reason.number} was made again and {how}, which changes nothing"
            return _at("duplicate", reason.at_ms, text) | {"attempt": reason.number}
        case explanations.CancelAsked():
            return _at("cancel_requested", reason.at_ms, "its cancellation was asked for")
        case explanations.Delivered():
            text = f"delivered by attempt {reason.attempts}"
            return _at("delivered", reason.at_ms, text) | {"attempts": reason.attempts}
        case explanations.Failed():
            return _failed(reason, message)
        case explanations.Canceled():
            text = f"canceled {_after(reason.attempts)}"
            return _at("canceled", reason.at_ms, text) | {"attempts": reason.attempts}
        case explanations.DeadLetterRemoved():
            return _dead_letter_removed(reason)
        case unknown:
            assert_never(unknown)


def _created(reason: explanations.Created) -> dict[str, Json]:
    message = reason.message
    text = _maker(message)
    if message.url_group is not None:
        text += f" to URL group {message.url_group}, for its endpoint {message.url}"
    else:
        text += f" to {message.url}"
    if message.queue is not None:
        text += f", through queue {message.queue}"
    return _at("created", reason.at_ms, text) | {
        "by": message.created_by.value,
        "url_group": message.url_group,
        "queue": message.queue,
        "schedule_id": message.schedule_id,
        "source_message_id": message.source_message_id,
        "dead_letter_id": message.from_dead_letter,
    }


def _maker(message: Message) -> str:
    match message.created_by:
        case CreatedBy.PUBLISH:
            return f"published by {message.caller_ip}"
        case CreatedBy.BATCH:
            return f"published in a batch by {message.caller_ip}"
        case CreatedBy.CHAT:
            return f"asked of the service's language model by {message.caller_ip}"
        case CreatedBy.SCHEDULE:
            return f"published by schedule {message.schedule_id}"
        case CreatedBy.CALLBACK:
            return f"published as the callback of {message.source_message_id}"
        case CreatedBy.FAILURE_CALLBACK:
            return f"published as the failure callback of {message.source_message_id}"
        case CreatedBy.DEAD_LETTER:
            return f"published again from dead letter {message.from_dead_letter}"
        case CreatedBy.WORKFLOW:
            return "published by the service for a workflow run"
        case unknown:
            assert_never(unknown)


def _deduplicated(reason: explanations.Deduplicated) -> dict[str, Json]:
    text = f"publishes with the key {reason.key} are answered with this message until {iso(reason.until_ms)}"
    if reason.last_ms is not None:
        text += f"; {reason.count} {'was' if reason.count == 1 else 'were'} so far, last at {iso(reason.last_ms)}"
    return (
        _at("deduplication", reason.at_ms, text)
        | instant_fields("until", reason.until_ms)
        | {"key": reason.key, "repeats": reason.count}
        | instant_fields("last_repeat", reason.last_ms)
    )


def _held_back(reason: explanations.HeldBack) -> dict[str, Json]:
    text = held_by(reason.kind, reason.name, reason.reason)
    now = reason.now
    if now is not None:
        text = f"waits since then: {waits_for(now)}"
    elif reason.until_ms is not None:
        text += f" until {iso(reason.until_ms)}, for {format_duration(reason.until_ms - reason.at_ms)}"
    return (
        _at("held", reason.at_ms, text)
        | {"line": WAIT_LISTS[reason.kind], "name": reason.name or None, "reason": reason.reason.value}
        | instant_fields("until", reason.until_ms)
        | {
            "position": None if now is None else now.position,
            "length": None if now is None else now.length,
            "holders": [] if now is None else list(now.holders),
        }
        | instant_fields("earliest", None if now is None else now.earliest_ms)
    )


def _attempted(reason: explanations.Attempted) -> dict[str, Json]:
    outcome, rule = reason.outcome, reason.answered_by
    if outcome is not None:
        text = f"attempt {reason.number} {answered(outcome, rule)}"
        did = disturbed(outcome, rule, reason.number)
        text += f" (chaos: {did})" if did is not None else ""
        if reason.finished_ms is not None and reason.finished_ms > reason.at_ms:
            text += f", after {format_duration(reason.finished_ms - reason.at_ms)}"
    elif reason.due_ms is not None:
        text = f"attempt {reason.number} is under way; {_holds_back(reason)} until {iso(reason.due_ms)}"
    else:
        text = f"attempt {reason.number} is under way"
    return (
        _at("attempt", reason.at_ms, text)
        | {"attempt": reason.number}
        | instant_fields("finished", reason.finished_ms)
        | instant_fields("due", reason.due_ms)
        | {
            "via": None if outcome is None else outcome.via.value,
            "status": None if outcome is None or outcome.response is None else outcome.response.status,
            "error": None if outcome is None else outcome.error,
            "rule_id": None if rule is None else rule.rule_id,
            "rule_url": None if rule is None else rule.url,
            "forward_to": None if rule is None else rule.forward_to,
        }
    )


def _backed_off(reason: explanations.BackedOff, message: Message) -> dict[str, Json]:
    delay = reason.delay
    text = f"retry {reason.number} of {message.max_retries} at {iso(reason.due_ms)}: {arithmetic(delay)}"
    return (
        _at("backoff", reason.at_ms, text)
        | {"retry": reason.number, "retries": message.max_retries}
        | instant_fields("due", reason.due_ms)
        | {
            "delay_ms": reason.due_ms - reason.at_ms,
            "set_by": delay.reason.value,
            "arithmetic": arithmetic(delay),
            "header": None if delay.hint is None else delay.hint.value,
            "expression": delay.expression,
        }
    )


def _failed(reason: explanations.Failed, message: Message) -> dict[str, Json]:
    text = f"failed {_after(reason.attempts)}: {_failure(reason, message)}"
    if reason.dead_letter_id is not None:
        text += f"; it is dead letter {reason.dead_letter_id}"
    return _at("failed", reason.at_ms, text) | {
        "attempts": reason.attempts,
        "cause": reason.cause.value,
        "dead_letter_id": reason.dead_letter_id,
    }


_REMOVALS = {
    "deleted": "the dead letter was deleted",
    "expired": "the dead letter was removed at the end of its retention",
    "size": "the dead letter was removed to make room for newer ones",
}


def _dead_letter_removed(reason: explanations.DeadLetterRemoved) -> dict[str, Json]:
    if reason.published_as is not None:
        text = f"the dead letter was published again as {reason.published_as}"
    else:
        text = _REMOVALS[reason.cause]
    return _at("dead_letter_removed", reason.at_ms, text) | {"cause": reason.cause, "message_id": reason.published_as}


def _at(kind: str, at_ms: int, text: str) -> dict[str, Json]:
    return {**instant_fields("at", at_ms), "kind": kind, "text": text}
