"""Worlds: making, finding, resetting and removing them. They share nothing but the process."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from emulator import fixture_files, origins
from emulator.core import commands, facts, limits
from emulator.core.books import StateView
from emulator.core.errors import Conflict, InvalidInput, NotFound, WorldBroken
from emulator.core.identifiers import token_text, world_key
from emulator.core.image import capture
from emulator.core.model import Account, AccountId, IndexId, Plan
from emulator.core.reports import AdvanceReport, ClockStatus, Credentials, WorldRequest
from emulator.core.simulation import Simulation
from emulator.core.state import State
from emulator.delivery.transport import DeliveryTransport
from emulator.driver import Driver
from emulator.journal.files import UnusableDatabase
from emulator.journal.history import History
from emulator.journal.store import MEMORY, Store, open_store
from emulator.realtime import Anchor, PacedClock, keep_time, wall_ms
from emulator.statistics import Statistics
from emulator.wire.dialect import Dialect
from emulator.wire.fixture_json import Fixtures, InvalidFixtures, read_fixtures
from emulator.wire.instants import MAX_INSTANT_MS
from emulator.wire.json_fields import Json

logger = logging.getLogger(__name__)

DEFAULT = "default"
_WORLD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSetup:
    """What a world was made of; it is made of the same again by a reset."""

    id: str
    seed: int
    epoch_ms: int
    rate: float
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a messaging call: the world and account behind a token."""

    world: World
    account_id: AccountId
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """What all worlds of a server have in common. `fixtures` None stands for the built-in ones."""

    db: str = MEMORY
    concurrency: int | None = None
    max_attempts_per_instant: int = 10_000
    fixtures: Fixtures | None = None


Observer = Callable[["World", StateView, Sequence[facts.Fact]], None]


