"""The store of one world: one connection and one task that writes, in groups.

Facts are appended in memory at once and durable after `commit`; all waiting commits share one
write. History rows follow in larger groups, at the latest when history is read. A checkpoint now
and then lets the next start skip the facts before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path

import aiosqlite

from emulator.core.checkpoint import Checkpoint, capture, restore
from emulator.core.errors import Conflict, WorldBroken
from emulator.core.facts import Fact, MessageCreated
from emulator.core.record import Record
from emulator.core.state import State
from emulator.journal import codec, files, migrations, schema
from emulator.journal.projection import Projector

MEMORY = ":memory:"
_BUSY_S = 0.2


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
        self, connection: aiosqlite.Connection, path: str, thresholds: Thresholds = DEFAULT_THRESHOLDS
    ) -> None:
        self.path = path
        self._thresholds = thresholds
        self._connection = connection
        self._is_file = path != MEMORY
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
        self._wake = asyncio.Event()
        self._commits: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self._copies: list[tuple[str, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closing = False

    # -- opening ----------------------------------------------------------------------------

    async def begin(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> State:
        """Fill a new database with the state a world starts from. Raises UnusableDatabase.

        All of it is one transaction, which also marks the file as ours: killed at any moment, it
        leaves an empty file or a whole world.
        """
        encoded = codec.encode_checkpoint(checkpoint)
        try:
            await self._connection.executescript(schema.CREATE)
            await self._connection.executemany(schema.WRITE_META, [*meta.items(), (schema.BASE_CHECKPOINT, encoded)])
            await self._connection.execute(schema.WRITE_CHECKPOINT, (0, encoded))
            await self._connection.execute("COMMIT")
            if self._is_file:
                await self._connection.executescript(schema.RUN_FILE)
        except sqlite3.Error as error:
            raise files.UnusableDatabase(f"{self.path}: {error}") from error
        return self._begin(checkpoint)

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left. Raises UnusableDatabase."""
        try:
            return self._start_writer(await self._replay())
        except files.DAMAGE as error:
            raise files.UnusableDatabase(f"{self.path}: damaged: {error!r}") from error

    async def _replay(self) -> State:
        meta = await self.meta()
        if schema.CHECKSUM in meta:
            # A snapshot becomes the database of a world, whose content changes.
            await self._connection.execute(schema.DELETE_CHECKSUM)
        self._projected = int(meta.get(schema.PROJECTED, b"0"))
        self._projector = Projector(int(meta.get(schema.HISTORY_SEQ, b"0")))
        (covers, encoded), *_ = await self._connection.execute_fetchall(schema.SELECT_CHECKPOINT)
        state = restore(codec.decode_checkpoint(encoded))
        self._appended = self._written = self._covered = int(covers)
        is_projected = True
        async with self._connection.execute(schema.SELECT_FACTS, (covers,)) as cursor:
            async for last_seq, count, payload in cursor:
                for seq, fact in enumerate(codec.decode_facts(payload), start=last_seq - count + 1):
                    if seq > self._projected:
                        if is_projected:
                            # The first fact that history does not show: seed the projector with the live messages.
                            self._seed_projector(state)
                            is_projected = False
                        self._to_project.append(fact)
                    state.apply(fact)
                self._appended = self._written = int(last_seq)
        if is_projected:
            self._seed_projector(state)
            self._projected = self._appended
        return state

    def _seed_projector(self, state: State) -> None:
        self._projector.seed(state.messages.values(), state.rules.values())

    def _begin(self, checkpoint: Checkpoint) -> State:
        state = restore(checkpoint)
        self._seed_projector(state)
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
            raise WorldBroken(f"the database cannot be written: {self._failure}")
        if self._closing:
            raise Conflict("this world is being reset or removed")

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
                if self._copies:
                    await self._copy()
                elif self._is_file and self._appended - self._covered >= self._checkpoint_distance():
                    await self.checkpoint()
                if self._closing and not self._commits and not self._readers and not self._copies:
                    return
        except Exception as error:  # An edge: any failure of the writer stops the store.
            self._failure = error
            for future in (*self._commits, *self._readers, *(copied for _, copied in self._copies)):
                if not future.done():
                    future.set_exception(WorldBroken(f"the database cannot be written: {error}"))

    def _checkpoint_distance(self) -> int:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        return max(self._thresholds.checkpoint_at, 4 * len(self._projector))

    async def _write_facts(self) -> None:
        count = len(self._commits)
        facts, self._to_write = self._to_write, []
        last_seq = self._appended
        if facts:
            await self._connection.execute(schema.FACTS.insert, (last_seq, len(facts), codec.encode_facts(facts)))
        self._written = last_seq
        _resolve(self._commits, count)

    async def _project(self) -> None:
        count = len(self._readers)
        facts, self._to_project, self._body_bytes = self._to_project, [], 0
        unwritten, self._to_write = self._to_write, []
        last_seq = self._appended
        if facts:
            async with self._transaction():
                if unwritten:
                    # In one transaction: history must never show facts that a crash undoes.
                    encoded = codec.encode_facts(unwritten)
                    await self._connection.execute(schema.FACTS.insert, (last_seq, len(unwritten), encoded))
                await self._insert_history(facts, last_seq)
            self._projected = self._written = last_seq
        _resolve(self._readers, count)

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._lock:
            await self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                await self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    await self._connection.execute("ROLLBACK")
                raise

    async def _insert_history(self, facts: list[Fact], last_seq: int) -> None:
        for statement, rows in self._projector.rows_of(facts).writes():
            await self._connection.executemany(statement, rows)
        if self._is_file:
            await self._write_progress(last_seq)

    async def _write_progress(self, last_seq: int) -> None:
        progress = [(schema.PROJECTED, b"%d" % last_seq), (schema.HISTORY_SEQ, b"%d" % self._projector.seq)]
        await self._connection.executemany(schema.WRITE_META, progress)

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers."""
        assert self._capture is not None
        # Without an await in between: the state is exactly what the facts appended so far made of it.
        encoded, covers = codec.encode_checkpoint(self._capture()), self._appended
        facts, self._to_project, self._body_bytes = self._to_project, [], 0
        self._to_write = []
        async with self._transaction():
            if facts:
                await self._insert_history(facts, covers)
            await self._write_progress(covers)
            await self._connection.execute(schema.WRITE_CHECKPOINT, (covers, encoded))
            await self._connection.execute(schema.DELETE_FACTS, (covers,))
        self._projected = self._written = self._covered = covers

    async def _copy(self) -> None:
        """Make the first of the copies that are asked for. One that cannot be made is no failure of this store."""
        await self.checkpoint()
        path, copied = self._copies[0]
        failure: sqlite3.Error | None = None
        async with self._lock:
            try:
                await self._connection.execute(schema.COPY_INTO, (path,))
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
            copied.set_exception(files.UnusableDatabase(f"{path}: {failure}"))

    async def copy_to(self, path: str) -> None:
        """Write all there is, as it is now, to a new file that `open_store` can open. Raises UnusableDatabase."""
        self._check()
        copied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._copies.append((path, copied))
        self._wake.set()
        await copied

    async def _stop_writing(self) -> None:
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer

    async def close(self) -> None:
        """Write everything, and let go of the file."""
        await self._stop_writing()
        try:
            if self._failure is None and self._is_file and self._capture is not None:
                await self.checkpoint()
        finally:
            self._capture = None
            with contextlib.suppress(sqlite3.Error, ValueError):
                await self._connection.close()

    async def _stop_for_good(self) -> None:
        """Stop writing for a successor. Raises Conflict once it is closed, WorldBroken if a write failed."""
        self._check()
        await self._stop_writing()
        if self._failure is not None:
            raise WorldBroken(f"the database cannot be written: {self._failure}")

    async def start_over(self, meta: dict[str, bytes], checkpoint: Checkpoint | None = None) -> tuple[Store, State]:
        """A store on the same database as it was right after `begin`; this one is not used any more.

        With a checkpoint, as if it had begun with that one. Raises Conflict once it is closed.
        """
        await self._stop_for_good()
        if checkpoint is None:
            base = (await self.meta())[schema.BASE_CHECKPOINT]
        else:
            base = codec.encode_checkpoint(checkpoint)
        async with self._transaction():
            for statement in schema.RESET:
                await self._connection.execute(statement)
            await self._connection.executemany(schema.WRITE_META, [*meta.items(), (schema.BASE_CHECKPOINT, base)])
            await self._connection.execute(schema.WRITE_CHECKPOINT, (0, base))
        fresh = self._successor()
        return fresh, fresh._begin(codec.decode_checkpoint(base))

    async def take_over(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Put the world of a copy in place of this one, whole or not at all; `go_on` opens what it became.

        The checkpoints and `meta` replace what the copy, which has no facts after its checkpoint, says of
        itself. Raises UnusableDatabase, with the world here as it was; Conflict once it is closed.
        """
        await self._stop_for_good()
        try:
            # If the copy cannot be taken, the database must hold this world as a whole.
            await self.checkpoint()
            async with self._lock:
                await self._connection.execute(schema.ATTACH_COPY, (path,))
            try:
                async with self._transaction():
                    for statement in schema.TAKE_COPY:
                        await self._connection.execute(statement)
                    await self._connection.execute(schema.REPLACE_STATE, (codec.encode_checkpoint(checkpoint),))
                    changed = [*meta.items(), (schema.BASE_CHECKPOINT, codec.encode_checkpoint(base))]
                    await self._connection.executemany(schema.WRITE_META, changed)
            finally:
                async with self._lock:
                    await self._connection.execute(schema.DETACH_COPY)
        except sqlite3.Error as error:
            raise files.UnusableDatabase(f"{path}: {error}") from error

    async def go_on(self) -> tuple[Store, State]:
        """A store with the world that the database holds after `take_over`; this one is not used any more."""
        fresh = self._successor()
        return fresh, await fresh.resume()

    def _successor(self) -> Store:
        """Another store on the same connection."""
        self._capture = None
        return Store(self._connection, self.path, self._thresholds)

    # -- meta and history -------------------------------------------------------------------

    async def meta(self) -> dict[str, bytes]:
        async with self._lock:
            return {row[0]: row[1] for row in await self._connection.execute_fetchall(schema.SELECT_META)}

    async def base_checkpoint(self) -> Checkpoint:
        """The state that a reset returns to."""
        return codec.decode_checkpoint((await self.meta())[schema.BASE_CHECKPOINT])

    async def write_meta(self, name: str, value: bytes) -> None:
        self._check()
        async with self._lock:
            await self._connection.execute(schema.WRITE_META, (name, value))

    async def rows(self, statement: str, parameters: Sequence[object]) -> Iterable[sqlite3.Row]:
        """Read history as it stands after everything that has happened so far."""
        await self.flush_history()
        async with self._lock:
            # While this waited for the lock, the store may have been closed or replaced.
            self._check()
            return await self._connection.execute_fetchall(statement, tuple(parameters))


