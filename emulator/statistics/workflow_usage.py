"""Statistics of an account's workflow runs: only what was recorded, nothing is invented (D-391)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec.structs import fields

from emulator.core.record import Record
from emulator.statistics.series import Window


class WorkflowUsage(Record):
    """What happened in runs in a stretch of time: messages that were made, runs that began or ended."""

    messages: int = 0
    started: int = 0
    success: int = 0
    failed: int = 0
    canceled: int = 0


WORKFLOW_FIELDS = tuple(field.name for field in fields(WorkflowUsage))
NO_USAGE = WorkflowUsage()


class WorkflowMetric(StrEnum):
    """The series of an account's runs (D-195)."""

    CANCELED = "canceled"
    STARTED = "started"
    SUCCESS = "success"
    FAILED = "failed"


class RecordedWorkflows(Record):
    """What was recorded: by point of a window (0 is the first) and by day; nothing where there was nothing."""

    points: Mapping[int, WorkflowUsage]
    days: Mapping[int, WorkflowUsage]


class WorkflowStatistics(Record):
    """The usage at each point of a window, and on each day of its month."""

    points: tuple[WorkflowUsage, ...]
    days: tuple[WorkflowUsage, ...]


def workflow_usage_of(counts: Sequence[int]) -> WorkflowUsage:
    """Counts in the order of `WORKFLOW_FIELDS`."""
    return WorkflowUsage(**dict(zip(WORKFLOW_FIELDS, counts, strict=True)))


def workflow_statistics(window: Window, recorded: RecordedWorkflows) -> WorkflowStatistics:
    """What was recorded at the points of a window and on the days of its month."""
    return WorkflowStatistics(
        points=tuple(recorded.points.get(index, NO_USAGE) for index in range(window.period.points)),
        days=tuple(recorded.days.get(day, NO_USAGE) for day in window.month.days),
    )
