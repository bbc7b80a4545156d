"""Many rows by one statement: SQLite works on them without Python in between, so other threads can.

After each statement its thread needs Python's lock again, for which it may wait as long as some hundred rows take.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from emulator.journal.statements import Statements

# Enough that the waiting is no matter. The text of the statement and its program grow with it.
_ROWS = 500
# SQLite's own limit, if whoever built it chose none.
_MOST_PARAMETERS = 32_766 if sqlite3.sqlite_version_info >= (3, 32) else 999
_ONE_ROW = re.compile(r"(?<= VALUES )\((?:\?, )*\?\)")


async def insert(connection: Statements, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Run an insertion of one row for each of `rows`, which are not empty. Raises sqlite3.Error."""
    at_once = min(_ROWS, _MOST_PARAMETERS // len(rows[0]))
    whole = len(rows) - len(rows) % at_once if _ONE_ROW.search(statement) else 0
    for first in range(0, whole, at_once):
        values = tuple(chain.from_iterable(rows[first : first + at_once]))
        await connection.execute(_of_many(statement, at_once), values)
    if whole < len(rows):
        await connection.executemany(statement, rows[whole:])


@lru_cache(maxsize=64)
def _of_many(statement: str, count: int) -> str:
    return _ONE_ROW.sub(lambda found: ", ".join([found[0]] * count), statement)
