"""Options that a queue does not apply: the emulator takes them, and strict mode refuses them (D-021)."""

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
    """An option of a queued message that does not apply to it: the field of the request, and how a line names it."""

    field: str
    what: str


def ignored_options(operation_id: str, parts: RequestParts, body: Json, dialect: Dialect) -> Iterator[Ignored]:
    """The options in a request that do not apply to its queued messages; `body` is its JSON."""
    queue_name = f"{dialect.lower_prefix}queue-name"
    if operation_id == BATCH:
        for number, entry in enumerate(items(body)):
            item = table(entry)
            given = {name.lower() for name, value in table(item.get("headers")).items() if text(value).strip()}
            if text(item.get("queue")) or queue_name in given:
                yield from _ignored(given, f"[{number}].", dialect, keeps_delay=False)
    elif operation_id in (ENQUEUE, PUBLISH, SCHEDULE):
        given = {name.lower() for name, value in (*parts.headers, *parts.query) if value.strip()}
        if operation_id == ENQUEUE or queue_name in given:
            yield from _ignored(given, "", dialect, keeps_delay=operation_id == SCHEDULE)


def _ignored(given: set[str], place: str, dialect: Dialect, *, keeps_delay: bool) -> Iterator[Ignored]:
    for headers in ignored_by_queues(keeps_delay=keeps_delay).values():
        for header in map(dialect.rename_field_at_fault, headers):
            if header.lower() in given and place:
                yield Ignored(field=f"{place}headers.{header}", what=f"{place}headers: header {header}")
            elif header.lower() in given:
                yield Ignored(field=header, what=f"header {header}")
