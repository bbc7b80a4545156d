"""Worlds whose facts are kept in a real store, and crashes: copies of the files as they are at a moment."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiosqlite

from emulator.core.checkpoint import capture
from emulator.core.commands import Command
from emulator.core.simulation import Simulation
from emulator.core.state import State
from emulator.journal.database import MEMORY
from emulator.journal.dropping import KEEP_ALL, Keep
from emulator.journal.history import History
from emulator.journal.store import Store, open_store
from emulator.journal.writer import DEFAULT_THRESHOLDS, Thresholds
from emulator.queries.history import Delivery, Event, EventQuery
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

    async def trace(self) -> list[Event | Delivery]:
        return [entry async for entry in self.history.trace()]


@asynccontextmanager
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


async def connection_of(store: Store) -> aiosqlite.Connection:
    """The connection of a store: of a file for good, of a database in memory while few others are used."""
    async with store._database.exclusive() as connection:
        return connection


def crash(path: Path, to: Path) -> Path:
    """The files as a `kill -9` at this moment would leave them, as another database."""
    to.mkdir(parents=True)
    for suffix in ("", "-wal", "-journal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copy(source, to / source.name)
    return to / path.name
