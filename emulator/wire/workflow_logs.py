"""Workflow runs as JSON: their logs and their dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.core.errors import Malformed
from emulator.core.language.text import by_canonical_name
from emulator.core.model.messages import AttemptOutcome, Message, Phase, Response
from emulator.core.model.options import CallType, Redaction
from emulator.core.model.workflows import WorkflowRun
from emulator.core.record import Headers
from emulator.core.rules.callbacks import decompressed
from emulator.core.rules.options import delivered_headers
from emulator.queries.history import DeadLetterEntry, Page
from emulator.queries.workflow_runs import RecordedRun, RunMessage, StepState
from emulator.queries.workflow_steps import RunLog, StepLog, Trial, failed_attempts
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json
from emulator.wire.messaging import views
from emulator.wire.messaging.views import labels_of, present, trimmed_text
from emulator.wire.redaction import Surface, Visibility, joined, visibility_of
from emulator.wire.times import format_duration, parse_seconds_or_duration_ms
from emulator.wire.workflow import step_view

# -- logs -------------------------------------------------------------------------------------
# Fields that do not apply are left out. What a run hides by its redaction is hidden here too. Instants are in
# milliseconds. Source: the workflow reference, 8; decisions D-385 to D-388.

_CALLBACK_STATES = {
    Phase.DELIVERED: "CALLBACK_SUCCESS",
    Phase.FAILED: "CALLBACK_FAIL",
    Phase.CANCELED: "CALLBACK_CANCELED",
}


def logs_page(page: Page[RunLog], trim: int | None) -> dict[str, Json]:
    """A page of runs; `trim` cuts every body after so many bytes (D-387)."""
    return present({"cursor": page.cursor, "runs": [run_log_view(each, trim) for each in page.items]})


def run_log_view(log: RunLog, trim: int | None = None) -> dict[str, Json]:
    """One run, its steps in groups, and what is being tried."""
    recorded = log.recorded
    run, ending = recorded.run, recorded.summary.ending
    shown = RunContent(log.recorded.run.options.redaction, trim)
    flow = run.options.flow_control
    groups: list[Json] = [
        {
            "type": "parallel" if group.is_parallel else "sequential",
            "steps": [_step(each, shown) for each in group.steps],
        }
        for group in log.groups
    ]
    if log.trials:
        groups.append({"type": "next", "steps": [_trial(each, shown) for each in log.trials]})
    return present(
        {
            "workflowRunId": run.run_id,
            "workflowUrl": run.url,
            "workflowState": recorded.state.value,
            "workflowRunCreatedAt": run.created_ms,
            "workflowRunCompletedAt": None if ending is None else ending.at_ms,
            "workflowRunCallerIp": run.caller_ip or None,
            "workflowRunResponse": None if ending is None or not ending.response else shown.bytes(ending.response),
            **labels_of(run.options.labels),
            "flowControlKey": None if flow is None else flow.key,
            "dlqId": None if ending is None else ending.dead_letter_id,
            "invoker": _invoker(recorded),
            "failureFunction": _failure_function(log, shown),
            "steps": groups,
        }
    )


def steps_as_logged(run: WorkflowRun, log: RunLog) -> Json:
    """The steps of a run as its endpoint gets them, without what its logs hide: the marker in base64 (D-778)."""
    content, messages = RunContent(run.options.redaction), log.recorded.messages_by_id()
    return [step_view(step, content.of(messages.get(step.message_id)).visibility.body(step.body)) for step in run.steps]


class RunContent:
    """The content of a run as a surface shows it; `trim` cuts every text after so many bytes (D-387)."""

    def __init__(
        self, redaction: Redaction | None, trim: int | None = None, *, surface: Surface = Surface.SERVICE
    ) -> None:
        self._redaction = redaction
        self._surface = surface
        self._trim = trim
        self.visibility = Visibility(redaction, surface)

    def of(self, message: RunMessage | None) -> RunContent:
        """What a message of the run is about: it hides what the run hides and what it hides itself (D-513)."""
        if message is None:
            return self
        redaction = joined(self._redaction, message.message.policy.redaction)
        return RunContent(redaction, self._trim, surface=self._surface)

    def outcome(self, outcome: AttemptOutcome, message: Message) -> AttemptOutcome:
        return visibility_of(message, self._surface).outcome(outcome)

    def open_headers(self, outcome: AttemptOutcome, message: Message) -> Headers:
        """The headers of an answer whose values are shown."""
        response = outcome.response
        return () if response is None else visibility_of(message, self._surface).open_headers(response.headers)

    def text(self, text: str | None) -> str | None:
        return None if text is None else trimmed_text(self.visibility.text(text), self._trim)

    def bytes(self, content: bytes) -> str | None:
        return self.text(content.decode("utf-8", "replace"))

    def headers(self, headers: Headers) -> dict[str, Json]:
        return {**by_canonical_name(self.visibility.headers(headers))}


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


def _step(log: StepLog, shown: RunContent) -> Json:
    step, message = log.step, log.message or log.request
    shown = shown.of(message)
    is_done = log.state is StepState.SUCCESS
    errors = () if is_done or log.message is None else tuple(_errors(log.message, shown))
    return present(
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
            "retries": None if message is None else message.message.policy.max_retries,
            "retryDelay": None if message is None else message.message.policy.retry_delay,
            "headers": {} if message is None else shown.headers(message.message.headers),
            "sleepFor": _sleep_for_ms(step.sleep_for),
            "sleepUntil": None if step.sleep_until is None else round(step.sleep_until * 1000),
            **_call(log, shown),
            **_wait(log),
            **_invocation(log, shown),
            "errors": list(errors) or None,
        }
    )


def _sleep_for_ms(length: float | str | None) -> int | None:
    """How long a step sleeps (D-531): a client publishes seconds, or a text such as 1d. None for what is neither."""
    if length is None:
        return None
    try:
        return parse_seconds_or_duration_ms(length) if isinstance(length, str) else round(length * 1000)
    except Malformed:
        return None


def _call_type(log: StepLog) -> CallType:
    """A call step is a request before it is a result, and a callback when the third party has answered."""
    if log.step.step_type != "Call" or log.step.is_plan or log.request is None or log.state is StepState.SUCCESS:
        return CallType.STEP
    is_answered = log.request.phase in (Phase.DELIVERED, Phase.FAILED)
    return CallType.FROM_CALLBACK if is_answered else CallType.TO_CALLBACK


def _call(log: StepLog, shown: RunContent) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    if log.request is not None:
        request, asked = log.request.message, shown.of(log.request)
        fields |= {
            "callUrl": request.url,
            "callMethod": request.method.value,
            "callHeaders": asked.headers(request.headers),
            "callBody": asked.bytes(request.body),
        }
    if log.response is not None:
        fields |= {
            "callResponseStatus": log.response.status,
            "callResponseBody": shown.text(log.response.body),
            "callResponseHeaders": _reported_headers(log.response.header, shown),
        }
    return fields


def _reported_headers(headers: Mapping[str, tuple[str, ...]], shown: RunContent) -> dict[str, Json]:
    """What a third party answered as the endpoint reported it: part of the step's result, and hidden with that."""
    hide = shown.visibility.reported_value
    return {name: [hide(name, value) for value in values] for name, values in headers.items()}


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


