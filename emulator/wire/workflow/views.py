"""The records of workflow runs as JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

import msgspec

from emulator.core.replies import NotifiedWaiter, TriggeredRun
from emulator.core.rules.workflows.ending import completed
from emulator.core.rules.workflows.waiting import TIMED_OUT
from emulator.core.workflows import ListedHeaders, Waiter, WorkflowRun
from emulator.wire.json_fields import Json


def steps(run: WorkflowRun) -> Json:
    """The steps of a run, as its endpoint gets them: bodies in base64."""
    return [
        {"messageId": step.message_id, "body": b64encode(step.body).decode(), "callType": step.call_type.value}
        for step in run.steps
    ]


def cancelled(count: int) -> Json:
    """How many runs were cancelled."""
    return {"cancelled": count}


def waiter(waiter: Waiter) -> dict[str, Json]:
    """Who waits for an event; the deadline is a Unix second, rounded up."""
    return {
        "url": waiter.url,
        "headers": _headers(waiter.headers),
        "deadline": -(-waiter.deadline_ms // 1000),
        "timeoutUrl": waiter.timeout_url,
        "timeoutBody": msgspec.json.decode(completed(waiter.step, TIMED_OUT)),
        "timeoutHeaders": _headers(waiter.timeout_headers),
    }


def _headers(headers: ListedHeaders) -> dict[str, Json]:
    return {name: list(values) for name, values in headers}


def waiters(found: Iterable[Waiter]) -> Json:
    """All who wait for an event, in the order of waiting."""
    return [waiter(each) for each in found]


def notified(found: Iterable[NotifiedWaiter]) -> Json:
    """One entry for each waiter that an event resumed, also if the event was for one run (D-369)."""
    return [
        {
            "waiter": waiter(each.waiter),
            "messageId": each.message_id,
            "error": "",
            "workflowRunId": each.run_id,
            "workflowCreatedAt": each.run_created_ms,
        }
        for each in found
    ]


def triggered(run: TriggeredRun) -> dict[str, Json]:
    """A run that was started; `deduplicated` only if its id was active already."""
    view: dict[str, Json] = {"workflowRunId": run.run_id, "workflowCreatedAt": run.created_ms}
    if run.deduplicated:
        view["deduplicated"] = True
    return view


def begun_again(runs: Iterable[TriggeredRun], cursor: str | None) -> Json:
    """The runs that failed ones became; an empty cursor on the last page, as clients expect it here."""
    return {"workflowRuns": [triggered(run) for run in runs], "cursor": cursor or ""}
