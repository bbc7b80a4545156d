"""`follow_time`: the time of the test's own process is the virtual time (D-503), and the emulator's is not (D-504)."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import freezegun
import jwt
import pytest
import time_machine
from freezegun import freeze_time

from emulator import AsyncEmulator, Emulator, EmulatorError, Request
from emulator.client.app_time import show
from emulator.core.model.messages import Response
from emulator.delivery.mounts import MountedRequest
from emulator.engine.clock import wall_ms
from tests.harness import emulators
from tests.harness.job_receivers import JobReceiver, served

APP = "https://app.test/hook"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)

# It reads every attribute of every module, and one of these asks for a container engine, which leaves a socket open.
freezegun.configure(extend_ignore_list=["testcontainers"])


def now() -> datetime:
    return datetime.now(UTC)


def since_epoch() -> timedelta:
    return now() - EPOCH


def test_the_time_is_virtual_at_every_delivery_and_after_every_move(emu: Emulator) -> None:
    seen: list[timedelta] = []

    def app(request: Request) -> int:
        seen.append(since_epoch())
        return 503 if len(seen) == 1 else 200

    emu.mount("https://app.test", app)
    with emu.follow_time():
        assert (now(), time.time(), date.today().year) == (EPOCH, emulators.EPOCH_MS / 1000, 2026)
        emu.publish(APP, delay="1h", retries=1, retry_delay="10s")
        emu.clock.advance(days=1)
        assert (seen, since_epoch()) == ([timedelta(hours=1), timedelta(hours=1, seconds=10)], DAY)
        emu.clock.set("2026-01-03T00:00:00Z")
        assert since_epoch() == 2 * DAY
        emu.publish(APP, delay="1h")
        assert emu.clock.next(undoable=True).deliveries == 1
        assert (seen[-1], since_epoch()) == (2 * DAY + timedelta(hours=1),) * 2
        emu.clock.undo()
        assert since_epoch() == 2 * DAY
        emu.snapshots.save("here")
        emu.clock.drain()
        assert since_epoch() > 2 * DAY
        emu.snapshots.restore("here")
        assert since_epoch() == 2 * DAY
        emu.reset()
        assert now() == EPOCH
    assert abs(time.time() * 1000 - wall_ms()) < 60_000


def test_asynchronous_code_has_the_virtual_time_too() -> None:
    seen: list[timedelta] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.001)
        seen.append(since_epoch())
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    async def test() -> None:
        async with AsyncEmulator(epoch=EPOCH) as emulator:
            await emulator.mount("https://app.test", app)
            with emulator.follow_time():
                await emulator.publish(APP, delay="1d")
                # The loop's own clock continues.
                async with asyncio.timeout(30):
                    await emulator.clock.advance("2d")
                assert since_epoch() == 2 * DAY

    asyncio.run(test())
    assert seen == [DAY]


@pytest.mark.parametrize("epoch", ["2026-01-01T00:00:00Z", "2050-01-01T00:00:00Z"])
def test_a_receiver_with_the_virtual_time_accepts_signatures(epoch: str) -> None:
    claims: list[dict[str, Any]] = []

    def app(request: Request) -> None:
        claims.append(jwt.decode(request.headers["Svc-Signature"], key, algorithms=["HS256"]))

    with Emulator(epoch=epoch) as emu, emu.follow_time():
        key = emu.credentials.current_signing_key
        emu.mount("https://app.test", app)
        emu.publish(APP, delay="1d", retries=0)
        emu.clock.advance("1d")
    assert len(claims) == 1


def test_in_real_time_it_goes_on(server: Emulator) -> None:
    with server.new_world(epoch=EPOCH, rate=1) as world, world.follow_time():
        first = since_epoch()
        world.publish(APP, delay="1s")
        [delivery] = world.wait_for(APP)
        assert timedelta(0) <= first < since_epoch() < timedelta(minutes=5)
        assert delivery.at <= now()


def test_the_emulator_goes_by_the_time_of_the_machine(server: Emulator) -> None:
    before_ms = wall_ms()
    with server.new_world(epoch=EPOCH, rate=1) as world:
        for changed in (world.follow_time(), time_machine.travel(0), freeze_time("2001-01-01", real_asyncio=True)):
            with changed:
                assert 0 <= wall_ms() - before_ms < 300_000
                assert timedelta(0) <= world.clock.now() - EPOCH < timedelta(minutes=5)


def test_the_time_of_the_emulator_is_right_while_that_of_the_process_changes() -> None:
    ended = threading.Event()
    read: list[int] = []

    def reading() -> None:
        while not ended.is_set():
            read.append(wall_ms())

    before_ms = wall_ms()
    thread = threading.Thread(target=reading)
    thread.start()
    try:
        for _ in range(200):
            with time_machine.travel(0, tick=False):
                pass
    finally:
        ended.set()
        thread.join()
    assert (min(read) >= before_ms, max(read) <= wall_ms()) == (True, True)


def test_it_ends_with_its_block_also_by_an_error(emu: Emulator) -> None:
    with pytest.raises(ZeroDivisionError), emu.follow_time():
        raise ZeroDivisionError
    assert abs(time.time() * 1000 - wall_ms()) < 60_000
    with emu.follow_time():
        assert now() == EPOCH


def test_inside_another_of_the_same_world_it_does_nothing(emu: Emulator) -> None:
    with emu.follow_time():
        with Emulator.sharing(emu).follow_time():
            assert now() == EPOCH
        assert now() == EPOCH
    assert now() > EPOCH + 30 * DAY


def test_a_process_follows_one_world(emu: Emulator, server: Emulator) -> None:
    with emu.follow_time(), server.new_world() as other:
        with pytest.raises(EmulatorError, match=f"the world {emu.world} already"), other.follow_time():
            pass
        assert now() == EPOCH


def test_after_the_end_of_its_world_the_time_stands(server: Emulator) -> None:
    with contextlib.ExitStack() as following:
        with server.new_world(epoch=EPOCH) as world:
            following.enter_context(world.follow_time())
            world.clock.advance("1d")
            assert since_epoch() == DAY
        assert since_epoch() == DAY


def test_a_server_elsewhere_cannot_be_followed(server: Emulator) -> None:
    refused = pytest.raises(EmulatorError, match="follow_time needs an emulator in this process")
    with Emulator.connect(server.url) as connected, refused, connected.follow_time():
        pass


def test_without_time_machine_it_says_what_to_install(emu: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "time_machine", None)
    with pytest.raises(ImportError, match=r"pip install 'svc-emulator\[time\]'"), emu.follow_time():
        pass


def test_a_time_machine_that_works_otherwise_is_named() -> None:
    with pytest.raises(EmulatorError, match="does not work with this version of time-machine"):
        show(SimpleNamespace(), lambda: emulators.EPOCH_MS)


def test_beside_freezegun_it_says_that_there_are_two(emu: Emulator) -> None:
    refused = pytest.raises(EmulatorError, match="freezegun is active")
    with freeze_time("2001-01-01", real_asyncio=True), refused, emu.follow_time():
        pass
    with emu.follow_time():
        assert now() == EPOCH


def test_freezegun_is_moved_by_hand(emu: Emulator) -> None:
    """As the README shows it."""
    seen: list[timedelta] = []
    with freeze_time(emu.clock.now(), real_asyncio=True) as frozen:

        def at_its_time(application: Callable[[Request], None]) -> Callable[[Request], None]:
            def answer(request: Request) -> None:
                frozen.move_to(emu.clock.now())
                return application(request)

            return answer

        emu.mount("https://app.test", at_its_time(lambda request: seen.append(since_epoch())))
        emu.publish(APP, delay="1d")
        emu.clock.advance("2d")
    assert seen == [DAY]


@pytest.mark.slow
def test_a_receiver_elsewhere_is_checked_by_the_time_of_the_machine(emu: Emulator) -> None:
    issued: list[int] = []

    class Noted(JobReceiver):
        async def __call__(self, request: MountedRequest) -> Response:
            token = dict(request.headers).get("svc-signature", "")
            with contextlib.suppress(jwt.InvalidTokenError):
                issued.append(jwt.decode(token, options={"verify_signature": False})["iat"])
            return await super().__call__(request)

    began_s = time.time()
    with served(Noted()) as url, emu.follow_time():
        emu.check_receiver(url)
    # One of them has expired on purpose.
    assert min(issued) >= began_s - 3 * 3600
