"""Workflow runs as the control API shows them: their steps on the time axis, what they wait for, and why.

A field that a step does not have is left out; one that has no value is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from emulator.core.model.options import CallType
from emulator.core.record import Record
from emulator.core.workflows import RunState
from emulator.queries.history import Page
from emulator.queries.workflow_runs import RunMessage, RunQuery, RunSummary
from emulator.queries.workflow_steps import RunLog, StepGroup, StepLog, StepState, Trial, failed_outcomes
from emulator.queries.workflow_waits import Awaited, AwaitedKind, awaited
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_limit, read_parameters
from emulator.wire.fields import read_field
from emulator.wire.instants import iso
from emulator.wire.json_fields import Json, read_choice
from emulator.wire.messaging.filters import parse_cursor
from emulator.wire.reasons import answered, shortened

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000


def read_runs(pairs: Pairs) -> RunQuery:
    """The query of a listing: `state`, `url` (exact), `limit` and `cursor`. Raises: InvalidInput."""
    given = read_parameters(pairs, ("state", "url", "limit", "cursor"))
    state, url, limit, cursor = (given.get(name) for name in ("state", "url", "limit", "cursor"))
    return RunQuery(
        account_id=None,
        count=DEFAULT_LIMIT if limit is None else read_limit(limit, MAX_LIMIT),
        cursor=None if cursor is None else read_field("cursor", cursor, parse_cursor),
        urls=() if url is None else (url,),
        states=() if state is None else (RunState(read_choice(state, "state", tuple(RunState))),),
    )


def runs_view(page: Page[RunSummary]) -> dict[str, Json]:
    """A page of runs, newest first."""
    return {"runs": [summary_view(each) for each in page.items], "cursor": page.cursor}


def summary_view(summary: RunSummary) -> dict[str, Json]:
    """A run without its steps; `result` is the JSON text that it returned."""
    run, ending = summary.run, summary.ending
    response = None if ending is None or not ending.response else ending.response
    invoker = run.invoker
    return {
        "id": run.run_id,
        "number": run.number,
        "account_id": run.account_id,
        "url": run.url,
        "state": summary.state.value,
        **instant_fields("created", run.created_ms),
        **instant_fields("ended", None if ending is None else ending.at_ms),
        "labels": list(run.options.labels),
        "payload": summary.payload.decode("utf-8", "replace"),
        "result": None if response is None else response.decode("utf-8", "replace"),
        "dead_letter_id": None if ending is None else ending.dead_letter_id,
        "invoked_by": None if invoker is None else invoker.run_id,
    }


def run_view(log: RunLog) -> dict[str, Json]:
    """A run with its steps in groups, and what it waits for."""
    return {
        **summary_view(log.recorded.summary),
        "summary": _summary(log),
        "steps": [_group(each) for each in log.groups],
        "trials": [_trial(each) for each in log.trials],
        "waiting": [_awaited(each) for each in awaited(log)],
        "failure_function": None if log.failure is None else _message(log.failure),
    }


def run_explanation_view(log: RunLog) -> dict[str, Json]:
    """A run, where it stands, and what led there; `reasons` in the order in which it happened."""
    run = log.recorded.run
    reasons = sorted(_reasons(log), key=lambda reason: reason.at_ms)
    return {
        "run_id": run.run_id,
        "account_id": run.account_id,
        "url": run.url,
        "state": log.recorded.state.value,
        "summary": _summary(log),
        "reasons": [{**instant_fields("at", each.at_ms), "kind": each.kind, "text": each.text} for each in reasons],
    }


# -- steps ------------------------------------------------------------------------------------


def _group(group: StepGroup) -> Json:
    return {"parallel": group.is_parallel, "steps": [_step(each) for each in group.steps]}


def _step(log: StepLog) -> Json:
    step = log.step
    view: dict[str, Json] = {
        "id": step.number,
        "name": step.step_name,
        "type": step.step_type,
        "state": log.state.value,
        **instant_fields("at", log.at_ms),
        **instant_fields("ended", log.ended_ms),
        "message_id": log.message_id,
        "out": step.out,
    }
    if log.wait is not None:
        view |= {"event_id": log.wait.event_id, **instant_fields("deadline", log.wait.deadline_ms)}
    if log.request is not None:
        view |= {"url": log.request.message.url, "request": _message(log.request)}
    if log.invoked is not None:
        view["run_id"] = log.invoked.run.run_id
    return view


def _trial(trial: Trial) -> Json:
    return {"state": trial.state.value, **_message(trial.message)}


def _message(message: RunMessage) -> dict[str, Json]:
    return {
        "message_id": message.message.message_id,
        "phase": message.phase.value,
        "attempts": len(message.attempts),
        "errors": [f"{iso(at_ms)} {answered(outcome, None)}" for at_ms, outcome in failed_outcomes(message)],
        **instant_fields("next", message.next_ms),
    }


def _awaited(each: Awaited) -> Json:
    return {
        "kind": each.kind.value,
        "step": each.step,
        "subject": each.subject or None,
        **instant_fields("since", each.since_ms),
        **instant_fields("until", each.until_ms),
        "text": _awaited_text(each),
    }


def _awaited_text(each: Awaited) -> str:
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
            at = "is under way" if each.until_ms is None else f"is due at {iso(each.until_ms)}"
            return f"{step or 'a call of the endpoint '}{at}"
        case unknown:
            assert_never(unknown)


# -- the explanation --------------------------------------------------------------------------


class _Reason(Record):
    kind: str
    at_ms: int
    text: str


def _summary(log: RunLog) -> str:
    """One plain sentence about where the run stands."""
    ending = log.recorded.summary.ending
    if ending is None:
        waits = [_awaited_text(each) for each in awaited(log)]
        return f"Is active: {'; '.join(waits)}." if waits else "Is active, and waits for nothing."
    at = f"at {iso(ending.at_ms)}"
    count = f"{len(log.steps)} steps" if len(log.steps) != 1 else "1 step"
    match ending.state:
        case RunState.SUCCESS:
            return f"Ended {at} with success, after {count}."
        case RunState.CANCELED:
            return f"Was canceled {at}, after {count}."
        case _:
            return f"Failed {at}, after {count}: {_failure(log)}."


def _failure(log: RunLog) -> str:
    """The last error of the call, or of the parallel step, that failed the run."""
    failed = [each.message for each in log.trials if each.state is StepState.FAILED]
    failed += [each.message for each in log.steps if each.state is StepState.FAILED and each.message is not None]
    for message in failed:
        if message.attempts:
            last = message.attempts[-1]
            cause = "" if last.outcome.error is None or last.outcome.response is None else f" ({last.outcome.error})"
            return f"attempt {last.number} {answered(last.outcome, last.answered_by)}{cause}"
    return "the call that failed is not recorded"


def _reasons(log: RunLog) -> Iterator[_Reason]:
    recorded = log.recorded
    run, ending = recorded.run, recorded.summary.ending
    began = f"{run.url} with {len(recorded.summary.payload)} bytes"
    by = f", invoked by {run.invoker.run_id}" if run.invoker is not None else ""
    again = f", from dead letter {run.from_dead_letter}" if run.from_dead_letter is not None else ""
    yield _Reason(kind="started", at_ms=run.created_ms, text=f"{began}{by}{again}")
    for step in log.steps:
        yield from _reasons_of(step)
    for message in recorded.messages:
        yield from _errors(message)
    if log.failure is not None:
        failure = log.failure
        text = f"message {failure.message.message_id} to {failure.message.url}: {failure.phase.value}"
        yield _Reason(kind="failure_function", at_ms=failure.message.created_ms, text=text)
    for each in awaited(log):
        yield _Reason(kind="waiting", at_ms=each.since_ms, text=_awaited_text(each))
    if ending is not None:
        kind = ending.state.value.removeprefix("RUN_").lower()
        text = f"returned {ending.response.decode('utf-8', 'replace')}" if ending.response else "the run ended"
        yield _Reason(kind=kind, at_ms=ending.at_ms, text=text)


def _reasons_of(log: StepLog) -> Iterator[_Reason]:
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
    out = log.step.out
    result = "" if out is None or out.strip() == "null" or log.response is not None else f": {shortened(out)}"
    answer = "" if log.response is None else f": answered {log.response.status}"
    yield _Reason(kind="step", at_ms=log.ended_ms, text=f"{name}{end}{since}{result}{answer}")


def _errors(message: RunMessage) -> Iterator[_Reason]:
    who = "the third party" if message.call_type is CallType.TO_CALLBACK else "a call of the endpoint"
    for at_ms, outcome in failed_outcomes(message):
        yield _Reason(kind="error", at_ms=at_ms, text=f"{who} {answered(outcome, None)}")