def _invocation(log: StepLog, shown: RunContent) -> dict[str, Json]:
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


def _trial(trial: Trial, shown: RunContent) -> Json:
    message = trial.message
    return present(
        {
            "messageId": message.message.message_id,
            "stepName": _failing_step(message, shown),
            "state": trial.state.value,
            "retries": message.message.policy.max_retries,
            "retryDelay": message.message.policy.retry_delay,
            "errors": list(_errors(message, shown)) or None,
            "nextDeliveryTime": message.next_ms,
        }
    )


def _failing_step(message: RunMessage, shown: RunContent) -> str | None:
    """The step that threw, if the endpoint said which, in a header that is not hidden."""
    for attempt in failed_attempts(message):
        for name, value in shown.open_headers(attempt.outcome, message.message):
            if name.lower().endswith("-error-step-name"):
                return value
    return None


def _errors(message: RunMessage, shown: RunContent) -> Iterator[Json]:
    return (_error(message, each.at_ms, each.outcome, shown) for each in failed_attempts(message))


def _error(message: RunMessage, at_ms: int, outcome: AttemptOutcome, shown: RunContent) -> Json:
    response, shown = _as_read(message, outcome), shown.of(message)
    return present(
        {
            "error": outcome.error or (f"destination answered {response.status}" if response is not None else ""),
            "body": "" if response is None else shown.bytes(response.body),
            "headers": {} if response is None else shown.headers(response.headers),
            "status": 0 if response is None else response.status,
            "time": at_ms,
        }
    )


# -- failures ---------------------------------------------------------------------------------


def callback_state(message: RunMessage) -> str:
    """The state of the call of a failure function."""
    return _CALLBACK_STATES.get(message.phase, "CALLBACK_INPROGRESS")


def last_response(message: RunMessage) -> Response | None:
    """What the last attempt of a message was answered, None without an answer."""
    return _as_read(message, message.attempts[-1].outcome) if message.attempts else None


def _as_read(message: RunMessage, outcome: AttemptOutcome) -> Response | None:
    return None if outcome.response is None else decompressed(outcome.response, message.message.headers)


