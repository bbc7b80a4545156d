"""In which thread a mounted function answers, and what ends it there."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from contextvars import ContextVar
from typing import Any

import httpx
import pytest

from emulator import AsyncEmulator, Emulator, Request
from emulator.client.event_loops import Handoff
from emulator.client.mounts import Pace
from emulator.client.threads import BlockingCaller, HandlerTimedOut, Job, Threads
from emulator.core.model import messages
from tests.harness import loops

ORIGIN = "https://app.test"
URL = "https://app.test/hook"

Seen = list[threading.Thread]


@pytest.fixture
def seen(emu: Emulator) -> Seen:
    """The threads in which the application mounted at ORIGIN has answered."""
    threads: Seen = []
    emu.mount(ORIGIN, lambda request: threads.append(threading.current_thread()))
    return threads


# -- in the test's thread -------------------------------------------------------------------------

CALLS: dict[str, Callable[[Emulator], object]] = {
    "publish": lambda emu: emu.publish(URL),
    "enqueue": lambda emu: emu.publish(URL, queue="jobs"),
    "batch": lambda emu: emu.call("POST", "/v2/batch", json=[{"destination": URL}]),
    "advance": lambda emu: (emu.publish(URL, delay="1h"), emu.clock.advance("1h")),
    "drain": lambda emu: (emu.publish(URL, delay="1h"), emu.clock.drain()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_function_answers_in_the_thread_that_waits_for_it(call: str, emu: Emulator, seen: Seen) -> None:
    """D-690."""
    CALLS[call](emu)
    assert set(seen) == {threading.main_thread()}


def test_a_call_that_waits_for_something_else_serves_as_well(emu: Emulator, seen: Seen) -> None:
    headers = {"Authorization": f"Bearer {emu.token}", "Svc-Delay": "1s"}
    httpx.post(f"{emu.url}/v2/publish/{URL}", headers=headers, trust_env=False)
    emu.clock.next()
    assert seen == [threading.main_thread()]


def test_what_is_bound_to_the_thread_of_the_test_is_that_of_its_functions(emu: Emulator) -> None:
    """D-690. A connection of SQLite refuses every other thread."""

    def function(request: Request) -> None:
        database.execute("INSERT INTO orders VALUES (?)", (request.text,))

    def wsgi(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        # A body that is made while it is sent.
        yield str(database.execute("SELECT name FROM orders").fetchall()).encode()

    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE orders (name)")
        emu.mount(ORIGIN, function)
        emu.mount("https://wsgi.test", wsgi)
        emu.publish(URL, "first")
        emu.publish("https://wsgi.test/", retries=0)
        emu.verify(URL, status=200)
    shown = emu.deliveries(url="https://wsgi.test/")[0].response
    assert shown is not None
    assert shown.text == "[('first',)]"


def test_it_sees_the_context_variables_of_the_test_and_changes_none(emu: Emulator) -> None:
    user = ContextVar("user", default="nobody")

    def hook(request: Request) -> str:
        found = user.get()
        user.set("the handler")
        return found

    emu.mount(ORIGIN, hook)
    user.set("the test")
    emu.publish(URL)
    emu.publish(URL)
    assert [each.response.text for each in emu.deliveries() if each.response] == ["the test"] * 2
    assert user.get() == "the test"


# -- in another one -------------------------------------------------------------------------------


def over_http(emu: Emulator) -> None:
    httpx.post(f"{emu.url}/v2/publish/{URL}", headers={"Authorization": f"Bearer {emu.token}"}, trust_env=False)


def in_a_thread(emu: Emulator) -> None:
    thread = threading.Thread(target=emu.publish, args=(URL,))
    thread.start()
    thread.join()


def under_an_event_loop(emu: Emulator) -> None:
    async def test() -> None:
        emu.publish(URL)

    asyncio.run(test())


def with_awaits(emu: Emulator) -> None:
    asyncio.run(AsyncEmulator.sharing(emu).publish(URL))


def of_another_world(emu: Emulator) -> None:
    with emu.new_world() as other:
        other.mount(ORIGIN, lambda request: over_http(emu))
        other.publish(URL)


@pytest.mark.parametrize(
    "publish",
    [over_http, in_a_thread, under_an_event_loop, with_awaits, of_another_world],
    ids=lambda each: each.__name__,
)
def test_where_the_main_thread_does_not_wait_for_it_a_function_has_another(
    publish: Callable[[Emulator], None], emu: Emulator, seen: Seen
) -> None:
    """D-690."""
    publish(emu)
    emu.verify(URL, status=200)
    assert len(seen) == 1
    assert threading.main_thread() not in seen


def test_functions_that_overlap_have_one_of_them_in_the_test_s_thread() -> None:
    seen: Seen = []
    together = threading.Barrier(2)

    def hook(request: Request) -> None:
        seen.append(threading.current_thread())
        together.wait(loops.PATIENCE_S)

    with Emulator(concurrency=2) as emu:
        emu.mount(ORIGIN, hook)
        emu.call("POST", "/v2/batch", json=[{"destination": URL}] * 2)
        emu.clock.advance(0)
        emu.verify(URL, status=200, times=2)
    assert sorted(each is threading.main_thread() for each in seen) == [False, True]


def test_what_comes_as_the_wait_ends_is_run_all_the_same() -> None:
    threads = Threads(1, "test")
    try:
        for _ in range(300):
            caller, ended = BlockingCaller(), threading.Event()
            future: Future[None] = Future()

            def end(future: Future[None] = future, ended: threading.Event = ended) -> None:
                future.set_result(None)
                threads.start(Job(ended.set), "world")

            other = threading.Thread(target=end)
            other.start()
            caller.wait(future, threads, "world")
            other.join()
            assert ended.wait(loops.PATIENCE_S)
    finally:
        threads.close()


# -- its end --------------------------------------------------------------------------------------


def test_ctrl_c_in_a_function_ends_the_call_at_once(server: Emulator) -> None:
    calls: list[Request] = []

    def hook(request: Request) -> None:
        calls.append(request)
        raise KeyboardInterrupt

    with server.new_world() as world:
        world.mount(ORIGIN, hook)
        world.schedules.create(URL, "* * * * *", retries=0)
        with pytest.raises(KeyboardInterrupt):
            world.clock.advance("1h")
        assert len(calls) == 1
        # It was met: neither the next call nor the end of the world raises it.
        assert [each.status for each in world.deliveries()] == [500]


@pytest.mark.parametrize("hangs", [lambda: time.sleep(loops.PATIENCE_S), threading.Event().wait], ids=["sleep", "lock"])
def test_a_function_that_hangs_in_the_test_s_thread_is_ended_there(
    hangs: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    """D-690, D-472."""
    ended: list[BaseException] = []

    def hook(request: Request) -> None:
        try:
            hangs()
        except BaseException as error:
            ended.append(error)
            raise

    with Emulator(mount_timeout=0.1) as emu:
        emu.mount(ORIGIN, hook)
        emu.publish(URL, retries=0)
        assert [type(each) for each in ended] == [HandlerTimedOut]
        assert [each.error for each in emu.deliveries()] == [
            "timeout: the application mounted at https://app.test did not answer within 100ms of real time "
            "(mount_timeout)"
        ]
        assert "hangs()" in caplog.text
        emu.mount(ORIGIN, lambda request: 204)
        emu.publish(URL)
        emu.verify(URL, status=204)


def test_a_function_that_ends_late_by_itself_ends_the_call_then() -> None:
    """What ignores its end holds the test up, but neither its attempt nor the one after."""

    def hook(request: Request) -> None:
        try:
            time.sleep(loops.PATIENCE_S)
        except BaseException:
            return

    with Emulator(mount_timeout=0.1) as emu:
        emu.mount(ORIGIN, hook)
        emu.publish(URL, retries=0)
        emu.publish(URL, retries=0)
        assert [each.status for each in emu.deliveries()] == [None, None]
        assert emu.handler_errors == ()


def test_a_function_that_a_debugger_holds_is_not_ended() -> None:
    """D-690. The debugger's prompt stays; the attempt has failed nevertheless."""
    debugger: dict[str, Any] = {"__name__": "pdb"}
    exec("def prompt(wait): wait(0.3)", debugger)
    ended: list[BaseException] = []

    def hook(request: Request) -> None:
        try:
            debugger["prompt"](threading.Event().wait)
        except BaseException as error:
            ended.append(error)

    with Emulator(mount_timeout=0.1) as emu:
        emu.mount(ORIGIN, hook)
        emu.publish(URL, retries=0)
        emu.clock.advance(0)
        assert [each.status for each in emu.deliveries()] == [None]
        assert ended == []


