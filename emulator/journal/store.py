"""The store of one world: its database from the first moment to the last, and what others read of it.

What happens in between is written by its `writer`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from emulator.core.checkpoint import Checkpoint, capture, restore
from emulator.core.errors import Damaged, UnreadableRow
from emulator.core.state import State
from emulator.core.world_setup import KEEP_ALL, Keep
from emulator.journal import codec, files, schema
from emulator.journal.conditions import first_rows
from emulator.journal.damage import find_any_damage
from emulator.journal.database import MEMORY, Database, Job, Pool
from emulator.journal.projection import Projector
from emulator.journal.writer import DEFAULT_THRESHOLDS, Backlog, StartingPoint, Thresholds, Writer

T = TypeVar("T")
# What makes a copied state that of another world.
Change = Callable[[State], None]


class Store:
    """Facts and history of one world in SQLite. Made by `open_store`."""

    def __init__(self, database: Database, thresholds: Thresholds = DEFAULT_THRESHOLDS, keep: Keep = KEEP_ALL) -> None:
        self.path = database.path
        # The bytes that the database takes.
        self.size = database.size
        self._database = database
        self._thresholds = thresholds
        self.writer = Writer(database, thresholds, keep)
        self.latest = self.writer.latest
        self._unreadable: UnreadableRow | None = None
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
        state, projector = restore(checkpoint), Projector(0)
        projector.seed(state)
        self.writer.start(StartingPoint(state=state, projector=projector))
        return state

    async def resume(self) -> State:
        """The state as it was when the last process left, however it left. Raises UnusableDatabase."""
        try:
            found = await self._database.run(replay)
        except files.DAMAGE as error:
            raise files.UnusableDatabase(f"{self.path}: damaged: {files.damage_text(error)}") from error
        self.writer.start(found)
        return found.state

    # -- whether it works -------------------------------------------------------------------

    def problem(self) -> str | None:
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

    @property
    def waits_for_room(self) -> bool:
        """Whether a full disk is all that is wrong: the store can be opened again once there is room."""
        failure = self.writer.failure
        if failure is None or not files.is_disk_full(failure) or not self.can_be_opened_again:
            return False
        return self._database.has_its_file

    async def check_disk_space(self) -> None:
        """Write what a world needs most room for. Raises UnusableDatabase."""
        try:
            await self.writer.checkpoint()
        except sqlite3.Error as error:
            raise files.unusable(self.path, error) from error

    # -- copies -----------------------------------------------------------------------------

    async def copy_to(self, path: str) -> None:
        """Write all there is, as it is now, to a new file that `open_store` can open. Raises UnusableDatabase."""
        await self.writer.between_writes(lambda: self._database.copy_to(path), after_checkpoint=True)

    async def fork_to(self, empty: Store, change: Change, meta: dict[str, bytes]) -> tuple[Store, State]:
        """Fork into an empty store; the store and its state (D-434).

        `change` is applied to that state and to what a reset returns to. Raises as `copy_to`.
        """
        if empty._database.is_file:
            return await self._fork_to_file(empty, change, meta)
        # History that is not written yet is not written for it: each of the two writes its own.
        return empty, await self.writer.between_writes(lambda: self._fork(empty, change, meta))

    async def _fork_to_file(self, empty: Store, change: Change, meta: dict[str, bytes]) -> tuple[Store, State]:
        """The file gets its name when all of it is written (D-550)."""
        path = Path(empty.path)
        copy = files.hidden_beside(path)
        try:
            await self.copy_to(str(copy))
            await _make_independent(copy, change, meta)
            files.put_in_place(copy, path)
        except (OSError, sqlite3.Error) as error:
            raise files.unusable(path, error) from error
        finally:
            files.remove(copy)
        fresh, _ = await open_store(empty.path, self._thresholds, self.writer.keep)
        try:
            return fresh, await fresh.resume()
        except BaseException:
            await fresh.close()
            raise

    async def _fork(self, fresh: Store, change: Change, meta: dict[str, bytes]) -> State:
        try:
            base = restore(await self._base_checkpoint())
            change(base)
            fresh._base = capture(base)
            # Of one moment: what the writer has not written yet, and what the database holds until it writes again.
            at = self.writer.fork()
            change(at.state)
            await fresh._database.begin_as_copy(self._database, fresh._base, meta)
        except (sqlite3.Error, ValueError) as error:
            raise files.UnusableDatabase(f"{fresh.path}: {error}") from error
        fresh.writer.start(at)
        return at.state

    # -- other lives of the same database ---------------------------------------------------

    async def open_again(self) -> Store:
        """A store on the same file after a write has failed, not resumed yet; this one is not used any more.

        Raises UnusableDatabase if the file is gone, or cannot be written still.
        """
        await self.writer.stop()
        await self._database.close()
        if files.identity(self.path) is None:
            raise files.UnusableDatabase(f"{self.path}: the file is gone")
        fresh, has_world = await open_store(self.path, self._thresholds, self.writer.keep)
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
            self.writer.failure = error
            raise files.broken(error) from error
        fresh = self._successor()
        return fresh, fresh._begin(checkpoint)

    async def take_over(self, path: str, checkpoint: Checkpoint, base: Checkpoint, meta: dict[str, bytes]) -> None:
        """Put the world of a copy in place of this one, whole or not at all; `reopen` opens what it became.

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

    async def reopen(self) -> tuple[Store, State]:
        """A store with the world that the database holds after `take_over`; this one is not used any more."""
        fresh = self._successor()
        return fresh, await fresh.resume()

    def _successor(self) -> Store:
        """Another store on the same database."""
        self.writer.abandon()
        return Store(self._database, self._thresholds, self.writer.keep)

    async def close(self) -> None:
        """Write everything, and let go of the file. What could not be written is then its `problem`."""
        try:
            await self.writer.close()
        finally:
            await self._database.close()

    # -- meta and history -------------------------------------------------------------------

    async def last_seq(self) -> int:
        """The last entry of history, after everything that has happened so far."""
        await self.writer.flush_history()
        return self.writer.last_seq

    async def meta(self) -> dict[str, bytes]:
        """What the database says of its world. Raises Conflict once it is closed."""
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
            entry = (name, value)
            await self._database.run(lambda connection: connection.execute(schema.WRITE_META, entry), self.writer.check)
            self._database.check_file()
        except (sqlite3.Error, files.UnusableDatabase) as error:
            raise files.broken(error) from error

    async def rows(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """As `read`, the rows of one statement."""
        return await self.read(lambda connection: connection.execute(statement, parameters).fetchall())

    async def first_rows(self, statement: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], bool]:
        """As `rows`, but of long rows only the first; whether there may be more. See `conditions.first_rows`."""
        return await self.read(lambda connection: first_rows(connection, statement, parameters))

    async def read(self, job: Job[T]) -> T:
        """What a job reads of history, all of it at one moment after everything that has happened so far.

        Raises Damaged.
        """
        await self.writer.flush_history()
        try:
            # While this waits for the lock, the store may be closed or replaced.
            return await self._database.run(job, self.writer.check, is_little=self.writer.is_short)
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from error

    async def find_damage(self) -> UnreadableRow | None:
        """What is wrong with a row or an index of the database, None if all are what they should be (D-793).

        It looks at all of it, once something could not be read; what it has found is known from then on.
        """
        if self._unreadable is None:
            try:
                lines = await self._database.run(find_any_damage, self.writer.check)
            except sqlite3.Error as error:
                lines = [str(error)]
            self._unreadable = UnreadableRow(self.path, lines[0]) if lines else None
        return self._unreadable

    def damaged(self, what: str) -> Damaged:
        """What to raise for damage that was found in history."""
        return Damaged(self.path, what)


