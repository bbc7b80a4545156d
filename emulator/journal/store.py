"""The store of one world: its database from the first moment to the last, and what others read of it.

What happens in between is written by its `writer`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from emulator.core.checkpoint import Checkpoint, capture, restore
from emulator.core.errors import Damaged
from emulator.core.state import State
from emulator.journal import codec, connections, files, schema
from emulator.journal.backlog import Backlog
from emulator.journal.database import MEMORY, InMemory, Threads
from emulator.journal.dropping import KEEP_ALL, Keep
from emulator.journal.history_writer import HistoryWriter
from emulator.journal.locked_database import LockedDatabase
from emulator.journal.replaying import replay
from emulator.journal.writer import DEFAULT_THRESHOLDS, Thresholds, Writer
from emulator.queries.history import Dropped

# What makes a copied state that of another world.
Change = Callable[[State], None]


class Store:
    """Facts and history of one world in SQLite. Made by `open_store`."""

    def __init__(
        self, database: LockedDatabase, thresholds: Thresholds = DEFAULT_THRESHOLDS, keep: Keep = KEEP_ALL
    ) -> None:
        self.path = database.path
        self._database = database
        self._thresholds = thresholds
        self._keep = keep
        self._history = HistoryWriter(keep)
        self.latest = self._history.latest
        self.writer = Writer(database, self._history, thresholds)
        # What a reset returns to, if that is known without the database.
        self._base: Checkpoint | None = None

    # -- beginning --------------------------------------------------------------------------

    async def begin(self, checkpoint: Checkpoint, meta: dict[str, bytes]) -> State:
        """Fill a new database with the state a world starts from. Raises UnusableDatabase."""
        await self._database.begin(checkpoint, meta)
        return self._begin(checkpoint)

    def _begin(self, checkpoint: Checkpoint) -> State:
        if not self._database.is_file:
            self._base = checkpoint
        state = restore(checkpoint)
        self._history.begin(state)
        self.writer.start(state, Backlog())
        return state

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left. Raises UnusableDatabase."""
        try:
            async with self._database.exclusive() as connection:
                found = await replay(connection)
        except files.DAMAGE as error:
            raise files.UnusableDatabase(f"{self.path}: damaged: {files.told(error)}") from error
        self._history.go_on(found.projector, found.dropped)
        self.writer.start(found.state, found.backlog)
        return found.state

    # -- whether it works -------------------------------------------------------------------

    def trouble(self) -> str | None:
        """Why this store cannot be used, as far as one sees without writing."""
        try:
            self._database.check_file()
        except files.UnusableDatabase as gone:
            return str(gone)
        return None if self.writer.failure is None else str(files.broken(self.writer.failure))

    @property
    def can_be_opened_again(self) -> bool:
        """Whether the store has failed, and a file has all that is durable."""
        return self._database.is_file and self.writer.failure is not None

    async def prove_room(self) -> None:
        """Write what a world needs most room for. Raises UnusableDatabase."""
        try:
            await self.writer.checkpoint()
        except sqlite3.Error as error:
            raise files.unusable(self.path, error) from error

    # -- copies -----------------------------------------------------------------------------

    async def copy_to(self, path: str) -> None:
        """Write all there is, as it is now, to a new file that `open_store` can open. Raises UnusableDatabase."""
        await self.writer.between_writes(lambda: self._database.copy_to(path), after_checkpoint=True)

    async def fork_to(self, fresh: Store, change: Change, meta: dict[str, bytes]) -> State:
        """Let a new store in memory go on from here, as this one does; the state that it goes on with (D-434).

        `change` is applied to that state and to what a reset returns to. History that is not written yet is
        not written for it: each of the two writes its own. Raises as `copy_to`.
        """
        return await self.writer.between_writes(lambda: self._fork(fresh, change, meta))

    async def _fork(self, fresh: Store, change: Change, meta: dict[str, bytes]) -> State:
        try:
            base = restore(await self._base_checkpoint())
            change(base)
            fresh._base = capture(base)
            async with self._database.exclusive() as connection:
                # Without an await in between: the state is exactly what the facts appended so far made of it.
                checkpoint, backlog = self.writer.standing()
                state = restore(checkpoint)
                change(state)
                fresh._history.go_on_like(self._history)
                await fresh._database.begin_as_copy(connection, fresh._base, meta)
        except (sqlite3.Error, ValueError) as error:
            raise files.UnusableDatabase(f"{fresh.path}: {error}") from error
        fresh.writer.start(state, backlog)
        return state

    # -- other lives of the same database ---------------------------------------------------

    async def open_again(self) -> Store:
        """A store on the same file after a write has failed, not resumed yet; this one is not used any more.

        Raises UnusableDatabase if the file is gone, or cannot be written still.
        """
        await self.writer.stop()
        await self._database.close()
        if files.identity(self.path) is None:
            raise files.UnusableDatabase(f"{self.path}: the file is gone")
        fresh, has_world = await open_store(self.path, self._thresholds, self._keep)
        if not has_world:
            raise files.UnusableDatabase(f"{self.path}: the file is empty")
        return fresh

    async def start_over(self, meta: dict[str, bytes], checkpoint: Checkpoint | None = None) -> tuple[Store, State]:
        """A store on the same database as it was right after `begin`; this one is not used any more.

        With a checkpoint, as if it had begun with that one. Raises Conflict once it is closed, WorldBroken if
        it could not be written; it can be opened again then.
        """
        await self.writer.stop_for_good()
        checkpoint = checkpoint or await self._base_checkpoint()
        try:
            await self._database.begin_again(checkpoint, meta)
        except (sqlite3.Error, files.UnusableDatabase) as error:
            self.writer.fail(error)
            raise files.broken(error) from error
        fresh = self._successor()
        return fresh, fresh._begin(checkpoint)

    async def take_over(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Put the world of a copy in place of this one, whole or not at all; `go_on` opens what it became.

        The checkpoints and `meta` replace what the copy, which has no facts after its checkpoint, says of
        itself. Raises UnusableDatabase, with the world here as it was; Conflict once it is closed.
        """
        await self.writer.stop_for_good()
        try:
            # If the copy cannot be taken, the database must hold this world as a whole.
            if self.writer.has_state:
                await self.writer.checkpoint()
            await self._database.take_copy(path, checkpoint, base, meta)
        except sqlite3.Error as error:
            raise files.unusable(path, error) from error

    async def go_on(self) -> tuple[Store, State]:
        """A store with the world that the database holds after `take_over`; this one is not used any more."""
        fresh = self._successor()
        return fresh, await fresh.resume()

    def _successor(self) -> Store:
        """Another store on the same database."""
        self.writer.abandon()
        return Store(self._database, self._thresholds, self._keep)

    async def close(self) -> None:
        """Write everything, and let go of the file. What could not be written is then its `trouble`."""
        try:
            await self.writer.close()
        finally:
            await self._database.close()

    # -- meta and history -------------------------------------------------------------------

    async def last_seq(self) -> int:
        """The last entry of history, after everything that has happened so far."""
        await self.writer.flush_history()
        return self._history.last_seq

    @property
    def dropped(self) -> Dropped:
        """Of the oldest history."""
        return self._history.dropped

    async def meta(self) -> dict[str, bytes]:
        """What the database says of its world. Raises ValueError if that is damaged, Conflict once it is closed."""
        # A successor on the same database reads what is its own.
        return await self._database.meta(self.writer.check_is_open)

    async def base_checkpoint(self) -> Checkpoint:
        """The state that a reset returns to. Raises Conflict once it is closed."""
        self.writer.check_is_open()
        return await self._base_checkpoint()

    async def _base_checkpoint(self) -> Checkpoint:
        return self._base or codec.decode_checkpoint((await self._database.meta())[schema.BASE_CHECKPOINT])

    async def write_meta(self, name: str, value: bytes) -> None:
        """Change an entry of `meta`. Raises Conflict once it is closed, WorldBroken if it cannot be written."""
        self.writer.check()
        try:
            async with self._database.exclusive(self.writer.check) as connection:
                await connection.execute(schema.WRITE_META, (name, value))
            self._database.check_file()
        except (sqlite3.Error, files.UnusableDatabase) as error:
            raise files.broken(error) from error

    async def rows(self, statement: str, parameters: Sequence[object]) -> Iterable[sqlite3.Row]:
        """Read history as it stands after everything that has happened so far. Raises Damaged."""
        await self.writer.flush_history()
        try:
            # While this waits for the lock, the store may be closed or replaced.
            async with self._database.statements(self.writer.check, is_little=self._history.is_short) as connection:
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
            return Store(LockedDatabase(file, path), thresholds, keep), True
    return Store(LockedDatabase(InMemory(threads or Threads()), path), thresholds, keep), False
