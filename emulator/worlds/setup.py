"""What a world is made of, as its database keeps it: the setup it begins with, and where its clock met real time."""

from __future__ import annotations

import json

from msgspec.structs import asdict, replace

from emulator.core.identifiers import world_key
from emulator.core.model import Plan
from emulator.core.record import Record
from emulator.core.state import State
from emulator.engine.clock import Anchor, PacedClock
from emulator.fixtures import initial_state
from emulator.journal import files
from emulator.journal.snapshots import Meta
from emulator.journal.store import Store
from emulator.wire.dialect import Dialect
from emulator.wire.instants import EARLIEST_VIRTUAL_MS, MAX_INSTANT_MS

DEFAULT = "default"


class WorldSetup(Record):
    """What a world was made of; it is made of the same again by a reset."""

    id: str
    seed: int
    epoch_ms: int
    rate: float
    plan: Plan


def origin_of(setup: WorldSetup, dialect: Dialect) -> initial_state.Origin:
    """What the first state of such a world is made from, besides fixtures."""
    return initial_state.Origin(
        world_id=setup.id,
        seed=setup.seed,
        epoch_ms=setup.epoch_ms,
        plan=setup.plan,
        secret=secret_key(setup),
        published=dialect.credentials if setup.id == DEFAULT else None,
    )


def secret_key(setup: WorldSetup) -> bytes:
    """Tokens and account ids differ from world to world, so that a call finds its world by them."""
    return world_key(setup.seed, setup.id)


def encoded(record: WorldSetup | Anchor) -> bytes:
    """A record as a database keeps it."""
    return json.dumps(asdict(record)).encode()


def setup_and_anchor(meta: Meta) -> tuple[WorldSetup, Anchor]:
    """What a database says of its world. Raises one of `files.DAMAGE`."""
    return _setup_from(json.loads(meta["world"])), _anchor_from(json.loads(meta["clock"]))


def _setup_from(content: dict[str, object]) -> WorldSetup:
    world_id, seed, epoch_ms, rate = str(content["id"]), content["seed"], content["epoch_ms"], content["rate"]
    if not (isinstance(seed, int) and isinstance(epoch_ms, int) and isinstance(rate, int | float)):
        raise TypeError("no world begins like that")
    if not EARLIEST_VIRTUAL_MS <= epoch_ms <= MAX_INSTANT_MS:
        raise ValueError("no calendar shows when the world begins")
    return WorldSetup(id=world_id, seed=seed, epoch_ms=epoch_ms, rate=float(rate), plan=Plan(str(content["plan"])))


def _anchor_from(content: dict[str, float]) -> Anchor:
    return Anchor(virtual_ms=int(content["virtual_ms"]), wall_ms=int(content["wall_ms"]), rate=content["rate"])


async def resume(store: Store, world_id: str, wanted_rate: float | None) -> tuple[WorldSetup, PacedClock, State]:
    """The world of a database, under the id by which it is opened. Raises UnusableDatabase.

    Its pace goes on as it was left, unless the settings now ask for another one than when it was made.
    """
    state = await store.resume()
    try:
        setup, anchor = setup_and_anchor(await store.meta())
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{store.path}: damaged: {error!r}") from error
    setup = replace(setup, id=world_id)
    clock = PacedClock(anchor)
    # A clock that stood still, or ran ahead of a machine's clock that was set back, goes on from where it was.
    now_ms = state.now_ms if clock.is_frozen else max(clock.now_ms(), state.now_ms)
    if wanted_rate is not None and wanted_rate != setup.rate:
        setup = replace(setup, rate=wanted_rate)
        clock.set_rate(wanted_rate, now_ms if wanted_rate else state.now_ms)
        await store.write_meta("world", encoded(setup))
        await store.write_meta("clock", encoded(clock.anchor))
    elif clock.is_frozen or now_ms == state.now_ms:
        clock.rebase(state.now_ms)
    return setup, clock, state
