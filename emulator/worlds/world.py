"""One world at work: its engine, its clock and its history, its snapshots, its reset and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Sequence

from msgspec.structs import replace

from emulator.core import commands
from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.errors import Conflict, InsufficientStorage, InvalidInput, UnreadableRow, WorldBroken
from emulator.core.model.messages import HeldDestination
from emulator.core.model.resources import Account
from emulator.core.record import AccountId, token_text
from emulator.core.simulation import Simulation
from emulator.core.state import Fact, State, StateView, account_state
from emulator.core.world_setup import WorldSetup
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import Anchor, PacedClock, wall_ms
from emulator.engine.driver import Driver
from emulator.fixtures.initial_state import begin_anew
from emulator.journal.files import DAMAGE, UnusableDatabase
from emulator.journal.history import History
from emulator.journal.message_logs import MessageLogs
from emulator.journal.snapshots import SavedWorld, Snapshots
from emulator.journal.store import Store
from emulator.journal.workflow_runs import RunLogs
from emulator.queries.reports import AdvanceReport, ClockStatus, Credentials, Snapshot
from emulator.worlds.calls import Bursts, Mismatches, RefusedCalls
from emulator.worlds.setup import (
    WorldOptions,
    accounts_of,
    clock_meta,
    first_anchor,
    give_credentials,
    put_credentials,
    read_world_meta,
    resume,
    world_meta,
)
from emulator.worlds.statistics import Statistics
from emulator.worlds.watch import Watches
from emulator.worlds.world_clock import SlipWarnings, UndoableAdvances, WorldClock

logger = logging.getLogger(__name__)

# Called with a world, its state, and the facts that made it so; without facts when the world begins, or begins again.
Observer = Callable[["World", StateView, Sequence[Fact]], None]


class World:
    """One isolated world: its accounts, pending work, clock and history.

    `generation` is raised by every reset and every restored snapshot. Engine and history are
    others then; the transport stays, and with it the applications that are mounted in it.
    """

    def __init__(
        self,
        setup: WorldSetup,
        pace: PacedClock,
        store: Store,
        state: State,
        *,
        options: WorldOptions,
        transport: DeliveryTransport,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.setup = setup
        self.pace = pace
        # User name and password of the management API.
        self.login = (setup.owner, token_text(setup.secret_key, "management", 1, 40))
        self.transport = transport
        self.snapshots = Snapshots(options.snapshots_folder(setup.id))
        self._undoable = UndoableAdvances(options.undo_folder(setup.id))
        self.watches = Watches()
        self.refused_calls = RefusedCalls()
        self.mismatches = Mismatches()
        # Names of headers and parameters that were looked at already.
        self.seen_names: set[str] = set()
        self.generation = 0
        self.is_closed = False
        # Why it has stopped last, also if it has recovered since.
        self.failure: str | None = None
        # How much it does at once, and how long it waits.
        self.limits = options.limits
        self._options = options
        self._closing = asyncio.Event()
        self._observers = observers
        # One reset, restoration or removal at a time.
        self._lock = asyncio.Lock()
        self._uninterrupted: set[asyncio.Task[None]] = set()
        self._begin(store, state, History(store))

    def _begin(self, store: Store, state: State, history: History) -> None:
        self._store = store
        self.state: StateView = state
        self.bursts = Bursts(state, self.pace)
        self.history = history
        self.logs = MessageLogs(store)
        self.runs = RunLogs(state, store, history)
        self.statistics = Statistics(state, store, self.setup.epoch_ms)
        self.driver = Driver(
            Simulation(state),
            store.writer,
            self.transport,
            self.pace,
            limits=self.limits,
            observe=self._observed,
            stopped=self._stopped,
            slipped=SlipWarnings(self.id, self.pace),
            held=self._holds,
        )
        self.clock = WorldClock(
            self.driver, self.pace, was_set_back=self.statistics.usage.set_back, was_moved=self._clock_was_moved
        )
        for observer in self._observers:
            observer(self, state, ())

    def start(self) -> None:
        """Continue what was under way, and let time pass. Call once the world can be found."""
        # Before the clock can start anything else: only what is under way now has to be made again.
        self.driver.resume()
        self._timekeeper = asyncio.get_running_loop().create_task(self.driver.keep_time(), name=f"clock of {self.id}")
        self._timekeeper.add_done_callback(_report_end)

    def _observed(self, state: StateView, produced: Sequence[Fact]) -> None:
        for observer in self._observers:
            observer(self, state, produced)
        if self.watches:
            self.watches.notice(state.now_ms, produced, is_moving=self.driver.is_advancing)

    async def _clock_was_moved(self) -> None:
        self.watches.wake()
        if self._options.keeps_state:
            # A restart continues at the same rate from the same relation of virtual and real time.
            await self._write_clock()

    async def _write_clock(self) -> None:
        for name, value in clock_meta(self.pace.anchor).items():
            await self._store.write_meta(name, value)

    @property
    def id(self) -> str:
        return self.setup.id

    async def submit(self, command: commands.Command[commands.R_co]) -> commands.R_co:
        """Carry out a command; see `Driver.submit`."""
        return await self.driver.submit(command)

    async def current_state(self) -> StateView:
        """The state as of now, with everything done that has come due."""
        await self.driver.catch_up()
        return self.driver.state

    # -- when it has stopped ----------------------------------------------------------------

    def problem(self) -> str | None:
        """Why this world does not work, if it does not."""
        return self.driver.broken or self._store.problem()

    @property
    def waits_for_room(self) -> bool:
        """Whether this world continues by itself as soon as its disk has room (D-282)."""
        return self._store.waits_for_room

    async def why_unreadable(self, error: Exception) -> UnreadableRow | None:
        """Why a reader of this world's history may have failed: a row that is not what it should be (D-793).

        None for an error that no such row explains.
        """
        if not isinstance(error, DAMAGE):
            return None
        with contextlib.suppress(Conflict, WorldBroken, ValueError):
            return await self._store.find_damage()
        return None

    async def clock_status(self) -> ClockStatus:
        """The status of the clock, or where it stands if the world has stopped or is being reset."""
        try:
            return await self.clock.status()
        except (Conflict, WorldBroken):
            return self.clock.status_now()

    def _holds(self, destination: HeldDestination) -> None:
        logger.warning(
            "the world %s: %s; until message %s is deleted, or the world is reset (--max-attempts-per-instant)",
            self.id,
            destination.why,
            destination.message_id,
        )

    def _stopped(self, reason: str, error: BaseException | None) -> None:
        logger.error("the world %s has stopped: %s", self.id, reason, exc_info=error)
        self.failure = reason
        self._store.writer.abandon()
        if self._store.can_be_opened_again:
            self._keep_task(self._mend(), name=f"mending of {self.id}")

    async def _mend(self) -> None:
        """After a failed write, open the database again as soon as it can be written (D-282).

        The world continues as after a restart, from what was durable; all that was lost was answered with an error.
        """
        while not self.is_closed and self._store.can_be_opened_again:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.mend_after_s):
                    await self._closing.wait()
            async with self._lock:
                if self.is_closed or not self._store.can_be_opened_again:
                    return
                try:
                    await self._open_again()
                except UnusableDatabase as error:
                    logger.debug("the world %s cannot continue yet: %s", self.id, error)
                else:
                    self.start()
                    self.watches.wake()
                    logger.warning("the world %s continues with what its database holds", self.id)

    async def _open_again(self) -> None:
        """Take up again what the database holds, without starting it. Raises UnusableDatabase."""
        await self._stop(grace_s=0)
        store = await self._store.open_again()
        try:
            setup, pace, state = await resume(store, self.id, None)
            await store.check_disk_space()
            history = History(store)
            await history.load()
        except BaseException:
            await store.close()
            raise
        self.setup, self.pace = setup, pace
        self._begin(store, state, history)

    async def _open_again_if_needed(self) -> None:
        """Raises WorldBroken if the database still cannot be written."""
        if self._store.can_be_opened_again:
            try:
                await self._open_again()
            except UnusableDatabase as error:
                raise WorldBroken(f"this world has stopped: {error}", is_disk_full=error.is_disk_full) from error

    # -- accounts ---------------------------------------------------------------------------

    async def journal_bytes(self) -> int:
        """The size of its database."""
        return await self._store.size()

    def account(self) -> Account:
        """The built-in account: the first of the world."""
        return next(iter(self.state.accounts.values())).account

    def find_account(self, account_id: AccountId) -> Account:
        """Raises NotFound for an account of another world, or of none."""
        return account_state(self.state, account_id).account

    def credentials(self) -> Credentials:
        """All a client needs to use the world, as its first account."""
        account = self.account()
        username, password = self.login
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

    # -- snapshots --------------------------------------------------------------------------

    async def save_snapshot(self, name: str) -> Snapshot:
        """Keep the world as it is now. Raises Conflict for a name that is taken, and during an advance (D-201)."""
        async with self._at_rest():
            await self._write_clock()
            return await self.snapshots.save(name, self._store)

    async def import_snapshot(self, name: str, content: AsyncIterable[bytes]) -> tuple[Snapshot, bool]:
        """Keep a database file as a snapshot; the flag tells whether the name was new. Raises InvalidInput (D-204)."""
        return await self.snapshots.put(name, content, read_world_meta)

    async def restore_snapshot(self, name: str, check: Callable[[StateView], None] = lambda state: None) -> None:
        """Continue from a snapshot, at the world's present rate (D-202).

        From one of another world too; this one keeps its id and its credentials (D-203). `check`
        refuses a state that the world must not have. Raises NotFound, Conflict during an advance,
        and what `check` raises, with nothing changed. Call in `uninterrupted`.
        """
        async with self._lock:
            await self._restore(self.snapshots, name, check)
            await self._undoable.forget_all()

    async def _restore(self, snapshots: Snapshots, name: str, check: Callable[[StateView], None]) -> None:
        self._check_is_at_rest()
        async with snapshots.read(name) as saved:
            await self._open_again_if_needed()
            made, _ = read_world_meta(saved.meta)
            if (made.id, made.seed, made.token) != (self.id, self.setup.seed, self.setup.token):
                own = accounts_of(self.state)
                put_credentials(saved.state, own)
                put_credentials(saved.base, own)
            check(saved.state)
            check(saved.base)
            setup = replace(self.setup, epoch_ms=made.epoch_ms, epoch_is_given=made.epoch_is_given, plan=made.plan)
            await self._take_over(saved, setup)

    # -- advances that can be taken back ----------------------------------------------------

    async def move(
        self, move: Callable[[WorldClock], Awaitable[AdvanceReport]], *, undoable: bool = False
    ) -> AdvanceReport:
        """Move the clock; an undoable move keeps the world as it is before (D-435). Raises Conflict."""
        if not undoable:
            return await move(self.clock)
        async with self._at_rest():
            await self._write_clock()
            kept = await self._undoable.keep(self._store)
        try:
            return await move(self.clock)
        except (InvalidInput, Conflict):
            # Nothing has happened, or the world was reset meanwhile.
            await self._undoable.forget(kept)
            raise

    async def undo(self, check: Callable[[StateView], None]) -> None:
        """Continue from where the last undoable advance began. Raises Conflict without one; see `restore_snapshot`."""
        async with self._lock:
            last = self._undoable.last
            await self._restore(self._undoable.snapshots, last, check)
            await self._undoable.forget(last)

    async def fork_to(
        self, store: Store, setup: WorldSetup, check: Callable[[StateView], None]
    ) -> tuple[PacedClock, Store, State]:
        """Fork into a new store as the world of `setup`; its clock, its store and its state (D-434).

        Raises Conflict during an advance, UnusableDatabase, and what `check` raises of that state, with nothing made.
        """

        def change(state: State) -> None:
            give_credentials(state, setup)
            check(state)

        async with self._at_rest():
            anchor = Anchor(virtual_ms=self.state.now_ms, wall_ms=wall_ms(), rate=self.pace.rate)
            store, state = await self._store.fork_to(store, change, world_meta(setup, anchor))
        return PacedClock(replace(anchor, virtual_ms=state.now_ms)), store, state

    async def _take_over(self, saved: SavedWorld, setup: WorldSetup) -> None:
        anchor = Anchor(virtual_ms=saved.state.now_ms, wall_ms=wall_ms(), rate=self.pace.rate)
        meta = world_meta(setup, anchor)
        await self._stop(grace_s=0)
        failure: UnusableDatabase | None = None
        try:
            await self._store.take_over(str(saved.path), capture(saved.state), capture(saved.base), meta)
        except UnusableDatabase as error:
            # The database still holds the world as it was; continue from there.
            failure = error
        else:
            self.setup = setup
            self.pace.set_rate(anchor.rate, anchor.virtual_ms)
        store, state = await self._store.reopen()
        history = History(store)
        await history.load()
        # Together with the history: a watcher that sees the new number reads the new history.
        self.generation += failure is None
        self._begin(store, state, history)
        self.start()
        self.watches.wake()
        if failure is not None:
            kind = InsufficientStorage if failure.is_disk_full else Conflict
            raise kind(f"the snapshot cannot be restored: {str(failure).rpartition(': ')[2]}")

    @contextlib.asynccontextmanager
    async def _at_rest(self) -> AsyncIterator[None]:
        """Meanwhile nothing else is done with the world as a whole, and what had come due is done. Raises Conflict."""
        async with self._lock:
            self._check_is_at_rest()
            await self.current_state()
            yield

    def _check_is_at_rest(self) -> None:
        if self.is_closed:
            raise Conflict("this world is being removed")
        if self.driver.is_advancing:
            raise Conflict("the clock is being advanced; snapshots are saved and restored before it or after")

    # -- reset and end ----------------------------------------------------------------------

    async def reset(self, base: Checkpoint | None = None) -> None:
        """Make the world again as it was created; what is under way is forgotten with the rest.

        With a checkpoint, this is what it begins with, now and after later resets (D-173). A world whose
        epoch was not given begins at the wall clock again (D-261).
        """
        await self.uninterrupted(self._start_over(base))

    async def _start_over(self, base: Checkpoint | None) -> None:
        async with self._lock:
            await self._open_again_if_needed()
            await self._stop(grace_s=0)
            setup = self.setup.beginning(wall_ms())
            try:
                if setup is not self.setup:
                    base = begin_anew(base or await self._store.base_checkpoint(), setup)
                self.pace.begin(first_anchor(setup))
                store, state = await self._store.start_over(world_meta(setup, self.pace.anchor), base)
            except WorldBroken as error:
                self.driver.stop(str(error), is_disk_full=error.is_disk_full)
                raise
            self.setup = setup
            self.refused_calls.clear()
            self.mismatches.counts.clear()
            await self._undoable.forget_all()
            self.generation += 1
            self._begin(store, state, History(store))
            self.start()
            self.watches.wake()

    async def uninterrupted(self, work: Coroutine[None, None, None]) -> None:
        """Do what would leave the world stopped if it ended half way: a cancelled caller does not cancel it."""
        await asyncio.shield(self._keep_task(work, name=f"restart of {self.id}"))

    def _keep_task(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._uninterrupted.add(task)
        task.add_done_callback(self._uninterrupted.discard)
        return task

    async def close(self) -> int:
        """Let what is in flight finish for a moment, and close the files; how many attempts were cut off."""
        self.is_closed = True
        self._closing.set()
        self.watches.wake()
        async with self._lock:
            cut_off = await self._stop(grace_s=0.5)
            await self._store.close()
            self.failure = self.failure or self._store.problem()
            await self.snapshots.close()
            await self._undoable.close()
        return cut_off

    async def _stop(self, *, grace_s: float) -> int:
        self._timekeeper.cancel()
        await asyncio.wait((self._timekeeper,))
        return await self.driver.close(grace_s)


def _report_end(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    # A world that has stopped has said so.
    if error is not None and not isinstance(error, WorldBroken):
        logger.error("%s stopped: %s", task.get_name(), error)
