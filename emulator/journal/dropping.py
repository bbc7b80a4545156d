"""Dropping the oldest history, so that a world that runs for long does not grow with what has happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from emulator.core.record import Record
from emulator.journal import schema
from emulator.journal.statements import Statements
from emulator.queries.history import Dropped

# History is dropped in groups: a quarter of what is kept, and no more than so many entries at a time.
_GROUPS = 4
_LARGEST_GROUP = 50_000


class Keep(Record):
    """How much of history is kept: so many of its newest entries, and what is not older than so long.

    Entries are events and attempts, about four a delivery; a group more of them may be there. None is
    without a limit. The age is counted in virtual time, from the newest entry.
    """

    entries: int | None = None
    age_ms: int | None = None

    @property
    def group(self) -> int:
        """How many entries are dropped at a time."""
        return max(1, min(_LARGEST_GROUP, (_LARGEST_GROUP if self.entries is None else self.entries) // _GROUPS))


KEEP_ALL = Keep()


async def drop(
    connection: Statements, keep: Keep, dropped: int, last: int, live: Callable[[], Iterable[int]]
) -> Dropped | None:
    """Drop what is more than is to be kept of a history with the entries `dropped` + 1 to `last`; None if nothing is.

    Where it ends follows from the entries alone, so that the same history is cut in the same place
    whenever it is written. Messages that are live, given by their numbers, and those in the dead
    letter queue stay whole. Call within a transaction.
    """
    end, group = dropped, keep.group
    if keep.entries is not None and last - keep.entries - end >= group:
        end += (last - keep.entries - end) // group * group
    if keep.age_ms is not None:
        oldest_ms = await _time_of(connection, last) - keep.age_ms
        while end + group <= last and await _time_of(connection, end + group) < oldest_ms:
            end += group
    if end == dropped:
        return None
    ends_ms = await _time_of(connection, end)
    await connection.execute(schema.FIND_DROPPED, (end, json.dumps(list(live()))))
    for statement, parameters in schema.DROP.items():
        await connection.execute(statement, (end,) * parameters)
    return Dropped(seq=end, at_ms=ends_ms)


async def _time_of(connection: Statements, seq: int) -> int:
    """The instant of an entry, or of the one before it."""
    for (at_ms,) in await connection.execute_fetchall(schema.SELECT_TIME_OF_ENTRY, (seq,)):
        return int(at_ms)
    return 0
