"""The store of one world: one connection, one writer, groups.

Facts are appended in memory at once and durable after `commit`; all commits that wait share one
write. History rows follow in larger groups, at the latest when somebody reads history. A
checkpoint now and then lets the next start skip the facts before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import aiosqlite

from emulator.core.errors import WorldBroken
from emulator.core.facts import Fact
from emulator.core.image import StateImage, capture, restore
from emulator.core.state import State
from emulator.journal import codec, files, schema
from emulator.journal.projection import Projector

MEMORY = ":memory:"
_PROJECT_AT = 4_000  # facts; enough to make a transaction cheap, few enough not to be felt
_RELIEVE_AT = 20_000
_CHECKPOINT_AT = 50_000


class Store:
    """Facts and history of one world in SQLite. Made by `open_store`."""

    def __init__(self, connection: aiosqlite.Connection, *, is_file: bool) -> None:
        self._connection = connection
        self._is_file = is_file
        self._projector = Projector(0)
        self._image: Callable[[], StateImage] | None = None
        # How many facts were ever appended; written and projected are numbers of the same count.
        self._appended = 0
        self._written = 0
        self._projected = 0
        self._covered = 0
        self._to_write: list[Fact] = []
        self._to_project: list[Fact] = []
        self._wake = asyncio.Event()
        self._commits: list[asyncio.Future[None]] = []
        self._readers: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closing = False

    # -- opening ----------------------------------------------------------------------------

    async def begin(self, image: StateImage, meta: dict[str, bytes]) -> State:
        """Fill a new database with the state a world starts from."""
        await self._connection.executescript(schema.CREATE_TABLES)
        await self._connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID:d}")
        await self._connection.execute(f"PRAGMA user_version = {schema.FORMAT:d}")
        encoded = codec.encode_image(image)
        await self._connection.executemany(schema.WRITE_META, [*meta.items(), ("origin", encoded)])
        await self._connection.execute(schema.WRITE_CHECKPOINT, (0, encoded))
        if self._is_file:
            # The header must say whose file this is even if the process is killed right away.
            await self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._go(restore(image))

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left."""
        checkpoints = await self._connection.execute_fetchall(schema.SELECT_CHECKPOINT)
        (covers, image) = next(iter(checkpoints))
        state = restore(codec.decode_image(image))
        meta = await self.meta()
        self._projected = int(meta.get("projected", b"0"))
        self._projector = Projector(int(meta.get("history_seq", b"0")))
        self._projector.know(progress.message for progress in state.messages.values())
        self._appended = self._written = self._covered = int(covers)
        async with self._connection.execute(schema.SELECT_FACTS, (covers,)) as cursor:
            async for last_seq, count, payload in cursor:
                for seq, fact in enumerate(codec.decode_facts(payload), start=last_seq - count + 1):
                    state.apply(fact)
                    if seq > self._projected:
                        self._to_project.append(fact)
                self._appended = self._written = int(last_seq)
        return self._go(state)

    def _go(self, state: State) -> State:
        self._image = lambda: capture(state)
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
        if len(self._to_project) >= _PROJECT_AT:
            self._wake.set()

    async def commit(self) -> None:
        """Return when everything appended so far would survive `kill -9`.

        Raises WorldBroken if the store could not be written.
        """
        self._check()
        if not self._is_file or self._written == self._appended:
            return
        await self._queue(self._commits)

    async def relieve(self) -> None:
        """Let history catch up when it has fallen far behind, so that memory stays bounded."""
        if len(self._to_project) >= _RELIEVE_AT:
            await self.settle()

    async def settle(self) -> None:
        """Return when history shows everything appended so far."""
        self._check()
        if self._to_project or self._readers:
            await self._queue(self._readers)

    async def _queue(self, waiting: list[asyncio.Future[None]]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        self._wake.set()
        # Shielded by nature: the writer owns the work, a cancelled waiter only stops waiting.
        await future

    def _check(self) -> None:
        if self._failure is not None:
            raise WorldBroken(f"the database cannot be written: {self._failure}")

    # -- the writer -------------------------------------------------------------------------

    async def _write(self) -> None:
        """The only task that writes. A failed write stops the store for good."""
        try:
            while not self._closing:
                await self._wake.wait()
                self._wake.clear()
                if self._commits:
                    await self._write_facts()
                if self._readers or len(self._to_project) >= _PROJECT_AT:
                    await self._project()
                if self._is_file and self._appended - self._covered >= self._checkpoint_distance():
                    await self.checkpoint()
        except (sqlite3.Error, OSError, ValueError) as error:
            self._failure = error
            for future in (*self._commits, *self._readers):
                if not future.done():
                    future.set_exception(WorldBroken(f"the database cannot be written: {error}"))

    def _checkpoint_distance(self) -> int:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        return max(_CHECKPOINT_AT, 4 * len(self._projector))

    async def _write_facts(self) -> None:
        waiting, self._commits = self._commits, []
        facts, self._to_write = self._to_write, []
        last_seq = self._appended
        try:
            if facts:
                await self._connection.execute(schema.INSERT_FACTS, (last_seq, len(facts), codec.encode_facts(facts)))
            self._written = last_seq
        except BaseException:
            self._commits = waiting + self._commits
            raise
        _resolve(waiting)

    async def _project(self) -> None:
        waiting, self._readers = self._readers, []
        facts, self._to_project = self._to_project, []
        try:
            if facts:
                await self._connection.execute("BEGIN IMMEDIATE")
                await self._insert_history(facts)
                await self._connection.execute("COMMIT")
        except BaseException:
            self._readers = waiting + self._readers
            raise
        _resolve(waiting)

    async def _insert_history(self, facts: list[Fact]) -> None:
        rows = self._projector.rows_of(facts)
        self._projected += len(facts)
        run = self._connection.executemany
        if rows.messages:
            await run(schema.INSERT_MESSAGES, rows.messages)
        if rows.events:
            await run(schema.INSERT_EVENTS, rows.events)
        if rows.attempts:
            await run(schema.INSERT_ATTEMPTS, rows.attempts)
        if rows.dead_letters:
            await run(schema.INSERT_DEAD_LETTERS, rows.dead_letters)
        if rows.removed_dead_letters:
            await run(schema.DELETE_DEAD_LETTERS, rows.removed_dead_letters)
        if self._is_file:
            progress = [("projected", b"%d" % self._projected), ("history_seq", b"%d" % self._projector.seq)]
            await run(schema.WRITE_META, progress)

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers."""
        assert self._image is not None
        # Taken at once and together: the state is exactly what the facts appended so far made of it.
        image, covers = codec.encode_image(self._image()), self._appended
        facts, self._to_project = self._to_project, []
        written, self._to_write = self._to_write, []
        try:
            await self._connection.execute("BEGIN IMMEDIATE")
            if facts:
                await self._insert_history(facts)
            await self._connection.execute(schema.WRITE_CHECKPOINT, (covers, image))
            await self._connection.execute(schema.DELETE_FACTS, (covers,))
            await self._connection.execute("COMMIT")
        except BaseException:
            self._to_write = written + self._to_write
            raise
        self._covered = covers
        self._written = max(self._written, covers)

    async def _stop_writing(self) -> None:
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        _resolve(self._commits)
        _resolve(self._readers)

    async def close(self) -> None:
        """Write everything, and let go of the file."""
        await self._stop_writing()
        try:
            if self._failure is None and self._is_file and self._image is not None:
                await self.checkpoint()
        finally:
            with contextlib.suppress(sqlite3.Error, ValueError):
                await self._connection.close()

    async def start_over(self) -> tuple[Store, State]:
        """A store on the same database as it was right after `begin`; this one is done for."""
        await self._stop_writing()
        self._check()
        origin = (await self.meta())["origin"]
        await self._connection.execute("BEGIN IMMEDIATE")
        for statement in schema.EMPTY_EVERYTHING:
            await self._connection.execute(statement)
        await self._connection.execute(schema.WRITE_CHECKPOINT, (0, origin))
        await self._connection.execute("COMMIT")
        fresh = Store(self._connection, is_file=self._is_file)
        return fresh, fresh._go(restore(codec.decode_image(origin)))

    # -- meta and history -------------------------------------------------------------------

    async def meta(self) -> dict[str, bytes]:
        async with self._connection.execute(schema.SELECT_META) as cursor:
            return {name: value async for name, value in cursor}

    async def write_meta(self, name: str, value: bytes) -> None:
        await self._connection.execute(schema.WRITE_META, (name, value))

    async def rows(self, statement: str, parameters: Sequence[object]) -> Iterable[sqlite3.Row]:
        """Read history as it stands after everything that has happened so far."""
        await self.settle()
        return await self._connection.execute_fetchall(statement, tuple(parameters))


def _resolve(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


async def open_store(path: str) -> tuple[Store, bool]:
    """Open a store; the flag tells whether it holds a world already.

    Raises files.UnusableDatabase for a file that is not ours, newer than us, or in use.
    """
    if path == MEMORY:
        connection = await aiosqlite.connect(MEMORY, isolation_level=None, cached_statements=64)
        await connection.execute("PRAGMA synchronous = OFF")
        await connection.execute("PRAGMA temp_store = MEMORY")
        return Store(connection, is_file=False), False
    file = Path(path)
    files.check(file)
    connection = await aiosqlite.connect(path, isolation_level=None, timeout=0.2)
    try:
        await connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = NORMAL")
        # The first write takes the lock that keeps every other process out.
        await connection.execute("BEGIN EXCLUSIVE")
        await connection.execute("COMMIT")
        tables = await connection.execute_fetchall("SELECT name FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError as error:
        await connection.close()
        if "locked" in str(error):
            raise files.UnusableDatabase(f"{path}: in use by another process") from error
        raise files.UnusableDatabase(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        await connection.close()
        raise files.UnusableDatabase(f"{path}: {error}") from error
    return Store(connection, is_file=True), bool(list(tables))