def test_a_function_that_catches_its_end_is_ended_again(caplog: pytest.LogCaptureFixture) -> None:
    """D-690. A worker's loop catches everything, and continues."""
    ended: list[BaseException] = []

    def hook(request: Request) -> None:
        while len(ended) < 2:
            try:
                threading.Event().wait(loops.PATIENCE_S)
            except BaseException as error:
                ended.append(error)

    with Emulator(mount_timeout=0.1) as emu:
        emu.mount(ORIGIN, hook)
        emu.publish(URL, retries=0)
        emu.clock.advance(0)
        assert [type(each) for each in ended] == [HandlerTimedOut] * 2
        assert [each.status for each in emu.deliveries()] == [None]
        emu.mount(ORIGIN, lambda request: 204)
        emu.publish(URL)
        emu.verify(URL, status=204)
    assert caplog.text.count("catches what ends it") == 1


# -- the way back to the emulator's loop ------------------------------------------------------------


def response() -> messages.Response:
    return messages.Response(status=200, headers=(), body=b"")


def test_the_loop_stands_still_for_an_application_that_is_quick() -> None:
    """D-691."""
    pace = Pace(loops.PATIENCE_S)
    quick, slow, next_one = (Handoff[messages.Response](lambda: None) for _ in range(3))
    other = threading.Timer(0.05, quick.finish, [response()])
    other.start()
    assert pace.answer(quick) == response()
    other.join()
    slow.finish(response())
    assert pace.answer(slow) == response()
    slow.took_s = loops.PATIENCE_S
    # This one has no answer yet, and nobody stands still for it.
    assert pace.answer(next_one) is None


@pytest.mark.parametrize(
    ("options", "rate", "take_turns"), [({}, 0, True), ({}, 1, False), ({"concurrency": 2}, 0, False)]
)
def test_deliveries_that_may_overlap_are_never_waited_for_by_standing_still(
    options: Any, rate: int, take_turns: bool
) -> None:
    """D-691, D-538."""
    with Emulator(**options) as server, server.new_world(rate=rate) as world:
        assert world.session.server.take_turns(world.session.world) == take_turns


class Broken(Exception):
    """Of the other side."""


@loops.on_loop
async def test_what_another_thread_hands_over_is_waited_for_on_the_loop() -> None:
    cancelled = threading.Event()
    later, broken, already, given_up = (Handoff[int](cancelled.set) for _ in range(4))
    threading.Timer(0.02, later.finish, [1]).start()
    threading.Timer(0.02, broken.fail, [Broken()]).start()
    already.finish(2)
    assert later.wait_briefly(0) is None
    assert (await later.wait(), await already.wait()) == (1, 2)
    with pytest.raises(Broken):
        await broken.wait()
    assert not cancelled.is_set()
    waiting = loops.spawn(given_up.wait())
    await loops.turns()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (waiting.cancelled(), cancelled.is_set()) == (True, True)
