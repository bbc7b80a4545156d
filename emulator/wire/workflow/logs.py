"""Workflow runs with their steps as the logs show them.

Fields that do not apply are left out. What a run hides by its redaction is hidden here too. Instants are in
milliseconds. Source: the workflow reference, 8; decisions D-385 to D-388.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.language.headers import by_canonical_name
from emulator.core.model.answers import AttemptOutcome, Response
from emulator.core.model.messages import Phase
from emulator.core.model.names import Headers
from emulator.core.model.options import CallType, Redaction
from emulator.core.rules.responses import as_read
from emulator.queries.history import Page
from emulator.queries.workflow_runs import RecordedRun, RunMessage
from emulator.queries.workflow_steps import RunLog, StepGroup, StepLog, StepState, Trial, failed_outcomes
from emulator.wire.json_fields import Json
from emulator.wire.redaction import redact_headers, redacted_text

_CALLBACK_STATES = {
    Phase.DELIVERED: "CALLBACK_SUCCESS",
    Phase.FAILED: "CALLBACK_FAIL",
    Phase.CANCELED: "CALLBACK_CANCELED",
}


def logs_page(page: Page[RunLog], trim: int | None) -> dict[str, Json]:
    """A page of runs; `trim` cuts every body after so many bytes (D-387)."""
    runs: list[Json] = [run_log_view(each, trim) for each in page.items]
    return _present({"cursor": page.cursor, "runs": runs})


def run_log_view(log: RunLog, trim: int | None = None) -> dict[str, Json]:
    """One run, its steps in groups, and what is being tried."""
    recorded = log.recorded
    run, ending = recorded.run, recorded.summary.ending
    shown = shown_of(log, trim)
    flow, labels = run.options.flow_control, run.options.labels
    groups: list[Json] = [_group(group, shown) for group in log.groups]
    if log.trials:
        groups.append({"type": "next", "steps": [_trial(each, shown) for each in log.trials]})
    return _present(
        {
            "workflowRunId": run.run_id,
            "workflowUrl": run.url,
            "workflowState": recorded.state.value,
            "workflowRunCreatedAt": run.created_ms,
            "workflowRunCompletedAt": None if ending is None else ending.at_ms,
            "workflowRunCallerIp": run.caller_ip or None,
            "workflowRunResponse": None if ending is None or not ending.response else shown.bytes(ending.response),
            "label": labels[0] if labels else None,
            "labels": list(labels) or None,
            "flowControlKey": None if flow is None else flow.key,
            "dlqId": None if ending is None else ending.dead_letter_id,
            "invoker": _invoker(recorded),
            "failureFunction": _failure_function(log, shown),
            "steps": groups,
        }
    )


def shown_of(log: RunLog, trim: int | None = None) -> Shown:
    """What a run's redaction leaves of its content."""
    return Shown(log.recorded.run.options.redaction, trim)


class Shown:
    """How much of a run's content is shown."""

    def __init__(self, redaction: Redaction | None, trim: int | None) -> None:
        self._redaction = redaction
        self._trim = trim

    def text(self, text: str | None) -> str | None:
        if text and self._redaction is not None and self._redaction.body:
            return redacted_text(text.encode("utf-8", "replace"))
        if text is None or self._trim is None:
            return text
        # A character that would be cut in the middle is left out.
        return text.encode("utf-8", "replace")[: self._trim].decode("utf-8", "ignore")

    def bytes(self, content: bytes) -> str | None:
        return self.text(content.decode("utf-8", "replace"))

    def headers(self, headers: Headers) -> dict[str, Json]:
        shown = headers if self._redaction is None else redact_headers(headers, self._redaction)
        return {name: list(values) for name, values in by_canonical_name(shown).items()}


def _invoker(recorded: RecordedRun) -> Json:
    invoker = recorded.run.invoker
    if invoker is None:
        return None
    return {
        "workflowRunId": invoker.run_id,
        "workflowUrl": invoker.url,
        "workflowRunCreatedAt": invoker.run_created_ms,
    }


# -- steps ------------------------------------------------------------------------------------


def _group(group: StepGroup, shown: Shown) -> Json:
    kind = "parallel" if group.is_parallel else "sequential"
    return {"type": kind, "steps": [_step(each, shown) for each in group.steps]}


def _step(log: StepLog, shown: Shown) -> Json:
    step, message = log.step, log.message or log.request
    is_done = log.state is StepState.SUCCESS
    errors = () if is_done or log.message is None else tuple(_errors(log.message, shown))
    return _present(
        {
            "stepId": step.number,
            "stepName": step.step_name,
            "stepType": step.step_type,
            "callType": _call_type(log).value,
            "messageId": log.message_id,
            "out": shown.text(step.out),
            "concurrent": step.concurrent,
            "state": log.state.value,
            "createdAt": log.at_ms,
            "retries": None if message is None else message.message.max_retries,
            "retryDelay": None if message is None else message.message.retry_delay,
            "headers": {} if message is None else shown.headers(message.message.headers),
            "sleepFor": step.sleep_for,
            "sleepUntil": step.sleep_until,
            **_call(log, shown),
            **_wait(log),
            **_invocation(log, shown),
            "errors": list(errors) or None,
        }
    )