class World:
    """One isolated universe: its clock, accounts, pending work and history."""

    def __init__(self, setup: WorldSetup, clock: PacedClock, store: Store, state: State, make: Worlds) -> None:
        self.setup = setup
        self.clock = clock
        self._worlds = make
        # It outlives a reset, and with it what is mounted: that is how the world is wired, not what is in it.
        self.transport = make.new_transport()
        # One reset or removal at a time.
        self._lock = asyncio.Lock()
        self._login = (f"{setup.id}@emulator.example", token_text(_secret_key(setup), "management", 1, 40))
        self._begin(store, state)

    def _begin(self, store: Store, state: State) -> None:
        options = self._worlds.options
        self._store = store
        self._bursts: dict[AccountId, limits.BurstWindow] = {}
        self.history = History(store)
        self._statistics = Statistics(store, self.setup.epoch_ms, self._worlds.dialect)
        self.driver = Driver(
            Simulation(state),
            store,
            self.transport,
            self.clock,
            concurrency=options.concurrency,
            max_attempts_per_instant=options.max_attempts_per_instant,
            observe=self._observed,
        )

    def start(self) -> None:
        """Go on with what was under way, and let time pass. Call once the world can be found."""
        # Before the clock can start anything else: what is under way now is what has to be made again.
        self.driver.resume()
        self._timekeeper = asyncio.get_running_loop().create_task(
            keep_time(self.driver, self.clock), name=f"clock of {self.setup.id}"
        )
        self._timekeeper.add_done_callback(_report_end)

    def _observed(self, state: StateView, produced: Sequence[facts.Fact]) -> None:
        for observer in self._worlds.observers:
            observer(self, state, produced)

    @property
    def id(self) -> str:
        return self.setup.id

    @property
    def state(self) -> StateView:
        return self.driver.state

    async def submit(self, command: commands.Command[commands.R_co]) -> commands.R_co:
        """Carry out a command; see `Driver.submit`."""
        return await self.driver.submit(command)

    async def present(self) -> StateView:
        """The state as of now, with everything done that has come due."""
        await self.driver.catch_up()
        return self.driver.state

    # -- the clock --------------------------------------------------------------------------

    async def clock_status(self) -> ClockStatus:
        state = await self.present()
        return ClockStatus(
            now_ms=state.now_ms,
            rate=self.clock.rate,
            next_due_ms=state.timers.next_work_ms(),
            pending=len(state.messages),
            in_flight=self.driver.in_flight,
        )

    async def set_clock(self, *, rate: float | None, now_ms: int | None) -> ClockStatus:
        """Change the pace, the instant, or both. Forward does the work on the way; back only in an unused world."""
        state = await self.present()
        if now_ms is not None and now_ms != state.now_ms:
            if now_ms > state.now_ms:
                await self.driver.advance_to(now_ms)
            else:
                await self.driver.set_back(now_ms)
                await self._statistics.clock_set_back(now_ms)
        if rate is not None:
            if now_ms is None:
                await self.driver.catch_up()
            self.clock.set_rate(rate, self.state.now_ms)
        self.driver.poke()
        await self._remember_clock()
        return await self.clock_status()

    async def advance_to(self, target_ms: int, max_deliveries: int) -> AdvanceReport:
        return await self._moved(await self.driver.advance_to(target_ms, max_deliveries))

    async def advance_by(self, duration_ms: int, max_deliveries: int) -> AdvanceReport:
        """Raises InvalidInput for a target that no calendar shows."""
        state = await self.present()
        if duration_ms > MAX_INSTANT_MS - state.now_ms:
            raise InvalidInput("by", "expected a duration that ends in the year 9999 at the latest")
        return await self._moved(await self.driver.advance_by(duration_ms, max_deliveries))

    async def advance_to_next(self) -> AdvanceReport:
        next_ms = (await self.present()).timers.next_work_ms()
        if next_ms is not None and next_ms > MAX_INSTANT_MS:
            raise Conflict("what is due next is due after the year 9999")
        return await self._moved(await self.driver.advance_to_next())

    async def advance_until_idle(self, horizon_ms: int, max_deliveries: int) -> AdvanceReport:
        state = await self.present()
        horizon_ms = min(horizon_ms, MAX_INSTANT_MS - state.now_ms)
        return await self._moved(await self.driver.advance_until_idle(horizon_ms, max_deliveries))

    async def _moved(self, report: AdvanceReport) -> AdvanceReport:
        await self._remember_clock()
        return report

    async def _remember_clock(self) -> None:
        """A restart goes on at the same pace from the same correspondence of virtual and real time."""
        if self._worlds.keeps_state:
            await self._store.write_meta("clock", _encoded(self.clock.anchor))

    # -- credentials ------------------------------------------------------------------------

    def account(self) -> Account:
        """The built-in account: the first of the world."""
        return next(iter(self.state.accounts.values())).account

    def find_account(self, account_id: AccountId) -> Account:
        """Raises NotFound for an account of another world, or of none."""
        book = self.state.accounts.get(account_id)
        if book is None:
            raise NotFound(f"account {account_id} not found")
        return book.account

    async def change_account(self, account: Account) -> None:
        """Put a changed record in place. Raises Conflict if one of its tokens is another account's."""
        self._worlds.check_tokens_are_free(account)
        await self.submit(commands.ChangeAccount(account=account))

    def count_call(self, account_id: AccountId) -> None:
        """Count a call against the account's burst limit. Raises QuotaExceeded."""
        account = self.state.accounts[account_id].account
        window = limits.count_call(self._bursts.get(account_id), account, self.state.now_ms, wall_ms())
        self._bursts[account_id] = window

    @property
    def login(self) -> tuple[str, str]:
        """User name and password of the management API."""
        return self._login

    def credentials(self) -> Credentials:
        account = self.account()
        username, password = self._login
        return Credentials(
            account_id=account.id,
            token=account.token,
            read_only_token=account.read_only_token,
            current_signing_key=account.signing_keys.current,
            next_signing_key=account.signing_keys.next,
            username=username,
            password=password,
            search_index_ids=tuple(self.state.search_indexes),
            vector_index_ids=tuple(self.state.vector_indexes),
        )

    # -- statistics -------------------------------------------------------------------------

    async def queue_statistics(self, account_id: AccountId, period: str | None) -> dict[str, Json]:
        """What passed through a queue account. Raises NotFound, and InvalidInput naming the period."""
        return await self._statistics.queue_account(await self.present(), account_id, period)

    def vector_statistics(self, index_id: IndexId, period: str | None) -> dict[str, Json]:
        """The statistics of a vector index. Raises NotFound, and InvalidInput naming the period."""
        return self._statistics.vector_index(self.state, index_id, period)

    def search_statistics(self, index_id: IndexId, period: str | None) -> dict[str, Json]:
        """The statistics of a search index. Raises NotFound, and InvalidInput naming the period."""
        return self._statistics.search_index(self.state, index_id, period)

    def search_throughput(self, index_id: IndexId) -> list[Json]:
        """The `throughput_vector` of a search index. Raises NotFound."""
        return self._statistics.search_throughput(self.state, index_id)

    def search_summary(self) -> dict[str, Json]:
        """What all search indexes come to."""
        return self._statistics.search_summary(self.state)

    def vector_summary(self) -> dict[str, Json]:
        """What all vector indexes come to."""
        return self._statistics.vector_summary(self.state)

    # -- reset and end ----------------------------------------------------------------------

    async def reset(self, fixtures: Mapping[str, object] | None = None) -> None:
        """Make the world again as it was created; what is under way is forgotten with the rest.

        With fixtures it is made of these, now and by later resets (D-173). Raises InvalidInput and
        Conflict for fixtures that cannot be used, with nothing changed.
        """
        image = None if fixtures is None else capture(self._worlds.first_state(self.setup, fixtures))
        async with self._lock:
            await self._stop(grace_s=0)
            self.clock.set_rate(self.setup.rate, self.setup.epoch_ms)
            store, state = await self._store.start_over({"clock": _encoded(self.clock.anchor)}, image)
            self._begin(store, state)
            self.start()

    async def close(self) -> None:
        async with self._lock:
            await self._stop(grace_s=0.5)
            await self._store.close()

    async def _stop(self, *, grace_s: float) -> None:
        self._timekeeper.cancel()
        await asyncio.wait((self._timekeeper,))
        await self.driver.close(grace_s)


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
        self._lock = asyncio.Lock()
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

    def check_tokens_are_free(self, account: Account) -> None:
        """Every token finds one account only, whichever worlds there are. Raises Conflict."""
        for world in self._worlds.values():
            for book in world.state.accounts.values():
                others = {book.account.token, book.account.read_only_token}
                if book.account.id != account.id and others & {account.token, account.read_only_token}:
                    raise Conflict("token: another account has this token already")

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
        async with self._lock:
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
        async with self._lock:
            world = self.get(world_id)
            del self._worlds[world_id]
            self._callers = {token: caller for token, caller in self._callers.items() if caller.world is not world}
            await world.close()
            if self.keeps_state:
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
                setup, clock, state = await _resume(store, setup.id, wanted_rate)
            else:
                clock = PacedClock(Anchor(virtual_ms=setup.epoch_ms, wall_ms=wall_ms(), rate=setup.rate))
                meta = {"world": _encoded(setup), "clock": _encoded(clock.anchor)}
                state = await store.begin(capture(self.first_state(setup, fixtures)), meta)
            world = World(setup, clock, store, state, self)
            await world.history.load()
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
                    fixtures = origins.without_secrets(fixtures)
            state = origins.first_state(origin_of(setup, self.dialect), fixtures)
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

    def _folder(self) -> Path:
        """Where the worlds besides the default one keep their files: beside its database."""
        return Path(f"{self.options.db}-worlds")


