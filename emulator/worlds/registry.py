"""All worlds of a server: making, finding and removing them. They share nothing but the process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from emulator.core.checkpoint import capture
from emulator.core.errors import Conflict, InvalidInput, NotFound
from emulator.core.model import Account, AccountId
from emulator.core.state import State
from emulator.core.state_view import StateView
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import Anchor, PacedClock, wall_ms
from emulator.fixtures import files as fixture_files
from emulator.fixtures import initial_state
from emulator.fixtures.document import InvalidFixtures, read_fixtures
from emulator.journal.store import MEMORY, open_store
from emulator.queries.reports import WorldRequest
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.worlds.setup import DEFAULT, WorldSetup, encoded, origin_of, resume
from emulator.worlds.world import Observer, World, WorldOptions

_WORLD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a messaging call: the world and account behind a token."""

    world: World
    account_id: AccountId
    is_read_only: bool


class Worlds:
    """All worlds of a server. Every world has a transport of its own; its facts reach every observer."""

    def __init__(
        self, *, options: WorldOptions, dialect: Dialect, new_transport: Callable[[], DeliveryTransport]
    ) -> None:
        self.options = options
        self.dialect = dialect
        self.new_transport = new_transport
        self.observers: list[Observer] = []
        self._worlds: dict[str, World] = {}
        # Worlds come and go, and take over ids and tokens, one at a time.
        self.making = asyncio.Lock()
        self._callers: dict[str, Caller] = {}
        self._made = 0

    @property
    def keeps_state(self) -> bool:
        return self.options.db != MEMORY

    def __len__(self) -> int:
        return len(self._worlds)

    def all(self) -> tuple[World, ...]:
        return tuple(self._worlds.values())

    def get(self, world_id: str) -> World:
        """Raises NotFound for a world that does not exist."""
        world = self._worlds.get(world_id)
        if world is None:
            raise NotFound(f"world {world_id} not found")
        return world

    # -- finding ----------------------------------------------------------------------------

    def by_token(self, token: str) -> Caller | None:
        """Whose messaging token this is, in whichever world; None for nobody's."""
        known = self._callers.get(token)
        if known is not None and self._still_holds(known, token):
            return known
        for world in self._worlds.values():
            for book in world.state.accounts.values():
                account = book.account
                if token in (account.token, account.read_only_token):
                    caller = Caller(world=world, account_id=account.id, is_read_only=token == account.read_only_token)
                    self._callers[token] = caller
                    return caller
        self._callers.pop(token, None)
        return None

    def _still_holds(self, caller: Caller, token: str) -> bool:
        if self._worlds.get(caller.world.id) is not caller.world:
            return False
        book = caller.world.state.accounts.get(caller.account_id)
        if book is None:
            return False
        return token == (book.account.read_only_token if caller.is_read_only else book.account.token)

    def check_tokens_are_free(self, of: World, account: Account) -> None:
        """Every token finds one account only, whichever worlds there are. Raises Conflict."""
        for world in self._worlds.values():
            for book in world.state.accounts.values():
                is_itself = world is of and book.account.id == account.id
                if not is_itself and {account.token, account.read_only_token} & _tokens((book.account,)):
                    raise Conflict("token: another account has this token already")

    def check_tokens_are_own(self, of: World, states: Iterable[StateView]) -> None:
        """The same for all accounts of states that a world is to have. Raises Conflict."""
        wanted = {token for state in states for token in _tokens(book.account for book in state.accounts.values())}
        for world in self._worlds.values():
            if world is not of and wanted & _tokens(book.account for book in world.state.accounts.values()):
                raise Conflict(
                    f"an account of the world {world.id} has a token of the snapshot; delete or reset it first"
                )

    def by_login(self, username: str, password: str) -> World | None:
        """Which world's management credentials these are."""
        for world in self._worlds.values():
            if (username, password) == world.login:
                return world
        return None

    # -- making and removing ----------------------------------------------------------------

    async def start(self, setup: WorldSetup) -> None:
        """Open the default world, and with a database file every world it holds.

        Raises UnusableDatabase with one clear line.
        """
        await self._open(setup, wanted_rate=setup.rate)
        if self.keeps_state:
            for path in sorted(self._folder().glob("*.db")):
                await self._open(replace(setup, id=path.stem))

    async def create(self, request: WorldRequest, defaults: WorldSetup) -> World:
        """Make a world. Raises InvalidInput for a bad id or fixtures, Conflict for what exists already."""
        async with self.making:
            world_id = request.id or self._unused_id()
            if not _WORLD_ID.fullmatch(world_id):
                raise InvalidInput("id", "expected 1 to 64 letters, digits, hyphens, underscores or periods")
            if world_id in self._worlds:
                raise Conflict(f"world {world_id} exists already")
            return await self._open(
                WorldSetup(
                    id=world_id,
                    seed=defaults.seed if request.seed is None else request.seed,
                    epoch_ms=wall_ms() if request.epoch_ms is None else request.epoch_ms,
                    rate=0.0 if request.rate is None else request.rate,
                    plan=defaults.plan if request.plan is None else request.plan,
                ),
                fixtures=request.fixtures,
            )

    def _unused_id(self) -> str:
        self._made += 1
        while f"world-{self._made}" in self._worlds:
            self._made += 1
        return f"world-{self._made}"

    async def delete(self, world_id: str) -> None:
        """Remove a world for good. The default world stays. Raises NotFound, Conflict."""
        if world_id == DEFAULT:
            raise Conflict("the default world cannot be deleted; reset it instead")
        async with self.making:
            world = self.get(world_id)
            del self._worlds[world_id]
            self._callers = {token: caller for token, caller in self._callers.items() if caller.world is not world}
            await world.close()
            if self.keeps_state:
                # First: should it end here, the world of this name that comes next must not find them.
                await world.snapshots.remove_all()
                for suffix in ("", "-wal", "-shm", "-journal"):
                    self._folder().joinpath(f"{world_id}.db{suffix}").unlink(missing_ok=True)

    async def close(self) -> None:
        """Let every world finish what is in flight, and let go of the files."""
        await asyncio.gather(*(world.close() for world in self._worlds.values()))

    async def _open(
        self, setup: WorldSetup, wanted_rate: float | None = None, fixtures: Mapping[str, object] | None = None
    ) -> World:
        """Open a world, or make it. `wanted_rate` is what the server's settings say, if they mean this world."""
        store, has_world = await open_store(self._path(setup.id))
        try:
            if has_world:
                setup, clock, state = await resume(store, setup.id, wanted_rate)
            else:
                clock = PacedClock(Anchor(virtual_ms=setup.epoch_ms, wall_ms=wall_ms(), rate=setup.rate))
                meta = {"world": encoded(setup), "clock": encoded(clock.anchor)}
                state = await store.begin(capture(self.first_state(setup, fixtures)), meta)
            world = World(setup, clock, store, state, self)
            await world.history.load()
            world.snapshots.tidy()
        except BaseException:
            await store.close()
            raise
        self._worlds[setup.id] = world
        world.start()
        return world

    def first_state(self, setup: WorldSetup, document: Mapping[str, object] | None) -> State:
        """What a world begins with: the document's fixtures, or else the server's.

        Raises InvalidInput naming what is wrong in the document, and Conflict if it fixes an id or a
        token that another world has.
        """
        try:
            if document is not None:
                fixtures = read_fixtures(cast(Json, document), self.dialect)
            else:
                fixtures = self.options.fixtures or fixture_files.built_in(self.dialect)
                if setup.id != DEFAULT:
                    fixtures = initial_state.without_secrets(fixtures)
            state = initial_state.first_state(origin_of(setup, self.dialect), fixtures)
        except InvalidFixtures as invalid:
            problem = invalid.problems[0]
            raise InvalidInput(f"fixtures.{problem.field}", problem.reason) from None
        self._check_is_unique(setup.id, state)
        return state

    def _check_is_unique(self, world_id: str, state: State) -> None:
        wanted = _what_finds(state)
        for world in self._worlds.values():
            if world.id != world_id and (both := wanted & _what_finds(world.state)):
                raise Conflict(f"fixtures: {min(both)} belongs to the world {world.id} already")

    def _path(self, world_id: str) -> str:
        if not self.keeps_state:
            return MEMORY
        if world_id == DEFAULT:
            return self.options.db
        folder = self._folder()
        folder.mkdir(exist_ok=True)
        return str(folder / f"{world_id}.db")

    def snapshots_folder(self, world_id: str) -> Path | None:
        """Where a world keeps its snapshots: beside the database, None without one (D-205)."""
        return Path(f"{self.options.db}-snapshots") / world_id if self.keeps_state else None

    def _folder(self) -> Path:
        """Where the worlds besides the default one keep their files: beside its database."""
        return Path(f"{self.options.db}-worlds")


def _tokens(accounts: Iterable[Account]) -> set[str]:
    return {token for account in accounts for token in (account.token, account.read_only_token)}


def _what_finds(state: StateView) -> set[str]:
    """All ids and tokens by which a call finds what it means."""
    accounts = [book.account for book in state.accounts.values()]
    return {
        *state.accounts,
        *(account.token for account in accounts),
        *(account.read_only_token for account in accounts),
        *state.search_indexes,
        *state.vector_indexes,
    }
