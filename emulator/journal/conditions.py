"""Conditions on the rows of history, pages of them, and the messages that they hold.

Filters become `?` parameters of fixed conditions; no text of a user's ever enters a statement.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.core.language.text import excerpt
from emulator.core.model.messages import Message
from emulator.journal import codec, schema
from emulator.journal.rows import Row
from emulator.queries.history import DeadLetterQuery, EventQuery, HistoryFilter, Page

T = TypeVar("T")

# A page of a list holds so many bytes of bodies and answers, and one entry at least (D-562).
PAGE_BODY_BYTES = 16 * 1024 * 1024

_NOT_ENDED = """NOT EXISTS (
    SELECT 1 FROM events AS last WHERE last.number = events.number AND last.state IN ('DELIVERED', 'FAILED', 'CANCELED')
)"""
# One of a row's labels, which are a JSON list, is among those given.
LABELS = "EXISTS (SELECT 1 FROM json_each({table}.labels) WHERE value IN (SELECT value FROM json_each(?)))"
_LABELS, _RUN_LABELS = (LABELS.format(table=table) for table in ("messages", "workflow_runs"))

_PART_OF_A_LABEL = "EXISTS (SELECT 1 FROM json_each({table}.labels) WHERE instr(lower(value), lower(?)))"
# Nothing that a redaction hides (D-645). Each has its parameter three times.
_RUN_TEXT = f"""(
    instr(lower(workflow_runs.run_id), lower(?)) OR instr(lower(workflow_runs.url), lower(?))
    OR {_PART_OF_A_LABEL.format(table="workflow_runs")}
)"""
_TEXT = f"""(
    instr(lower(messages.message_id), lower(?)) OR instr(lower(messages.url), lower(?))
    OR {_PART_OF_A_LABEL.format(table="messages")} OR messages.number IN (%s)
)"""
# The messages of runs for which a condition holds: a statement within others, which is run once.
_OF_RUNS = """
SELECT number FROM workflow_messages WHERE run_number IN (SELECT run_number FROM workflow_runs WHERE %s)
"""
_TEXT %= _OF_RUNS % f"instr(lower(run_id), lower(?)) OR {_PART_OF_A_LABEL.format(table='workflow_runs')}"


@dataclass(slots=True)
class Conditions:
    """Conditions that hold together, and their parameters in order."""

    texts: list[str] = field(default_factory=list)
    parameters: list[object] = field(default_factory=list)

    def add(self, text: str, *parameters: object) -> None:
        self.texts.append(text)
        self.parameters += parameters

    def given(self, text: str, value: object) -> None:
        """A condition of one parameter; no value, no condition."""
        if value is not None:
            self.add(text, value)

    def among(self, column: str, values: Sequence[object]) -> None:
        """The column has one of the values; no values, no condition."""
        if values:
            # One parameter, however many values: SQLite limits the number of parameters.
            self.add(f"{column} IN (SELECT value FROM json_each(?))", json.dumps(list(values)))

    def of_states(self, query: EventQuery) -> None:
        """Entries of certain states, or of messages that have not ended, or both (D-013)."""
        if not query.in_progress:
            self.among("events.state", query.states)
        elif query.states:
            self.add(f"(events.state IN (SELECT value FROM json_each(?)) OR {_NOT_ENDED})", json.dumps(query.states))
        else:
            self.add(_NOT_ENDED)

    def of_message(self, query: EventQuery | DeadLetterQuery) -> None:
        """What both listings can ask of the message of an entry."""
        if query.message_ids:
            self.of_ids(query.message_ids)
        for column, values in (
            ("url", query.urls),
            ("url_group", query.url_groups),
            ("schedule_id", query.schedule_ids),
            ("queue", query.queues),
            ("flow_key", query.flow_keys),
            ("caller_ip", query.caller_ips),
        ):
            self.among(f"messages.{column}", values)
        if query.labels:
            self.add(_LABELS, json.dumps(list(query.labels)))

    def of_ids(self, message_ids: Sequence[str]) -> None:
        """Messages with certain ids."""
        self.add(f"messages.number IN ({schema.NUMBERS_OF})", json.dumps(list(message_ids)))

    def of_url(self, url: str, table: str = "messages") -> None:
        """Messages or runs of a URL, exact or a glob."""
        if "*" in url:
            # Our globs know `*` only; SQLite's other wildcards are taken literally.
            self.add(f"{table}.url GLOB ?", "".join(f"[{char}]" if char in "?[" else char for char in url))
        else:
            self.add(f"{table}.url = ?", url)

    def of_end(self, end: str, *ids: str) -> None:
        """What has a text, or one that ends so, in one of some columns."""
        ends = " OR ".join(f"substr({column}, -length(?)) = ?" for column in ids)
        self.add(f"({ends})", *[end] * 2 * len(ids))

    def matching_runs(self, wanted: HistoryFilter) -> None:
        """Runs that a listing of the control API asks for."""
        if wanted.url is not None:
            self.of_url(wanted.url, "workflow_runs")
        if wanted.label is not None:
            self.add(_RUN_LABELS, json.dumps([wanted.label]))
        if wanted.id is not None:
            self.of_end(wanted.id, "workflow_runs.run_id")
        if wanted.text is not None:
            self.add(_RUN_TEXT, *[wanted.text] * 3)

    def matching(self, wanted: HistoryFilter, *ids: str, runs: bool = False) -> None:
        """Messages that a listing of the control API asks for. The columns `ids` hold what its `id` may mean.

        With `runs`, a label is also that of the run of a message, which the statement has.
        """
        if wanted.url is not None:
            self.of_url(wanted.url)
        if wanted.label is not None:
            labels = f"({_LABELS} OR {_RUN_LABELS})" if runs else _LABELS
            self.add(labels, *[json.dumps([wanted.label])] * (1 + runs))
        self.given("messages.schedule_id = ?", wanted.schedule_id)
        self.given("messages.queue = ?", wanted.queue)
        if wanted.id is not None:
            self.of_end(wanted.id, *ids)
        if wanted.text is not None:
            self.add(_TEXT, *[wanted.text] * 5)
        self.given(f"messages.number IN ({_OF_RUNS % 'run_id = ?'})", wanted.run)

    @property
    def text(self) -> str:
        """All conditions; true without any."""
        return " AND ".join(self.texts) or "TRUE"


# Large messages are read again each time: what memory holds must not grow with what has happened.
_CACHED_BYTES = 4_096


@lru_cache(maxsize=1024)
def _small_message(definition: bytes) -> Message:
    return codec.decode_message(definition)


def message_of(definition: bytes) -> Message:
    """The message of a row."""
    if len(definition) <= _CACHED_BYTES:
        return _small_message(definition)
    return codec.decode_message(definition)


def continue_after(
    conditions: Conditions, column: str, cursor: str | None, *, latest_first: bool, instant: str | None = None
) -> None:
    """Continue after the last entry of the page before; the first part of a cursor is for people.

    With the column `instant`, a cursor of milliseconds alone begins with the entries of that instant (D-526).
    """
    if cursor is None:
        return
    if instant is not None and cursor.isascii() and cursor.isdigit() and len(cursor) < 19:
        conditions.add(f"{instant} <= ?" if latest_first else f"{instant} >= ?", int(cursor))
        return
    at, _, seq = cursor.partition("-")
    if not (at.isascii() and at.isdigit() and seq.isascii() and seq.isdigit() and len(seq) < 19):
        raise InvalidInput("cursor", f"expected the cursor of an earlier answer, got {cursor[:40]!r}")
    conditions.add(f"{column} < ?" if latest_first else f"{column} > ?", int(seq))


class BulkRange:
    """The rows that the pages of one bulk operation have together, by their position in history (D-781).

    Its cursors are `<ms>-<position>-<end>-<check>`: where the last page ended, and the last position that was there
    before the first page. The check tells cursors of other filters, and such as were changed.
    """

    def __init__(self, query: DeadLetterQuery, last_position: int) -> None:
        """Raises InvalidInput for a cursor that is not of an earlier page of the same operation."""
        self._filters = msgspec.json.encode(replace(query, cursor=None, count=0))
        self._latest_first = query.latest_first
        self._after: int | None = None
        self._end = last_position
        if query.cursor is not None:
            numbers = query.cursor.split("-")
            if len(numbers) == 4 and all(each.isascii() and each.isdigit() and len(each) <= 16 for each in numbers):
                at_ms, self._after, self._end = map(int, numbers[:3])
            if self._after is None or self.cursor(at_ms, self._after) != query.cursor:
                raise InvalidInput(
                    "cursor",
                    f"expected the cursor of the page before, with the same filters, got {excerpt(query.cursor)}",
                )

    def limit(self, conditions: Conditions, column: str) -> None:
        """The conditions of the next page."""
        conditions.add(f"{column} <= ?", self._end)
        if self._after is not None:
            conditions.add(f"{column} < ?" if self._latest_first else f"{column} > ?", self._after)

    def cursor(self, at_ms: int, position: int) -> str:
        """The cursor after a page that ends with this entry."""
        place = f"{at_ms}-{position}-{self._end}"
        check = blake2b(place.encode() + b"/" + self._filters, digest_size=6, person=b"bulk cursor").digest()
        return f"{place}-{int.from_bytes(check)}"


def first_rows(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> tuple[list[Row], bool]:
    """The rows of a statement, but of long rows no more than fill a page and one behind it (D-562).

    The flag tells whether there may be more rows than those.
    """
    rows: list[Row] = []
    size = 0
    for row in connection.execute(statement, parameters):
        rows.append(row)
        if size > PAGE_BODY_BYTES:
            return rows, True
        size += sum([len(value) for value in row if type(value) is bytes])
    return rows, False


def count_in_page(items: Iterable[T], size_of: Callable[[T], int]) -> int:
    """How many of the first items a page has place for, by the bytes of their bodies; one at least (D-562)."""
    size = count = 0
    for item in items:
        # No further size is computed than one that is too much.
        size += size_of(item)
        if size > PAGE_BODY_BYTES:
            break
        count += 1
    return max(1, count)


def page_of(found: list[T], count: int, cursor_of: Callable[[T], str]) -> Page[T]:
    """The first `count` of what was found; if there is more, with the cursor of the last."""
    has_more = len(found) > count
    items = tuple(found[:count])
    return Page(items=items, cursor=cursor_of(items[-1]) if has_more and items else None)
