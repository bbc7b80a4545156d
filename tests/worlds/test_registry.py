"""Worlds side by side, over a reset, over a restart, and with clocks that run."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.errors import Conflict, InvalidInput, NotFound
from emulator.core.model import Via
from emulator.core.state_view import StateView
from emulator.engine.clock import Anchor, wall_ms
from emulator.engine.driver import Driver
from emulator.engine.limits import Limits
from emulator.journal.database import InMemory
from emulator.queries.reports import AdvanceRequest, ClockChange
from emulator.server import bootstrap
from emulator.server.settings import Settings
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import DEFAULT
from emulator.worlds.world import World
from tests.harness.emulators import EPOCH, EPOCH_MS, Answer, InProcess, asgi_call, in_process
from tests.harness.loops import on_loop

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
HOOK = "https://api.example.com/hook"
# Fast enough that no test waits for a clock.
FAST = 100_000
# No call waits for receivers that answer only when a test lets them.
HASTY = Limits(settle_s=0.001)


async def create(worlds: Worlds, world_id: str = "", **wanted: Any) -> World:
    return await worlds.create(
        replace(worlds.new_setup(), **{"id": world_id, "epoch_ms": EPOCH_MS, "epoch_is_given": True, **wanted})
    )


def by(duration_ms: int) -> AdvanceRequest:
    return AdvanceRequest(by_ms=duration_ms, to_ms=None)


class Caller:
    """A user of one world, through the application."""

    def __init__(self, emulator: InProcess, world: World) -> None:
        self._app = emulator.emulation.app
        self.world = world

    async def call(self, method: str, target: str, headers: dict[str, str] | None = None, body: Any = b"") -> Answer:
        pairs = {"Host": "127.0.0.1", "Authorization": f"Bearer {self.world.account().token}", **(headers or {})}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await asgi_call(self._app, method, target.encode(), list(pairs.items()), content, "127.0.0.1")

    async def publish(self, url: str = HOOK, headers: dict[str, str] | None = None) -> str:
        answer = await self.call("POST", f"/v2/publish/{url}", headers)
        assert answer.status == 200, answer.body
        message_id: str = answer.json["messageId"]
        return message_id

    async def schedule(self, cron: str, url: str = HOOK) -> None:
        answer = await self.call("POST", f"/v2/schedules/{url}", {"Svc-Cron": cron})
        assert answer.status in (200, 201), answer.body

    async def control(self, method: str, target: str, body: Any = b"") -> Any:
        separator = "&" if "?" in target else "?"
        answer = await self.call(method, f"/_emulator{target}{separator}world={self.world.id}", None, body)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    async def deliveries(self) -> list[Any]:
        found: list[Any] = (await self.control("GET", "/deliveries?limit=1000"))["deliveries"]
        return found

    async def trace(self) -> bytes:
        answer = await self.call("GET", f"/_emulator/trace?world={self.world.id}")
        return answer.body


async def delivered(emulator: InProcess, count: int, world: World | None = None) -> list[Any]:
    """The deliveries of a world, once there are so many; the clock runs by itself meanwhile."""
    arrived = asyncio.Event()
    wanted = emulator.world if world is None else world

    def observe(of: World, *_: object) -> None:
        if of is wanted:
            arrived.set()

    worlds = emulator.emulation.worlds
    worlds.observers.append(observe)
    caller = Caller(emulator, wanted)
    try:
        while True:
            # Before looking: what comes meanwhile is seen, or wakes us.
            arrived.clear()
            if len(found := await caller.deliveries()) >= count:
                return found
            await arrived.wait()
    finally:
        worlds.observers.remove(observe)


class Gate:
    """A handler for `receiver` that notes that somebody came, and answers 200 once it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, _path: str, _body: bytes) -> int:
        self.entered.set()
        await self.opened.wait()
        return 200