def _failure_function(log: RunLog, shown: RunContent) -> Json:
    """The call of the failure function, what it was called for, and what it answered."""
    call = log.failure
    if call is None:
        return None
    failed = next((each for each in log.trials if each.state is StepState.FAILED), None)
    failure = None if failed is None else last_response(failed.message)
    answer = last_response(call) if call.phase is not Phase.RETRYING else None
    failing, shown = shown.of(None if failed is None else failed.message), shown.of(call)
    ending = log.recorded.summary.ending
    return present(
        {
            "messageId": call.message.message_id,
            "url": call.message.url,
            "state": callback_state(call),
            "failStatus": 0 if failure is None else failure.status,
            "failResponse": "" if failure is None else failing.bytes(failure.body),
            "failHeaders": {} if failure is None else failing.headers(failure.headers),
            "dlqId": None if ending is None else ending.dead_letter_id,
            "responseStatus": None if answer is None else answer.status,
            "responseBody": None if answer is None else shown.bytes(answer.body),
            "responseHeaders": None if answer is None else shown.headers(answer.headers),
            "errors": list(_errors(call, shown)) or None,
            "nextDeliveryTime": call.next_ms,
            "maxRetries": call.message.policy.max_retries,
        }
    )


# -- dead letters of workflow runs as JSON. Source: the workflow reference, 9; decision D-389 ---


def dead_letter(entry: DeadLetterEntry, log: RunLog, dialect: Dialect, trim: int | None = None) -> dict[str, Json]:
    """The record of a dead letter, with its run: `body` is the initial payload, `url` the workflow's."""
    run = log.recorded.run
    shown = RunContent(log.recorded.run.options.redaction, trim)
    view = views.dead_letter(entry, trim)
    view.pop("bodyBase64", None)
    body = shown.bytes(log.recorded.summary.payload)
    return {
        **view,
        "url": run.url,
        "header": {**shown.headers(delivered_headers(run.options)), **_configuration(run, dialect)},
        **({} if body is None else {"body": body}),
        **({"callerIp": view["callerIP"]} if "callerIP" in view else {}),
        "workflowRunId": run.run_id,
        "workflowCreatedAt": run.created_ms,
        "workflowUrl": run.url,
        **labels_of(run.options.labels),
        **_failure_callback(log, trim),
    }


def dead_letters_page(
    page: Page[tuple[DeadLetterEntry, RunLog]], dialect: Dialect, trim: int | None
) -> dict[str, Json]:
    """A page of them; `trim` cuts every body after so many bytes (D-387)."""
    letters = [dead_letter(entry, log, dialect, trim) for entry, log in page.items]
    return present({"messages": letters, "cursor": page.cursor})


def _configuration(run: WorkflowRun, dialect: Dialect) -> dict[str, Json]:
    """The configuration headers of the request that began the run, as the service would read them again (D-532)."""
    options, flow = run.options, run.options.flow_control
    limits = {}
    if flow is not None:
        limits = {"parallelism": flow.parallelism, "rate": flow.rate, "period": f"{flow.period_ms // 1000}s"}
    values = {
        "workflow-runid": run.run_id,
        "workflow-init": "true",
        "workflow-url": run.url,
        "feature-set": ",".join(options.workflow.features) if options.workflow is not None else "",
        "method": None if options.method is None else options.method.value,
        "delay": None if options.delay_ms is None else format_duration(options.delay_ms),
        "not-before": None if options.not_before_ms is None else options.not_before_ms // 1000,
        "timeout": None if options.timeout_ms is None else format_duration(options.timeout_ms),
        "retries": options.max_retries,
        "retry-delay": options.retry_delay,
        "failure-callback": None if options.failure_callback is None else options.failure_callback.url,
        "label": ",".join(options.labels),
        "flow-control-key": None if flow is None else flow.key,
        "flow-control-value": ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None),
    }
    return {dialect.header(suffix): [str(value)] for suffix, value in values.items() if value not in (None, "")}


def _failure_callback(log: RunLog, trim: int | None) -> dict[str, Json]:
    """Where the call of the failure function stands, and what it was answered."""
    call = log.failure
    if call is None:
        return {}
    shown, state = RunContent(log.recorded.run.options.redaction, trim).of(call), callback_state(call)
    answer = last_response(call)
    info: dict[str, Json] = {"state": state}
    if answer is not None:
        info |= {
            "responseStatus": answer.status,
            "responseBody": shown.bytes(answer.body),
            "responseHeaders": shown.headers(answer.headers),
        }
    return {"failureCallback": call.message.url, "failureCallbackInfo": present(info), "failureFunctionState": state}
