"""The store of one world: one connection, one writer, groups.

Facts are appended in memory at once and durable after `commit`; all commits that wait share one
write. History rows follow in larger groups, at the latest when somebody reads history. A
checkpoint now and then lets the next start skip the facts before it.
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
from emulator.core.state import State
from emulator.journal import codec, files, schema
from emulator.journal.projection import Projector

MEMORY = ":memory:"
# History is written behind: at so many facts or bytes of bodies, or when somebody reads it. A burst of
# publishes is answered first; what it left behind is a view of facts that are durable already.
_PROJECT_AT = 20_000
_PROJECT_AT_BYTES = 32 * 1024 * 1024
_RELIEVE_AT = 40_000
_CHECKPOINT_AT = 50_000
_BUSY_S = 0.2


class Store:
    """Facts and history of one world in SQLite. Made by `open_store`."""

    def __init__(self, connection: aiosqlite.Connection, path: str) -> None:
        self.path = path
        self._connection = connection
        self._is_file = path != MEMORY
        # One at a time: a reader must not see half of a transaction.
        self._turn = asyncio.Lock()
        self._projector = Projector(0)
        self._image: Callable[[], Checkpoint] | None = None
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

    async def begin(self, image: Checkpoint, meta: dict[str, bytes]) -> State:
        """Fill a new database with the state a world starts from. Raises UnusableDatabase.

        All of it is one transaction, which also marks the file as ours: killed at any moment, it
        leaves an empty file or a whole world.
        """
        encoded = codec.encode_checkpoint(image)
        try:
            await self._connection.executescript(schema.CREATE)
            await self._connection.executemany(schema.WRITE_META, [*meta.items(), ("origin", encoded)])
            await self._connection.execute(schema.WRITE_CHECKPOINT, (0, encoded))
            await self._connection.execute("COMMIT")
            if self._is_file:
                await self._connection.executescript(schema.RUN_FILE)
        except sqlite3.Error as error:
            raise files.UnusableDatabase(f"{self.path}: {error}") from error
        return self._begin(image)

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left. Raises UnusableDatabase."""
        try:
            return self._go(await self._recall())
        except files.DAMAGE as error:
            raise files.UnusableDatabase(f"{self.path}: damaged: {error!r}") from error

    async def _recall(self) -> State:
        meta = await self.meta()
        if "seal" in meta:
            # A snapshot's, which is from now on a world's database.
            await self._connection.execute(schema.BREAK_SEAL)
        self._projected = int(meta.get("projected", b"0"))
        self._projector = Projector(int(meta.get("history_seq", b"0")))
        (covers, image), *_ = await self._connection.execute_fetchall(schema.SELECT_CHECKPOINT)
        state = restore(codec.decode_checkpoint(image))
        self._appended = self._written = self._covered = int(covers)
        is_projected = True
        async with self._connection.execute(schema.SELECT_FACTS, (covers,)) as cursor:
            async for last_seq, count, payload in cursor:
                for seq, fact in enumerate(codec.decode_facts(payload), start=last_seq - count + 1):
                    if seq > self._projected:
                        if is_projected:
                            # History goes on from here; what lived at this point is known to it.
                            self._know(state)
                            is_projected = False
                        self._to_project.append(fact)
                    state.apply(fact)
                self._appended = self._written = int(last_seq)
        if is_projected:
            self._know(state)
            self._projected = self._appended
        return state

    def _know(self, state: State) -> None:
        self._projector.know(state.messages.values(), state.rules.values())

    def _begin(self, image: Checkpoint) -> State:
        state = restore(image)
        self._know(state)
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
        for fact in facts:
            if type(fact) is MessageCreated:
                self._body_bytes += len(fact.message.body)
        if self._is_behind:
            self._wake.set()

    @property
    def _is_behind(self) -> bool:
        return len(self._to_project) >= _PROJECT_AT or self._body_bytes >= _PROJECT_AT_BYTES

    async def commit(self) -> None:
        """Return when everything appended so far would survive `kill -9`.

        Raises WorldBroken if the store could not be written, Conflict if it was closed.
        """
        self._check()
        if not self._is_file or self._written == self._appended:
            return
        await self._queue(self._commits)

    async def apply_backpressure(self) -> None:
        """Let history catch up when it has fallen far behind, so that memory stays bounded."""
        if len(self._to_project) >= _RELIEVE_AT or self._body_bytes >= 2 * _PROJECT_AT_BYTES:
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
        # Shielded by nature: the writer owns the work, a cancelled waiter only stops waiting.
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
        except Exception as error:  # An edge: whatever ends the writer stops the store, and nobody waits for it.
            self._failure = error
            for future in (*self._commits, *self._readers, *(copied for _, copied in self._copies)):
                if not future.done():
                    future.set_exception(WorldBroken(f"the database cannot be written: {error}"))

    def _checkpoint_distance(self) -> int:
        """A checkpoint costs as much as there is pending, so it waits for as much to have happened."""
        return max(_CHECKPOINT_AT, 4 * len(self._projector))

    async def _write_facts(self) -> None:
        count = len(self._commits)
        facts, self._to_write = self._to_write, []
        last_seq = self._appended
        if facts:
            await self._connection.execute(schema.INSERT_FACTS, (last_seq, len(facts), codec.encode_facts(facts)))
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
                    # With their history, which must never tell of facts that a crash undoes.
                    encoded = codec.encode_facts(unwritten)
                    await self._connection.execute(schema.INSERT_FACTS, (last_seq, len(unwritten), encoded))
                await self._insert_history(facts, last_seq)
            self._projected = self._written = last_seq
        _resolve(self._readers, count)

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._turn:
            await self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                await self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    await self._connection.execute("ROLLBACK")
                raise

    async def _insert_history(self, facts: list[Fact], last_seq: int) -> None:
        rows = self._projector.rows_of(facts)
        run = self._connection.executemany
        if rows.messages:
            await run(schema.INSERT_MESSAGES, rows.messages)
        if rows.events:
            await run(schema.INSERT_EVENTS, rows.events)
        if rows.attempts:
            await run(schema.INSERT_ATTEMPTS, rows.attempts)
        if rows.remarks:
            await run(schema.INSERT_REMARKS, rows.remarks)
        if rows.dead_letters:
            await run(schema.INSERT_DEAD_LETTERS, rows.dead_letters)
        if rows.remarks_on_dead_letters:
            await run(schema.INSERT_REMARKS_ON_DEAD_LETTERS, rows.remarks_on_dead_letters)
        if rows.removed_dead_letters:
            await run(schema.DELETE_DEAD_LETTERS, rows.removed_dead_letters)
        if rows.usage_minutes:
            await run(schema.ADD_USAGE_MINUTES, rows.usage_minutes)
            await run(schema.ADD_USAGE_DAYS, rows.usage_days)
        if self._is_file:
            await self._note_progress(last_seq)

    async def _note_progress(self, last_seq: int) -> None:
        progress = [("projected", b"%d" % last_seq), ("history_seq", b"%d" % self._projector.seq)]
        await self._connection.executemany(schema.WRITE_META, progress)

    async def checkpoint(self) -> None:
        """Store the state as a whole, and drop the facts it covers."""
        assert self._image is not None
        # Taken at once and together: the state is exactly what the facts appended so far made of it.
        image, covers = codec.encode_checkpoint(self._image()), self._appended
        facts, self._to_project, self._body_bytes = self._to_project, [], 0
        self._to_write = []
        async with self._transaction():
            if facts:
                await self._insert_history(facts, covers)
            await self._note_progress(covers)
            await self._connection.execute(schema.WRITE_CHECKPOINT, (covers, image))
            await self._connection.execute(schema.DELETE_FACTS, (covers,))
        self._projected = self._written = self._covered = covers

    async def _copy(self) -> None:
        """Make the first of the copies that are asked for. One that cannot be made is no failure of this store."""
        await self.checkpoint()
        path, copied = self._copies[0]
        failure: sqlite3.Error | None = None
        async with self._turn:
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
            if self._failure is None and self._is_file and self._image is not None:
                await self.checkpoint()
        finally:
            self._image = None
            with contextlib.suppress(sqlite3.Error, ValueError):
                await self._connection.close()

    async def start_over(self, meta: dict[str, bytes], image: Checkpoint | None = None) -> tuple[Store, State]:
        """A store on the same database as it was right after `begin`; this one is done for.

        With an image, as if that had been what it began with. Raises Conflict once it is closed.
        """
        self._check()
        await self._stop_writing()
        if self._failure is not None:
            raise WorldBroken(f"the database cannot be written: {self._failure}")
        origin = (await self.meta())["origin"] if image is None else codec.encode_checkpoint(image)
        async with self._transaction():
            for statement in schema.EMPTY_EVERYTHING:
                await self._connection.execute(statement)
            await self._connection.executemany(schema.WRITE_META, [*meta.items(), ("origin", origin)])
            await self._connection.execute(schema.WRITE_CHECKPOINT, (0, origin))
        fresh = self._successor()
        return fresh, fresh._begin(codec.decode_checkpoint(origin))

    async def take_over(self, path: str, image: Checkpoint, origin: Checkpoint, meta: dict[str, bytes]) -> None:
        """Put the world of a copy in place of this one, whole or not at all; `go_on` tells which it became.

        The image and the rest replace what the copy, which has no facts beyond its checkpoint, says of
        itself. Raises UnusableDatabase, with the world here as it was; Conflict once it is closed.
        """
        self._check()
        await self._stop_writing()
        if self._failure is not None:
            raise WorldBroken(f"the database cannot be written: {self._failure}")
        try:
            # What is here now has to be whole in the database, should it stay.
            await self.checkpoint()
            async with self._turn:
                await self._connection.execute(schema.ATTACH_COPY, (path,))
            try:
                async with self._transaction():
                    for statement in schema.TAKE_COPY:
                        await self._connection.execute(statement)
                    await self._connection.execute(schema.REPLACE_IMAGE, (codec.encode_checkpoint(image),))
                    await self._connection.executemany(
                        schema.WRITE_META, [*meta.items(), ("origin", codec.encode_checkpoint(origin))]
                    )
            finally:
                async with self._turn:
                    await self._connection.execute(schema.DETACH_COPY)
        except sqlite3.Error as error:
            raise files.UnusableDatabase(f"{path}: {error}") from error

    async def go_on(self) -> tuple[Store, State]:
        """A store with the world that the database holds after `take_over`; this one is done for."""
        fresh = self._successor()
        return fresh, await fresh.resume()

    def _successor(self) -> Store:
        """Another store on the same database, which is its own from now on."""
        self._image = None
        return Store(self._connection, self.path)

    # -- meta and history -------------------------------------------------------------------

    async def meta(self) -> dict[str, bytes]:
        async with self._turn:
            return {row[0]: row[1] for row in await self._connection.execute_fetchall(schema.SELECT_META)}

    async def write_meta(self, name: str, value: bytes) -> None:
        self._check()
        async with self._turn:
            await self._connection.execute(schema.WRITE_META, (name, value))

    async def rows(self, statement: str, parameters: Sequence[object]) -> Iterable[sqlite3.Row]:
        """Read history as it stands after everything that has happened so far."""
        await self.flush_history()
        async with self._turn:
            # While this waited for its turn, the database may have become another store's, or nobody's.
            self._check()
            return await self._connection.execute_fetchall(statement, tuple(parameters))


