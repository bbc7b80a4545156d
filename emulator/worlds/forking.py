"""Letting a new world go on from where another one is (D-434): the database and the state of the new one."""

from __future__ import annotations

from functools import partial

from emulator.core.checkpoint import capture
from emulator.core.state import State
from emulator.core.world_setup import WorldSetup
from emulator.engine.clock import Anchor
from emulator.journal.snapshots import Snapshots
from emulator.journal.store import Store
from emulator.worlds.credentials import give_credentials
from emulator.worlds.setup import world_meta


async def fork_in_memory(source: Store, fresh: Store, setup: WorldSetup, anchor: Anchor) -> tuple[Store, State]:
    """Let a new store in memory go on, as the world of `setup`. Raises UnusableDatabase."""
    return fresh, await source.fork_to(fresh, partial(give_credentials, setup=setup), world_meta(setup, anchor))


async def fork_in_file(
    source: Store, fresh: Store, setup: WorldSetup, anchor: Anchor, snapshots: Snapshots
) -> tuple[Store, State]:
    """As `fork_in_memory`, for a new store in a file, from a snapshot that is taken for that."""
    async with snapshots.taken(source) as saved:
        give_credentials(saved.state, setup)
        give_credentials(saved.base, setup)
        base, meta = capture(saved.base), world_meta(setup, anchor)
        await fresh.begin(base, meta)
        await fresh.take_over(str(saved.path), capture(saved.state), base, meta)
        return await fresh.go_on()
