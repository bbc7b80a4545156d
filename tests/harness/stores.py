"""Worlds whose facts are kept in a real store, and crashes: copies of the files as they are at a moment."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from emulator.core.checkpoint import capture
from emulator.core.commands import Command
from emulator.core.simulation import Simulation
from emulator.core.state import State
from emulator.core.world_setup import KEEP_ALL, Keep
from emulator.journal.database import MEMORY
from emulator.journal.history import History
from emulator.journal.store import Store, open_store
from emulator.journal.writer import DEFAULT_THRESHOLDS, Thresholds
from emulator.queries.history import Event, EventQuery, RecordedDelivery
from tests.harness.simulations import ACCOUNT_ID, EPOCH_MS, Answering, World, make_account

R = TypeVar("R")

ALL = EventQuery(account_id=ACCOUNT_ID, count=100_000, latest_first=False)


class KeptWorld(World):
    """A world of the core's tests; its facts go to a store as they happen."""

    def __init__(self, store: Store, state: State, answering: Answering | None) -> None:
        super().__init__(make_account(), answering=answering)
        self.store = store
        self.history = History(store)
        self._state = state
        self.simulation = Simulation(state)
        self.messages.update((message_id, progress.message) for message_id, progress in state.messages.items())

    def submit(self, command: Command[R]) -> R:
        count = len(self.facts)
        reply = super().submit(command)
        self.store.writer.append(self.facts[count:])
        return reply

    async def events(self) -> list[Event]:
        return list((await self.history.events(ALL)).items)

    async def trace(self) -> list[Event | RecordedDelivery]:
        return [entry async for entry in self.history.trace()]


@contextlib.asynccontextmanager
async def kept(
    path: Path | str = MEMORY,
    answering: Answering | None = None,
    *,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    keep: Keep = KEEP_ALL,
) -> AsyncIterator[KeptWorld]:
    """A world on a store, new or as it was left; closed in order at the end."""
    fresh = World(make_account())
    store, has_world = await open_store(str(path), thresholds, keep)
    try:
        state = await store.resume() if has_world else await store.begin(capture(fresh._state), {})
        world = KeptWorld(store, state, answering or fresh.answering)
        world.began_ms = EPOCH_MS
        await world.history.load()
        yield world
    finally:
        await store.close()


async def connection_of(store: Store) -> sqlite3.Connection:
    """The connection of a store, which this makes in memory."""
    return await store._database.run(lambda connection: connection)


class _Watched:
    """A connection of which a test sees each statement before it runs."""

    def __init__(self, connection: sqlite3.Connection, see: Callable[[str], None]) -> None:
        self._connection = connection
        self._see = see

    def execute(self, statement: str, *parameters: Any) -> Any:
        self._see(statement)
        return self._connection.execute(statement, *parameters)

    def executemany(self, statement: str, rows: Any) -> Any:
        self._see(statement)
        return self._connection.executemany(statement, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def watch_statements(store: Store, see: Callable[[str], None]) -> None:
    """From now on call `see` before each statement of this store, in the thread that runs it; what it raises fails."""
    watched = _Watched(await connection_of(store), see)
    store._database._connection = watched  # type: ignore[assignment]  # this store's alone


def crash(path: Path, to: Path) -> Path:
    """The files as a `kill -9` at this moment would leave them, as another database."""
    to.mkdir(parents=True)
    for suffix in ("", "-wal", "-journal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copy(source, to / source.name)
    return to / path.name


# Before each of these something is different on the disk.
_STEPS = {"sqlite3.connect", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
_watchers: list[Callable[[], None]] = []


def _hook(event: str, _: object) -> None:
    if _watchers and event in _STEPS:
        # What copies the files must not be watched.
        watcher = _watchers.pop()
        watcher()
        _watchers.append(watcher)


sys.addaudithook(_hook)


@contextlib.contextmanager
def copied_at_every_step(folder: Path, copies: Path) -> Iterator[list[Path]]:
    """Copies of a folder as a kill would leave it before each step, and at the end."""
    made: list[Path] = []
    last: dict[Path, bytes] = {}

    def copy() -> None:
        nonlocal last
        copied = shutil.copytree(folder, copies / f"{len(made)}", ignore=shutil.ignore_patterns("*-shm"))
        found = {each.relative_to(copied): each.read_bytes() if each.is_file() else b"" for each in copied.rglob("*")}
        if made and found == last:
            # The step was elsewhere.
            shutil.rmtree(copied)
            return
        last = found
        made.append(copied)

    _watchers.append(copy)
    try:
        yield made
    finally:
        _watchers.pop()
        copy()
