"""Writing history: the rows that facts make of it, and the end of the oldest."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from emulator.core.facts import Fact
from emulator.core.state_view import StateView
from emulator.journal import bulk, codec, schema
from emulator.journal.dropping import KEEP_ALL, Keep, drop
from emulator.journal.latest import Latest
from emulator.journal.projection import Projector, Rows
from emulator.journal.statements import Statements
from emulator.queries.history import Dropped

logger = logging.getLogger(__name__)

# Entries.
_SHORT = 1_000


class HistoryWriter:
    """What history has come to, and what continues it. `dropped` tells of its oldest part, `latest` has its newest.

    `last_seq` is its last entry that is durable.
    """

    def __init__(self, keep: Keep = KEEP_ALL) -> None:
        self.last_seq = 0
        self.dropped = Dropped()
        self.latest = Latest()
        self._keep = keep
        self._projector = Projector(0)

    def begin(self, state: StateView) -> None:
        """Begin the history of a new world."""
        self._projector.seed(state)

    def go_on(self, projector: Projector, dropped: Dropped) -> None:
        """Go on from a history that is there."""
        self._projector, self.dropped, self.last_seq = projector, dropped, projector.seq

    def go_on_like(self, other: HistoryWriter) -> None:
        """Go on by itself from a copy of another history."""
        self.go_on(other._projector.copy(), other.dropped)

    @property
    def is_short(self) -> bool:
        """Whether any part of it is read in less time than the way to another thread takes, or little more."""
        return self.last_seq - self.dropped.seq <= _SHORT

    @property
    def live_messages(self) -> int:
        """How many messages it has to remember."""
        return len(self._projector)

    async def write(self, connection: Statements, facts: Sequence[Fact]) -> Rows:
        """Write what a group of facts adds, and drop what is more than is to be kept. Call within a transaction.

        The rows are for `written`.
        """
        made = self._projector.rows_of(facts)
        for statement, rows in made.writes():
            await bulk.insert(connection, statement, rows)
        await self._drop_oldest(connection)
        return made

    def written(self, rows: Rows) -> None:
        """What `write` has written is durable now."""
        self.last_seq = self._projector.seq
        self.latest.take(rows)

    async def _drop_oldest(self, connection: Statements) -> None:
        live = self._projector.live_numbers
        dropped = await drop(connection, self._keep, self.dropped.seq, self._projector.seq, live)
        if dropped is None:
            return
        await connection.execute(schema.WRITE_META, (schema.DROPPED, codec.encode_dropped(dropped)))
        if not self.dropped.seq:
            logger.info("the oldest history is dropped from now on, see --keep-history")
        self.dropped = dropped

    async def write_progress(self, connection: Statements, last_seq: int) -> None:
        """Write that history shows the facts up to this one."""
        progress = [(schema.PROJECTED, b"%d" % last_seq), (schema.HISTORY_SEQ, b"%d" % self._projector.seq)]
        await connection.executemany(schema.WRITE_META, progress)
