"""The database of one world: a connection under its lock, whole transactions, and a log that stays short.

A job is a function of the connection. Jobs run one at a time, because a reader must not see half of a transaction, and
because two threads in SQLite at once could wait for each other for ever, one for its lock, one for Python's. A job
that does little runs in the event loop's own thread: the way to another thread and back takes several times as long
as a small statement. A larger one runs in one of the few threads that all databases of a server share, from its first
statement to its last in one hop. Its connection stays reserved until it has ended, even if its caller is cancelled.

A database in memory is made when it is first used (D-301). A file is written under another name and gets its own when
it is whole (D-280). It is in WAL mode: a transaction is appended to the log, and what the log holds is moved into the
file in a thread, because that waits for the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from emulator.core.checkpoint import Checkpoint
from emulator.core.state import Fact
from emulator.journal import codec, files, schema

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

# The path of a database in memory.
MEMORY = ":memory:"
_THREADS = 16
# A database in memory of so many pages is freed at once.
_SMALL_PAGES = 256
# A write to the log takes whole pages.
PAGE_BYTES = 4096
_MOVE_LOG_AT_BYTES = 4 * 1024 * 1024
# So much is written in less time than the way to another thread takes, or little more.
_LITTLE_BYTES = 128 * 1024
_BUSY_S = 0.2
_CACHED_STATEMENTS = 64
_INSERT_FACTS = schema.FACTS.insert


class Pool:
    """What the databases of a server share: a few threads, and the empty tables that those in memory begin as.

    For one event loop. A queue that idle threads wait at costs half of what an executor of the library does; threads
    are counted in the loop's own thread, and so without a lock.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        self._most = threads
        self._threads = 0
        self._busy = 0
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        # Not at the end of the process: what closes its stores then needs them still.
        weakref.finalize(self, _end_threads, self._jobs, threads).atexit = False
        # To copy the tables without rows takes a tenth of the time in which they are made.
        self._empty: sqlite3.Connection | None = None

    def new_in_memory(self) -> sqlite3.Connection:
        """One more database, with the tables and no rows."""
        if self._empty is None:
            self._empty = empty = _in_memory()
            weakref.finalize(self, empty.close)
            empty.executescript(schema.CREATE)
            empty.execute("COMMIT")
        connection = _in_memory()
        self._empty.backup(connection)
        return connection

    async def in_thread(self, job: Callable[[], T]) -> T:
        """Run a job to its end in a thread. A caller that is cancelled leaves when the job has ended."""
        loop = asyncio.get_running_loop()
        outcome: Future[T] = Future()
        ended = asyncio.Event()

        def run() -> None:
            try:
                outcome.set_result(job())
            except BaseException as error:
                outcome.set_exception(error)
            # Nobody waits any more if the loop is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        if self._busy >= self._threads and self._threads < self._most:
            # A daemon: what is open at the end of the process must not keep it.
            Thread(target=_work, args=(self._jobs,), name=f"database {self._threads + 1}", daemon=True).start()
            self._threads += 1
        self._busy += 1
        self._jobs.put(run)
        try:
            await ended.wait()
        finally:
            while not ended.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await ended.wait()
            self._busy -= 1
        return outcome.result()


