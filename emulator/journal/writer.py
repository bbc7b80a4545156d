"""The only task that writes what happens in a world: facts in groups, history in larger ones, checkpoints now and then.

Facts are appended in memory at once and durable after `commit`. While one write is under way, commits
that come meanwhile wait, and then share the next one (group commit): under load a write has many
publishes. As long as each turn of the event loop adds some to a small group, it waits for the next; a commit that is
alone does not. A group of facts is one row, because a row for each fact costs ten times as much.

History is a projection of facts that are durable already, so it can lag: its rows are written in
large groups, at the latest when somebody reads history. A group that has facts which are not written
yet takes them into its transaction: history must never show what a crash undoes. The oldest history is
dropped in the transaction that makes it too long, so that a world does not grow for ever.

A checkpoint is the state as a whole. It lets the next start skip the facts before it, which are
deleted with it. It costs as much as there is pending, so it waits until as much has happened.

One task does all of it, one thing after the other: facts first, since callers wait for them, then
history, then what needs the database at rest (copies, forks) or a checkpoint. A write that fails
stops the task, and everybody who waits gets the error; what was not written was not acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from emulator.core.checkpoint import Checkpoint, capture, restore
from emulator.core.errors import Conflict
from emulator.core.message_facts import AttemptFinished, DuplicateFinished, MessageCreated, ResponseDelayed
from emulator.core.record import Record
from emulator.core.state import Fact, State
from emulator.core.world_setup import KEEP_ALL, Keep
from emulator.journal import codec, files, schema
from emulator.journal.database import PAGE_BYTES, Database
from emulator.journal.projection import Projector
from emulator.journal.rows import Latest, Rows, drop_oldest
from emulator.queries.history import Dropped

logger = logging.getLogger(__name__)


# Facts that hold an answer.
_ANSWERED = (AttemptFinished, DuplicateFinished, ResponseDelayed)


class Group(NamedTuple):
    """Facts that history is to show next. `unwritten` are those of them that the database does not have."""

    facts: list[Fact]
    unwritten: list[Fact]
    body_bytes: int


@dataclass(slots=True, kw_only=True)
class Backlog:
    """Facts that are still to be written, and those that history does not show yet: of these, the bytes of bodies.

    `appended`, `written`, `projected` and `covered` count facts from the world's first: how many have happened, the
    database has, history shows, and a checkpoint covers.
    """

    appended: int = 0
    written: int = 0
    projected: int = 0
    covered: int = 0
    to_write: list[Fact] = field(default_factory=list)
    to_project: list[Fact] = field(default_factory=list)
    body_bytes: int = 0

    def append(self, facts: Sequence[Fact], *, are_written: bool) -> None:
        """Facts have happened. Without `are_written`, the database gets none, only the history of them."""
        self.appended += len(facts)
        if are_written:
            self.to_write.extend(facts)
        self.to_project.extend(facts)
        for fact in facts:
            if type(fact) is MessageCreated:
                self.body_bytes += len(fact.message.body)
            elif isinstance(fact, _ANSWERED) and fact.outcome.response is not None:
                self.body_bytes += len(fact.outcome.response.body)

    def take_to_write(self) -> list[Fact]:
        """All facts that are still to be written, whose numbers end with `appended`."""
        facts, self.to_write = self.to_write, []
        return facts

    def take_to_project(self) -> Group:
        """All facts that history does not show, whose numbers end with `appended`."""
        group = Group(self.to_project, self.take_to_write(), self.body_bytes)
        self.to_project, self.body_bytes = [], 0
        return group

    def copy(self) -> Backlog:
        """That of a copy in memory of what the database holds, which shows the same history."""
        return Backlog(
            appended=self.appended,
            written=self.appended,
            projected=self.projected,
            to_project=list(self.to_project),
            body_bytes=self.body_bytes,
        )


@dataclass(slots=True, kw_only=True)
class StartingPoint:
    """What a writer continues from: a state, what history knows of it, and what is still to be written of it."""

    state: State
    projector: Projector
    dropped: Dropped = field(default_factory=Dropped)
    backlog: Backlog = field(default_factory=Backlog)


T = TypeVar("T")

# Entries.
_SHORT = 1_000
# A state of so few messages is stored at every end: that takes no time worth mentioning.
_SMALL_STATE = 10_000
# A group of history changes at least one page in each table and index that messages have. Its rows share their pages:
# with each fact come about 0.6 kB in a large group and 1.4 kB in a small one; a body is in its fact as well.
_GROUP_BYTES = 16 * PAGE_BYTES
_FACT_BYTES = 1024
# A write of so many facts takes several times as long as one of few: to share it saves nothing more.
_MANY_FACTS = 128


class Thresholds(Record):
    """How far the writer's work may fall behind.

    History is written at so many facts or bytes of bodies and answers. A burst of publishes is answered first:
    history is a view of facts that are durable already. At `backpressure_at` facts, or twice the bytes,
    callers wait for it. After `checkpoint_at` facts the state is stored as a whole.
    """

    project_at: int = 20_000
    project_at_bytes: int = 32 * 1024 * 1024
    backpressure_at: int = 40_000
    checkpoint_at: int = 50_000


DEFAULT_THRESHOLDS = Thresholds()


class _Job(NamedTuple):
    """Work to run between two writes, with or without a checkpoint before it."""

    run: Callable[[], Awaitable[Any]]
    done: asyncio.Future[Any]
    needs_checkpoint: bool


class Writer:
    """Writes the facts and the history of one world. A failed write stops it for good; `failure` is why.

    Of history, `last_seq` is the last entry that is durable, `dropped` the oldest part, `latest` the newest, and
    `keep` how much of it is kept.
    """

    def __init__(self, database: Database, thresholds: Thresholds, keep: Keep = KEEP_ALL) -> None:
        self.failure: BaseException | None = None
        self.keep = keep
        self.last_seq = 0
        self.dropped = Dropped()
        self.latest = Latest()
        self._database = database
        self._thresholds = thresholds
        self._projector = Projector(0)
        self._backlog = Backlog()
        self._capture: Callable[[], Checkpoint] | None = None
        self._wake = asyncio.Event()
        self._commits: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self._jobs: list[_Job] = []
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def start(self, at: StartingPoint) -> None:
        """Begin to write what happens from here on."""
        self._projector, self.dropped, self.last_seq = at.projector, at.dropped, at.projector.seq
        self._backlog = at.backlog
        self._capture = lambda: capture(at.state)
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

        It may raise UnusableDatabase and Conflict, which are no failures of this writer.
        """
        self.check()
        job = _Job(work, asyncio.get_running_loop().create_future(), after_checkpoint)
        self._jobs.append(job)
        self._wake.set()
        return await job.done  # type: ignore[no-any-return]  # what `work` returns

    def fork(self) -> StartingPoint:
        """What a copy of the database, as it is now, continues from, independently of this one."""
        assert self._capture is not None
        return StartingPoint(
            state=restore(self._capture()),
            projector=self._projector.copy(),
            dropped=self.dropped,
            backlog=self._backlog.copy(),
        )

    @property
    def is_short(self) -> bool:
        """Whether any part of history is read in less time than the way to another thread takes, or little more."""
        return self.last_seq - self.dropped.seq <= _SHORT

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
                    await self._gather_commits()
                    await self._write_facts()
                if self._readers or self._is_behind:
                    await self._write_history()
                if self._jobs:
                    await self._run_job()
                elif self._needs_checkpoint:
                    await self.checkpoint()
                if self._closing and not (self._commits or self._readers or self._jobs):
                    return
        except Exception as error:  # An edge: any failure of the writer stops the store.
            self.failure = error
            for future in (*self._commits, *self._readers, *(job.done for job in self._jobs)):
                if not future.done():
                    future.set_exception(files.broken(error))

    async def _gather_commits(self) -> None:
        """Let commits join those that wait, as long as each turn of the loop adds some and the write is small."""
        count = 1
        while count < len(self._commits) and len(self._backlog.to_write) < _MANY_FACTS:
            count = len(self._commits)
            await asyncio.sleep(0)

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
            rows = self._projector.rows_of(facts)

            def write(connection: sqlite3.Connection) -> Dropped:
                if unwritten:
                    # In one transaction: history must never show facts that a crash undoes.
                    encoded = codec.encode_facts(unwritten)
                    connection.execute(schema.FACTS.insert, (last_seq, len(unwritten), encoded))
                dropped = self._add_to_history(connection, rows)
                if self._database.is_file:
                    self._write_progress(connection, last_seq)
                return dropped

            dropped = await self._database.transaction(write, _GROUP_BYTES + len(facts) * _FACT_BYTES + 2 * body_bytes)
            self._backlog.projected = self._backlog.written = last_seq
            self._history_is_durable(rows, dropped)
        _resolve(self._readers, count)

    def _add_to_history(self, connection: sqlite3.Connection, rows: Rows) -> Dropped:
        """Write what a group of facts adds, and drop what is more than is to be kept; what is dropped then."""
        rows.write(connection)
        projector = self._projector
        dropped = drop_oldest(connection, self.keep, self.dropped.seq, projector.seq, projector.live_numbers)
        if dropped is not None:
            connection.execute(schema.WRITE_META, (schema.DROPPED, b"%d %d" % (dropped.seq, dropped.at_ms)))
        return dropped or self.dropped

    def _write_progress(self, connection: sqlite3.Connection, last_seq: int) -> None:
        """Write that history shows the facts up to this one."""
        progress = [(schema.PROJECTED, b"%d" % last_seq), (schema.HISTORY_SEQ, b"%d" % self._projector.seq)]
        connection.executemany(schema.WRITE_META, progress)

    def _history_is_durable(self, rows: Rows, dropped: Dropped) -> None:
        if dropped.seq and not self.dropped.seq:
            logger.info("the oldest history is dropped from now on, see --keep-history")
        self.dropped = dropped
        self.last_seq = self._projector.seq
        self.latest.take(rows)

    @property
    def _needs_checkpoint(self) -> bool:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        distance = max(self._thresholds.checkpoint_at, 4 * len(self._projector))
        since = self._backlog.appended - self._backlog.covered
        return self._database.is_file and self._capture is not None and since >= distance

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers. Raises sqlite3.Error, UnusableDatabase."""
        assert self._capture is not None
        backlog = self._backlog
        # Without an await in between: the state is exactly what the facts appended so far made of it.
        encoded, covers = codec.encode(self._capture()), backlog.appended
        rows = self._projector.rows_of(backlog.take_to_project().facts)

        def write(connection: sqlite3.Connection) -> Dropped:
            dropped = self._add_to_history(connection, rows)
            self._write_progress(connection, covers)
            connection.execute(schema.WRITE_CHECKPOINT, (schema.THE_CHECKPOINT, covers, encoded))
            connection.execute(schema.DELETE_FACTS, (covers,))
            return dropped

        dropped = await self._database.transaction(write)
        backlog.projected = backlog.written = backlog.covered = covers
        self._history_is_durable(rows, dropped)

    async def _run_job(self) -> None:
        run, done, needs_checkpoint = self._jobs[0]
        if needs_checkpoint:
            await self.checkpoint()
        result: Any = None
        failure: files.UnusableDatabase | Conflict | None = None
        try:
            result = await run()
        except (files.UnusableDatabase, Conflict) as error:
            failure = error
        del self._jobs[0]
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
            self.failure = error
        finally:
            self._capture = None

    @property
    def _ends_with_checkpoint(self) -> bool:
        """Whether a checkpoint at the end is worth its while.

        The facts since the last one are read again at the next start: cheaper than to write a large state, of
        which they have changed little or which is made of them.
        """
        return len(self._projector) < _SMALL_STATE or self._needs_checkpoint


def _resolve(waiting: list[asyncio.Future[None]], count: int) -> None:
    """Release the first `count` waiters; others may have joined behind them meanwhile."""
    for future in waiting[:count]:
        if not future.done():
            future.set_result(None)
    del waiting[:count]
