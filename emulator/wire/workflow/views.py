"""The records of workflow runs as JSON."""

from __future__ import annotations

from base64 import b64encode

from emulator.core.workflows import WorkflowRun
from emulator.wire.json_fields import Json


def steps(run: WorkflowRun) -> Json:
    """The steps of a run, as its endpoint gets them: bodies in base64."""
    return [
        {"messageId": step.message_id, "body": b64encode(step.body).decode(), "callType": step.call_type.value}
        for step in run.steps
    ]


def cancelled(count: int) -> Json:
    return {"cancelled": count}