def _work(jobs: SimpleQueue[Callable[[], object] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


def _end_threads(jobs: SimpleQueue[Callable[[], object] | None], count: int) -> None:
    for _ in range(count):
        jobs.put(None)


class Database:
    """What a store, and the ones that follow it, have of a database at `path`, which may be `MEMORY`.

    In memory until `open_file` or `begin` says otherwise. Jobs raise sqlite3.Error.
    """

    def __init__(self, path: str = MEMORY, pool: Pool | None = None) -> None:
        self.path = path
        self.is_file = path != MEMORY
        self._pool = pool or Pool()
        self._connection: sqlite3.Connection | None = None
        # Writes the first rows of a database in memory that nobody has used yet.
        self._fill: Job[None] | None = None
        # Of the file that is written to, whatever has its name by now.
        self._identity: files.Identity | None = None
        self._lock = asyncio.Lock()
        # About how much was written to the log since it was last moved into the file.
        self._log_bytes = 0

    # -- what it holds ----------------------------------------------------------------------

    async def open_file(self) -> bool:
        """Open the file, which no other process uses meanwhile; False if it has no tables. Raises UnusableDatabase."""

        def connect() -> bool:
            self._connection = _connected(self.path)
            return self._connection is not None

        try:
            is_ours = await self._pool.in_thread(connect)
        except BaseException:
            # Also when cancelled: the file would stay locked.
            await self.close()
            raise
        self._identity = files.identity(self.path)
        return is_ours

    async def begin(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
        """Fill a new database with what a world starts from. Raises UnusableDatabase.

        Killed at any moment, a file is there as a whole or not at all. In memory its first use makes the database.
        """
        fill = partial(_write_beginning, checkpoint=checkpoint, meta=meta)
        if not self.is_file:
            await self.close()
            self._fill = fill
            return
        try:
            await self._pool.in_thread(partial(self._make_file, fill))
        except (OSError, sqlite3.Error) as error:
            raise files.unusable(self.path, error) from error
        await self.open_file()

    def _make_file(self, fill: Job[None]) -> None:
        path = Path(self.path)
        fresh = files.hidden_beside(path)
        try:
            with contextlib.closing(_in_memory()) as connection:
                connection.executescript(schema.CREATE)
                fill(connection)
                connection.execute("COMMIT")
                connection.execute(schema.COPY_INTO, (str(fresh),))
            files.put_in_place(fresh, path)
        finally:
            files.remove(fresh)

    async def begin_again(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
        """As after `begin`, in place of all there is. Raises sqlite3.Error, UnusableDatabase."""
        if not self.is_file:
            await self.begin(checkpoint, meta)
            return

        def start_over(connection: sqlite3.Connection) -> None:
            for statement in schema.RESET:
                connection.execute(statement)
            _write_beginning(connection, checkpoint, meta)

        await self.transaction(start_over)

    async def begin_as_copy(self, source: Database, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Fill a new database in memory with what another one holds at this moment, but for what is the world's own."""

        def copy(connection: sqlite3.Connection) -> None:
            self._connection = copied = _in_memory()
            connection.backup(copied)
            copied.execute(schema.FORGET_GENERATION)
            copied.executemany(schema.WRITE_META, _entries(codec.encode(base), meta))

        await source.run(copy)

    async def take_copy(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Hold what the copy at `path` holds, whole or not at all, with these checkpoints and entries of `meta`.

        Raises sqlite3.Error, UnusableDatabase.
        """

        def take(connection: sqlite3.Connection) -> None:
            for statement in schema.TAKE_COPY:
                connection.execute(statement)
            connection.execute(schema.REPLACE_STATE, (codec.encode(checkpoint),))
            connection.executemany(schema.WRITE_META, _entries(codec.encode(base), meta))

        await self.run(lambda connection: connection.execute(schema.ATTACH_COPY, (path,)))
        try:
            await self.transaction(take)
        finally:
            await self.run(lambda connection: connection.execute(schema.DETACH_COPY))

    async def copy_to(self, path: str) -> None:
        """Write all it holds to a new file. Raises UnusableDatabase, which says nothing of this database."""
        try:
            await self.run(lambda connection: connection.execute(schema.COPY_INTO, (path,)))
        except sqlite3.Error as error:
            raise files.unusable(path, error) from error

    async def meta(self, check: Callable[[], None] | None = None) -> dict[str, bytes]:
        """What the database says of its world. Raises what `check` raises."""
        return await self.run(
            lambda connection: dict(connection.execute(schema.SELECT_META)), check, is_little=not self.is_file
        )

    # -- using it ---------------------------------------------------------------------------

    async def run(self, job: Job[T], check: Callable[[], None] | None = None, *, is_little: bool = False) -> T:
        """What a job returns. `check` may refuse after the wait for the lock, before anything is read."""
        async with self._lock:
            if check is not None:
                check()
            connection = self._made()
            return job(connection) if is_little else await self._pool.in_thread(partial(job, connection))

    def _made(self) -> sqlite3.Connection:
        """The connection. Raises ValueError once it is closed."""
        if self._connection is None:
            if self._fill is None:
                raise ValueError("the database is closed")
            connection = self._pool.new_in_memory()
            try:
                _transact(self._fill, connection)
            except BaseException:
                connection.close()
                raise
            self._fill, self._connection = None, connection
        return self._connection

    async def transaction(self, job: Job[T], log_bytes: int = _MOVE_LOG_AT_BYTES) -> T:
        """What a job returns, all of whose changes are made or none. `log_bytes` is about what they add to the log.

        Raises UnusableDatabase if the file is gone.
        """
        result = await self.run(partial(_transact, job), is_little=log_bytes <= _LITTLE_BYTES)
        if self.is_file:
            self._log_bytes += log_bytes
            await self.keep_log_short()
        self.check_file()
        return result

    async def write_facts(self, last_seq: int, facts: Sequence[Fact]) -> None:
        """Write a group of facts to the file, durable on return. Raises sqlite3.Error."""
        encoded = codec.encode_facts(facts)
        values = (last_seq, len(facts), encoded)
        await self.run(
            lambda connection: connection.execute(_INSERT_FACTS, values), is_little=len(encoded) <= _LITTLE_BYTES
        )
        self._log_bytes += len(encoded) + PAGE_BYTES

    async def size(self) -> int:
        """The bytes that the file takes with its log, or the memory; 0 while nothing is there."""
        if self.is_file:
            return files.size(self.path)
        async with self._lock:
            return 0 if self._connection is None else int(self._connection.execute(schema.SELECT_SIZE).fetchone()[0])

    async def keep_log_short(self) -> None:
        """Move what the log holds into the file if that is much. Raises sqlite3.Error."""
        if self._log_bytes >= _MOVE_LOG_AT_BYTES:
            await self.run(lambda connection: connection.execute(schema.MOVE_LOG).fetchall())
            self._log_bytes = 0

    @property
    def has_its_file(self) -> bool:
        """Whether the file that is written to still has its name, or there is none."""
        return self._identity is None or files.identity(self.path) == self._identity

    def check_file(self) -> None:
        """Raises UnusableDatabase if the file is gone: the system would still take writes, and lose them (D-283)."""
        if not self.has_its_file:
            raise files.UnusableDatabase(
                f"{self.path} was deleted or replaced while the server uses it, and what happens now would be lost; "
                "put the file back, or stop the server"
            )

    async def close(self) -> None:
        """Let go of the file, or of what is in memory."""
        async with self._lock:
            connection, self._connection, self._fill = self._connection, None, None
            if connection is None:
                return
            with contextlib.suppress(sqlite3.Error):
                if not self.is_file and connection.execute("PRAGMA page_count").fetchone()[0] <= _SMALL_PAGES:
                    connection.close()
                else:
                    await self._pool.in_thread(connection.close)


def _in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(
        MEMORY, isolation_level=None, cached_statements=_CACHED_STATEMENTS, check_same_thread=False
    )
    connection.executescript(schema.OPEN_MEMORY)
    return connection


def _connected(path: str) -> sqlite3.Connection | None:
    """A connection to a file of ours that no other process uses; None if it has no tables. Raises UnusableDatabase."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S, check_same_thread=False)
    except sqlite3.Error as error:
        raise files.unusable(path, error) from error
    is_ready = False
    try:
        connection.executescript(schema.OPEN_FILE)
        found = [sql for (sql,) in connection.execute(schema.SELECT_DEFINITIONS)]
        if not found:
            return None
        files.check_definitions(path, found)
        connection.executescript(schema.RUN_FILE)
        is_ready = True
        return connection
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise files.UnusableDatabase(f"{path}: in use by another process") from error
        raise files.unusable(path, error) from error
    finally:
        if not is_ready:
            connection.close()


def _transact(job: Job[T], connection: sqlite3.Connection) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = job(connection)
        connection.execute("COMMIT")
        return result
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _write_beginning(connection: sqlite3.Connection, checkpoint: Checkpoint, meta: dict[str, bytes]) -> None:
    encoded = codec.encode(checkpoint)
    connection.executemany(schema.WRITE_META, _entries(encoded, meta))
    connection.execute(schema.WRITE_CHECKPOINT, (schema.THE_CHECKPOINT, 0, encoded))


def _entries(base: bytes, meta: dict[str, bytes]) -> list[tuple[str, bytes]]:
    """What `meta` is to say of a world; `base` is the state that a reset returns to."""
    return [*meta.items(), (schema.BASE_CHECKPOINT, base)]
