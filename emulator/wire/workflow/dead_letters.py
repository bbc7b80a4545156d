"""Dead letters of workflow runs as JSON. Source: the workflow reference, 9; decision D-389."""

from __future__ import annotations

from emulator.queries.history import DeadLetterEntry, Page
from emulator.queries.workflow_steps import RunLog
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views
from emulator.wire.workflow.logs import callback_state, last_response, shown_of


def dead_letter(entry: DeadLetterEntry, log: RunLog) -> dict[str, Json]:
    """The record of a dead letter, with its run: `body` is the initial payload, `url` the workflow's."""
    run = log.recorded.run
    shown = shown_of(log)
    view = views.dead_letter(entry)
    view.pop("bodyBase64", None)
    return {
        **view,
        "url": run.url,
        "body": shown.bytes(log.recorded.summary.payload) or "",
        "workflowRunId": run.run_id,
        "workflowCreatedAt": run.created_ms,
        "workflowUrl": run.url,
        **_labels(run.options.labels),
        **_failure_callback(log),
    }


def dead_letters_page(page: Page[tuple[DeadLetterEntry, RunLog]]) -> dict[str, Json]:
    """A page of them."""
    cursor: dict[str, Json] = {} if page.cursor is None else {"cursor": page.cursor}
    return {"messages": [dead_letter(entry, log) for entry, log in page.items], **cursor}


def _labels(labels: tuple[str, ...]) -> dict[str, Json]:
    return {"label": labels[0], "labels": list(labels)} if labels else {}


def _failure_callback(log: RunLog) -> dict[str, Json]:
    """Where the call of the failure function stands, and what it was answered."""
    call = log.failure
    if call is None:
        return {}
    shown, state = shown_of(log), callback_state(call)
    info: dict[str, Json] = {"state": state}
    answer = last_response(call)
    if answer is not None:
        info |= {
            "responseStatus": answer.status,
            "responseBody": shown.bytes(answer.body),
            "responseHeaders": shown.headers(answer.headers),
        }
    return {"failureCallback": call.message.url, "failureCallbackInfo": info, "failureFunctionState": state}