def _call_type(log: StepLog) -> CallType:
    """A call step is a request before it is a result, and a callback when the third party has answered."""
    if log.step.step_type != "Call" or log.step.is_plan or log.request is None or log.state is StepState.SUCCESS:
        return CallType.STEP
    is_answered = log.request.phase in (Phase.DELIVERED, Phase.FAILED)
    return CallType.FROM_CALLBACK if is_answered else CallType.TO_CALLBACK


def _call(log: StepLog, shown: Shown) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    if log.request is not None:
        request = log.request.message
        fields |= {
            "callUrl": request.url,
            "callMethod": request.method.value,
            "callHeaders": shown.headers(request.headers),
            "callBody": shown.bytes(request.body),
        }
    if log.response is not None:
        fields |= {
            "callResponseStatus": log.response.status,
            "callResponseBody": shown.text(log.response.body),
            "callResponseHeaders": {name: list(values) for name, values in log.response.header.items()},
        }
    return fields


def _wait(log: StepLog) -> dict[str, Json]:
    if log.wait is None:
        # An event that had come before resumed the step at once.
        return {} if log.step.wait_event_id is None else {"waitEventId": log.step.wait_event_id, "waitTimeout": False}
    return {
        "waitEventId": log.wait.event_id,
        "waitTimeoutDuration": log.wait.timeout,
        "waitTimeoutDeadline": log.wait.deadline_ms,
        "waitTimeout": bool(log.step.wait_timeout),
    }


def _invocation(log: StepLog, shown: Shown) -> dict[str, Json]:
    if log.invoked is None:
        return {}
    run = log.invoked.run
    return {
        "invokedWorkflowRunId": run.run_id,
        "invokedWorkflowUrl": run.url,
        "invokedWorkflowCreatedAt": run.created_ms,
        "invokedWorkflowRunBody": shown.bytes(log.invoked.payload),
        "invokedWorkflowRunHeaders": shown.headers(run.options.forwarded),
    }


def _trial(trial: Trial, shown: Shown) -> Json:
    message = trial.message
    return _present(
        {
            "messageId": message.message.message_id,
            "stepName": _failing_step(message),
            "state": trial.state.value,
            "retries": message.message.max_retries,
            "retryDelay": message.message.retry_delay,
            "errors": list(_errors(message, shown)) or None,
            "nextDeliveryTime": message.next_ms,
        }
    )


def _failing_step(message: RunMessage) -> str | None:
    """The step that threw, if the endpoint told which."""
    for _, outcome in failed_outcomes(message):
        for name, value in () if outcome.response is None else outcome.response.headers:
            if name.lower().endswith("-error-step-name"):
                return value
    return None


def _errors(message: RunMessage, shown: Shown) -> Iterator[Json]:
    return (_error(message, at_ms, outcome, shown) for at_ms, outcome in failed_outcomes(message))


def _error(message: RunMessage, at_ms: int, outcome: AttemptOutcome, shown: Shown) -> Json:
    response = _as_read(message, outcome)
    return {
        "error": outcome.error or (f"destination answered {response.status}" if response is not None else ""),
        "body": "" if response is None else shown.bytes(response.body),
        "headers": {} if response is None else shown.headers(response.headers),
        "status": 0 if response is None else response.status,
        "time": at_ms,
    }


# -- failures ---------------------------------------------------------------------------------


def callback_state(message: RunMessage) -> str:
    """The state of the call of a failure function."""
    return _CALLBACK_STATES.get(message.phase, "CALLBACK_INPROGRESS")


def last_response(message: RunMessage) -> Response | None:
    """What the last attempt of a message was answered, None without an answer."""
    return _as_read(message, message.attempts[-1].outcome) if message.attempts else None


def _as_read(message: RunMessage, outcome: AttemptOutcome) -> Response | None:
    return None if outcome.response is None else as_read(outcome.response, message.message.headers)


def _failure_function(log: RunLog, shown: Shown) -> Json:
    """The call of the failure function, what it was called for, and what it answered."""
    call = log.failure
    if call is None:
        return None
    failed = next((each for each in log.trials if each.state is StepState.FAILED), None)
    failure = None if failed is None else last_response(failed.message)
    answer = last_response(call) if call.phase is not Phase.RETRYING else None
    ending = log.recorded.summary.ending
    return _present(
        {
            "messageId": call.message.message_id,
            "url": call.message.url,
            "state": callback_state(call),
            "failStatus": 0 if failure is None else failure.status,
            "failResponse": "" if failure is None else shown.bytes(failure.body),
            "failHeaders": {} if failure is None else shown.headers(failure.headers),
            "dlqId": None if ending is None else ending.dead_letter_id,
            "responseStatus": None if answer is None else answer.status,
            "responseBody": None if answer is None else shown.bytes(answer.body),
            "responseHeaders": None if answer is None else shown.headers(answer.headers),
            "errors": list(_errors(call, shown)) or None,
            "nextDeliveryTime": call.next_ms,
            "maxRetries": call.message.max_retries,
        }
    )


def _present(fields: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}
