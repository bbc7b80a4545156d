"""All worlds of a server: making, finding and removing them, and the rules that hold across them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TypeVar, cast

from msgspec.structs import replace

from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.commands import ChangeAccount
from emulator.core.errors import Conflict, InsufficientStorage, InvalidInput, NotFound, WorldBroken
from emulator.core.model.resources import Account
from emulator.core.state import Fact, State, StateView
from emulator.core.world_setup import DEFAULT, WorldSetup, parse_name_in_files, parse_world_name
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import PacedClock, wall_ms
from emulator.fixtures import files as fixture_files
from emulator.fixtures import initial_state
from emulator.fixtures.document import InvalidFixtures, read_fixtures
from emulator.journal.database import Pool
from emulator.journal.files import UnusableDatabase
from emulator.journal.store import Store
from emulator.wire.json_reader import Json, JsonObject
from emulator.wire.names import read_field
from emulator.wire.parts import user_of
from emulator.worlds.callers import Caller, Callers, Identifiers, may_differ
from emulator.worlds.setup import (
    KeptWorld,
    WorldOptions,
    accounts_of,
    first_anchor,
    identifiers_of,
    read_base,
    resume,
    tokens_of,
    world_meta,
)
from emulator.worlds.world import Observer, World

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Worlds:
    """All worlds of a server, each with a transport of its own; every observer is called with every world's facts.

    `first` is the setup of the default world. Further worlds take over its seed and plan.
    """

    def __init__(
        self, first: WorldSetup, *, options: WorldOptions, new_transport: Callable[[str], DeliveryTransport]
    ) -> None:
        self._callers = Callers()
        self._identifiers = Identifiers()
        self.observers: list[Observer] = [self._learn]
        self._first = first
        self.dialect = options.dialect
        # Whether the worlds are there again after a restart.
        self.keeps_state = options.keeps_state
        self._options = options
        self._new_transport = new_transport
        self._worlds: dict[str, World] = {}
        self._pool = Pool()
        # Why worlds could not be opened at the start, by their ids.
        self.unusable: dict[str, str] = {}
        # Why worlds that are closed by now had stopped, by their ids.
        self.failures: dict[str, str] = {}
        # The ids by what a file system that ignores case makes of them (D-296).
        self._files: dict[str, str] = {}
        # Held while a world is made, removed or gets other tokens: only then is it certain which tokens are free.
        self._tokens_lock = asyncio.Lock()
        self._made = 0
        # Whether the `traceparent` of a publish is kept with its messages.
        self.keeps_traceparents = False
        # What the database of the default world held at the start, None without anything.
        self.kept: KeptWorld | None = None

    def __len__(self) -> int:
        return len(self._worlds)

    def all(self) -> tuple[World, ...]:
        return tuple(self._worlds.values())

    def get(self, world_id: str) -> World:
        """Raises NotFound for a world that does not exist, WorldBroken for one that could not be opened."""
        world = self._worlds.get(world_id)
        if world_id in self.unusable:
            raise WorldBroken(self.unusable[world_id])
        if world is None:
            raise NotFound("world", world_id)
        return world

    # -- finding ----------------------------------------------------------------------------

    def _learn(self, world: World, state: StateView, produced: Sequence[Fact]) -> None:
        """The observer that keeps what worlds are found by."""
        if may_differ(produced):
            self._callers.learn(world, state)
            self._identifiers.learn(world, state)

    def by_token(self, token: str) -> Caller | None:
        """Whose messaging token this is, in whichever world; None for an unknown one (D-276)."""
        caller = self._callers.by_token(token)
        # A world that is still being made cannot be used yet.
        return caller if caller is not None and self._worlds.get(caller.world.id) is caller.world else None

    def ended_with(self, token: str) -> str | None:
        """The id of a world that had this token and has ended, None if none is remembered (D-491)."""
        return self._callers.ended(token)

    def by_user(self, user_id: str) -> tuple[Caller, ...]:
        """The accounts whose token names that user; several worlds may have one of the name."""
        return tuple(
            Caller(world=world, account_id=account.id, is_read_only=False)
            for world in self.all()
            for account in accounts_of(world.state)
            if user_of(account.token) == user_id
        )

    def by_login(self, username: str, password: str) -> World | None:
        """Which world's management credentials these are (D-276)."""
        world = self._callers.by_login(username, password)
        return world if world is not None and self._worlds.get(world.id) is world else None

    # -- making and removing ----------------------------------------------------------------

    async def start(self) -> None:
        """Open the default world, and with a database file every world it holds; then let them all begin.

        A further world that cannot be opened stops none of the others (D-280). Raises UnusableDatabase with
        one clear line for the default world.
        """
        opened = [await self._open(self._first, wanted_rate=self._first.rate)]
        self._options.tidy()
        if self._options.fresh:
            # Only now is it certain that no other process uses them.
            for world_id in self._options.further_worlds():
                self._options.remove_database(world_id)
        for world_id in self._options.further_worlds():
            try:
                opened.append(await self._open(replace(self._first, id=world_id)))
            except UnusableDatabase as error:
                self._files[world_id.lower()] = world_id
                self.unusable[world_id] = f"the world {world_id} cannot be opened: {error}"
                logger.error("%s", self.unusable[world_id])
        # Nothing is sent before it is certain that the server starts.
        for world in opened:
            world.start()

    def new_setup(self) -> WorldSetup:
        """The default setup of a further world; `create` chooses an id if it is empty."""
        return replace(self._first, id="", epoch_ms=wall_ms(), rate=0.0, epoch_is_given=False)

    async def create(self, setup: WorldSetup) -> World:
        """Make a world. Raises InvalidInput for a bad id or fixtures, Conflict for what exists already."""

        def open_new(world_id: str) -> Coroutine[None, None, World]:
            return self._open(replace(setup, id=world_id))

        return await self._whole(lambda: self._make(setup.id, open_new))

    async def fork(self, source: World, wanted: WorldSetup) -> World:
        """Make a second world that continues from where another one is, with the id and token that are wanted (D-434).

        Raises as `create`, and Conflict while the clock is being advanced.
        """

        def open_fork(world_id: str) -> Coroutine[None, None, World]:
            return self._open_fork(source, replace(source.setup, id=world_id, token=wanted.token))

        return await self._whole(lambda: self._make(wanted.id, open_fork))

    async def _make(self, wanted_id: str, open_it: Callable[[str], Coroutine[None, None, World]]) -> World:
        """Make a world under a free id. A database that cannot be written is reported as a refusal."""
        world_id = self._free_id(wanted_id)
        try:
            world = await open_it(world_id)
        except UnusableDatabase as error:
            text = f"the world {world_id} cannot be made: {error}"
            raise InsufficientStorage(text) if error.is_disk_full else WorldBroken(text) from error
        world.start()
        return world

    async def _open_fork(self, source: World, setup: WorldSetup) -> World:
        taken = self._identifiers.found_elsewhere({setup.token}, setup.id)
        if taken is not None:
            raise Conflict(f"token: the world {taken[1]} has this token already")

        def check(state: StateView) -> None:
            taken = self._identifiers.found_elsewhere(tokens_of(*accounts_of(state)), setup.id)
            if taken is not None:
                raise Conflict(f"token: the world {taken[1]} has what follows from this token already")

        store, _ = await self._options.open_store(setup.id, self._pool)
        try:
            pace, store, state = await source.fork_to(store, setup, check)
            transport = self._new_transport(setup.id)
            transport.take_mounts(source.transport)
            world = self._new_world(setup, pace, store, state, transport)
            await world.history.load()
        except BaseException:
            self._forget(setup.id)
            await store.close()
            if self.keeps_state:
                self._options.remove_database(setup.id)
            raise
        return self._found(world)

    def _free_id(self, wanted: str) -> str:
        """The id of a world to be made, chosen here if none is wanted. Raises InvalidInput, Conflict."""
        world_id = wanted or self._unused_id()
        read_field("id", world_id, parse_world_name)
        if self.keeps_state:
            read_field("id", world_id, parse_name_in_files)
        if world_id in self._worlds:
            raise Conflict(f"world {world_id} exists already")
        if world_id in self.unusable:
            raise Conflict(f"world {world_id} exists already, and cannot be opened; delete it first")
        twin = self._files.get(world_id.lower())
        if twin is not None and self.keeps_state:
            raise Conflict(f"world {twin} exists already, and some file systems would keep both in one file")
        return world_id

    def _unused_id(self) -> str:
        self._made += 1
        while (name := f"world-{self._made}") in self._worlds or name in self.unusable:
            self._made += 1
        return f"world-{self._made}"

    async def delete(self, world_id: str) -> None:
        """Remove a world for good. The default world stays. Raises NotFound, Conflict."""
        if world_id == DEFAULT:
            raise Conflict("the default world cannot be deleted; reset it instead")
        await self._whole(lambda: self._delete(world_id))

    async def _delete(self, world_id: str) -> None:
        if self.unusable.pop(world_id, None) is not None:
            self._files.pop(world_id.lower(), None)
            self._options.remove_world(world_id)
            return
        world = self.get(world_id)
        del self._worlds[world_id]
        self._files.pop(world_id.lower(), None)
        self._callers.end(world_id)
        self._identifiers.forget(world_id)
        await world.close()
        self._note_failure(world)
        if self.keeps_state:
            await asyncio.to_thread(self._options.remove_world, world_id)

    async def _whole(self, change: Callable[[], Coroutine[None, None, T]]) -> T:
        """Make or remove a world to the end, also if the caller is cancelled meanwhile, as at the end of the server.

        Nobody would close a world that is half made or half removed, and its threads keep the process (D-566).
        """
        await self._tokens_lock.acquire()
        running = asyncio.get_running_loop().create_task(change())
        running.add_done_callback(lambda _: self._tokens_lock.release())
        return await asyncio.shield(running)

    async def close(self) -> int:
        """Let every world finish what is in flight, and close their files; how many attempts were cut off.

        The world that is being made or removed is waited for. A change that waits for it does not happen any more.
        """
        async with self._tokens_lock:
            cut_off = sum(await asyncio.gather(*(world.close() for world in self._worlds.values())))
        for world in self._worlds.values():
            self._note_failure(world)
        return cut_off

    def _note_failure(self, world: World) -> None:
        if world.failure is not None:
            self.failures[world.id] = world.failure

    def troubles(self) -> dict[str, str]:
        """Why worlds do not work, by their ids; those that could not be opened included."""
        found = ((world.id, world.problem()) for world in self._worlds.values())
        return {**{world_id: text for world_id, text in found if text is not None}, **self.unusable}

    def waiting_for_room(self) -> frozenset[str]:
        """The ids of the worlds in trouble that continue by themselves once their disk has room."""
        return frozenset(world.id for world in self._worlds.values() if world.waits_for_room)

    async def _open(self, setup: WorldSetup, wanted_rate: float | None = None) -> World:
        """Open a world, or make it. `wanted_rate` is what the server's settings say, if they mean this world."""
        store, has_world = await self._options.open_store(setup.id, self._pool)
        try:
            if has_world and not self._options.fresh:
                setup, pace, state = await resume(store, setup.id, wanted_rate)
                if setup.id == DEFAULT:
                    self.kept = KeptWorld(setup=setup, base=await read_base(store))
            else:
                pace = PacedClock(first_anchor(setup))
                first, meta = capture(self._first_state(setup)), world_meta(setup, pace.anchor)
                if has_world:
                    store, state = await store.start_over(meta, first)
                else:
                    state = await store.begin(first, meta)
            world = self._new_world(setup, pace, store, state, self._new_transport(setup.id))
            if has_world:
                await world.history.load()
            world.snapshots.tidy()
        except BaseException:
            self._forget(setup.id)
            await store.close()
            raise
        return self._found(world)

    def _new_world(
        self, setup: WorldSetup, pace: PacedClock, store: Store, state: State, transport: DeliveryTransport
    ) -> World:
        if setup.keep_history is not None:
            store.writer.keep = setup.keep_history
        return World(
            replace(setup, fixtures=None),
            pace,
            store,
            state,
            options=self._options,
            transport=transport,
            observers=self.observers,
        )

    def _found(self, world: World) -> World:
        """From now on calls find the world."""
        self._worlds[world.id] = world
        self._files[world.id.lower()] = world.id
        return world

    def has_same_initial_state(self, kept: KeptWorld) -> bool:
        """Whether the server's fixtures would make the same beginning of a world that was kept."""
        try:
            return capture(self._first_state(kept.setup)) == kept.base
        except Conflict:
            # Another world took one of their tokens since.
            return False

    def _first_state(self, setup: WorldSetup) -> State:
        """What a world begins with: its own fixtures, or else the server's.

        Raises InvalidInput naming what is wrong in the document, and Conflict if it fixes an id or a
        token that another world has.
        """
        try:
            if setup.fixtures is not None:
                fixtures = read_fixtures(cast(Json, setup.fixtures), self.dialect)
            else:
                fixtures = self._options.fixtures or fixture_files.built_in(self.dialect)
                if setup.id != DEFAULT:
                    fixtures = initial_state.without_secrets(fixtures)
            if setup.token and any("token" in each.fields for each in fixtures.accounts[:1]):
                raise InvalidInput("token", "expected none beside a token of the first account in fixtures")
            state = initial_state.first_state(setup, fixtures, self.dialect)
        except InvalidFixtures as invalid:
            problem = invalid.problems[0]
            raise InvalidInput(f"fixtures.{problem.field}", problem.reason) from None
        taken = self._identifiers.found_elsewhere(identifiers_of(state), setup.id)
        if taken is not None:
            identifier, other = taken
            first = accounts_of(state)[0]
            if setup.token and identifier in (first.id, *tokens_of(first)):
                raise Conflict(f"token: the world {other} has this token, or what follows from it, already")
            raise Conflict(f"fixtures: {identifier} belongs to the world {other} already")
        return state

    # -- changes of a world that others must allow ------------------------------------------

    async def reset(self, world: World, fixtures: JsonObject | None) -> None:
        """Make a world again, from other fixtures if there are any (D-173).

        Raises InvalidInput and Conflict for fixtures that cannot be used, with nothing changed.
        """
        base: Checkpoint | None = None
        if fixtures is not None:
            setup = replace(world.setup.beginning(wall_ms()), fixtures=fixtures)
            base = capture(self._first_state(setup))
        await world.reset(base)

    async def undo(self, world: World) -> None:
        """Put a world back to where its last undoable advance began (D-435). Raises Conflict as `restore_snapshot`."""
        await world.uninterrupted(self._restore(world, world.undo))

    async def restore_snapshot(self, world: World, name: str) -> None:
        """Put a world back to a snapshot of it or of another one.

        Raises NotFound, and Conflict during an advance or if another world has a token of the
        snapshot; nothing has changed then.
        """
        await world.uninterrupted(self._restore(world, partial(world.restore_snapshot, name)))

    async def _restore(
        self, world: World, restore: Callable[[Callable[[StateView], None]], Coroutine[None, None, None]]
    ) -> None:
        def check(state: StateView) -> None:
            taken = self._identifiers.found_elsewhere(tokens_of(*accounts_of(state)), world.id)
            if taken is not None:
                _, other = taken
                raise Conflict(f"an account of the world {other} has a token of the snapshot; delete or reset it first")

        async with self._tokens_lock:
            await restore(check)

    async def change_account(self, world: World, account: Account) -> None:
        """Put a changed record in place. Raises Conflict if one of its tokens is another account's."""
        async with self._tokens_lock:
            wanted = tokens_of(account)
            rest = [each for each in accounts_of(world.state) if each.id != account.id]
            if wanted & tokens_of(*rest) or self._identifiers.found_elsewhere(wanted, world.id) is not None:
                raise Conflict("token: another account has this token already")
            await world.submit(ChangeAccount(account=account))

    def _forget(self, world_id: str) -> None:
        self._callers.forget(world_id)
        self._identifiers.forget(world_id)
