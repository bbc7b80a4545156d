"""The rows that a group of facts adds to history, and the statements that write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from emulator.journal import schema, tables
from emulator.journal.checksums import checked
from emulator.journal.meters import UsageRow

Row = tuple[object, ...]


@dataclass(slots=True)
class Rows:
    """What one group of facts adds to each history table, and which dead letters it removes."""

    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    annotations: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    annotations_on_dead_letters: list[Row] = field(default_factory=list)
    removed_dead_letters: list[Row] = field(default_factory=list)
    workflow_runs: list[Row] = field(default_factory=list)
    workflow_ends: list[Row] = field(default_factory=list)
    workflow_steps: list[Row] = field(default_factory=list)
    replaced_steps: list[Row] = field(default_factory=list)
    workflow_messages: list[Row] = field(default_factory=list)
    workflow_waits: list[Row] = field(default_factory=list)
    workflow_minutes: list[UsageRow] = field(default_factory=list)
    usage_minutes: list[UsageRow] = field(default_factory=list)

    def writes(self) -> Iterator[tuple[str, list[Row] | list[UsageRow]]]:
        """Each statement with its rows, in the order in which they must run."""
        for name, statement in WRITES.items():
            rows = getattr(self, name)
            if rows:
                yield statement, _COMPLETED[name](rows) if name in _COMPLETED else rows


# The statement for each field of `Rows`. Dead letters are annotated before they are removed.
WRITES = {
    "messages": tables.MESSAGES.insert_checked,
    "events": tables.EVENTS.insert_checked,
    "attempts": tables.ATTEMPTS.insert_checked,
    "annotations": tables.ANNOTATIONS.insert,
    "dead_letters": tables.DEAD_LETTERS.insert,
    "annotations_on_dead_letters": schema.INSERT_ANNOTATIONS_ON_DEAD_LETTERS,
    "removed_dead_letters": schema.DELETE_DEAD_LETTERS,
    "workflow_runs": tables.WORKFLOW_RUNS.write,
    "workflow_ends": tables.WORKFLOW_ENDS.insert,
    "workflow_steps": tables.WORKFLOW_STEPS.insert,
    "replaced_steps": schema.DELETE_STEPS_BEFORE,
    "workflow_messages": tables.WORKFLOW_MESSAGES.insert,
    "workflow_waits": tables.WORKFLOW_WAITS.insert,
    "workflow_minutes": tables.WORKFLOW_MINUTES.write_checked,
    "usage_minutes": tables.USAGE_MINUTES.write_checked,
}


# What adds the checksums to the rows of those that every message writes to.
_COMPLETED: dict[str, Callable[[list[Any]], list[Row]]] = {
    "messages": checked,
    "events": checked,
    "attempts": checked,
    "usage_minutes": checked,
    "workflow_minutes": checked,
}
