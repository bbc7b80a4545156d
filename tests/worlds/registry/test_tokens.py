"""Which world a token finds, what a world costs, and what is left of one that is deleted."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from pathlib import Path

import pytest

from emulator.core.errors import Conflict, InvalidInput, NotFound
from emulator.core.state import StateView
from emulator.engine.driver import Driver
from emulator.worlds import callers
from emulator.worlds.callers import Callers
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import DEFAULT, accounts_of
from emulator.worlds.world import World
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.worlds.registry.callers import Caller, create


def secrets(world: World) -> set[str]:
    account = world.account()
    return {account.id, account.token, account.read_only_token, account.signing_keys.current, *world.login}


def found(worlds: Worlds, token: str) -> callers.Caller:
    caller = worlds.by_token(token)
    assert caller is not None
    return caller


@with_emulator()
async def test_credentials_are_unique_across_worlds_of_the_same_seed(emulator: InProcess) -> None:
    worlds = emulator.emulation.worlds
    made = [emulator.world, await create(worlds, "a"), await create(worlds, "b")]

    assert len(set.union(*(secrets(world) for world in made))) == sum(len(secrets(world)) for world in made)
    for world in made:
        account = world.account()
        for token, is_read_only in ((account.token, False), (account.read_only_token, True)):
            caller = found(worlds, token)
            assert (caller.world, caller.is_read_only) == (world, is_read_only)
        assert worlds.by_login(*world.login) is world
    assert worlds.by_token("nobody's") is None
    assert worlds.by_login(made[0].login[0], made[1].login[1]) is None


@with_emulator()
async def test_credentials_are_found_with_the_same_work_however_many_worlds_there_are(emulator: InProcess) -> None:
    """D-276: counted in calls of functions, because time is that of the whole machine."""

    def work(worlds: Worlds) -> list[int]:
        counted = []
        account, (username, password) = worlds.get(DEFAULT).account(), worlds.get(DEFAULT).login
        for ask in (
            lambda: worlds.by_token(account.token),
            lambda: worlds.by_token(account.token[:-1] + "~"),
            lambda: worlds.by_token("nobody's"),
            lambda: worlds.by_login(username, password),
            lambda: worlds.by_login(username, "nobody's"),
        ):
            calls = 0

            def count(frame: object, event: str, argument: object) -> None:
                nonlocal calls
                calls += event in ("call", "c_call")

            sys.setprofile(count)
            ask()
            sys.setprofile(None)
            counted.append(calls)
        return counted

    worlds = emulator.emulation.worlds
    alone = work(worlds)
    for number in range(5):
        await create(worlds, f"w{number}")
    assert work(worlds) == alone


@with_emulator()
async def test_a_changed_token_is_found_at_once_and_the_old_one_is_nobodys(emulator: InProcess) -> None:
    """D-276."""
    worlds, world = emulator.emulation.worlds, emulator.world
    first = world.account()
    await emulator.control("PUT", f"/accounts/{first.id}", {"token": "chosen"})
    assert worlds.by_token(first.token) is None
    assert worlds.by_token("chosen") is not None
    await world.reset()
    assert worlds.by_token("chosen") is None
    assert found(worlds, first.token).account_id == first.id


@on_loop
async def test_token_of_a_world_that_is_being_made_is_taken(tmp_path: Path) -> None:
    # In memory a world is made at once.
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        worlds = emulator.emulation.worlds
        token = (await create(worlds, "other")).account().token
        await worlds.delete("other")
        path = f"/accounts/{emulator.world.account().id}"
        making = asyncio.get_running_loop().create_task(create(worlds, "other"))
        # The world is being made now, and cannot be found yet.
        await asyncio.sleep(0)
        assert [world.id for world in worlds.all()] == [DEFAULT]
        taken = await emulator.control("PUT", path, {"token": token})

        assert taken.status == 409
        assert (await making).account().token == token


@with_emulator()
async def test_a_token_of_a_world_that_has_ended_says_so(emulator: InProcess) -> None:
    """D-491."""
    worlds = emulator.emulation.worlds
    world = await create(worlds, "test_reminder")
    token, login = world.account().token, world.login
    assert found(worlds, token).world is world

    await worlds.delete("test_reminder")

    assert worlds.by_token(token) is None
    assert worlds.by_login(*login) is None
    answer = await emulator.get("/v2/queues", token=token)
    assert (answer.status, answer.json["error"]) == (
        401,
        "unable to authenticate: invalid token, which is the token of a world that has ended (test_reminder)",
    )
    assert (await emulator.get("/v2/queues", token="nobody's")).json["error"].endswith(": invalid token")
    # Nothing of it is kept for the next one of that name, which has the same token.
    again = await create(worlds, "test_reminder")
    assert again.account().token == token
    assert found(worlds, token).world is again


@with_emulator()
async def test_the_tokens_of_so_many_ended_worlds_are_remembered(emulator: InProcess) -> None:
    """D-491."""
    callers, worlds = Callers(most_ended=3), emulator.emulation.worlds
    made = [await create(worlds, "a"), await create(worlds, "b")]
    for world in made:
        callers.learn(world, world.state)
        callers.end(world.id)

    tokens = [
        token for world in made for each in accounts_of(world.state) for token in (each.token, each.read_only_token)
    ]
    assert len(tokens) > 3
    assert [callers.ended(token) for token in tokens[-4:]] == [None, "b", "b", "b"]
    assert all(callers.ended(token) is None for token in tokens[:-3])
    assert callers.by_token(tokens[-1]) is None


@with_emulator()
async def test_deleted_worlds_are_not_kept_in_memory(emulator: InProcess) -> None:
    worlds = emulator.emulation.worlds
    world = await create(worlds, "a")
    await Caller(emulator, world).publish()

    gone = weakref.ref(world)
    del world
    await worlds.delete("a")

    gc.collect()
    assert gone() is None


@with_emulator()
async def test_idle_worlds_in_memory_have_no_database_and_no_thread(emulator: InProcess) -> None:
    before = threading.active_count()
    for _ in range(50):
        await emulator.control("POST", "/worlds")
    # Fewer where a thread of an earlier test has ended meanwhile.
    assert threading.active_count() <= before
    assert all(world._store._database._connection is None for world in emulator.emulation.worlds.all())


@with_emulator()
async def test_worlds_in_memory_share_a_few_threads(emulator: InProcess) -> None:
    before = threading.active_count()
    worlds = [await create(emulator.emulation.worlds, f"w{number}") for number in range(50)]
    for world in worlds:
        await Caller(emulator, world).publish()
    assert threading.active_count() <= before
    for world in worlds:
        answer = await emulator.control("GET", f"/deliveries?world={world.id}")
        assert len(answer.json["deliveries"]) == 1
    # Little is done without one.
    assert threading.active_count() <= before
    before = threading.active_count()
    for world in worlds:
        await world._store._database.run(lambda connection: connection.execute("SELECT 1"))
    assert before < threading.active_count() <= before + 17


@with_emulator()
async def test_a_new_world_looks_through_no_other(emulator: InProcess) -> None:
    worlds = emulator.emulation.worlds
    first = await create(worlds, "a")
    looked_at: list[str] = []

    def state(holder: Driver | World) -> StateView:
        looked_at.append("a")
        found: StateView = holder.__dict__["state"]
        return found

    first.driver.__class__ = type("WatchedDriver", (Driver,), {"state": property(state)})
    first.__class__ = type("WatchedWorld", (World,), {"state": property(state)})
    await create(worlds, "b")
    assert worlds.by_token("nobody's") is None
    assert worlds.by_login("nobody", "nothing") is None
    await worlds.delete("b")
    assert looked_at == []


@with_emulator()
async def test_world_ids_are_checked(emulator: InProcess) -> None:
    worlds = emulator.emulation.worlds
    await create(worlds, "a")

    for world_id in ("a", DEFAULT):
        with pytest.raises(Conflict):
            await create(worlds, world_id)
    for world_id in ("../a", "a/b", ".hidden", "a" * 65, "ä"):
        with pytest.raises(InvalidInput):
            await create(worlds, world_id)
    with pytest.raises(NotFound):
        await worlds.delete("b")
    with pytest.raises(Conflict):
        await worlds.delete(DEFAULT)
    results = await asyncio.gather(worlds.delete("a"), worlds.delete("a"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), NotFound]
