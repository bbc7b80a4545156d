"""What a world is made from and kept in: its setup, its credentials, and the options of its server."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from emulator.core.checkpoint import Checkpoint
from emulator.core.language.calendar import is_clock_instant, is_rate
from emulator.core.model.resources import Account
from emulator.core.record import Record, queue_token, token_text
from emulator.core.state import State, StateView
from emulator.core.world_setup import DEFAULT as DEFAULT
from emulator.core.world_setup import KEEP_ALL, Keep, WorldSetup, parse_world_name
from emulator.engine.clock import Anchor, PacedClock, wall_ms
from emulator.engine.limits import Limits
from emulator.fixtures.document import Fixtures
from emulator.journal import codec, files, schema
from emulator.journal.database import MEMORY, Pool
from emulator.journal.snapshots import Meta
from emulator.journal.store import Store, open_store
from emulator.journal.writer import DEFAULT_THRESHOLDS
from emulator.wire.dialect import Dialect

# Built here, and not by whichever thread reads a snapshot first (D-552).
_SETUP = msgspec.json.Decoder(WorldSetup)
_ANCHOR = msgspec.json.Decoder(Anchor)


class KeptWorld(Record):
    """A world that a database held: what it was made from, and what it began with."""

    setup: WorldSetup
    base: Checkpoint


def world_meta(setup: WorldSetup, anchor: Anchor) -> dict[str, bytes]:
    """What the database of a world says of it."""
    content = asdict(setup)
    del content["fixtures"]
    content["chaos"] = asdict(setup.chaos)
    content["keep_history"] = None if setup.keep_history is None else asdict(setup.keep_history)
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
    setup = _SETUP.decode(meta["world"])
    anchor = _ANCHOR.decode(meta["clock"])
    if not (is_clock_instant(setup.epoch_ms) and is_clock_instant(anchor.virtual_ms)):
        raise codec.Inconsistent("no clock shows the epoch or the instant of the world")
    if not (is_rate(setup.rate) and is_rate(anchor.rate) and is_clock_instant(anchor.wall_ms)):
        raise codec.Inconsistent("no clock goes at the rate of the world's")
    parse_world_name(setup.id)
    return setup, anchor


async def read_base(store: Store) -> Checkpoint:
    """What the world of a database began with. Raises UnusableDatabase."""
    try:
        return codec.decode_checkpoint((await store.meta())[schema.BASE_CHECKPOINT])
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{store.path}: damaged: {files.damage_text(error)}") from error


async def resume(store: Store, world_id: str, wanted_rate: float | None) -> tuple[WorldSetup, PacedClock, State]:
    """The world of a database, under the id by which it is opened. Raises UnusableDatabase.

    Its clock keeps the rate it had, unless the settings now ask for another one than when it was made.
    """
    state = await store.resume()
    try:
        setup, anchor = read_world_meta(await store.meta())
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{store.path}: damaged: {files.damage_text(error)}") from error
    setup = replace(setup, id=world_id)
    clock = PacedClock(anchor)
    # A frozen clock, or one ahead of a machine's clock that was set back, continues from where it was.
    now_ms = state.now_ms if clock.is_frozen else max(clock.now_ms(), state.now_ms)
    if wanted_rate is not None and wanted_rate != setup.rate:
        setup = replace(setup, rate=wanted_rate)
        clock.set_rate(wanted_rate, now_ms if wanted_rate else state.now_ms)
        for name, value in world_meta(setup, clock.anchor).items():
            await store.write_meta(name, value)
    elif clock.is_frozen or now_ms == state.now_ms:
        clock.rebase(state.now_ms)
    return setup, clock, state


def put_credentials(state: State, accounts: Iterable[Account]) -> None:
    """Give the accounts of a state the credentials and signing keys of others, in order."""
    for owner, account in zip(state.accounts.values(), accounts, strict=False):
        owner.account = replace(
            owner.account,
            password=account.password,
            token=account.token,
            read_only_token=account.read_only_token,
            signing_keys=account.signing_keys,
        )


def give_credentials(state: State, setup: WorldSetup) -> None:
    """Give the accounts of a copied state tokens and passwords of another world; the signing keys stay (D-434)."""
    for number, owner in enumerate(state.accounts.values(), start=1):
        is_chosen = number == 1 and setup.token
        key = setup.account_key if is_chosen else setup.secret_key
        account_id, password = owner.account.id, token_text(key, "password", number, 40)
        owner.account = replace(
            owner.account,
            password=password,
            token=setup.token if is_chosen else queue_token(account_id, password),
            read_only_token=queue_token(account_id, token_text(key, "read-only", number, 40)),
        )


def tokens_of(*accounts: Account) -> set[str]:
    return {token for account in accounts for token in (account.token, account.read_only_token)}


def accounts_of(state: StateView) -> tuple[Account, ...]:
    return tuple(owner.account for owner in state.accounts.values())


def identifiers_of(state: StateView) -> set[str]:
    """All ids and tokens by which a call finds a world or what is in it."""
    return {*state.accounts, *tokens_of(*accounts_of(state)), *state.search_indexes, *state.vector_indexes}


# The ending of a hidden folder: the snapshots of a world that is being removed.
_REMOVED = ".removed"


class WorldOptions(Record):
    """`fixtures` None stands for the built-in ones; `db` is the database of the default world.

    With `fresh`, what it and the databases of other worlds hold is thrown away.
    """

    dialect: Dialect
    db: str = MEMORY
    fresh: bool = False
    limits: Limits = Limits()
    fixtures: Fixtures | None = None
    keep_history: Keep = KEEP_ALL

    @property
    def keeps_state(self) -> bool:
        return self.db != MEMORY

    def database(self, world_id: str) -> str:
        """Where a world keeps its database. The directory exists afterwards."""
        if not self.keeps_state or world_id == DEFAULT:
            return self.db
        self._folder.mkdir(exist_ok=True)
        return str(self._folder / f"{world_id}.db")

    async def open_store(self, world_id: str, pool: Pool) -> tuple[Store, bool]:
        """The store of a world; the flag tells whether it holds the world already. Raises UnusableDatabase."""
        try:
            path = self.database(world_id)
        except OSError as error:
            raise files.unusable(self._folder, error) from error
        return await open_store(path, DEFAULT_THRESHOLDS, self.keep_history, pool)

    def snapshots_folder(self, world_id: str) -> Path | None:
        """Where a world keeps its snapshots: beside the database, None without one (D-205)."""
        return Path(f"{self.db}-snapshots", world_id) if self.keeps_state else None

    def further_worlds(self) -> list[str]:
        """The ids of the worlds, besides the default one, that have a database."""
        return sorted(path.stem for path in files.found_in(self._folder, "*.db")) if self.keeps_state else []

    def undo_folder(self, world_id: str) -> Path | None:
        """Where a world keeps what it was before its undoable advances, until the server stops."""
        return Path(f"{self.db}-snapshots", ".undo", world_id) if self.keeps_state else None

    def remove_database(self, world_id: str) -> None:
        files.remove(self._folder / f"{world_id}.db")

    def remove_world(self, world_id: str) -> None:
        """Remove a world's database and snapshots: killed at any moment, it is there whole or not at all (D-550)."""
        snapshots = self.snapshots_folder(world_id)
        assert snapshots is not None
        removed = snapshots.with_name(f".{world_id}{_REMOVED}")
        if snapshots.exists():
            shutil.rmtree(removed, ignore_errors=True)
            snapshots.rename(removed)
        # The one step: until the database is gone, the next start gives the world its snapshots back.
        self.remove_database(world_id)
        shutil.rmtree(removed, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what a kill has left of worlds that were being made or removed (D-550).

        Call when the default world is open: only then is it certain that no other process uses the files.
        """
        if not self.keeps_state:
            return
        path = Path(self.db)
        files.tidy(path.parent, path.name)
        files.tidy(self._folder)
        shutil.rmtree(Path(f"{self.db}-snapshots", ".undo"), ignore_errors=True)
        for removed in files.found_in(Path(f"{self.db}-snapshots"), f".*{_REMOVED}"):
            world_id = removed.name[1:].removesuffix(_REMOVED)
            if Path(self.database(world_id)).exists():
                removed.rename(removed.with_name(world_id))
            else:
                shutil.rmtree(removed, ignore_errors=True)
        for world_id in self.further_worlds():
            # A file that cannot be used is reported when it is opened.
            with contextlib.suppress(files.UnusableDatabase):
                if not files.check(Path(self.database(world_id))):
                    self.remove_database(world_id)

    @property
    def _folder(self) -> Path:
        """Where the worlds besides the default one keep their databases."""
        return Path(f"{self.db}-worlds")
