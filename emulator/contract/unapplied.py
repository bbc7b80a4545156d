"""Options that the emulator takes and does not apply, which strict mode refuses.

A queue does not apply some (D-021), runs are in no queue (D-325), and only a schedule has an id of
its own (D-074).
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.contract.document import items, table, text
from emulator.core.record import Record
from emulator.core.rules.options import ignored_by_queues
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.messaging.run_options import RUN_ID
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
    """The options that do not apply to queued messages, and the queues of messages that are in none."""
    if operation_id == BATCH:
        for number, entry in enumerate(items(body)):
            item = table(entry)
            given = {name.lower() for name, value in table(item.get("headers")).items() if text(value).strip()}
            queue = "queue" if text(item.get("queue")) else None
            yield from _with_queue(operation_id, given, queue, f"[{number}].", dialect)
    elif operation_id in (ENQUEUE, PUBLISH, SCHEDULE):
        given = {name.lower() for name, value in (*parts.headers, *parts.query) if value.strip()}
        yield from _with_queue(operation_id, given, "queueName" if operation_id == ENQUEUE else None, "", dialect)


def _with_queue(
    operation_id: str, given: set[str], queue: str | None, place: str, dialect: Dialect
) -> Iterator[Ignored]:
    """What does not apply if a queue is named: by the field `queue`, or by a header."""
    header = dialect.header("queue-name")
    if queue is None and header.lower() not in given:
        return
    if operation_id == SCHEDULE or dialect.header(RUN_ID).lower() not in given:
        yield from _ignored(operation_id, given, place, dialect)
        return
    field, what = (f"{place}{queue}",) * 2 if queue is not None else _header(header, place)
    yield Ignored(field=field, what=what, why="does not apply to messages of a workflow run", is_of_operation=True)


def _ignored(operation_id: str, given: set[str], place: str, dialect: Dialect) -> Iterator[Ignored]:
    for headers in ignored_by_queues(keeps_delay=operation_id == SCHEDULE).values():
        for header in map(dialect.rename_field_at_fault, headers):
            if header.lower() in given:
                field, what = _header(header, place)
                yield Ignored(
                    field=field,
                    what=what,
                    why="does not apply to queued messages",
                    is_of_operation=operation_id != ENQUEUE,
                )


def _header(header: str, place: str) -> tuple[str, str]:
    """A header as a field, and as a line names it."""
    return (f"{place}headers.{header}", f"{place}headers: header {header}") if place else (header, f"header {header}")