async def _resume(store: Store, world_id: str, wanted_rate: float | None) -> tuple[WorldSetup, PacedClock, State]:
    """The world of a database, under the id by which it is opened. Raises UnusableDatabase.

    Its pace goes on as it was left, unless the settings now ask for another one than when it was made.
    """
    state = await store.resume()
    meta = await store.meta()
    setup, anchor = _setup_from(json.loads(meta["world"]), world_id), _anchor_from(json.loads(meta["clock"]))
    clock = PacedClock(anchor)
    # A clock that stood still, or ran ahead of a machine's clock that was set back, goes on from where it was.
    now_ms = state.now_ms if clock.is_frozen else max(clock.now_ms(), state.now_ms)
    if wanted_rate is not None and wanted_rate != setup.rate:
        setup = replace(setup, rate=wanted_rate)
        clock.set_rate(wanted_rate, now_ms if wanted_rate else state.now_ms)
        await store.write_meta("world", _encoded(setup))
        await store.write_meta("clock", _encoded(clock.anchor))
    elif clock.is_frozen or now_ms == state.now_ms:
        clock.rebase(state.now_ms)
    return setup, clock, state


def _encoded(record: WorldSetup | Anchor) -> bytes:
    return json.dumps(asdict(record)).encode()


def _setup_from(content: dict[str, object], world_id: str) -> WorldSetup:
    seed, epoch_ms, rate = content["seed"], content["epoch_ms"], content["rate"]
    if not (isinstance(seed, int) and isinstance(epoch_ms, int) and isinstance(rate, int | float)):
        raise UnusableDatabase("the record of the world in the database is damaged")
    return WorldSetup(id=world_id, seed=seed, epoch_ms=epoch_ms, rate=float(rate), plan=Plan(str(content["plan"])))


def _anchor_from(content: dict[str, float]) -> Anchor:
    return Anchor(virtual_ms=int(content["virtual_ms"]), wall_ms=int(content["wall_ms"]), rate=content["rate"])


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


def origin_of(setup: WorldSetup, dialect: Dialect) -> origins.Origin:
    return origins.Origin(
        world_id=setup.id,
        seed=setup.seed,
        epoch_ms=setup.epoch_ms,
        plan=setup.plan,
        secret=_secret_key(setup),
        published=dialect.credentials if setup.id == DEFAULT else None,
    )


def _secret_key(setup: WorldSetup) -> bytes:
    """Tokens and account ids differ from world to world, so that a call finds its world by them."""
    return world_key(setup.seed, setup.id)


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        level = logging.WARNING if isinstance(error, WorldBroken) else logging.ERROR
        logger.log(level, "%s stopped: %s", task.get_name(), error)