def _resolve(waiting: list[asyncio.Future[None]], count: int) -> None:
    """Release the first `count` waiters; others may have joined behind them meanwhile."""
    for future in waiting[:count]:
        if not future.done():
            future.set_result(None)
    del waiting[:count]


async def open_store(path: str, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> tuple[Store, bool]:
    """Open a store; the flag tells whether it holds a world already.

    A file of an older format is migrated. Raises files.UnusableDatabase for a file that is not ours, of a
    newer format, or in use.
    """
    if path == MEMORY:
        connection = await aiosqlite.connect(MEMORY, isolation_level=None, cached_statements=64)
        await connection.executescript(schema.OPEN_MEMORY)
        return Store(connection, MEMORY, thresholds), False
    files.check(Path(path))
    try:
        connection = await aiosqlite.connect(path, isolation_level=None, timeout=_BUSY_S)
    except sqlite3.Error as error:
        raise files.UnusableDatabase(f"{path}: {error}") from error
    try:
        await connection.executescript(schema.OPEN_FILE)
        tables = list(await connection.execute_fetchall(schema.SELECT_ANY_TABLE))
        ((number,),) = await connection.execute_fetchall(schema.SELECT_FORMAT)
        if tables and number != schema.FORMAT:
            await connection.close()
            await asyncio.to_thread(migrations.migrate, Path(path))
            return await open_store(path, thresholds)
        if tables:
            await connection.executescript(schema.RUN_FILE)
    except sqlite3.Error as error:
        await connection.close()
        reason = "in use by another process" if "locked" in str(error) else str(error)
        raise files.UnusableDatabase(f"{path}: {reason}") from error
    return Store(connection, path, thresholds), bool(tables)
