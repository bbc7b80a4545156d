"""The entries of history that were written last, in memory, for those who follow it.

To read each of them from the database again costs about as much as to write it. Nothing is kept
unless somebody has asked lately.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

from emulator.journal.rows import Rows

Row: TypeAlias = tuple[Any, ...]

# Groups of facts after which nobody follows any more, if nobody has asked meanwhile.
_KEPT_FOR_GROUPS = 16
# Messages and outcomes that are kept at most, beyond the group that was written last.
_MOST_BYTES = 4 * 1024 * 1024


class Found(NamedTuple):
    """Rows as the statement that reads history gives them, and the messages that are known, by their numbers."""

    rows: list[Row]
    definitions: dict[int, bytes]


class Latest:
    """The entries of the last groups of facts: every one from the first to the last of them."""

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
        for row in cast(list[Row], written.messages):
            self._definitions[row[0]] = row[-1]
            self._bytes += len(row[-1])
        self._bytes += sum(len(row[-2]) for row in cast(list[Row], written.attempts))


def _entries(written: Rows) -> dict[int, Row]:
    """Events and attempts as the statement gives them that reads both, by their numbers."""
    rows: dict[int, Row] = {}
    outcomes: dict[int | None, bytes | None] = {None: None}
    for seq, number, attempt, started_ms, finished_ms, _, _, outcome, rule in cast(list[Row], written.attempts):
        outcomes[seq] = outcome
        rows[seq] = (seq, number, started_ms, finished_ms, attempt, None, None, outcome, rule, 1)
    for seq, number, at_ms, state, attempt_seq, next_ms in cast(list[Row], written.events):
        # The attempt that an event is about is of the same group.
        rows[seq] = (seq, number, at_ms, None, None, state, next_ms, outcomes[attempt_seq], None, 1)
    return rows
