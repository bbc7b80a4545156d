"""Options that the emulator takes and does not apply, which strict mode refuses.

A queue does not apply some (D-021), and only a schedule has an id of its own (D-074).
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.contract.document import items, table, text
from emulator.core.record import Record
from emulator.core.rules.options import ignored_by_queues
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.parts import RequestParts

ENQUEUE, PUBLISH, SCHEDULE, BATCH = "enqueueMessage", "publishMessage", "createSchedule", "publishBatch"


class Ignored(Record):
    """An option that does not apply: the field of the request, how a line names it, and why it does not.

    `is_of_operation` says whether the contract has it for the operation.
    """

    field: str
    what: str
    why: str
    is_of_operation: bool


def ignored_options(operation_id: str, parts: RequestParts, body: Json, dialect: Dialect) -> Iterator[Ignored]:
    """The options in a request that do not apply; `body` is its JSON."""
    yield from _queued(operation_id, parts, body, dialect)
    yield from _schedule_ids(operation_id, parts, body, dialect)


def _schedule_ids(operation_id: str, parts: RequestParts, body: Json, dialect: Dialect) -> Iterator[Ignored]:
    """The ids for schedules where none is made."""
    given: list[tuple[str, str, str]] = []
    if operation_id == BATCH:
        for number, entry in enumerate(items(body)):
            headers = table(table(entry).get("headers")).items()
            given += [(f"[{number}].headers.", f"[{number}].headers: ", name) for name, value in headers if text(value)]
    elif operation_id in (ENQUEUE, PUBLISH):
        given += [("", "", name) for name, value in (*parts.headers, *parts.query) if value.strip()]
    header = dialect.header("schedule-id")
    for field, what, name in given:
        if name.lower() == header.lower():
            why = "does not apply to messages, which have no schedule"
            yield Ignored(field=field + header, what=f"{what}header {header}", why=why, is_of_operation=False)


def _queued(operation_id: str, parts: RequestParts, body: Json, dialect: Dialect) -> Iterator[Ignored]:
    """The options that do not apply to queued messages."""
    queue_name = f"{dialect.lower_prefix}queue-name"
    if operation_id == BATCH:
        for number, entry in enumerate(items(body)):
            item = table(entry)
            given = {name.lower() for name, value in table(item.get("headers")).items() if text(value).strip()}
            if text(item.get("queue")) or queue_name in given:
                yield from _ignored(operation_id, given, f"[{number}].", dialect)
    elif operation_id in (ENQUEUE, PUBLISH, SCHEDULE):
        given = {name.lower() for name, value in (*parts.headers, *parts.query) if value.strip()}
        if operation_id == ENQUEUE or queue_name in given:
            yield from _ignored(operation_id, given, "", dialect)


def _ignored(operation_id: str, given: set[str], place: str, dialect: Dialect) -> Iterator[Ignored]:
    for headers in ignored_by_queues(keeps_delay=operation_id == SCHEDULE).values():
        for header in map(dialect.rename_field_at_fault, headers):
            if header.lower() in given:
                yield Ignored(
                    field=f"{place}headers.{header}" if place else header,
                    what=f"{place}headers: header {header}" if place else f"header {header}",
                    why="does not apply to queued messages",
                    is_of_operation=operation_id != ENQUEUE,
                )