async def _make_independent(path: Path, change: Change, meta: dict[str, bytes]) -> None:
    """Make a copy of a world that has just stored its state another world. Raises sqlite3.Error."""
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        _, state = codec.checkpoint_of(await connection.execute_fetchall(schema.SELECT_CHECKPOINT))
        found = await connection.execute_fetchall(schema.SELECT_META)
        base = dict(map(tuple, found))[schema.BASE_CHECKPOINT]
        state, base = await asyncio.to_thread(lambda: (_changed(state, change), _changed(base, change)))
        await connection.executescript(schema.OPEN_COPY)
        await connection.execute("BEGIN")
        await connection.execute(schema.REPLACE_STATE, (state,))
        await connection.executemany(schema.WRITE_META, [*meta.items(), (schema.BASE_CHECKPOINT, base)])
        await connection.execute(schema.FORGET_GENERATION)
        await connection.execute("COMMIT")


def _changed(checkpoint: bytes, change: Change) -> bytes:
    state = restore(codec.decode_checkpoint(checkpoint))
    change(state)
    return codec.encode(capture(state))


async def open_store(
    path: str, thresholds: Thresholds = DEFAULT_THRESHOLDS, keep: Keep = KEEP_ALL, pool: Pool | None = None
) -> tuple[Store, bool]:
    """Open a store; the flag tells whether it holds a world already. Otherwise `begin` makes its file.

    The databases of a server share `pool`. Raises
    files.UnusableDatabase for a file that is not ours, of another format, damaged, or in use.
    """
    database = Database(path, pool)
    has_world = path != MEMORY and files.check(Path(path)) and await database.open_file()
    return Store(database, thresholds, keep), has_world