@asynccontextmanager
async def receiver(handle: Any) -> AsyncIterator[str]:
    """A real receiver on this event loop; `handle` is awaited for every request before it is answered."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode().split("\r\n")
                length = next(
                    (int(v) for n, _, v in (x.partition(":") for x in lines) if n.lower() == "content-length"), 0
                )
                body = await reader.readexactly(length)
                status = await handle(lines[0].split(" ")[1], body)
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


# -- side by side -----------------------------------------------------------------------------


@on_loop
async def test_worlds_have_clocks_of_their_own() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        early, late = await create(worlds, "early"), await create(worlds, "late", epoch_ms=EPOCH_MS + DAY)
        for world in (early, late):
            await Caller(emulator, world).publish(headers={"Svc-Delay": "1h"})

        await early.clock.advance(by(2 * HOUR))

        assert (await early.clock.status()).now_ms == EPOCH_MS + 2 * HOUR
        assert (await late.clock.status()).now_ms == EPOCH_MS + DAY
        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
        assert len(await Caller(emulator, early).deliveries()) == 1
        assert await Caller(emulator, late).deliveries() == []


@on_loop
async def test_running_and_frozen_worlds_live_together() -> None:
    async with in_process() as emulator:
        fast = await create(emulator.emulation.worlds, "fast", rate=FAST)
        await emulator.publish(HOOK, {"Svc-Delay": "10s"})
        await Caller(emulator, fast).publish(headers={"Svc-Delay": "10s"})

        await delivered(emulator, 1, fast)

        assert await emulator.deliveries() == []


@on_loop
async def test_new_world_is_frozen_and_named_unless_it_asks_otherwise() -> None:
    async with in_process(clock="realtime") as emulator:
        worlds = emulator.emulation.worlds

        first, second = await create(worlds), await create(worlds)

        assert first.clock.rate == 0
        assert first.id != second.id
        assert len(worlds) == 3


@pytest.mark.slow
@on_loop
async def test_slow_receiver_of_one_world_does_not_hold_up_another() -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    async def handle(path: str, _: bytes) -> int:
        if path == "/slow":
            entered.set()
            await opened.wait()
        return 200

    async with in_process(limits=HASTY) as emulator, receiver(handle) as url:
        other = Caller(emulator, await create(emulator.emulation.worlds, "other"))
        await emulator.publish(f"{url}/slow")
        await entered.wait()

        await other.publish(f"{url}/quick")
        assert len(await delivered(emulator, 1, other.world)) == 1
        assert await emulator.deliveries() == []

        opened.set()
        await emulator.world.driver.settle()
        assert len(await emulator.deliveries()) == 1


# -- tokens -----------------------------------------------------------------------------------


def secrets(world: World) -> set[str]:
    account = world.account()
    return {account.id, account.token, account.read_only_token, account.signing_keys.current, *world.login}


@on_loop
async def test_credentials_are_unique_across_worlds_of_the_same_seed() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        made = [emulator.world, await create(worlds, "a"), await create(worlds, "b")]

        assert len(set.union(*(secrets(world) for world in made))) == sum(len(secrets(world)) for world in made)
        for world in made:
            account = world.account()
            by_token, by_read_only = worlds.by_token(account.token), worlds.by_token(account.read_only_token)
            assert by_token is not None
            assert by_read_only is not None
            assert (by_token.world, by_token.is_read_only) == (world, False)
            assert (by_read_only.world, by_read_only.is_read_only) == (world, True)
            assert worlds.by_login(*world.login) is world
        assert worlds.by_token("nobody's") is None
        assert worlds.by_login(made[0].login[0], made[1].login[1]) is None


@on_loop
async def test_credentials_are_found_with_the_same_work_however_many_worlds_there_are() -> None:
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

    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        alone = work(worlds)
        for number in range(5):
            await create(worlds, f"w{number}")
        assert work(worlds) == alone


@on_loop
async def test_a_changed_token_is_found_at_once_and_the_old_one_is_nobodys() -> None:
    """D-276."""
    async with in_process() as emulator:
        worlds, world = emulator.emulation.worlds, emulator.world
        first = world.account()
        await emulator.control("PUT", f"/accounts/{first.id}", {"token": "chosen"})
        assert worlds.by_token(first.token) is None
        assert worlds.by_token("chosen") is not None
        await world.reset()
        assert worlds.by_token("chosen") is None
        found = worlds.by_token(first.token)
        assert found is not None
        assert found.account_id == first.id


@on_loop
async def test_reset_keeps_the_credentials_and_they_find_the_world() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        world = await create(worlds, "a")
        before = world.credentials()

        await world.reset()

        assert world.credentials() == before
        found = worlds.by_token(before.token)
        assert found is not None
        assert found.world is world
        await Caller(emulator, world).publish()


def test_token_of_a_world_that_is_being_made_is_taken(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
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

    test()


@on_loop
async def test_token_of_a_deleted_world_is_nobodys() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        world = await create(worlds, "a")
        token, login = world.account().token, world.login
        assert worlds.by_token(token) is not None

        await worlds.delete("a")

        assert worlds.by_token(token) is None
        assert worlds.by_login(*login) is None
        assert (await emulator.get("/v2/queues", token=token)).status == 401
        # Nothing of it is kept for the next one of that name, which has the same token.
        again = await create(worlds, "a")
        assert again.account().token == token
        found = worlds.by_token(token)
        assert found is not None
        assert found.world is again


@on_loop
async def test_deleted_worlds_are_not_kept_in_memory() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        world = await create(worlds, "a")
        await Caller(emulator, world).publish()

        gone = weakref.ref(world)
        del world
        await worlds.delete("a")

        gc.collect()
        assert gone() is None


@on_loop
async def test_idle_worlds_in_memory_have_no_database_and_no_thread() -> None:
    async with in_process() as emulator:
        before = threading.active_count()
        for _ in range(50):
            await emulator.control("POST", "/worlds")
        assert threading.active_count() == before
        databases = [world._store._database for world in emulator.emulation.worlds.all()]
        assert all(isinstance(database, InMemory) and database._content is None for database in databases)


@on_loop
async def test_worlds_in_memory_share_a_few_threads() -> None:
    async with in_process() as emulator:
        before = threading.active_count()
        worlds = [await create(emulator.emulation.worlds, f"w{number}") for number in range(50)]
        for world in worlds:
            await Caller(emulator, world).publish()
        assert threading.active_count() == before
        for world in worlds:
            answer = await emulator.control("GET", f"/deliveries?world={world.id}")
            assert len(answer.json["deliveries"]) == 1
        assert before < threading.active_count() <= before + 17


@on_loop
async def test_a_new_world_looks_through_no_other() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        first = await create(worlds, "a")
        looked_at: list[str] = []

        class Watched(Driver):
            @property
            def state(self) -> StateView:
                looked_at.append("a")
                return super().state

        first.driver.__class__ = Watched
        await create(worlds, "b")
        assert worlds.by_token("nobody's") is None
        assert worlds.by_login("nobody", "nothing") is None
        await worlds.delete("b")
        assert looked_at == []


@on_loop
async def test_world_ids_are_checked() -> None:
    async with in_process() as emulator:
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


@on_loop
async def test_world_that_is_deleted_twice_at_once_is_deleted_once() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        await create(worlds, "a")

        results = await asyncio.gather(worlds.delete("a"), worlds.delete("a"), return_exceptions=True)

        assert [type(result) for result in results] == [type(None), NotFound]


# -- the same calls give the same trace -------------------------------------------------------


async def some_work(caller: Caller, url: str) -> None:
    await caller.publish(f"{url}/first", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    await caller.schedule("*/10 * * * *", f"{url}/cron")
    await caller.publish(HOOK, {"Svc-Delay": "90s", "Svc-Callback": f"{url}/callback", "Svc-Label": "x"})
    await caller.call("POST", f"/v2/enqueue/q/{url}/queued")
    await caller.control("POST", "/clock/advance", {"by": "1h"})


async def traces_of_two_worlds() -> list[bytes]:
    """What two worlds of the same seed made of the same calls; their receiver publishes from inside."""
    callers: dict[str, Caller] = {}

    async def handle(path: str, body: bytes) -> int:
        world_id, name = path.removeprefix("/").split("/")
        if name in ("first", "cron"):
            await callers[world_id].publish(f"{url}/{world_id}/from-inside", {"Svc-Delay": "7s"})
            await callers[world_id].publish(f"{url}/{world_id}/at-once")
        return 500 if name == "first" else 200

    found = []
    # On a busy machine a delivery may take longer than a call usually waits, and the next call would overtake it.
    async with in_process(limits=Limits(settle_s=60)) as emulator, receiver(handle) as url:
        for world_id in ("one", "a-quite-different-name"):
            # The worlds' names are in no path that the trace shows.
            callers["w"] = Caller(emulator, await create(emulator.emulation.worlds, world_id, seed=7))
            await some_work(callers["w"], f"{url}/w")
            found.append(await callers["w"].trace())
    return found


@pytest.mark.slow
@on_loop
async def test_same_seed_and_calls_give_the_same_trace_in_two_worlds() -> None:
    one, other = await traces_of_two_worlds()

    assert one == other
    assert one.count(b'"kind":"attempt"') > 20
    *lines, last = one.splitlines(keepends=True)
    assert json.loads(last) == {"sha256": hashlib.sha256(b"".join(lines)).hexdigest()}


@pytest.mark.slow
def test_same_seed_and_calls_give_the_same_trace_in_two_processes() -> None:
    program = (
        "import asyncio, sys; from tests.worlds.test_registry import traces_of_two_worlds;"
        "sys.stdout.buffer.write(asyncio.run(traces_of_two_worlds())[0])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed, zone in (("0", "UTC"), ("4711", "Asia/Kathmandu"))
    ]

    assert runs[0] == runs[1]
    assert runs[0].count(b"\n") > 50


@on_loop
async def test_another_seed_gives_another_trace() -> None:
    async with in_process() as emulator:
        traces = []
        for seed in (1, 2):
            caller = Caller(emulator, await create(emulator.emulation.worlds, seed=seed))
            await caller.publish()
            traces.append(await caller.trace())

    assert traces[0] != traces[1]


@on_loop
async def test_only_the_same_seed_and_the_same_epoch_give_the_same_ids() -> None:
    """D-060, D-260."""
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        ids: list[list[str]] = []
        keys: list[str] = []
        for epoch_ms, seed in ((EPOCH_MS, 7), (EPOCH_MS, 7), (EPOCH_MS + 1, 7), (EPOCH_MS, 8)):
            caller = Caller(emulator, await create(worlds, epoch_ms=epoch_ms, seed=seed))
            scheduled = await caller.call("POST", f"/v2/schedules/{HOOK}", {"Svc-Cron": "* * * * *"})
            ids.append([await caller.publish(), scheduled.json["scheduleId"]])
            rotated = await caller.call("POST", "/v2/keys/rotate")
            keys.append(rotated.json["next"])
        assert ids[0] == ids[1]
        assert len({text for pair in ids for text in pair}) == 6
        assert keys[0] == keys[1] == keys[2] != keys[3]


@on_loop
async def test_reset_world_does_the_same_again() -> None:
    async with in_process() as emulator:
        caller = Caller(emulator, emulator.world)
        await some_work(caller, "https://api.example.com")
        first = await caller.trace()

        await emulator.world.reset()
        assert (await caller.trace()).count(b"\n") == 1
        await some_work(caller, "https://api.example.com")

        assert await caller.trace() == first


# -- reset ------------------------------------------------------------------------------------


@on_loop
async def test_reset_forgets_what_is_under_way() -> None:
    gate = Gate()

    async with in_process(limits=HASTY) as emulator, receiver(gate) as url:
        await emulator.publish(f"{url}/slow")
        await emulator.publish(f"{url}/waits")
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await gate.entered.wait()

        await emulator.world.reset()
        gate.opened.set()
        await emulator.advance("1d")

        status = await emulator.world.clock.status()
        assert (status.pending, status.in_flight) == (0, 0)
        assert await emulator.deliveries() == []


@on_loop
async def test_reset_during_an_advance_ends_it_and_leaves_the_clock_at_its_beginning() -> None:
    gate = Gate()

    async with in_process() as emulator, receiver(gate) as url:
        await emulator.publish(f"{url}/slow", {"Svc-Delay": "1h"})
        advance = asyncio.get_running_loop().create_task(emulator.world.clock.advance(by(DAY)))
        await gate.entered.wait()

        await emulator.world.reset()
        gate.opened.set()
        with pytest.raises(Conflict):
            await advance

        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
        assert emulator.world.pace.anchor.virtual_ms == EPOCH_MS
        await emulator.publish(HOOK)
        assert len(await emulator.deliveries()) == 1


@on_loop
async def test_resets_at_the_same_time_are_carried_out_one_after_the_other() -> None:
    async with in_process() as emulator:
        await emulator.publish(HOOK)

        await asyncio.gather(*(emulator.world.reset() for _ in range(5)))

        assert await emulator.deliveries() == []
        await emulator.publish(HOOK)
        assert len(await emulator.deliveries()) == 1


@on_loop
async def test_publishing_while_the_world_is_reset_is_accepted_whole_or_refused() -> None:
    async with in_process() as emulator:

        async def publish() -> int:
            return (await emulator.post(f"/v2/publish/{HOOK}")).status

        statuses, *_ = await asyncio.gather(
            asyncio.gather(*(publish() for _ in range(20))), emulator.world.reset(), emulator.world.reset()
        )

        assert set(statuses) <= {200, 409}
        await emulator.world.reset()
        await emulator.publish(HOOK)
        assert len(await emulator.deliveries()) == 1


@on_loop
async def test_reset_brings_back_the_pace_the_world_was_made_with() -> None:
    async with in_process() as emulator:
        world = await create(emulator.emulation.worlds, "a", rate=FAST)
        await world.clock.set(ClockChange(rate=0, now_ms=None))

        await world.reset()

        assert world.clock.rate == FAST


@on_loop
async def test_reset_of_a_world_without_a_given_epoch_takes_a_new_one() -> None:
    """D-261: a real-time world stands at the wall clock again, and its ids are other ones."""
    fixtures = {"schedules": [{"cron": "* * * * *", "destination": HOOK}]}
    long_ago = wall_ms() - 5 * HOUR - 30 * SECOND
    async with in_process() as emulator:
        wanted = {"epoch_ms": long_ago, "epoch_is_given": False, "rate": 1.0, "fixtures": fixtures}
        caller = Caller(emulator, await create(emulator.emulation.worlds, "old", **wanted))
        credentials, first = caller.world.credentials(), await caller.publish()

        for body in ({}, {"fixtures": fixtures}):
            before_ms = wall_ms()
            reset = await caller.control("POST", "/reset", body)
            assert before_ms <= caller.world.setup.epoch_ms <= reset["clock"]["now_ms"] <= wall_ms()
            assert reset["clock"]["next_due_ms"] - caller.world.setup.epoch_ms <= MINUTE
            assert caller.world.credentials() == credentials
            assert await caller.publish() != first


def test_new_epoch_of_a_reset_outlives_a_restart(tmp_path: Path) -> None:
    """D-261."""
    db, ids = str(tmp_path / "w.db"), []

    @on_loop
    async def life() -> None:
        async with in_process(db=db, epoch="", clock="realtime") as emulator:
            assert abs((await emulator.world.clock.status()).now_ms - wall_ms()) < SECOND
            assert emulator.world.pace.anchor.virtual_ms == emulator.world.pace.anchor.wall_ms
            await emulator.world.reset()
            ids.append(await emulator.publish(HOOK))
            anchor = emulator.world.pace.anchor
            assert anchor.virtual_ms == anchor.wall_ms == emulator.world.setup.epoch_ms

    life()
    life()
    assert ids[0] != ids[1]


@on_loop
async def test_reset_of_a_world_with_a_given_epoch_returns_to_it() -> None:
    """D-261."""
    async with in_process() as emulator:
        ids = []
        for _ in range(2):
            ids.append(await emulator.publish(HOOK))
            await emulator.advance("1h")
            await emulator.world.reset()
            assert (await emulator.world.clock.status()).now_ms == EPOCH_MS
        assert ids[0] == ids[1]


# -- restarts ---------------------------------------------------------------------------------


@on_loop
async def run_and_leave(db: str, **settings: Any) -> None:
    async with in_process(db=db, **settings) as emulator:
        worlds = emulator.emulation.worlds
        for world_id in ("kept", "dropped"):
            caller = Caller(emulator, await create(worlds, world_id))
            await caller.publish(headers={"Svc-Delay": "1h"})
            await caller.publish()
        await emulator.publish(HOOK, {"Svc-Delay": "2h"})
        await emulator.advance("30m")
        await worlds.delete("dropped")


def test_worlds_come_back_after_a_restart_and_deleted_ones_do_not(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    run_and_leave(db)

    @on_loop
    async def test() -> None:
        async with in_process(db=db) as emulator:
            worlds = emulator.emulation.worlds
            assert {world.id for world in worlds.all()} == {DEFAULT, "kept"}
            kept = Caller(emulator, worlds.get("kept"))
            found = worlds.by_token(kept.world.account().token)
            assert found is not None
            assert found.world is kept.world
            assert (await emulator.world.clock.status()).now_ms == EPOCH_MS + 30 * MINUTE
            assert (await kept.world.clock.status()).now_ms == EPOCH_MS
            assert len(await kept.deliveries()) == 1

            await kept.world.clock.advance(by(HOUR))
            await emulator.advance("90m")

            assert len(await kept.deliveries()) == 2
            assert [each["at_ms"] for each in await emulator.deliveries()] == [EPOCH_MS + 2 * HOUR]
            assert sorted(path.name for path in (tmp_path / "w.db-worlds").glob("*.db")) == ["kept.db"]

    test()


@on_loop
async def test_memory_keeps_nothing(tmp_path: Path) -> None:
    async with in_process() as emulator:
        await create(emulator.emulation.worlds, "a")
    async with in_process() as emulator:
        assert [world.id for world in emulator.emulation.worlds.all()] == [DEFAULT]


def test_attempt_under_way_at_a_restart_is_made_again(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    requests: list[str] = []
    entered, opened = asyncio.Event(), asyncio.Event()

    async def handle(path: str, _: bytes) -> int:
        requests.append(path)
        entered.set()
        await opened.wait()
        return 200

    @on_loop
    async def test() -> None:
        async with receiver(handle) as url:
            emulation = await bootstrap.start(Settings(clock="frozen", epoch=EPOCH, db=db), limits=HASTY)
            emulator = InProcess(emulation)
            await emulator.publish(f"{url}/slow")
            await entered.wait()
            await emulator.world.driver.close(grace_s=0)
            await emulation.close()
            opened.set()
            async with in_process(db=db) as again:
                assert len(await delivered(again, 1)) == 1
                assert (await again.world.clock.status()).pending == 0
        assert requests == ["/slow", "/slow"]

    test()


def test_running_world_delivers_at_once_what_came_due_while_it_was_down(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")

    @on_loop
    async def leave() -> None:
        async with in_process(db=db, clock="realtime", epoch="") as emulator:
            await emulator.publish(HOOK, {"Svc-Delay": "1h"})
            # The same as an hour without the server: the correspondence of the clocks is an hour older.
            anchor = emulator.world.pace.anchor
            emulator.world.pace.anchor = Anchor(
                virtual_ms=anchor.virtual_ms, wall_ms=anchor.wall_ms - HOUR - MINUTE, rate=anchor.rate
            )
            await emulator.world._clock_was_moved()
            # Not seen by the clock before the end.
            emulator.world.pace.anchor = anchor

    @on_loop
    async def come_back() -> None:
        async with in_process(db=db, clock="realtime", epoch="") as emulator:
            (only,) = await delivered(emulator, 1)
            status = await emulator.world.clock.status()
            # At the instant at which it was due, and once.
            assert status.now_ms - only["at_ms"] >= MINUTE
            assert status.pending == 0
            assert status.now_ms - wall_ms() < HOUR + 2 * MINUTE

    leave()
    come_back()


def test_overdue_message_of_a_restarted_running_world_is_sent_once(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    requests: list[str] = []

    async def handle(path: str, _: bytes) -> int:
        requests.append(path)
        return 200

    @on_loop
    async def test() -> None:
        async with receiver(handle) as url:
            async with in_process(db=db) as emulator:
                for number in range(5):
                    await emulator.publish(f"{url}/{number}", {"Svc-Delay": "1s"})
            async with in_process(db=db, clock=str(FAST)) as again:
                await delivered(again, 5)
                await again.world.driver.settle()
        assert sorted(requests) == ["/0", "/1", "/2", "/3", "/4"]

    test()


@pytest.mark.parametrize(
    ("made_with", "changed_to", "restarted_with", "expected"),
    [
        pytest.param("frozen", None, "frozen", 0, id="same setting"),
        pytest.param("frozen", 60, "frozen", 60, id="same setting, changed meanwhile"),
        pytest.param("frozen", None, "60", 60, id="another setting"),
        pytest.param("frozen", 7, "60", 60, id="another setting, changed meanwhile"),
        pytest.param("60", 0, "60", 0, id="frozen meanwhile"),
        pytest.param("60", None, "frozen", 0, id="frozen by the setting"),
    ],
)
def test_pace_after_a_restart(
    tmp_path: Path, made_with: str, changed_to: float | None, restarted_with: str, expected: float
) -> None:
    db = str(tmp_path / "w.db")

    @on_loop
    async def test() -> None:
        async with in_process(db=db, clock=made_with) as emulator:
            if changed_to is not None:
                await emulator.world.clock.set(ClockChange(rate=changed_to, now_ms=None))
            await create(emulator.emulation.worlds, "other", rate=5.0)
            before_ms = (await emulator.world.clock.status()).now_ms
        # Twice: what the setting decided is what the next start finds.
        for _ in range(2):
            async with in_process(db=db, clock=restarted_with) as again:
                assert again.world.clock.rate == expected
                assert (await again.world.clock.status()).now_ms >= before_ms
                # The setting is about the default world.
                assert again.emulation.worlds.get("other").clock.rate == 5.0

    test()


# -- clocks that run --------------------------------------------------------------------------


@on_loop
async def test_message_with_a_delay_arrives_by_itself_when_it_is_due() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        before_ms = (await emulator.world.clock.status()).now_ms
        await emulator.publish(HOOK, {"Svc-Delay": "20s"})

        (only,) = await delivered(emulator, 1)

        assert only["via"] == Via.CAPTURE
        assert before_ms + 20 * SECOND <= only["at_ms"] <= (await emulator.world.clock.status()).now_ms


@on_loop
async def test_retries_go_on_by_themselves() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        await emulator.rule(HOOK, respond={"status": 503})
        await emulator.publish(HOOK, {"Svc-Retries": "2", "Svc-Retry-Delay": "10000"})

        instants = [each["at_ms"] for each in await delivered(emulator, 3)]

        assert all(later - earlier >= 10 * SECOND for earlier, later in itertools.pairwise(instants))


@on_loop
async def test_schedules_go_on_by_themselves() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        await Caller(emulator, emulator.world).schedule("* * * * *")

        first, second, third, *_ = [each["at_ms"] for each in await delivered(emulator, 3)]

        assert first % MINUTE == 0
        assert (second - first, third - second) == (MINUTE, MINUTE)


@on_loop
async def test_latency_of_a_rule_passes_on_the_running_clock() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        await emulator.rule(HOOK, respond={"status": 200, "latency": "5s"})
        await emulator.publish(HOOK)

        (only,) = await delivered(emulator, 1)

        assert only["duration_ms"] == 5 * SECOND


@on_loop
async def test_clock_can_be_unfrozen_and_frozen_again() -> None:
    async with in_process() as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "10s"})
        await emulator.control("PUT", "/clock", {"rate": FAST})
        await delivered(emulator, 1)

        frozen = (await emulator.control("PUT", "/clock", {"rate": 0})).json
        await emulator.publish(HOOK, {"Svc-Delay": "1s"})

        assert frozen["rate"] == 0
        assert frozen["now_ms"] >= EPOCH_MS + 10 * SECOND
        assert (await emulator.control("GET", "/clock")).json["now_ms"] == frozen["now_ms"]
        assert len(await emulator.deliveries()) == 1
        await emulator.advance("1s")
        assert len(await emulator.deliveries()) == 2


@on_loop
async def test_setting_the_clock_forward_does_the_work_on_the_way() -> None:
    async with in_process() as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})

        answer = await emulator.control("PUT", "/clock", {"now": EPOCH_MS + DAY})

        assert answer.json["now_ms"] == EPOCH_MS + DAY
        assert [each["at_ms"] for each in await emulator.deliveries()] == [EPOCH_MS + HOUR]


@on_loop
async def test_setting_the_clock_back_is_possible_until_something_has_happened() -> None:
    async with in_process() as emulator:
        back = await emulator.control("PUT", "/clock", {"now": EPOCH_MS - DAY})
        await emulator.publish(HOOK)
        refused = await emulator.control("PUT", "/clock", {"now": EPOCH_MS - 2 * DAY})

        assert (back.status, back.json["now_ms"]) == (200, EPOCH_MS - DAY)
        assert refused.status == 409
        assert (await emulator.world.clock.status()).now_ms == EPOCH_MS - DAY


@on_loop
async def test_running_clock_can_be_set_back_and_runs_on_from_there() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        answer = await emulator.control("PUT", "/clock", {"now": EPOCH_MS - 30 * DAY})

        assert answer.status == 200
        assert EPOCH_MS - 30 * DAY <= answer.json["now_ms"] < EPOCH_MS


@on_loop
async def test_clock_set_and_frozen_in_one_call_stands_exactly_there() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        target_ms = (await emulator.world.clock.status()).now_ms + 365 * DAY

        answer = await emulator.control("PUT", "/clock", {"rate": 0, "now": target_ms})

        assert answer.json["now_ms"] == target_ms


@on_loop
async def test_advance_of_a_running_clock_does_the_work_on_the_way() -> None:
    async with in_process(clock="realtime") as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})

        report = await emulator.advance("2h")
        nothing = await emulator.advance(0)

        assert report["deliveries"] == 1
        assert report["to_ms"] - report["from_ms"] == 2 * HOUR
        assert nothing["from_ms"] == nothing["to_ms"] >= report["to_ms"]


@pytest.mark.parametrize("turns", range(12))
def test_reset_whose_caller_goes_away_is_finished(turns: int) -> None:
    """Half of one would leave the world standing still for good."""

    @on_loop
    async def main() -> None:
        async with in_process() as emulator:
            await emulator.publish("https://app.example.com")
            asking = asyncio.create_task(emulator.world.reset())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait((asking,))
            # The next one has its turn after it.
            await emulator.world.reset()
            await emulator.publish("https://app.example.com")
            assert len(await emulator.deliveries()) == 1

    main()


@on_loop
async def test_message_that_is_retried_without_delay_or_end_is_stopped() -> None:
    """No plan allows that, but the record of an account can be changed."""
    logging.getLogger("emulator.engine.outbox").disabled = True
    try:
        async with in_process(max_attempts_per_instant=50) as emulator:
            account = emulator.world.account().id
            await emulator.control("PUT", f"/accounts/{account}", {"max_retries": 1_000_000})
            await emulator.rule("https://down.test/", fault="refused")
            endless = {"Svc-Retries": "1000000", "Svc-Retry-Delay": "0"}
            await emulator.publish("https://down.test/", endless)
            refused = await emulator.control("POST", "/clock/advance", {"by": "1h"})
            assert "is a message retried without a delay?" in refused.json["error"]
            assert len(await emulator.deliveries()) <= 1_000
            # It is cancelled like any other, and everything goes on.
            [message] = emulator.world.state.messages
            assert (await emulator.delete(f"/v2/messages/{message}")).status == 200
            report = await emulator.advance("1h")
            assert report["to_ms"] == EPOCH_MS + 3_600_000
    finally:
        logging.getLogger("emulator.engine.outbox").disabled = False


@on_loop
async def test_names_of_devices_are_refused_for_files(tmp_path: Path) -> None:
    """D-305."""
    async with in_process(db=str(tmp_path / "state.db")) as kept, in_process() as in_memory:
        for name in ("con", "NUL", "Aux.old", "com1", "lpt9", "team."):
            refused = await kept.control("POST", "/worlds", {"id": name})
            assert (refused.status, refused.json["field"]) == (400, "id"), name
            assert (await in_memory.control("POST", "/worlds", {"id": name})).status == 201
            for emulator in (kept, in_memory):
                refused = await emulator.control("POST", "/snapshots", {"name": name})
                assert (refused.status, refused.json["field"]) == (400, "name"), name
        for name in ("console", "com10", "a.con", "team.1"):
            assert (await kept.control("POST", "/worlds", {"id": name})).status == 201


@on_loop
async def test_worlds_that_are_kept_differ_in_more_than_the_case_of_their_ids(tmp_path: Path) -> None:
    """On macOS and Windows they would share a file (D-296)."""
    async with in_process(db=str(tmp_path / "state.db")) as kept, in_process() as in_memory:
        worlds = kept.emulation.worlds
        await create(worlds, "Team-a")
        with pytest.raises(Conflict, match="world Team-a exists already, and some file systems"):
            await create(worlds, "team-A")
        with pytest.raises(Conflict, match="world default exists already, and some file systems"):
            await create(worlds, "DEFAULT")
        await worlds.delete("Team-a")
        await create(worlds, "team-A")
        await create(in_memory.emulation.worlds, "Team-a")
        await create(in_memory.emulation.worlds, "team-A")