def _resolve(waiting: list[asyncio.Future[None]], count: int) -> None:
    """Tell the first of those that wait, in order; others have joined them behind meanwhile."""
    for future in waiting[:count]:
        if not future.done():
            future.set_result(None)
    del waiting[:count]


async def open_store(path: str) -> tuple[Store, bool]:
    """Open a store; the flag tells whether it holds a world already.

    Raises files.UnusableDatabase for a file that is not ours, newer than us, or in use.
    """
    if path == MEMORY:
        connection = await aiosqlite.connect(MEMORY, isolation_level=None, cached_statements=64)
        await connection.executescript(schema.OPEN_MEMORY)
        return Store(connection, MEMORY), False
    files.check(Path(path))
    try:
        connection = await aiosqlite.connect(path, isolation_level=None, timeout=_BUSY_S)
    except sqlite3.Error as error:
        raise files.UnusableDatabase(f"{path}: {error}") from error
    try:
        await connection.executescript(schema.OPEN_FILE)
        tables = list(await connection.execute_fetchall(schema.SELECT_ANY_TABLE))
        if tables:
            await connection.executescript(schema.RUN_FILE)
    except sqlite3.Error as error:
        await connection.close()
        reason = "in use by another process" if "locked" in str(error) else str(error)
        raise files.UnusableDatabase(f"{path}: {reason}") from error
    return Store(connection, path), bool(tables)
