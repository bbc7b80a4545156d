"""The rows that a group of facts adds to history: writing them, dropping the oldest, and following the newest."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from emulator.core.world_setup import Keep
from emulator.journal import schema
from emulator.journal.meters import UsageRow
from emulator.queries.history import Dropped

Row: TypeAlias = tuple[Any, ...]


# In what is declared of a field: the statement that writes its rows.
_BY = "statement"


@dataclass(slots=True)
class Rows:
    """What one group of facts adds to history, each with the statement that writes it, in the order of writing."""

    messages: list[Row] = field(default_factory=list, metadata={_BY: schema.MESSAGES.insert})
    events: list[Row] = field(default_factory=list, metadata={_BY: schema.EVENTS.insert})
    attempts: list[Row] = field(default_factory=list, metadata={_BY: schema.ATTEMPTS.insert})
    annotations: list[Row] = field(default_factory=list, metadata={_BY: schema.ANNOTATIONS.insert})
    dead_letters: list[Row] = field(default_factory=list, metadata={_BY: schema.DEAD_LETTERS.insert})
    # Dead letters are annotated before they are removed.
    annotations_on_dead_letters: list[Row] = field(
        default_factory=list, metadata={_BY: schema.INSERT_ANNOTATIONS_ON_DEAD_LETTERS}
    )
    removed_dead_letters: list[Row] = field(default_factory=list, metadata={_BY: schema.DELETE_DEAD_LETTERS})
    workflow_runs: list[Row] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_RUNS.write})
    workflow_ends: list[Row] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_ENDS.insert})
    workflow_steps: list[Row] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_STEPS.insert})
    replaced_steps: list[Row] = field(default_factory=list, metadata={_BY: schema.DELETE_STEPS_BEFORE})
    workflow_messages: list[Row] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_MESSAGES.insert})
    workflow_waits: list[Row] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_WAITS.insert})
    workflow_minutes: list[UsageRow] = field(default_factory=list, metadata={_BY: schema.WORKFLOW_MINUTES.write})
    usage_minutes: list[UsageRow] = field(default_factory=list, metadata={_BY: schema.USAGE_MINUTES.write})

    def write(self, connection: sqlite3.Connection) -> None:
        """Write them all. Call within a transaction. Raises sqlite3.Error."""
        for name, statement in WRITES.items():
            if rows := getattr(self, name):
                insert_many(connection, statement, rows)


WRITES: dict[str, str] = {each.name: each.metadata[_BY] for each in fields(Rows)}

# Enough that the waiting is no matter. The text of the statement and its program grow with it.
_ROWS = 500
# SQLite's own limit, if its build sets no other.
_MOST_PARAMETERS = 32_766 if sqlite3.sqlite_version_info >= (3, 32) else 999
_ONE_ROW = re.compile(r"(?<= VALUES )\((?:\?, )*\?\)")


def insert_many(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Run an insertion of one row for each of `rows`, which are not empty. Raises sqlite3.Error."""
    if not _ONE_ROW.search(statement):
        connection.executemany(statement, rows)
        return
    at_once = min(_ROWS, _MOST_PARAMETERS // len(rows[0]))
    whole = len(rows) - len(rows) % at_once
    for first in range(0, whole, at_once):
        is_given, values = _values(rows[first : first + at_once])
        connection.execute(_of_many(statement, at_once, is_given), tuple(chain.from_iterable(values)))
    if whole < len(rows):
        is_given, values = _values(rows[whole:])
        connection.executemany(_of_many(statement, 1, is_given), values)


def _values(rows: Sequence[Sequence[object]]) -> tuple[tuple[bool, ...], list[tuple[object, ...]]]:
    """Which columns have a value in any of these rows, and the values of those columns, row by row.

    The sqlite3 module looks for an adapter of every None and of all bytes that it binds, and raises and drops two
    errors for each: that takes longer than the insertion. A NULL in the statement and a bytearray need none.
    """
    columns = list(zip(*rows, strict=True))
    is_given = tuple(column.count(None) < len(rows) for column in columns)
    given = [column for column, is_there in zip(columns, is_given, strict=True) if is_there]
    values = list(zip(*(_as_blobs(each) if type(each[0]) is bytes else each for each in given), strict=True))
    return is_given, values or [()] * len(rows)


def _as_blobs(column: Iterable[object]) -> Iterable[object]:
    return [bytearray(value) if isinstance(value, bytes) else value for value in column]


@lru_cache(maxsize=64)
def _of_many(statement: str, count: int, is_given: tuple[bool, ...]) -> str:
    one = f"({', '.join('?' if each else 'NULL' for each in is_given)})"
    return _ONE_ROW.sub(", ".join([one] * count), statement)


# -- dropping -----------------------------------------------------------------------------------

# History is dropped in groups: a quarter of what is kept, and no more than so many entries at a time.
_GROUPS = 4
_LARGEST_GROUP = 50_000


def drop_oldest(
    connection: sqlite3.Connection, keep: Keep, dropped: int, last: int, live: Callable[[], Iterable[int]]
) -> Dropped | None:
    """Drop what is more than is to be kept of a history with the entries `dropped` + 1 to `last`; None if nothing is.

    Where it ends follows from the entries alone, so that the same history is cut in the same place
    whenever it is written. Messages that are live, given by their numbers, and those in the dead
    letter queue stay whole. Call within a transaction.
    """
    end, group = dropped, _group(keep)
    if keep.entries is not None and last - keep.entries - end >= group:
        end += (last - keep.entries - end) // group * group
    if keep.age_ms is not None:
        oldest_ms = _time_of(connection, last) - keep.age_ms
        while end + group <= last and _time_of(connection, end + group) < oldest_ms:
            end += group
    if end == dropped:
        return None
    ends_ms = _time_of(connection, end)
    connection.execute(schema.FIND_DROPPED, (end, end, json.dumps(list(live()))))
    for statement, parameters in schema.DROP.items():
        connection.execute(statement, (end,) * parameters)
    return Dropped(seq=end, at_ms=ends_ms)


def _group(keep: Keep) -> int:
    """How many entries are dropped at a time."""
    return max(1, min(_LARGEST_GROUP, (_LARGEST_GROUP if keep.entries is None else keep.entries) // _GROUPS))


def _time_of(connection: sqlite3.Connection, seq: int) -> int:
    """The instant of an entry, or of the one before it."""
    row = connection.execute(schema.SELECT_TIME_OF_ENTRY, (seq,)).fetchone()
    return 0 if row is None else int(row[0])


# -- following ----------------------------------------------------------------------------------

# Groups of facts after which rows are no longer kept, if there was no query meanwhile.
_KEPT_FOR_GROUPS = 16
# Messages and outcomes that are kept at most, beyond the group that was written last.
_MOST_BYTES = 4 * 1024 * 1024


class Found(NamedTuple):
    """Rows as the statement that reads history gives them, and the messages that are known, by their numbers."""

    rows: list[Row]
    definitions: dict[int, bytes]


class Latest:
    """The entries of the last groups of facts, in memory: every one from the first to the last of them.

    For those who follow history: to read each entry from the database again costs about as much as to write it.
    Nothing is kept unless somebody has asked lately.
    """

    def __init__(self) -> None:
        self._groups_to_keep = 0
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[int, Row] = {}
        self._definitions: dict[int, bytes] = {}
        self._bytes = 0
        self._first = self._last = 0

    def since(self, seq: int, count: int) -> Found | None:
        """The next `count` entries after entry `seq`, fewer if there are no more; None if they are not all here."""
        self._groups_to_keep = _KEPT_FOR_GROUPS
        if not (self._rows and self._first - 1 <= seq <= self._last):
            return None
        rows = [self._rows[each] for each in range(seq + 1, min(seq + count, self._last) + 1)]
        return Found(rows, self._definitions)

    def take(self, written: Rows) -> None:
        """The rows of a group of facts, once they are durable."""
        if not self._groups_to_keep:
            return
        self._groups_to_keep -= 1
        if not self._groups_to_keep or self._bytes > _MOST_BYTES:
            self._forget()
        rows = _entries(written) if self._groups_to_keep else {}
        if not rows:
            return
        first = min(rows)
        if first != self._last + 1:
            self._forget()
            self._first = first
        self._rows |= rows
        self._last = max(rows)
        for row in written.messages:
            self._definitions[row[0]] = row[-1]
            self._bytes += len(row[-1])
        self._bytes += sum(len(row[-2]) for row in written.attempts)


def _entries(written: Rows) -> dict[int, Row]:
    """Events and attempts as the statement gives them that reads both, by their numbers."""
    rows: dict[int, Row] = {}
    outcomes: dict[int | None, bytes | None] = {None: None}
    for seq, number, attempt, started_ms, finished_ms, _, _, outcome, rule in written.attempts:
        outcomes[seq] = outcome
        rows[seq] = (seq, number, started_ms, finished_ms, attempt, None, None, outcome, rule)
    for seq, number, at_ms, state, attempt_seq, next_ms in written.events:
        # The attempt that an event is about is of the same group.
        rows[seq] = (seq, number, at_ms, None, None, state, next_ms, outcomes[attempt_seq], None)
    return rows
