"""The only task that writes what happens in a world: facts in groups, history in larger ones, checkpoints now and then.

Facts are appended in memory at once and durable after `commit`; all waiting commits share one
write. History rows follow in larger groups, at the latest when history is read. A checkpoint now
and then lets the next start skip the facts before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.errors import Conflict
from emulator.core.facts import Fact
from emulator.core.record import Record
from emulator.core.state import State
from emulator.journal import codec, files, schema
from emulator.journal.backlog import Backlog
from emulator.journal.history_writer import HistoryWriter
from emulator.journal.locked_database import PAGE_BYTES, LockedDatabase
from emulator.journal.projection import Rows

T = TypeVar("T")

# A state of so few messages is stored at every end: that takes no time worth mentioning.
_SMALL_STATE = 10_000
# A group of history changes at least one page in each table and index that messages have. Its rows share their pages:
# with each fact come about 0.6 kB in a large group and 1.4 kB in a small one; a body is in its fact as well.
_GROUP_BYTES = 16 * PAGE_BYTES
_FACT_BYTES = 1024


class Thresholds(Record):
    """How far the writer's work may fall behind.

    History is written at so many facts or bytes of message bodies. A burst of publishes is answered first:
    history is a view of facts that are durable already. At `backpressure_at` facts, or twice the bytes,
    callers wait for it. After `checkpoint_at` facts the state is stored as a whole.
    """

    project_at: int = 20_000
    project_at_bytes: int = 32 * 1024 * 1024
    backpressure_at: int = 40_000
    checkpoint_at: int = 50_000


DEFAULT_THRESHOLDS = Thresholds()


class _Errand(NamedTuple):
    """What is to be done between two writes, with or without a checkpoint before it."""

    run: Callable[[], Awaitable[Any]]
    done: asyncio.Future[Any]
    needs_checkpoint: bool


class Writer:
    """Writes the facts and the history of one world. A failed write stops it for good; `failure` is why."""

    def __init__(self, database: LockedDatabase, history: HistoryWriter, thresholds: Thresholds) -> None:
        self.failure: BaseException | None = None
        self._database = database
        self._history = history
        self._thresholds = thresholds
        self._backlog = Backlog()
        self._capture: Callable[[], Checkpoint] | None = None
        self._wake = asyncio.Event()
        self._commits: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self._errands: list[_Errand] = []
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def start(self, state: State, backlog: Backlog) -> None:
        """Begin to write what happens from this state on, which facts may have made that are not written yet."""
        self._backlog = backlog
        self._capture = lambda: capture(state)
        self._task = asyncio.get_running_loop().create_task(self._write(), name="journal writer")

    # -- the driver's side ------------------------------------------------------------------

    def append(self, facts: Sequence[Fact]) -> None:
        """Take facts in, in the order they happened. They are durable after the next `commit`."""
        if not facts:
            return
        self._backlog.append(facts, are_written=self._database.is_file)
        if self._is_behind:
            self._wake.set()

    @property
    def _is_behind(self) -> bool:
        limits, backlog = self._thresholds, self._backlog
        return len(backlog.to_project) >= limits.project_at or backlog.body_bytes >= limits.project_at_bytes

    async def commit(self) -> None:
        """Return when everything appended so far would survive `kill -9`.

        Raises WorldBroken if the store could not be written, Conflict if it was closed.
        """
        self.check()
        if not self._database.is_file or self._backlog.written == self._backlog.appended:
            return
        await self._queue(self._commits)

    async def apply_backpressure(self) -> None:
        """Wait for history if it has fallen far behind, so that memory stays bounded."""
        limits, backlog = self._thresholds, self._backlog
        if len(backlog.to_project) >= limits.backpressure_at or backlog.body_bytes >= 2 * limits.project_at_bytes:
            await self.flush_history()

    async def flush_history(self) -> None:
        """Return when history shows everything appended so far. Raises as `commit`."""
        self.check()
        if self._backlog.projected < self._backlog.appended:
            await self._queue(self._readers)

    async def _queue(self, waiting: list[asyncio.Future[None]]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        self._wake.set()
        # The writer owns the work: a waiter that is cancelled only stops waiting.
        await future

    async def between_writes(self, work: Callable[[], Awaitable[T]], *, after_checkpoint: bool = False) -> T:
        """What `work` returns, which is done while nothing else is written. Raises as `commit`.

        It may raise UnusableDatabase, which is no failure of this writer.
        """
        self.check()
        errand = _Errand(work, asyncio.get_running_loop().create_future(), after_checkpoint)
        self._errands.append(errand)
        self._wake.set()
        return await errand.done  # type: ignore[no-any-return]  # what `work` returns

    def standing(self) -> tuple[Checkpoint, Backlog]:
        """The state as it is now, and what a copy of the database has still to write of it."""
        assert self._capture is not None
        return self._capture(), self._backlog.copy()

    # -- whether it works -------------------------------------------------------------------

    def check(self) -> None:
        """Raises WorldBroken after a failed write, Conflict once it is closed."""
        if self.failure is not None:
            raise files.broken(self.failure)
        self.check_is_open()

    def check_is_open(self) -> None:
        """Raises Conflict once it is closed."""
        if self._closing:
            raise Conflict("this world is being reset or removed")

    def fail(self, error: BaseException) -> None:
        """Write no more: what should have been written was not."""
        self.failure = error

    @property
    def has_state(self) -> bool:
        """Whether it can store the state as a whole."""
        return self._capture is not None

    def abandon(self) -> None:
        """Store the state no more: it could be another than the facts make."""
        self._capture = None

    # -- the task ---------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._commits:
                    await self._write_facts()
                if self._readers or self._is_behind:
                    await self._write_history()
                if self._errands:
                    await self._run_errand()
                elif self._needs_checkpoint:
                    await self.checkpoint()
                if self._closing and not (self._commits or self._readers or self._errands):
                    return
        except Exception as error:  # An edge: any failure of the writer stops the store.
            self.fail(error)
            for future in (*self._commits, *self._readers, *(errand.done for errand in self._errands)):
                if not future.done():
                    future.set_exception(files.broken(error))

    async def _write_facts(self) -> None:
        count, last_seq = len(self._commits), self._backlog.appended
        facts = self._backlog.take_to_write()
        if facts:
            await self._database.write_facts(last_seq, facts)
        self._database.check_file()
        self._backlog.written = last_seq
        _resolve(self._commits, count)
        await self._database.keep_log_short()

    async def _write_history(self) -> None:
        count, last_seq = len(self._readers), self._backlog.appended
        facts, unwritten, body_bytes = self._backlog.take_to_project()
        if facts:
            log_bytes = _GROUP_BYTES + len(facts) * _FACT_BYTES + 2 * body_bytes
            async with self._database.transaction(log_bytes) as connection:
                if unwritten:
                    # In one transaction: history must never show facts that a crash undoes.
                    encoded = codec.encode_facts(unwritten)
                    await connection.execute(schema.FACTS.insert, (last_seq, len(unwritten), encoded))
                rows = await self._history.write(connection, facts)
                if self._database.is_file:
                    await self._history.write_progress(connection, last_seq)
            self._backlog.projected = self._backlog.written = last_seq
            self._history.written(rows)
        _resolve(self._readers, count)

    @property
    def _needs_checkpoint(self) -> bool:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        distance = max(self._thresholds.checkpoint_at, 4 * self._history.live_messages)
        since = self._backlog.appended - self._backlog.covered
        return self._database.is_file and self._capture is not None and since >= distance

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers. Raises sqlite3.Error, UnusableDatabase."""
        assert self._capture is not None
        backlog = self._backlog
        # Without an await in between: the state is exactly what the facts appended so far made of it.
        encoded, covers = codec.encode_checkpoint(self._capture()), backlog.appended
        facts = backlog.take_to_project().facts
        async with self._database.transaction() as connection:
            rows = await self._history.write(connection, facts) if facts else Rows()
            await self._history.write_progress(connection, covers)
            await connection.execute(schema.WRITE_CHECKPOINT, (schema.THE_CHECKPOINT, covers, encoded))
            await connection.execute(schema.DELETE_FACTS, (covers,))
        backlog.projected = backlog.written = backlog.covered = covers
        self._history.written(rows)

    async def _run_errand(self) -> None:
        run, done, needs_checkpoint = self._errands[0]
        if needs_checkpoint:
            await self.checkpoint()
        result, failure = None, None
        try:
            result = await run()
        except files.UnusableDatabase as error:
            failure = error
        del self._errands[0]
        # There may be more of them.
        self._wake.set()
        if done.done():
            return
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)

    # -- the end ----------------------------------------------------------------------------

    async def stop(self) -> None:
        """Take nothing in any more, and let those who wait have what they wait for."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def stop_for_good(self) -> None:
        """Stop for a successor. Raises Conflict once it is closed, WorldBroken if a write failed."""
        self.check()
        await self.stop()
        if self.failure is not None:
            raise files.broken(self.failure)

    async def close(self) -> None:
        """Stop, and write everything. What could not be written is then its `failure`."""
        await self.stop()
        try:
            if self.failure is None and self._database.is_file and self._capture is not None:
                await (self.checkpoint() if self._ends_with_checkpoint else self._write_history())
        except (sqlite3.Error, files.UnusableDatabase) as error:
            self.fail(error)
        finally:
            self._capture = None

    @property
    def _ends_with_checkpoint(self) -> bool:
        """Whether a checkpoint at the end is worth its while.

        The facts since the last one are read again at the next start: cheaper than to write a large state, of
        which they have changed little or which is made of them.
        """
        return self._history.live_messages < _SMALL_STATE or self._needs_checkpoint


def _resolve(waiting: list[asyncio.Future[None]], count: int) -> None:
    """Release the first `count` waiters; others may have joined behind them meanwhile."""
    for future in waiting[:count]:
        if not future.done():
            future.set_result(None)
    del waiting[:count]
