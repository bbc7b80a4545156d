"""One world at work: its clock, what is asked of it, its snapshots, its reset and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from emulator.core import commands, facts
from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.errors import Conflict, InvalidInput, NotFound, WorldBroken
from emulator.core.identifiers import token_text
from emulator.core.model import Account, AccountId, IndexId
from emulator.core.rules import limits
from emulator.core.simulation import Simulation
from emulator.core.state import State
from emulator.core.state_view import StateView
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import Anchor, PacedClock, wall_ms
from emulator.engine.driver import Driver
from emulator.engine.limits import Limits
from emulator.fixtures.document import Fixtures
from emulator.journal.files import UnusableDatabase
from emulator.journal.history import History
from emulator.journal.snapshots import SavedWorld, Snapshots
from emulator.journal.store import MEMORY, Store
from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
from emulator.wire.dialect import Dialect
from emulator.wire.instants import MAX_INSTANT_MS
from emulator.wire.json_fields import Json
from emulator.worlds.previews import Previews
from emulator.worlds.setup import WorldSetup, encoded, secret_key, setup_and_anchor
from emulator.worlds.statistics import Statistics
from emulator.worlds.watch import Watch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """What all worlds of a server have in common. `fixtures` None stands for the built-in ones."""

    db: str = MEMORY
    limits: Limits = field(default_factory=Limits)
    fixtures: Fixtures | None = None


# What it is told about: a world, its state, and the facts that made it so.
Observer = Callable[["World", StateView, Sequence[facts.Fact]], None]


class Universe(Protocol):
    """What a world needs of what holds it: the options it shares with the others, and a look at them."""

    @property
    def options(self) -> WorldOptions: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def observers(self) -> Sequence[Observer]: ...
    @property
    def keeps_state(self) -> bool: ...
    @property
    def making(self) -> asyncio.Lock:
        """Held while a world is made, removed or gets other tokens: only then is it sure which ones are taken."""

    def new_transport(self) -> DeliveryTransport: ...
    def snapshots_folder(self, world_id: str) -> Path | None: ...
    def check_tokens_are_free(self, of: World, account: Account) -> None: ...
    def check_tokens_are_own(self, of: World, states: Iterable[StateView]) -> None: ...
    def first_state(self, setup: WorldSetup, document: Mapping[str, object] | None) -> State: ...


class World:
    """One isolated universe: its clock, accounts, pending work and history."""

    def __init__(self, setup: WorldSetup, clock: PacedClock, store: Store, state: State, make: Universe) -> None:
        self.setup = setup
        self.clock = clock
        self._worlds = make
        # It outlives a reset, and with it what is mounted: that is how the world is wired, not what is in it.
        self.transport = make.new_transport()
        self.snapshots = Snapshots(make.snapshots_folder(setup.id))
        # One reset, restoration or removal at a time.
        self._lock = asyncio.Lock()
        self.watches: list[Watch] = []
        self.is_closed = False
        self._rebirths: set[asyncio.Task[None]] = set()
        self._login = (f"{setup.id}@emulator.example", token_text(secret_key(setup), "management", 1, 40))
        self._begin(store, state)

    def _begin(self, store: Store, state: State) -> None:
        options = self._worlds.options
        self._store = store
        self._bursts: dict[AccountId, limits.BurstWindow] = {}
        self.history = History(store)
        self.previews = Previews(store)
        self._statistics = Statistics(store, self.setup.epoch_ms, self._worlds.dialect)
        self.driver = Driver(
            Simulation(state),
            store,
            self.transport,
            self.clock,
            limits=options.limits,
            observe=self._observed,
        )

    def start(self) -> None:
        """Go on with what was under way, and let time pass. Call once the world can be found."""
        # Before the clock can start anything else: what is under way now is what has to be made again.
        self.driver.resume()
        self._timekeeper = asyncio.get_running_loop().create_task(
            self.driver.keep_time(), name=f"clock of {self.setup.id}"
        )
        self._timekeeper.add_done_callback(_report_end)

    def _observed(self, state: StateView, produced: Sequence[facts.Fact]) -> None:
        for observer in self._worlds.observers:
            observer(self, state, produced)
        if self.watches:
            self._tell_watchers(state.now_ms, produced)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Watch]:
        """Be woken by what happens here, for as long as the context lasts; a reset and the end included."""
        watch = Watch()
        self.watches.append(watch)
        try:
            yield watch
        finally:
            self.watches.remove(watch)

    def _tell_watchers(self, now_ms: int, produced: Sequence[facts.Fact]) -> None:
        is_moving = self.driver.is_advancing
        # Time that passes by itself is nothing to wake anybody for.
        is_news = is_moving or any(type(fact) is not facts.ClockMoved for fact in produced)
        for watch in self.watches:
            watch.notice(now_ms, is_moving=is_moving)
            if is_news:
                watch.wake()

    def _wake_watchers(self) -> None:
        for watch in self.watches:
            watch.wake()

    @property
    def now_ms(self) -> int:
        """The virtual instant it is now, without doing what has come due meanwhile."""
        stands = self.clock.is_frozen or self.driver.is_advancing
        return self.state.now_ms if stands else self.clock.now_ms()

    @property
    def id(self) -> str:
        return self.setup.id

    @property
    def state(self) -> StateView:
        return self.driver.state

    async def submit(self, command: commands.Command[commands.R_co]) -> commands.R_co:
        """Carry out a command; see `Driver.submit`."""
        return await self.driver.submit(command)

    async def current_state(self) -> StateView:
        """The state as of now, with everything done that has come due."""
        await self.driver.catch_up()
        return self.driver.state

    # -- the clock --------------------------------------------------------------------------

    async def clock_status(self) -> ClockStatus:
        state = await self.current_state()
        return ClockStatus(
            now_ms=state.now_ms,
            rate=self.clock.rate,
            next_due_ms=state.timers.next_work_ms(),
            pending=len(state.messages),
            in_flight=self.driver.in_flight,
        )

    async def set_clock(self, *, rate: float | None, now_ms: int | None) -> ClockStatus:
        """Change the pace, the instant, or both. Forward does the work on the way; back only in an unused world."""
        state = await self.current_state()
        if now_ms is not None and now_ms != state.now_ms:
            if now_ms > state.now_ms:
                await self.driver.advance.to(now_ms)
            else:
                await self.driver.advance.set_back(now_ms)
                await self._statistics.clock_set_back(now_ms)
        if rate is not None:
            if now_ms is None:
                await self.driver.catch_up()
            self.clock.set_rate(rate, self.state.now_ms)
            self._wake_watchers()
        await self._remember_clock()
        return await self.clock_status()

    async def advance_to(self, target_ms: int, max_deliveries: int) -> AdvanceReport:
        return await self._moved(await self.driver.advance.to(target_ms, max_deliveries))

    async def advance_by(self, duration_ms: int, max_deliveries: int) -> AdvanceReport:
        """Raises InvalidInput for a target that no calendar shows."""
        state = await self.current_state()
        if duration_ms > MAX_INSTANT_MS - state.now_ms:
            raise InvalidInput("by", "expected a duration that ends in the year 9999 at the latest")
        return await self._moved(await self.driver.advance.by(duration_ms, max_deliveries))

    async def advance_to_next(self) -> AdvanceReport:
        next_ms = (await self.current_state()).timers.next_work_ms()
        if next_ms is not None and next_ms > MAX_INSTANT_MS:
            raise Conflict("what is due next is due after the year 9999")
        return await self._moved(await self.driver.advance.to_next())

    async def advance_until_idle(self, horizon_ms: int, max_deliveries: int) -> AdvanceReport:
        state = await self.current_state()
        horizon_ms = min(horizon_ms, MAX_INSTANT_MS - state.now_ms)
        return await self._moved(await self.driver.advance.until_idle(horizon_ms, max_deliveries))

    async def _moved(self, report: AdvanceReport) -> AdvanceReport:
        await self._remember_clock()
        return report

    async def _remember_clock(self) -> None:
        """A restart goes on at the same pace from the same correspondence of virtual and real time."""
        if self._worlds.keeps_state:
            await self._store.write_meta("clock", encoded(self.clock.anchor))

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
        async with self._worlds.making:
            self._worlds.check_tokens_are_free(self, account)
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
        return await self._statistics.queue_account(await self.current_state(), account_id, period)

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

    # -- snapshots --------------------------------------------------------------------------

    async def save_snapshot(self, name: str) -> Snapshot:
        """Keep the world as it is now. Raises Conflict for a name that is taken, and during an advance (D-201)."""
        async with self._lock:
            self._check_is_at_rest()
            await self.current_state()
            await self._store.write_meta("clock", encoded(self.clock.anchor))
            return await self.snapshots.save(name, self._store)

    async def import_snapshot(self, name: str, content: bytes) -> tuple[Snapshot, bool]:
        """Keep a database file as a snapshot; the flag tells whether the name was new. Raises InvalidInput (D-204)."""
        return await self.snapshots.put(name, content, setup_and_anchor)

    async def restore_snapshot(self, name: str) -> None:
        """Go on from a snapshot, at the world's present pace (D-202).

        From one of another world too; this one stays who it is, and keeps its credentials (D-203).
        Raises NotFound, and Conflict during an advance or if another world has a token of the
        snapshot; nothing has changed then.
        """
        await self._to_the_end(self._restore(name))

    async def _restore(self, name: str) -> None:
        async with self._worlds.making, self._lock:
            self._check_is_at_rest()
            async with self.snapshots.read(name) as saved:
                await self._go_on_from(saved)

    async def _go_on_from(self, saved: SavedWorld) -> None:
        made, _ = setup_and_anchor(saved.meta)
        if (made.id, made.seed) != (self.id, self.setup.seed):
            own = [book.account for book in self.state.accounts.values()]
            for each in (saved.state, saved.base):
                _put_credentials(each, own)
        self._worlds.check_tokens_are_own(self, (saved.state, saved.base))
        setup = replace(self.setup, epoch_ms=made.epoch_ms, plan=made.plan)
        anchor = Anchor(virtual_ms=saved.state.now_ms, wall_ms=wall_ms(), rate=self.clock.rate)
        meta = {"world": encoded(setup), "clock": encoded(anchor)}
        await self._stop(grace_s=0)
        failure: UnusableDatabase | None = None
        try:
            await self._store.take_over(str(saved.path), capture(saved.state), capture(saved.base), meta)
        except UnusableDatabase as error:
            # The world as it was is in the database, and goes on.
            failure = error
        else:
            self.setup = setup
            self.clock.set_rate(anchor.rate, anchor.virtual_ms)
        store, state = await self._store.go_on()
        history = History(store)
        await history.load()
        self._begin(store, state)
        self.history = history
        self.start()
        self._wake_watchers()
        if failure is not None:
            raise Conflict(f"the snapshot cannot be restored: {str(failure).rpartition(': ')[2]}")

    def _check_is_at_rest(self) -> None:
        if self.is_closed:
            raise Conflict("this world is being removed")
        if self.driver.is_advancing:
            raise Conflict("the clock is being advanced; snapshots are saved and restored before it or after")

    # -- reset and end ----------------------------------------------------------------------

    async def reset(self, fixtures: Mapping[str, object] | None = None) -> None:
        """Make the world again as it was created; what is under way is forgotten with the rest.

        With fixtures it is made of these, now and by later resets (D-173). Raises InvalidInput and
        Conflict for fixtures that cannot be used, with nothing changed.
        """
        image = None if fixtures is None else capture(self._worlds.first_state(self.setup, fixtures))
        await self._to_the_end(self._start_over(image))

    async def _start_over(self, image: Checkpoint | None) -> None:
        async with self._lock:
            await self._stop(grace_s=0)
            self.clock.set_rate(self.setup.rate, self.setup.epoch_ms)
            store, state = await self._store.start_over({"clock": encoded(self.clock.anchor)}, image)
            self._begin(store, state)
            self.start()
            self._wake_watchers()

    async def _to_the_end(self, work: Coroutine[None, None, None]) -> None:
        """Do what must not stop half way, even if who asked for it goes away: the world would stand still for good."""
        task = asyncio.get_running_loop().create_task(work, name=f"another life of {self.setup.id}")
        self._rebirths.add(task)
        task.add_done_callback(self._rebirths.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        self.is_closed = True
        self._wake_watchers()
        async with self._lock:
            await self._stop(grace_s=0.5)
            await self._store.close()
            await self.snapshots.close()

    async def _stop(self, *, grace_s: float) -> None:
        self._timekeeper.cancel()
        await asyncio.wait((self._timekeeper,))
        await self.driver.close(grace_s)


def _put_credentials(state: State, own: Sequence[Account]) -> None:
    """Let the accounts of a state be opened by, and sign as, those of a world; each in its turn."""
    for book, account in zip(state.accounts.values(), own, strict=False):
        book.account = replace(
            book.account,
            password=account.password,
            token=account.token,
            read_only_token=account.read_only_token,
            signing_keys=account.signing_keys,
        )


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        level = logging.WARNING if isinstance(error, WorldBroken) else logging.ERROR
        logger.log(level, "%s stopped: %s", task.get_name(), error)
