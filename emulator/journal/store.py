"""The store of one world: one connection and one task that writes, in groups.

Facts are appended in memory at once and durable after `commit`; all waiting commits share one
write. History rows follow in larger groups, at the latest when history is read. A checkpoint now
and then lets the next start skip the facts before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import aiosqlite

from emulator.core.checkpoint import Checkpoint, capture, restore
from emulator.core.errors import Conflict, Damaged, WorldBroken
from emulator.core.facts import Fact, MessageCreated
from emulator.core.record import Record
from emulator.core.state import State
from emulator.journal import beginnings, bulk, codec, connections, files, schema
from emulator.journal.connections import FileConnection
from emulator.journal.database import Database, InMemory, Threads
from emulator.journal.dropping import KEEP_ALL, Keep, drop
from emulator.journal.latest import Latest
from emulator.journal.projection import Projector, Rows
from emulator.journal.replaying import replay
from emulator.queries.history import Dropped

logger = logging.getLogger(__name__)

MEMORY = ":memory:"

# What makes a copied state that of another world.
Change = Callable[[State], None]


# A state of so few messages is stored at every end: that takes no time worth mentioning.
_SMALL_STATE = 10_000


# A write to the log takes whole pages. A group of history changes at least one in each table and index that messages
# have. Its rows share their pages: with each fact come about 0.6 kB in a large group and 1.4 kB in a small one; a
# body is in its fact as well.
_PAGE_BYTES = 4096
_GROUP_BYTES = 16 * _PAGE_BYTES
_FACT_BYTES = 1024
_MOVE_LOG_AT_BYTES = 4 * 1024 * 1024
# So much is written in less time than the way to another thread takes, or little more.
_AT_ONCE_BYTES = 128 * 1024
_INSERT_FACTS = schema.FACTS.insert


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


class Store:
    """Facts and history of one world in SQLite. Made by `open_store`."""

    def __init__(
        self,
        database: Database,
        path: str,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        keep: Keep = KEEP_ALL,
    ) -> None:
        self.path = path
        # Of the oldest history.
        self.dropped = Dropped()
        self.latest = Latest()
        self._thresholds = thresholds
        self._keep = keep
        self._database = database
        self._is_file = path != MEMORY
        self._identity = files.identity(path) if self._is_file else None
        # What a reset returns to, if that is known without the database.
        self._base: Checkpoint | None = None
        # A reader must not see half of a transaction.
        self._lock = asyncio.Lock()
        self._projector = Projector(0)
        self._capture: Callable[[], Checkpoint] | None = None
        # How many facts were ever appended; the others are numbers of the same count: how far the
        # facts are written, how far history shows them, how far a checkpoint covers them.
        self._appended = 0
        self._written = 0
        self._projected = 0
        self._covered = 0
        self._to_write: list[Fact] = []
        self._to_project: list[Fact] = []
        self._body_bytes = 0
        # About how much was written to the log since it was last moved into the file.
        self._log_bytes = 0
        self._wake = asyncio.Event()
        self._commits: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self._copies: list[tuple[str, asyncio.Future[None]]] = []
        self._forks: list[tuple[Store, Change, dict[str, bytes], asyncio.Future[State]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closing = False

    # -- opening ----------------------------------------------------------------------------

    async def begin(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> State:
        """Fill a new database with the state a world starts from. Raises UnusableDatabase.

        A file is written under another name, and gets its own when it is whole (D-280): killed at any
        moment, it is there or it is not. In memory whoever first needs the database makes it (D-301).
        """
        assert isinstance(self._database, InMemory)
        await self._database.begin(partial(beginnings.fill, checkpoint=checkpoint, meta=meta))
        if self._is_file:
            try:
                await self._move_to_file(Path(self.path))
            except (OSError, sqlite3.Error) as error:
                raise files.unusable(self.path, error) from error
        return self._begin(checkpoint)

    async def _move_to_file(self, path: Path) -> None:
        """Go on in a file with what was made in memory. Raises OSError, sqlite3.Error, UnusableDatabase."""
        fresh = files.hidden_beside(path)
        try:
            async with self._database.use() as made:
                await made.execute(schema.COPY_INTO, (str(fresh),))
            files.put_in_place(fresh, path)
        finally:
            files.remove(fresh)
        await self._database.close()
        self._database = file = await connections.connected(self.path)
        await file.connection.executescript(schema.RUN_FILE)
        self._identity = files.identity(self.path)

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left. Raises UnusableDatabase."""
        try:
            async with self._exclusive() as connection:
                found = await replay(connection)
        except files.DAMAGE as error:
            raise files.UnusableDatabase(f"{self.path}: damaged: {files.told(error)}") from error
        self._projector, self.dropped = found.projector, found.dropped
        self._covered, self._projected, self._to_project = found.covered, found.projected, found.to_project
        self._appended = self._written = found.written
        return self._start_writer(found.state)

    def _begin(self, checkpoint: Checkpoint) -> State:
        if not self._is_file:
            self._base = checkpoint
        state = restore(checkpoint)
        self._projector.seed(state)
        return self._start_writer(state)

    def _start_writer(self, state: State) -> State:
        self._capture = lambda: capture(state)
        self._writer = asyncio.get_running_loop().create_task(self._write(), name="journal writer")
        return state

    # -- the driver's side ------------------------------------------------------------------

    def append(self, facts: Sequence[Fact]) -> None:
        """Take facts in, in the order they happened. They are durable after the next `commit`."""
        if not facts:
            return
        self._appended += len(facts)
        if self._is_file:
            self._to_write.extend(facts)
        self._to_project.extend(facts)
        for fact in facts:
            if type(fact) is MessageCreated:
                self._body_bytes += len(fact.message.body)
        if self._is_behind:
            self._wake.set()

    @property
    def _is_behind(self) -> bool:
        return (
            len(self._to_project) >= self._thresholds.project_at
            or self._body_bytes >= self._thresholds.project_at_bytes
        )

    async def commit(self) -> None:
        """Return when everything appended so far would survive `kill -9`.

        Raises WorldBroken if the store could not be written, Conflict if it was closed.
        """
        self._check()
        if not self._is_file or self._written == self._appended:
            return
        await self._queue(self._commits)

    async def apply_backpressure(self) -> None:
        """Wait for history if it has fallen far behind, so that memory stays bounded."""
        limits = self._thresholds
        if len(self._to_project) >= limits.backpressure_at or self._body_bytes >= 2 * limits.project_at_bytes:
            await self.flush_history()

    async def flush_history(self) -> None:
        """Return when history shows everything appended so far."""
        self._check()
        if self._projected < self._appended:
            await self._queue(self._readers)

    async def _queue(self, waiting: list[asyncio.Future[None]]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        self._wake.set()
        # The writer owns the work: a waiter that is cancelled only stops waiting.
        await future

    def _check(self) -> None:
        if self._failure is not None:
            raise self._broken(self._failure)
        self._check_is_open()

    def _check_is_open(self) -> None:
        if self._closing:
            raise Conflict("this world is being reset or removed")

    def _broken(self, failure: BaseException) -> WorldBroken:
        return WorldBroken(f"the database cannot be written: {failure}", is_disk_full=files.is_disk_full(failure))

    def trouble(self) -> str | None:
        """Why this store cannot be used, as far as one sees without writing."""
        try:
            self._check_file()
        except files.UnusableDatabase as gone:
            return str(gone)
        return None if self._failure is None else str(self._broken(self._failure))

    @property
    def can_be_opened_again(self) -> bool:
        """Whether the store has failed, and a file has all that is durable."""
        return self._is_file and self._failure is not None

    def _check_file(self) -> None:
        """Raises UnusableDatabase if the file is gone: the system would go on taking writes, and lose them (D-283)."""
        if self._identity is not None and files.identity(self.path) != self._identity:
            raise files.UnusableDatabase(
                f"{self.path} was deleted or replaced while the server uses it, and what happens now would be lost; "
                "put the file back, or stop the server"
            )

    # -- the writer -------------------------------------------------------------------------

    async def _write(self) -> None:
        """The only task that writes. A failed write stops the store for good."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._commits:
                    await self._write_facts()
                if self._readers or self._is_behind:
                    await self._project()
                if self._forks:
                    await self._fork()
                if self._copies:
                    await self._copy()
                elif self._needs_checkpoint:
                    await self.checkpoint()
                if self._closing and not (self._commits or self._readers or self._copies or self._forks):
                    return
        except Exception as error:  # An edge: any failure of the writer stops the store.
            self._failure = error
            for future in (*self._commits, *self._readers, *(copied for _, copied in self._copies)):
                if not future.done():
                    future.set_exception(self._broken(error))
            for *_, forked in self._forks:
                if not forked.done():
                    forked.set_exception(self._broken(error))

    @property
    def _needs_checkpoint(self) -> bool:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        distance = max(self._thresholds.checkpoint_at, 4 * len(self._projector))
        return self._is_file and self._capture is not None and self._appended - self._covered >= distance

    @property
    def _ends_with_checkpoint(self) -> bool:
        """Whether a checkpoint at the end is worth its while.

        The facts since the last one are read again at the next start: cheaper than to write a large state, of
        which they have changed little or which is made of them.
        """
        return len(self._projector) < _SMALL_STATE or self._needs_checkpoint

    def abandon(self) -> None:
        """Store the state no more: it could be another than the facts make."""
        self._capture = None

    async def _write_facts(self) -> None:
        count = len(self._commits)
        facts, self._to_write = self._to_write, []
        last_seq = self._appended
        if facts:
            encoded = codec.encode_facts(facts)
            values = (last_seq, len(facts), encoded)
            if len(encoded) <= _AT_ONCE_BYTES:
                async with self._lock:
                    assert isinstance(self._database, FileConnection)
                    self._database.write_at_once(_INSERT_FACTS, values)
            else:
                async with self._exclusive() as connection:
                    await connection.execute(_INSERT_FACTS, values)
            self._log_bytes += len(encoded) + _PAGE_BYTES
        self._check_file()
        self._written = last_seq
        _resolve(self._commits, count)
        if self._log_bytes >= _MOVE_LOG_AT_BYTES:
            async with self._exclusive() as connection:
                await self._move_log(connection)

    async def _move_log(self, connection: aiosqlite.Connection) -> None:
        """Move what the log holds into the file, so that the log begins again and stays short."""
        await connection.execute_fetchall(schema.MOVE_LOG)
        self._log_bytes = 0

    async def _project(self) -> None:
        count = len(self._readers)
        facts, self._to_project = self._to_project, []
        body_bytes, self._body_bytes = self._body_bytes, 0
        unwritten, self._to_write = self._to_write, []
        last_seq = self._appended
        if facts:
            async with self._transaction(_GROUP_BYTES + len(facts) * _FACT_BYTES + 2 * body_bytes) as connection:
                if unwritten:
                    # In one transaction: history must never show facts that a crash undoes.
                    encoded = codec.encode_facts(unwritten)
                    await connection.execute(schema.FACTS.insert, (last_seq, len(unwritten), encoded))
                rows = await self._insert_history(connection, facts, last_seq)
            self._projected = self._written = last_seq
            self.latest.take(rows)
        _resolve(self._readers, count)

    @contextlib.asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[aiosqlite.Connection]:
        async with self._lock, self._database.use() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def _transaction(self, log_bytes: int = _MOVE_LOG_AT_BYTES) -> AsyncIterator[aiosqlite.Connection]:
        """Write all or nothing. `log_bytes` is about what that adds to the log; much, unless it is known."""
        async with self._exclusive() as connection:
            await connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                await connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    await connection.execute("ROLLBACK")
                raise
            self._log_bytes += log_bytes
            if self._is_file and self._log_bytes >= _MOVE_LOG_AT_BYTES:
                await self._move_log(connection)
        self._check_file()

    async def _insert_history(self, connection: aiosqlite.Connection, facts: list[Fact], last_seq: int) -> Rows:
        made = self._projector.rows_of(facts)
        for statement, rows in made.writes():
            await bulk.insert(connection, statement, rows)
        await self._drop_oldest(connection)
        if self._is_file:
            await self._write_progress(connection, last_seq)
        return made

    async def _drop_oldest(self, connection: aiosqlite.Connection) -> None:
        live = self._projector.live_numbers
        dropped = await drop(connection, self._keep, self.dropped.seq, self._projector.seq, live)
        if dropped is None:
            return
        await connection.execute(schema.WRITE_META, (schema.DROPPED, codec.encode_dropped(dropped)))
        if not self.dropped.seq:
            logger.info("the oldest history is dropped from now on, see --keep-history")
        self.dropped = dropped

    async def _write_progress(self, connection: aiosqlite.Connection, last_seq: int) -> None:
        progress = [(schema.PROJECTED, b"%d" % last_seq), (schema.HISTORY_SEQ, b"%d" % self._projector.seq)]
        await connection.executemany(schema.WRITE_META, progress)

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers."""
        assert self._capture is not None
        # Without an await in between: the state is exactly what the facts appended so far made of it.
        encoded, covers = codec.encode_checkpoint(self._capture()), self._appended
        facts, self._to_project, self._body_bytes = self._to_project, [], 0
        self._to_write = []
        async with self._transaction() as connection:
            rows = await self._insert_history(connection, facts, covers) if facts else Rows()
            await self._write_progress(connection, covers)
            await connection.execute(schema.WRITE_CHECKPOINT, (schema.THE_CHECKPOINT, covers, encoded))
            await connection.execute(schema.DELETE_FACTS, (covers,))
        self._projected = self._written = self._covered = covers
        self.latest.take(rows)

    async def _copy(self) -> None:
        """Make the first of the copies that are asked for. One that cannot be made is no failure of this store."""
        await self.checkpoint()
        path, copied = self._copies[0]
        failure: sqlite3.Error | None = None
        try:
            async with self._exclusive() as connection:
                await connection.execute(schema.COPY_INTO, (path,))
        except sqlite3.Error as error:
            failure = error
        del self._copies[0]
        # There may be more of them.
        self._wake.set()
        if copied.done():
            return
        if failure is None:
            copied.set_result(None)
        else:
            copied.set_exception(files.unusable(path, failure))

    async def copy_to(self, path: str) -> None:
        """Write all there is, as it is now, to a new file that `open_store` can open. Raises UnusableDatabase."""
        self._check()
        copied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._copies.append((path, copied))
        self._wake.set()
        await copied

    async def fork_to(self, fresh: Store, change: Change, meta: dict[str, bytes]) -> State:
        """Let a new store in memory go on from here, as this one does; the state that it goes on with (D-434).

        `change` is applied to that state and to what a reset returns to. History that is not written yet is
        not written for it: each of the two writes its own. Raises as `copy_to`.
        """
        self._check()
        forked: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self._forks.append((fresh, change, meta, forked))
        self._wake.set()
        return await forked

    async def _fork(self) -> None:
        """Make the first of the forks that are asked for. One that cannot be made is no failure of this store."""
        fresh, change, meta, forked = self._forks.pop(0)
        # There may be more of them.
        self._wake.set()
        try:
            state = await self._copy_to_memory(fresh, change, meta)
        except (sqlite3.Error, ValueError) as error:
            if not forked.done():
                forked.set_exception(files.UnusableDatabase(f"{fresh.path}: {error}"))
            return
        if not forked.done():
            forked.set_result(state)

    async def _copy_to_memory(self, fresh: Store, change: Change, meta: dict[str, bytes]) -> State:
        """By the writer: nobody else writes history meanwhile."""
        assert self._capture is not None
        assert isinstance(fresh._database, InMemory)
        async with self._exclusive() as connection:
            base = restore(await self._base_now(connection))
            change(base)
            fresh._base = capture(base)
            # Without an await in between: the state is exactly what the facts appended so far made of it.
            state = restore(self._capture())
            change(state)
            fresh._projector = self._projector.copy()
            fresh._to_project, fresh._body_bytes = list(self._to_project), self._body_bytes
            fresh._appended = fresh._written = self._appended
            fresh._projected, fresh.dropped = self._projected, self.dropped
            await fresh._database.begin(partial(beginnings.copy_whole, source=connection, base=fresh._base, meta=meta))
            # Now, as this database goes on changing.
            async with fresh._database.use():
                pass
        return fresh._start_writer(state)

    async def _base_now(self, connection: aiosqlite.Connection) -> Checkpoint:
        meta = {} if self._base else codec.whole_meta(await connection.execute_fetchall(schema.SELECT_META))
        return self._base or codec.decode_checkpoint(meta[schema.BASE_CHECKPOINT])

    async def _stop_writing(self) -> None:
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer

    async def close(self) -> None:
        """Write everything, and let go of the file. What could not be written is then its `trouble`."""
        await self._stop_writing()
        try:
            if self._failure is None and self._is_file and self._capture is not None:
                await (self.checkpoint() if self._ends_with_checkpoint else self._project())
        except (sqlite3.Error, files.UnusableDatabase) as error:
            self._failure = error
        finally:
            self._capture = None
            await self._let_go()

    async def _let_go(self) -> None:
        async with self._lock:
            with contextlib.suppress(sqlite3.Error, ValueError):
                await self._database.close()

    async def prove_room(self) -> None:
        """Write what a world needs most room for. Raises UnusableDatabase."""
        try:
            await self.checkpoint()
        except sqlite3.Error as error:
            raise files.unusable(self.path, error) from error

    async def open_again(self) -> Store:
        """A store on the same file after a write has failed, not resumed yet; this one is not used any more.

        Raises UnusableDatabase if the file is gone, or cannot be written still.
        """
        await self._stop_writing()
        await self._let_go()
        if files.identity(self.path) is None:
            raise files.UnusableDatabase(f"{self.path}: the file is gone")
        fresh, has_world = await open_store(self.path, self._thresholds, self._keep)
        if not has_world:
            raise files.UnusableDatabase(f"{self.path}: the file is empty")
        return fresh

    async def _stop_for_good(self) -> None:
        """Stop writing for a successor. Raises Conflict once it is closed, WorldBroken if a write failed."""
        self._check()
        await self._stop_writing()
        if self._failure is not None:
            raise self._broken(self._failure)

    async def start_over(self, meta: dict[str, bytes], checkpoint: Checkpoint | None = None) -> tuple[Store, State]:
        """A store on the same database as it was right after `begin`; this one is not used any more.

        With a checkpoint, as if it had begun with that one. Raises Conflict once it is closed, WorldBroken if
        it could not be written; it can be opened again then.
        """
        await self._stop_for_good()
        if checkpoint is None:
            async with self._lock:
                checkpoint = await self._base_checkpoint()
        try:
            await self._empty(checkpoint, meta)
        except (sqlite3.Error, files.UnusableDatabase) as error:
            self._failure = error
            raise self._broken(error) from error
        fresh = self._successor()
        return fresh, fresh._begin(checkpoint)

    async def _empty(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
        if isinstance(self._database, InMemory):
            async with self._lock:
                await self._database.begin(partial(beginnings.fill, checkpoint=checkpoint, meta=meta))
            return
        async with self._transaction() as connection:
            for statement in schema.RESET:
                await connection.execute(statement)
            await beginnings.write_beginning(connection, checkpoint, meta)

    async def take_over(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Put the world of a copy in place of this one, whole or not at all; `go_on` opens what it became.

        The checkpoints and `meta` replace what the copy, which has no facts after its checkpoint, says of
        itself. Raises UnusableDatabase, with the world here as it was; Conflict once it is closed.
        """
        await self._stop_for_good()
        try:
            # If the copy cannot be taken, the database must hold this world as a whole.
            if self._capture is not None:
                await self.checkpoint()
            async with self._exclusive() as connection:
                await connection.execute(schema.ATTACH_COPY, (path,))
            try:
                async with self._transaction() as connection:
                    for statement in schema.TAKE_COPY:
                        await connection.execute(statement)
                    await connection.execute(schema.REPLACE_STATE, (codec.encode_checkpoint(checkpoint),))
                    changed = [*meta.items(), (schema.BASE_CHECKPOINT, codec.encode_checkpoint(base))]
                    await connection.executemany(schema.WRITE_META, changed)
            finally:
                async with self._exclusive() as connection:
                    await connection.execute(schema.DETACH_COPY)
        except sqlite3.Error as error:
            raise files.unusable(path, error) from error

    async def go_on(self) -> tuple[Store, State]:
        """A store with the world that the database holds after `take_over`; this one is not used any more."""
        fresh = self._successor()
        return fresh, await fresh.resume()

    def _successor(self) -> Store:
        """Another store on the same database."""
        self._capture = None
        fresh = Store(self._database, self.path, self._thresholds, self._keep)
        # Of the file that is written to, whatever has its name by now.
        fresh._identity = self._identity
        return fresh

    # -- meta and history -------------------------------------------------------------------

    async def meta(self) -> dict[str, bytes]:
        """What the database says of its world. Raises ValueError if that is damaged, Conflict once it is closed."""
        async with self._lock:
            # A successor on the same database reads what is its own.
            self._check_is_open()
            return await self._meta()

    async def _meta(self) -> dict[str, bytes]:
        async with self._database.use() as connection:
            return codec.whole_meta(await connection.execute_fetchall(schema.SELECT_META))

    async def base_checkpoint(self) -> Checkpoint:
        """The state that a reset returns to. Raises Conflict once it is closed."""
        async with self._lock:
            self._check_is_open()
            return await self._base_checkpoint()

    async def _base_checkpoint(self) -> Checkpoint:
        return self._base or codec.decode_checkpoint((await self._meta())[schema.BASE_CHECKPOINT])

    async def write_meta(self, name: str, value: bytes) -> None:
        self._check()
        async with self._lock:
            self._check()
            try:
                async with self._database.use() as connection:
                    await connection.execute(schema.WRITE_META, (name, value))
                self._check_file()
            except (sqlite3.Error, files.UnusableDatabase) as error:
                raise self._broken(error) from error

    async def rows(self, statement: str, parameters: Sequence[object]) -> Iterable[sqlite3.Row]:
        """Read history as it stands after everything that has happened so far. Raises Damaged."""
        await self.flush_history()
        async with self._lock:
            # While this waited for the lock, the store may have been closed or replaced.
            self._check()
            try:
                async with self._database.use() as connection:
                    return await connection.execute_fetchall(statement, tuple(parameters))
            except sqlite3.DatabaseError as error:
                raise self.damaged(str(error)) from error

    async def whole_rows(self, statement: str, parameters: Sequence[object]) -> list[sqlite3.Row]:
        """As `rows`, of a statement whose last column says whether all of the row is what was written."""
        found = list(await self.rows(statement, parameters))
        count = sum(row[-1] != 1 for row in found)
        if count:
            raise self.damaged(f"{count} of {len(found)} entries of its history are not what was written")
        return found

    def damaged(self, what: str) -> Damaged:
        """What to raise for damage that was found in history."""
        return Damaged(self.path, what)


def _resolve(waiting: list[asyncio.Future[None]], count: int) -> None:
    """Release the first `count` waiters; others may have joined behind them meanwhile."""
    for future in waiting[:count]:
        if not future.done():
            future.set_result(None)
    del waiting[:count]


async def open_store(
    path: str,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    keep: Keep = KEEP_ALL,
    threads: Threads | None = None,
) -> tuple[Store, bool]:
    """Open a store; the flag tells whether it holds a world already. Otherwise `begin` makes its file.

    A file of an older format is migrated. A database in memory shares `threads` with others. Raises
    files.UnusableDatabase for a file that is not ours, of a newer format, damaged, or in use.
    """
    if path != MEMORY and files.check(Path(path)):
        file = await connections.opened(path)
        if file is not None:
            return Store(file, path, thresholds, keep), True
    return Store(InMemory(threads or Threads()), path, thresholds, keep), False
