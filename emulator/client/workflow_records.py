"""Workflow runs as the Python API shows them: the control API's JSON as records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from emulator.client.records import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """A step of a run.

    `type` is the client's word, such as Run or SleepFor, and `state` is STEP_SUCCESS, STEP_PROGRESS,
    STEP_RETRY, STEP_FAILED or STEP_CANCELED. It began at `at_ms` and was done at `ended_ms`, epoch ms of the
    virtual clock. `out` is its result: JSON's value, or the text that is none. `event_id` is what it waits for,
    `url` the third party that it calls, `run_id` the run that it invoked.
    """

    id: int
    name: str
    type: str
    state: str
    at_ms: int
    ended_ms: int | None
    out: Any
    parallel: bool
    message_id: str | None
    event_id: str | None = None
    url: str | None = None
    run_id: str | None = None

    @property
    def at(self) -> datetime:
        """When it began, in UTC."""
        return moment(self.at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """A run; `state` is RUN_STARTED, RUN_SUCCESS, RUN_FAILED or RUN_CANCELED.

    `payload` is the text that it began with, `result` the value that it returned. Of a run in a list, `steps`
    and `waiting` are empty and `summary` is None: `workflows.run(id)` has them.
    """

    id: str
    url: str
    state: str
    created_ms: int
    ended_ms: int | None
    labels: tuple[str, ...]
    payload: str
    result: Any
    dead_letter_id: str | None
    invoked_by: str | None
    steps: tuple[WorkflowStep, ...] = ()
    waiting: tuple[str, ...] = ()
    summary: str | None = None

    @property
    def created(self) -> datetime:
        """When it began, in UTC."""
        return moment(self.created_ms)


def read_run(answer: Mapping[str, Any]) -> WorkflowRun:
    """A run of the control API's JSON, with its steps but the payload's or without."""
    groups = answer.get("steps", [])[1:]
    return WorkflowRun(
        id=answer["id"],
        url=answer["url"],
        state=answer["state"],
        created_ms=answer["created_ms"],
        ended_ms=answer["ended_ms"],
        labels=tuple(answer["labels"]),
        payload=answer["payload"],
        result=_value(answer["result"]),
        dead_letter_id=answer["dead_letter_id"],
        invoked_by=answer["invoked_by"],
        steps=tuple(_step(step, parallel=group["parallel"]) for group in groups for step in group["steps"]),
        waiting=tuple(each["text"] for each in answer.get("waiting", ())),
        summary=answer.get("summary"),
    )


def _step(entry: Mapping[str, Any], *, parallel: bool) -> WorkflowStep:
    return WorkflowStep(
        id=entry["id"],
        name=entry["name"],
        type=entry["type"],
        state=entry["state"],
        at_ms=entry["at_ms"],
        ended_ms=entry["ended_ms"],
        out=_value(entry["out"]),
        parallel=parallel,
        message_id=entry["message_id"],
        event_id=entry.get("event_id"),
        url=entry.get("url"),
        run_id=entry.get("run_id"),
    )


def _value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
