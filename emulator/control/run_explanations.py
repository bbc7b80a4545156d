"""`/_emulator/runs/{id}/explain`: why a workflow run is where it is, and the one sentence that sums it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, assert_never

from msgspec import Meta

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute, read_run_shown
from emulator.control.records import TWIN, Count, Instant, InstantMs, Status, Text, View
from emulator.control.waiting import not_left
from emulator.core.model.options import CallType
from emulator.core.model.workflows import RunState
from emulator.core.record import AccountId, MessageId, RunId
from emulator.core.rules.callbacks import decompressed
from emulator.queries import workflow_runs
from emulator.queries.workflow_runs import StepState, failed_call
from emulator.queries.workflow_steps import (
    Awaited,
    AwaitedKind,
    RunLog,
    StepLog,
    awaited,
    failed_attempts,
    failing_call,
)
from emulator.wire.dialect import Dialect
from emulator.wire.reasons import answered, said_of, shortened, signature_hint, where_failed
from emulator.wire.redaction import surface_of
from emulator.wire.times import iso
from emulator.wire.workflow_logs import RunContent


class RunReason(View):
    """One thing that happened, or that is waited for."""

    at: Instant = TWIN
    at_ms: InstantMs
    #: What it is.
    kind: Literal["started", "step", "error", "failure_function", "waiting", "success", "failed", "canceled"]
    text: Text  #: The same in words.


class RunExplanation(View):
    """The state of a workflow run, and why it is in it."""

    run_id: Text  #: The run.
    account_id: AccountId
    url: Text  #: The endpoint of the workflow.
    state: RunState
    summary: Text  #: One sentence about that.
    reasons: Annotated[tuple[RunReason, ...], Meta(min_length=1)]  #: What happened, in order.


class RunFailure(View):
    """Which call failed a workflow run, and how its last attempt went (D-675)."""

    where: Text  #: Which call, in words.
    #: The step that failed; null without the header `Error-Step-Name` in the answer of the endpoint.
    step: str | None
    message_id: MessageId  #: The message of the call.
    attempts: Count  #: How many attempts it had.
    last_status: Status | None  #: The status of the last answer; null without an answer.
    last_error: str | None  #: Why the last attempt had no answer, or why its answer counts as a failure; else null.
    last_result: Text  #: How the last attempt went and what answered it, in words.
    excerpt: str | None  #: The beginning of the body of the last answer; null without one.


def run_failure_view(log: RunLog, shown: RunContent, dialect: Dialect) -> RunFailure | None:
    """Which call failed a run; None if none did, or nothing is kept of it."""
    message = failing_call(log)
    if message is None:
        return None
    last = message.attempts[-1]
    outcome = shown.outcome(last.outcome, message.message)
    response = outcome.response
    failed = failed_call(message.message, shown.open_headers(last.outcome, message.message), dialect.header_prefix)
    hint = signature_hint(last.outcome, last.answered_by, dialect)
    return RunFailure(
        where=where_failed(failed),
        step=failed.step,
        message_id=message.message.message_id,
        attempts=len(message.attempts),
        last_status=None if response is None else response.status,
        last_error=outcome.error,
        last_result=answered(outcome, last.answered_by) + ("" if hint is None else f"; {hint}"),
        excerpt=None if response is None else said_of(decompressed(response, ()).body) or None,
    )


# -- the summary ------------------------------------------------------------------------------


def awaited_text(each: Awaited) -> str:
    """What a run waits for, in words."""
    step = "" if each.step is None else f'step "{each.step}" '
    until = "" if each.until_ms is None else f" until {iso(each.until_ms)}"
    match each.kind:
        case AwaitedKind.SLEEP:
            return f"{step}sleeps{until}"
        case AwaitedKind.EVENT:
            return f"{step}waits for the event {each.subject}{until}"
        case AwaitedKind.RESPONSE:
            return f"{step}waits for the answer of {each.subject}{until}"
        case AwaitedKind.RUN:
            return f"{step}waits for the end of run {each.subject}"
        case AwaitedKind.RETRY:
            at = "" if each.until_ms is None else f" at {iso(each.until_ms)}"
            return f"{step or 'a call of the endpoint '}is tried again{at}"
        case AwaitedKind.CALL:
            where = "is under way" if each.has_left else "waits to leave"
            at = where if each.until_ms is None else f"is due at {iso(each.until_ms)}"
            return f"{step or 'a call of the endpoint '}{at}"
        case unknown:
            assert_never(unknown)


def summary(log: RunLog, waits: Sequence[Awaited], failure: RunFailure | None) -> str:
    """One plain sentence about the state of the run."""
    ending = log.recorded.summary.ending
    if ending is None:
        texts = [awaited_text(each) for each in waits]
        return f"Is active: {'; '.join(texts)}." if texts else "Is active, and waits for nothing."
    at = f"at {iso(ending.at_ms)}"
    count = f"{len(log.steps)} steps" if len(log.steps) != 1 else "1 step"
    match ending.state:
        case RunState.SUCCESS:
            return f"Ended {at} with success, after {count}."
        case RunState.CANCELED:
            return f"Was canceled {at}, after {count}."
        case _ if failure is None:
            return f"Failed {at}, after {count}: the call that failed is not recorded."
        case _:
            # The call, or the parallel step, and its last error.
            cause = "" if failure.last_error is None or failure.last_status is None else f" ({failure.last_error})"
            how = f"{failure.where}, attempt {failure.attempts} {failure.last_result}{cause}"
            return f"Failed {at}, after {count}: {how}."


_ENDS: Mapping[RunState, Literal["success", "failed", "canceled"]] = {
    RunState.SUCCESS: "success",
    RunState.FAILED: "failed",
    RunState.CANCELED: "canceled",
}


def _reasons(log: RunLog, shown: RunContent, waits: Sequence[Awaited]) -> Iterator[RunReason]:
    recorded = log.recorded
    run, ending = recorded.run, recorded.summary.ending
    size = shown.visibility.size(len(recorded.summary.payload))
    began = f"{run.url} with a redacted payload" if size is None else f"{run.url} with {size} bytes"
    by = f", invoked by {run.invoker.run_id}" if run.invoker is not None else ""
    again = f", from dead letter {run.from_dead_letter}" if run.from_dead_letter is not None else ""
    yield RunReason(kind="started", at_ms=run.created_ms, text=f"{began}{by}{again}")
    for step in log.steps:
        yield from _reasons_of(step, shown)
    for message in recorded.messages:
        yield from _errors(message, shown)
    if log.failure is not None:
        failure = log.failure
        text = f"message {failure.message.message_id} to {failure.message.url}: {failure.phase.value}"
        yield RunReason(kind="failure_function", at_ms=failure.message.created_ms, text=text)
    for each in waits:
        yield RunReason(kind="waiting", at_ms=each.since_ms, text=awaited_text(each))
    if ending is not None:
        text = f"returned {shown.bytes(ending.response)}" if ending.response else "the run ended"
        yield RunReason(kind=_ENDS[ending.state], at_ms=ending.at_ms, text=text)


def _reasons_of(log: StepLog, shown: RunContent) -> Iterator[RunReason]:
    """The beginning of a step, if that took time, and its end."""
    name = f'step {log.step.number} "{log.step.step_name}" ({log.step.step_type})'
    if log.ended_ms is None:
        return
    since = "" if log.ended_ms == log.at_ms else f", begun at {iso(log.at_ms)}"
    match log.state:
        case StepState.SUCCESS:
            end = " timed out" if log.step.wait_timeout else " done"
        case StepState.CANCELED:
            end = " canceled"
        case _:
            end = " failed"
    out = shown.of(log.message or log.request).text(log.step.out)
    result = "" if out is None or out.strip() == "null" or log.response is not None else f": {shortened(out)}"
    answer = "" if log.response is None else f": answered {log.response.status}"
    yield RunReason(kind="step", at_ms=log.ended_ms, text=f"{name}{end}{since}{result}{answer}")


def _errors(message: workflow_runs.RunMessage, shown: RunContent) -> Iterator[RunReason]:
    who = "the third party" if message.call_type is CallType.TO_CALLBACK else "a call of the endpoint"
    for each in failed_attempts(message):
        said = answered(shown.outcome(each.outcome, message.message), each.answered_by)
        yield RunReason(kind="error", at_ms=each.at_ms, text=f"{who} {said}")


async def explain_run(call: ControlCall) -> RunExplanation:
    """A run, its state, and what led to it; `reasons` in the order in which it happened."""
    await call.world.current_state()
    number, redact = read_run_shown(call.parts.query)
    log = await call.world.runs.find(RunId(call.name), number=number)
    run, waits = log.recorded.run, awaited(log, not_left(call.world))
    shown = RunContent(run.options.redaction, surface=surface_of(redact=redact))
    return RunExplanation(
        run_id=run.run_id,
        account_id=run.account_id,
        url=run.url,
        state=log.recorded.state,
        summary=summary(log, waits, run_failure_view(log, shown, call.dialect)),
        reasons=tuple(sorted(_reasons(log, shown, waits), key=lambda reason: reason.at_ms)),
    )


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/runs/{name}/explain", explain_run, OWN_QUERY),)
