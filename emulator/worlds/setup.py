"""What the database of a world says of it: the setup it was made from, and where its clock met real time."""

from __future__ import annotations

import json

import msgspec
from msgspec.structs import asdict, replace

from emulator.core.checkpoint import Checkpoint
from emulator.core.record import Record
from emulator.core.rules.clock import is_clock_instant
from emulator.core.state import State
from emulator.core.world_setup import DEFAULT as DEFAULT
from emulator.core.world_setup import WorldSetup, parse_world_name
from emulator.engine.clock import Anchor, PacedClock, wall_ms
from emulator.journal import codec, files, schema
from emulator.journal.snapshots import Meta
from emulator.journal.store import Store
from emulator.wire.control.clock import is_rate


class KeptWorld(Record):
    """A world that a database held: what it was made from, and what it began with."""

    setup: WorldSetup
    base: Checkpoint


def world_meta(setup: WorldSetup, anchor: Anchor) -> dict[str, bytes]:
    """What the database of a world says of it."""
    content = asdict(setup)
    del content["fixtures"]
    content["chaos"] = asdict(setup.chaos)
    return {"world": json.dumps(content).encode(), **clock_meta(anchor)}


def first_anchor(setup: WorldSetup) -> Anchor:
    """Where the clock of a new world meets real time: now.

    A real-time world whose epoch is the wall clock stands at the wall clock, however long its making takes (D-261).
    """
    stands_at_the_wall_clock = setup.rate == 1 and not setup.epoch_is_given
    met_ms = setup.epoch_ms if stands_at_the_wall_clock else wall_ms()
    return Anchor(virtual_ms=setup.epoch_ms, wall_ms=met_ms, rate=setup.rate)


def clock_meta(anchor: Anchor) -> dict[str, bytes]:
    return {"clock": json.dumps(asdict(anchor)).encode()}


def read_world_meta(meta: Meta) -> tuple[WorldSetup, Anchor]:
    """What a database says of its world. Raises one of `files.DAMAGE`."""
    setup = msgspec.json.decode(meta["world"], type=WorldSetup)
    anchor = msgspec.json.decode(meta["clock"], type=Anchor)
    if not (is_clock_instant(setup.epoch_ms) and is_clock_instant(anchor.virtual_ms)):
        raise ValueError("no clock shows the epoch or the instant of the world")
    if not (is_rate(setup.rate) and is_rate(anchor.rate) and is_clock_instant(anchor.wall_ms)):
        raise ValueError("no clock goes at the rate of the world's")
    parse_world_name(setup.id)
    return setup, anchor


async def read_base(store: Store) -> Checkpoint:
    """What the world of a database began with. Raises UnusableDatabase."""
    try:
        return codec.decode_checkpoint((await store.meta())[schema.BASE_CHECKPOINT])
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{store.path}: damaged: {error!r}") from error


async def resume(store: Store, world_id: str, wanted_rate: float | None) -> tuple[WorldSetup, PacedClock, State]:
    """The world of a database, under the id by which it is opened. Raises UnusableDatabase.

    Its clock keeps the rate it had, unless the settings now ask for another one than when it was made.
    """
    state = await store.resume()
    try:
        setup, anchor = read_world_meta(await store.meta())
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{store.path}: damaged: {files.told(error)}") from error
    setup = replace(setup, id=world_id)
    clock = PacedClock(anchor)
    # A frozen clock, or one ahead of a machine's clock that was set back, goes on from where it was.
    now_ms = state.now_ms if clock.is_frozen else max(clock.now_ms(), state.now_ms)
    if wanted_rate is not None and wanted_rate != setup.rate:
        setup = replace(setup, rate=wanted_rate)
        clock.set_rate(wanted_rate, now_ms if wanted_rate else state.now_ms)
        for name, value in world_meta(setup, clock.anchor).items():
            await store.write_meta(name, value)
    elif clock.is_frozen or now_ms == state.now_ms:
        clock.rebase(state.now_ms)
    return setup, clock, state