# -- reading all of it ------------------------------------------------------------------------


def replay(connection: sqlite3.Connection) -> StartingPoint:
    """Read a database whole. Raises one of `files.DAMAGE` if it does not hold what was written."""
    meta = dict(connection.execute(schema.SELECT_META))
    covers, encoded = codec.checkpoint_of(connection.execute(schema.SELECT_CHECKPOINT))
    shared = codec.Shared()
    found = StartingPoint(
        state=restore(codec.decode_checkpoint(encoded, shared)),
        projector=Projector(int(meta.get(schema.HISTORY_SEQ, b"0"))),
        dropped=codec.decode_dropped(meta.get(schema.DROPPED, b"0 0")),
        backlog=Backlog(covered=int(covers), projected=int(meta.get(schema.PROJECTED, b"0")), written=int(covers)),
    )
    ((last_entry,),) = connection.execute(schema.SELECT_LAST_SEQ)
    if max(last_entry, found.dropped.seq) != found.projector.seq:
        raise codec.Inconsistent(f"its history ends with entry {last_entry}, not {found.projector.seq}")
    accounts = (json.dumps(list(found.state.accounts)),)
    found.projector.start_counts_from(
        connection.execute(schema.SELECT_USAGE_SO_FAR, accounts),
        connection.execute(schema.SELECT_WORKFLOWS_SO_FAR, accounts),
    )
    _apply_facts(connection, found, shared)
    return found


def _apply_facts(connection: sqlite3.Connection, found: StartingPoint, shared: codec.Shared) -> None:
    """Apply the facts after the checkpoint."""
    state, backlog, is_projected = found.state, found.backlog, True
    for last_seq, count, payload in connection.execute(schema.SELECT_FACTS, (backlog.covered,)):
        if last_seq - count != backlog.written:
            raise codec.Inconsistent(f"what happened after the {backlog.written}th fact is missing")
        for seq, fact in enumerate(codec.decode_facts(payload, shared), start=last_seq - count + 1):
            if seq > backlog.projected:
                if is_projected:
                    # The first fact that history does not show: seed the projector with the live messages.
                    found.projector.seed(state)
                    is_projected = False
                backlog.to_project.append(fact)
            state.apply(fact)
        backlog.written = int(last_seq)
    if backlog.projected > backlog.written:
        raise codec.Inconsistent(f"facts are missing: {backlog.written} of at least {backlog.projected}")
    if is_projected:
        found.projector.seed(state)
        backlog.projected = backlog.written
    backlog.appended = backlog.written
