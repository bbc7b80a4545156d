"""What mounted code raises and what is not awaited reaches the test: D-470, D-471, D-472, D-474."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import flask
import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from emulator import AsyncEmulator, Emulator, EmulatorError, EmulatorWarning, HandlerError, Request
from emulator.client.errors import LoopMisuse, Mode
from tests.harness import loops

ORIGIN = "https://app.test"
URL = "https://app.test/hook"

Raise = Callable[[], None]


def fail() -> None:
    pytest.fail("broken")


def skip() -> None:
    pytest.skip("not now")


def leave() -> None:
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def cancel() -> None:
    raise asyncio.CancelledError


def close() -> None:
    raise GeneratorExit


def check() -> None:
    raise AssertionError("sums")


def cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


RAISES: dict[str, tuple[Raise, type[BaseException]]] = {
    "fail": (fail, pytest.fail.Exception),
    "skip": (skip, pytest.skip.Exception),
    "exit": (leave, SystemExit),
    "interrupt": (interrupt, KeyboardInterrupt),
    "cancel": (cancel, asyncio.CancelledError),
}
# What closes a coroutine from outside, raised by the application itself.
OF_DELIVERIES: dict[str, tuple[Raise, type[BaseException]]] = {**RAISES, "close": (close, GeneratorExit)}


def function(raises: Raise) -> Any:
    return lambda request: raises()


def async_function(raises: Raise) -> Any:
    async def app(request: Request) -> None:
        raises()

    return app


def task(raises: Raise) -> Any:
    """The application raises in a task of its own, which a loop does not survive."""

    async def app(request: Request) -> None:
        async def work() -> None:
            raises()

        await asyncio.create_task(work())

    return app


def asgi(raises: Raise) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raises()

    return app


def asgi_in_the_midst(raises: Raise) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raises()

    return app


def wsgi(raises: Raise) -> Any:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raises()
        return []

    return app


Make = Callable[[Raise], Any]
APPS: tuple[Make, ...] = (function, async_function, task, asgi, asgi_in_the_midst, wsgi)


@pytest.fixture(params=APPS, ids=lambda app: app.__name__)
def make(request: pytest.FixtureRequest) -> Make:
    found: Make = request.param
    return found


def well(emu: Emulator) -> None:
    """The world and its server work as before, in threads and on the loop."""

    async def asynchronous(request: Request) -> int:
        return 202

    for answer, status in ((lambda request: 201, 201), (asynchronous, 202)):
        emu.mount("https://well.test", answer)
        message_id = emu.publish(f"https://well.test/{status}")
        emu.verify(message_id=message_id, status=status, attempts=1)


# -- exceptions that are no Exception -------------------------------------------------------------


@pytest.mark.parametrize("name", OF_DELIVERIES)
def test_what_is_no_exception_is_a_500_and_is_raised_again(name: str, make: Make, emu: Emulator) -> None:
    """D-470."""
    raises, kind = OF_DELIVERIES[name]
    emu.mount(ORIGIN, make(raises))
    with pytest.raises(kind) as caught:
        emu.publish(URL, retries=0)

    [delivery] = emu.deliveries()
    assert (delivery.status, delivery.via) == (500, "mount")
    assert any(entry.name == raises.__name__ for entry in caught.traceback)
    [listed] = emu.handler_errors
    assert (type(listed.error), listed.url, listed.message_id) == (kind, URL, delivery.message_id)
    well(emu)


@dataclass(frozen=True)
class Frozen(AssertionError):
    """An exception that refuses attributes: a traceback, a note."""

    order: int

    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_exception_that_refuses_attributes_is_one_as_others_are(make: Make, emu: Emulator) -> None:
    """D-470."""

    def raises() -> None:
        raise Frozen(7)

    emu.mount(ORIGIN, make(raises))
    with pytest.raises(Frozen) as caught:
        emu.publish(URL, retries=1, retry_delay="1s")
    with pytest.raises(Frozen):
        emu.clock.drain()
    assert [delivery.status for delivery in emu.deliveries()] == [500, 500]
    [note] = caught.value.__notes__[:1]
    assert note.startswith("It was raised by mounted code: the delivery of msg_")
    assert "Frozen" in str(emu.handler_errors[0])
    well(emu)


def test_what_is_raised_is_shown_by_the_test_and_the_application_alone(emu: Emulator) -> None:
    emu.mount(ORIGIN, wsgi(check))
    with pytest.raises(AssertionError) as caught:
        emu.publish(URL, retries=0)

    shown = caught.traceback.filter(caught)
    assert [entry.name for entry in shown] == [
        "test_what_is_raised_is_shown_by_the_test_and_the_application_alone",
        "app",
        "check",
    ]
    [note] = caught.value.__notes__
    assert note.startswith("It was raised by mounted code: the delivery of msg_")


def test_an_application_that_cancels_its_own_task_does_not_cancel_the_attempt(emu: Emulator) -> None:
    async def app(request: Request) -> None:
        cancel_own_task()
        await asyncio.sleep(0)

    emu.mount(ORIGIN, app)
    with pytest.raises(asyncio.CancelledError):
        emu.publish(URL, retries=0)
    assert emu.deliveries()[0].status == 500
    well(emu)


def lifespan_app(raises: Raise, phase: str) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return
        if phase == "before":
            raises()
            await asyncio.sleep(0)
        await receive()
        if phase == "startup":
            raises()
            await asyncio.sleep(0)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        raises()
        await asyncio.sleep(0)

    return app


OF_LIFESPANS: dict[str, tuple[Raise, type[BaseException]]] = {
    **OF_DELIVERIES,
    "cancel its own task": (cancel_own_task, asyncio.CancelledError),
}


@pytest.mark.parametrize("name", OF_LIFESPANS)
@pytest.mark.parametrize("phase", ["before", "startup", "shutdown"])
def test_what_breaks_out_of_a_lifespan_is_raised_again(name: str, phase: str, emu: Emulator) -> None:
    raises, kind = OF_LIFESPANS[name]
    if phase == "shutdown":
        emu.mount(ORIGIN, lifespan_app(raises, phase))
    with pytest.raises(kind):
        emu.unmount(ORIGIN) if phase == "shutdown" else emu.mount(ORIGIN, lifespan_app(raises, phase))
    [listed] = emu.handler_errors
    assert (type(listed.error), listed.url, listed.message_id, listed.at) == (kind, ORIGIN, None, None)
    well(emu)


# -- what would end the loop that others run on ----------------------------------------------------


def stop_loop() -> None:
    asyncio.get_running_loop().stop()


def close_loop() -> None:
    asyncio.get_running_loop().close()


def cancel_all_tasks() -> None:
    own = asyncio.current_task()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task is not own):
        task.cancel()


MISUSES: dict[str, tuple[Raise, str]] = {
    "stop": (stop_loop, r"called stop\(\) of the event loop"),
    "close": (close_loop, r"called close\(\) of the event loop"),
    "cancel": (cancel_all_tasks, "cancelled a task that is not its own"),
}
PLACES = ("before", "startup", "serving", "handler", "after", "task", "shutdown", "at the end")


def app_that(does: Raise, place: str) -> Any:
    """An ASGI application that does something somewhere, and otherwise works."""
    kept: list[object] = []

    def here(*places: str) -> None:
        if place in places:
            does()

    async def in_task() -> None:
        await asyncio.sleep(0)
        does()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            here("before")
            await receive()
            here("startup")
            await send({"type": "lifespan.startup.complete"})
            here("serving")
            await receive()
            here("shutdown")
            await send({"type": "lifespan.shutdown.complete"})
            here("at the end")
            return
        here("handler")
        if place == "task":
            kept.append(asyncio.create_task(in_task()))
            await asyncio.sleep(0.01)
        if place == "callback":
            asyncio.get_running_loop().call_soon(does)
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})
        here("after")

    return app


def in_an_emulator(application: Any) -> None:
    with Emulator() as emu:
        emu.mount(ORIGIN, application)
        emu.publish(URL, retries=0)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, place) for name in MISUSES for place in PLACES if (name, place) != ("cancel", "task")),
        ("stop", "callback"),
        ("close", "callback"),
    ],
)
def test_an_application_that_would_end_its_event_loop_is_named(name: str, place: str) -> None:
    """D-798: nothing hangs, the emulator closes, and the next one works."""
    does, text = MISUSES[name]
    began = time.monotonic()
    with pytest.raises(LoopMisuse, match=text) as caught:
        in_an_emulator(app_that(does, place))
    assert time.monotonic() - began < loops.PATIENCE_S / 2
    assert any(ORIGIN in note for note in caught.value.__notes__)
    assert place == "callback" or does.__name__ in [each.name for each in caught.traceback]
    in_an_emulator(app_that(lambda: None, place))


def test_a_task_that_cancels_what_answers_the_delivery_is_named() -> None:
    """D-798: the task that answers may be cancelled first, and what is refused is a note on that."""
    with pytest.raises((asyncio.CancelledError, LoopMisuse)) as caught:
        in_an_emulator(app_that(cancel_all_tasks, "task"))
    text = "\n".join([repr(caught.value), *caught.value.__notes__])
    assert "cancelled a task that is not its own" in text
    in_an_emulator(app_that(lambda: None, "task"))


def test_a_handler_that_cancels_its_own_task_is_named(emu: Emulator) -> None:
    """D-470, D-798."""

    async def handler(_: Any) -> None:
        cancel_own_task()
        await asyncio.sleep(0)

    emu.mount(ORIGIN, handler)
    with pytest.raises(asyncio.CancelledError) as caught:
        emu.publish(URL, retries=0)
    assert "It cancelled the task that answered the delivery." in caught.value.__notes__


@pytest.mark.parametrize(
    ("name", "place"),
    # A task that raises CancelledError counts as cancelled.
    [(name, place) for name in OF_DELIVERIES for place in PLACES if (name, place) != ("cancel", "task")],
)
def test_what_is_no_exception_ends_nothing_wherever_it_is_raised(name: str, place: str) -> None:
    """D-471, D-798: a task that its application keeps included."""
    raises, kind = OF_DELIVERIES[name]
    began = time.monotonic()
    with pytest.raises(kind):
        in_an_emulator(app_that(raises, place))
    assert time.monotonic() - began < loops.PATIENCE_S / 2


def test_an_application_may_cancel_its_own_tasks(emu: Emulator) -> None:
    """D-798: those of its start-up too."""
    workers: list[asyncio.Task[object]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            workers.append(asyncio.create_task(asyncio.Event().wait()))
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        workers[0].cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    emu.mount(ORIGIN, app)
    well_answered = emu.publish(URL, retries=0)
    assert [each.response and each.response.status for each in emu.deliveries(message_id=well_answered)] == [200]
    assert workers[0].cancelled()


def test_a_loop_that_is_stopped_behind_our_back_continues(emu: Emulator) -> None:
    """D-798: a thread of the application has no context that tells whose it is."""

    async def handler(_: Any) -> int:
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(loop.stop))
        thread.start()
        thread.join()
        await asyncio.sleep(0.001)
        return 200

    emu.mount(ORIGIN, handler)
    for _ in range(2):
        emu.publish(URL, retries=0)
    assert [each.response and each.response.status for each in emu.deliveries()] == [200, 200]


def fails_after(status: int) -> Starlette:
    """An application that answers, and then fails in a background task."""

    def remind() -> None:
        raise ValueError("no mail server")

    async def hook(_: Any) -> PlainTextResponse:
        return PlainTextResponse("answered", status, background=BackgroundTask(remind))

    return Starlette(routes=[Route("/hook", hook, methods=["POST"])])


def test_a_background_task_that_fails_fails_the_test(emu: Emulator, caplog: pytest.LogCaptureFixture) -> None:
    """D-471."""
    emu.mount(ORIGIN, fails_after(202))
    emu.publish(URL, retries=0, delay="1s")
    with pytest.raises(ValueError, match="no mail server"):
        emu.clock.advance("1s")
    assert [(each.status, str(failed.error)) for each in emu.deliveries() for failed in emu.handler_errors] == [
        (202, "no mail server")
    ]
    assert "failed after it had answered the delivery with 202" in caplog.text
    well(emu)


def fails_beside(*, in_start_up: bool = False) -> Starlette:
    """An application with a task that fails and that nothing awaits."""

    async def remind() -> None:
        await asyncio.sleep(0)
        raise ValueError("no mail server")

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        if in_start_up:
            asyncio.create_task(remind())  # noqa: RUF006  # nothing awaits it
        yield

    async def hook(_: Any) -> PlainTextResponse:
        if not in_start_up:
            asyncio.create_task(remind())  # noqa: RUF006  # nothing awaits it
        return PlainTextResponse("answered", 202)

    return Starlette(routes=[Route("/hook", hook, methods=["POST"])], lifespan=lifespan)


@pytest.mark.parametrize("in_start_up", [False, True])
def test_a_task_that_fails_and_that_nothing_awaits_fails_the_test(in_start_up: bool) -> None:
    """D-471."""

    def use() -> None:
        with Emulator() as emu:
            emu.mount(ORIGIN, fails_beside(in_start_up=in_start_up))
            if not in_start_up:
                emu.publish(URL, retries=0)

    with pytest.raises(ValueError, match="no mail server") as raised:
        use()
    assert ORIGIN in "".join(raised.value.__notes__)


@loops.on_loop
async def test_a_task_on_the_loop_of_the_test_fails_it(caplog: pytest.LogCaptureFixture) -> None:
    """D-471. What the test has set for its loop still hears of it."""
    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, happened: heard.append(happened["exception"]))

    async def use() -> None:
        async with AsyncEmulator() as emu:
            await emu.mount(ORIGIN, fails_beside())
            await emu.publish(URL, retries=0)

    with pytest.raises(ValueError, match="no mail server"):
        await use()
    assert list(map(str, heard)) == ["no mail server"]


def test_a_task_that_nothing_awaits_is_listed_only_if_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """D-471."""
    with Emulator(handler_errors="report") as emu:
        emu.mount(ORIGIN, fails_beside())
        emu.publish(URL, retries=0)
        emu.unmount(ORIGIN)
        assert [(each.url, str(each.error)) for each in emu.handler_errors] == [(URL, "no mail server")]
    assert "Task exception was never retrieved" in caplog.text


@pytest.mark.parametrize(("status", "mode"), [(503, "raise"), (202, "report")])
def test_a_background_task_that_fails_is_listed(status: int, mode: Mode) -> None:
    """D-471."""
    with Emulator(handler_errors=mode) as emu:
        emu.mount(ORIGIN, fails_after(status))
        emu.publish(URL, retries=0, delay="1s")
        emu.clock.advance("1s")
        assert [each.status for each in emu.deliveries()] == [status]
        assert str(emu.handler_errors[0].error) == "no mail server"


def failing_shutdown(*, raises: bool) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if raises:
            raise ValueError("no connection to close")
        await send({"type": "lifespan.shutdown.failed", "message": "no connection to close"})

    return app


@pytest.mark.parametrize("raises", [True, False], ids=["raised", "answered"])
def test_a_shutdown_that_fails_fails_the_test(raises: bool) -> None:
    """D-471."""
    with pytest.raises(ValueError if raises else RuntimeError, match="no connection to close"), Emulator() as emu:
        emu.mount(ORIGIN, failing_shutdown(raises=raises))


def in_world(world: Emulator, *raises: Raise, place: str = "shutdown", then: BaseException | None = None) -> None:
    """A world with applications that raise, which perhaps ends with an exception of its own."""
    with world:
        for number, each in enumerate(raises):
            world.mount(f"https://app-{number}.test", app_that(each, place))
        if then is not None:
            raise then


def in_world_that_nobody_closes(raises: Raise, place: str) -> None:
    with Emulator() as emu:
        emu.new_world().start().mount(ORIGIN, app_that(raises, place))


@pytest.mark.parametrize("place", ["serving", "shutdown", "at the end"])
@pytest.mark.parametrize("error", [ValueError("v"), ExceptionGroup("g", [ValueError("v")]), pytest.fail.Exception("v")])
def test_whatever_a_shutdown_raises_fails_the_test(error: BaseException, place: str, server: Emulator) -> None:
    """D-471: in a world of its own, in one that nobody closes, and beside what ends the test."""

    def raises() -> None:
        raise error

    with pytest.raises(type(error)):
        in_world(server.new_world(), raises, place=place)
    with pytest.raises(type(error)):
        in_world_that_nobody_closes(raises, place)
    with pytest.raises(LookupError) as caught:
        in_world(server.new_world(), raises, then=LookupError("the test"))
    assert any("Not raised before the end" in note for note in caught.value.__notes__)


def test_what_else_mounted_code_has_raised_is_noted(server: Emulator) -> None:
    """D-471."""
    first, second = (partial(_raise_value_error, name) for name in ("first", "second"))
    with pytest.raises(ValueError, match="first") as caught:
        in_world(server.new_world(), first, second)
    assert "Not raised before the end: ValueError: second" in caught.value.__notes__


def _raise_value_error(text: str) -> None:
    raise ValueError(text)


def test_the_requests_of_an_application_have_the_state_of_its_start_up(emu: Emulator) -> None:
    seen: list[object] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            scope["state"]["pool"] = 7
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        seen.append(scope["state"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    emu.mount(ORIGIN, app)
    emu.publish(URL)
    assert seen == [{"pool": 7}]


def test_a_reported_shutdown_that_fails_is_listed_only() -> None:
    """D-471."""
    with Emulator(handler_errors="report") as emu:
        emu.mount(ORIGIN, failing_shutdown(raises=True))
        emu.unmount(ORIGIN)
        assert str(emu.handler_errors[0].error) == "no connection to close"


def test_a_lifespan_that_is_busy_after_its_last_answer_is_not_reported(emu: Emulator) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        await asyncio.Event().wait()

    emu.mount(ORIGIN, app)
    emu.unmount(ORIGIN)
    assert emu.handler_errors == ()


def post(emu: Emulator, url: str = URL) -> None:
    """Publish as a client does, beside the Python API."""
    headers = {"Authorization": f"Bearer {emu.token}", "Svc-Retries": "0"}
    httpx.post(f"{emu.url}/v2/publish/{url}", headers=headers, trust_env=False, verify=False).raise_for_status()


def whole_world(world: Emulator, raises: Raise, then: BaseException | None = None) -> None:
    """A world, in which mounted code raises behind the test's back; its end raises it."""
    with world:
        world.mount(ORIGIN, function(raises))
        post(world)
        if then is not None:
            raise then


@pytest.mark.parametrize("name", RAISES)
def test_what_no_call_has_raised_is_raised_at_the_end(name: str, server: Emulator) -> None:
    raises, kind = RAISES[name]
    with pytest.raises(kind):
        whole_world(server.new_world(), raises)
    with server.new_world() as parent, pytest.raises(kind):
        whole_world(parent.fork(), raises)
    world = server.new_world().start()
    world.mount(ORIGIN, function(raises))
    post(world)
    with pytest.raises(kind):
        world.close()


def test_a_failure_goes_before_a_skip_and_each_is_raised_once(emu: Emulator) -> None:
    emu.mount(ORIGIN, function(skip))
    emu.mount("https://other.test", function(check))
    post(emu)
    post(emu)
    post(emu, "https://other.test")
    with pytest.raises(AssertionError, match="sums"):
        emu.deliveries()
    with pytest.raises(pytest.skip.Exception):
        emu.deliveries()
    assert len(emu.deliveries()) == len(emu.handler_errors) == 3


def test_another_thread_does_not_take_what_the_test_has_to_raise(emu: Emulator) -> None:
    emu.mount(ORIGIN, function(fail))
    post(emu)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(len(emu.deliveries())))
    reader.start()
    reader.join(loops.PATIENCE_S)
    assert found == [1]
    with pytest.raises(pytest.fail.Exception):
        emu.deliveries()


def test_a_handler_that_calls_the_emulator_does_not_take_it_either(emu: Emulator) -> None:
    seen: list[int] = []
    emu.mount(ORIGIN, lambda request: fail() if request.url == URL else seen.append(len(emu.deliveries())))
    post(emu)
    post(emu, f"{ORIGIN}/second")
    assert seen == [1]
    with pytest.raises(pytest.fail.Exception):
        emu.deliveries()


def test_an_exception_that_ends_a_world_is_the_context_of_what_is_raised_then(server: Emulator) -> None:
    with pytest.raises(AssertionError, match="sums") as caught:
        whole_world(server.new_world(), check, LookupError("first"))
    assert isinstance(caught.value.__context__, LookupError)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        whole_world(server.new_world(), check, KeyboardInterrupt())
    assert interrupted.value.__notes__ == ["Not raised before the end: AssertionError: sums"]


# -- assertions, and other exceptions -------------------------------------------------------------


def test_an_assertion_of_a_handler_fails_the_call_that_waits_for_it(make: Make, emu: Emulator) -> None:
    """D-471."""
    emu.mount(ORIGIN, make(check))
    with pytest.raises(AssertionError, match="sums"):
        emu.publish(URL, retries=1)
    with pytest.raises(AssertionError, match="sums"):
        emu.clock.advance("1h")
    assert [each.status for each in emu.deliveries()] == [500, 500]
    assert len(emu.handler_errors) == 2


def test_an_assertion_is_found_in_groups_and_behind_middleware(emu: Emulator) -> None:
    async def grouped(request: Request) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(async_function(check)(request))

    class Pass(BaseHTTPMiddleware):
        async def dispatch(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    route = Route("/hook", async_function(check), methods=["POST"])
    emu.mount(ORIGIN, grouped)
    with pytest.raises(ExceptionGroup):
        emu.publish(URL, retries=0)
    emu.mount(ORIGIN, Starlette(routes=[route], middleware=[Middleware(Pass)]))
    with pytest.raises((AssertionError, ExceptionGroup)):
        emu.publish(URL, retries=0)


def test_reported_assertions_are_responses_only(server: Emulator) -> None:
    with server.new_world(handler_errors="report") as world:
        for raises in (check, fail, skip):
            world.mount(ORIGIN, function(raises))
            world.publish(URL, retries=0)
        assert [str(each.error) for each in world.handler_errors] == ["sums", "broken", "not now"]
        assert [each.status for each in world.deliveries()] == [500, 500, 500]
        world.mount(ORIGIN, function(leave))
        with pytest.raises(SystemExit):
            world.publish(URL, retries=0)
        with pytest.raises(AssertionError):
            whole_world(world.new_world(handler_errors="raise"), check)
        whole_world(world.fork(), check)
    with pytest.raises(ValueError, match="handler_errors: expected 'raise' or 'report', got 'ignore'"):
        server.new_world(handler_errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="handler_errors: expected"), Emulator(handler_errors=0):  # type: ignore[arg-type]
        pass


def look_up(request: Request) -> None:
    raise LookupError("no such user")


def test_other_exceptions_are_listed_with_their_deliveries(emu: Emulator) -> None:
    emu.mount(ORIGIN, look_up)
    message_id = emu.publish(URL, retries=1)
    emu.clock.advance("1h")
    first, second = emu.handler_errors
    attempts = emu.deliveries()
    assert isinstance(first, HandlerError)
    assert (first.url, first.message_id, first.at_ms) == (URL, message_id, attempts[0].at_ms)
    assert second.at == attempts[1].at
    assert str(first) == f"LookupError: no such user (the delivery of {message_id} to {URL})"
    assert first.error.__traceback__ is not None
    assert first.error.__traceback__.tb_frame.f_code.co_name == "look_up"


def test_only_so_many_exceptions_keep_their_frames(emu: Emulator) -> None:
    emu.mount(ORIGIN, look_up)
    emu.schedules.create(f"{ORIGIN}/tick", "* * * * *", retries=0)
    emu.clock.advance("2h")
    kept = [each.error.__traceback__ is not None for each in emu.handler_errors]
    assert kept == [True] * 100 + [False] * 20


def test_errors_of_a_fork_are_those_of_the_fork(emu: Emulator) -> None:
    emu.mount(ORIGIN, function(check))
    with emu.fork() as other:
        post(other)
        with pytest.raises(AssertionError):
            other.deliveries()
    assert list(emu.handler_errors) == []


def test_a_check_of_a_receiver_judges_what_it_raises(emu: Emulator) -> None:
    report = emu.check_receiver(function(check))
    assert not report.passed
    assert list(emu.handler_errors) == []
    with pytest.raises(pytest.fail.Exception) as caught:
        emu.check_receiver(function(fail))
    assert caught.value.__notes__ == [
        "It was raised by mounted code: a request of check_receiver to https://receiver.test/"
    ]


# -- applications that hang -----------------------------------------------------------------------


def test_an_application_that_hangs_is_named_and_fails_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    """D-472."""
    over = threading.Event()

    async def asynchronous(request: Request) -> None:
        await asyncio.Event().wait()

    def blocking(request: Request) -> None:
        over.wait(loops.PATIENCE_S)

    with Emulator(mount_timeout=0.2) as emu:
        for app in (asynchronous, blocking):
            emu.mount(ORIGIN, app)
            emu.publish(URL, retries=0)
        emu.clock.advance(0)
        errors = [each.error for each in emu.deliveries()]
        over.set()
    told = "the application mounted at https://app.test did not answer within 200ms of real time (mount_timeout)"
    assert errors == [f"timeout: {told}"] * 2
    assert "the application mounted at https://app.test has not answered a delivery for 0.0333 s" in caplog.text


@pytest.mark.parametrize("phase", ["start-up", "shutdown"])
def test_a_lifespan_that_hangs_is_named(phase: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if phase == "shutdown":
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await asyncio.Event().wait()

    said = f"the application mounted at https://app.test did not end its {phase} within 0.2 s of real time"
    with Emulator(mount_timeout="200ms") as emu:
        if phase == "start-up":
            with pytest.raises(EmulatorError, match=said):
                emu.mount(ORIGIN, app)
        else:
            emu.mount(ORIGIN, app)
            with pytest.raises(EmulatorError, match=said):
                emu.unmount(ORIGIN)
            assert said in str(emu.handler_errors[0])
        well(emu)


@pytest.mark.slow
def test_a_server_ends_beside_applications_that_block(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()

    def block() -> None:
        over.wait(loops.PATIENCE_S * 2)

    with Emulator(mount_timeout=0.2) as emu:
        for app in (async_function(block), function(block)):
            emu.mount(ORIGIN, app)
            emu.publish(URL, retries=0)
            emu.clock.advance(0)
        # Those that are mounted later have another loop.
        well(emu)
        began = time.monotonic()
    assert time.monotonic() - began < loops.PATIENCE_S
    over.set()


# -- forgotten mounts -----------------------------------------------------------------------------


def test_captured_destinations_are_listed_and_a_near_mount_is_asked_for(
    server: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """D-473."""
    question = "https://app.test is mounted; is https meant?"

    def passes_by_capture() -> None:
        with server.new_world() as world:
            world.mount(ORIGIN, lambda request: 200)
            for url in ("http://app.test/hook", "http://app.test/hook", "https://mail.test/"):
                world.publish(url)
            world.verify("http://app.test/hook", status=200)
            shown = world.timeline().partition("Captured, as no rule and no mount asked for it:\n")[2].splitlines()
            assert [" ".join(line.split()) for line in shown[:2]] == [
                f"http://app.test 2 attempts; {question}",
                "https://mail.test 1 attempt",
            ]
            with pytest.raises(
                AssertionError, match=f"no application is mounted at http://app.test: {re.escape(question)}"
            ):
                world.verify("http://app.test/hook", status=503)

    with pytest.warns(EmulatorWarning, match=f"^no application is mounted at http://app.test: {re.escape(question)}$"):
        passes_by_capture()
    assert caplog.text.count(f"no application is mounted at http://app.test: {question}") == 1


def test_destinations_that_are_refused_are_not_called_captured() -> None:
    """D-473: with external=fail nothing is captured."""
    with Emulator(external="fail") as world:
        world.publish("https://mail.test/", retries=0)
        with pytest.raises(AssertionError) as caught:
            world.verify("https://mail.test/", status=200)
        timeline = world.timeline()
    text = str(caught.value)
    assert "capture" not in text + timeline
    shown = timeline.partition("Refused by the emulator, as no rule and no mount asked for it:\n")[2].splitlines()
    assert " ".join(shown[0].split()) == "https://mail.test 1 attempt"
    assert "POST https://mail.test/ refused none" in " ".join(text.split())
    assert "The destination is external, and the emulator lets such deliveries fail (external=fail); a rule" in (
        " ".join(text.split())
    )


def passes_without(server: Emulator, rule_url: str, method: str | None) -> None:
    with server.new_world() as world:
        world.destinations.respond(rule_url, status=503, times=1, method=method)
        world.publish(URL)
        assert [each.status for each in world.deliveries()] == [200]


@pytest.mark.parametrize(
    ("rule_url", "method"),
    [
        pytest.param("https://app.test/hok", None, id="a word that is mistyped"),
        pytest.param("http://app.test/hook", None, id="another scheme"),
        pytest.param("https://www.app.test/*", None, id="www"),
        pytest.param("https://app.test/Hook/", None, id="letter case and a last slash"),
        pytest.param("https://app.test/hook?a=1", None, id="a query"),
        pytest.param(URL, "GET", id="another method"),
    ],
)
def test_a_rule_that_was_meant_for_an_attempt_is_asked_for(rule_url: str, method: str | None, server: Emulator) -> None:
    """D-761."""
    tried = f"{URL} was tried{' with POST' if method else ''}; is that meant?"
    with pytest.warns(EmulatorWarning) as caught:
        passes_without(server, rule_url, method)
    assert [str(each.message) for each in caught] == [f"the rule for {rule_url} decided no attempt: {tried}"]


@pytest.mark.parametrize(
    "rule_url",
    [
        "https://mail.test/hook",
        "https://app.test/other",
        "https://app.test/hook/1",
        "https://app.test/hooks*/x",
        "https://*.app.test/hook",
    ],
)
def test_a_rule_for_another_destination_is_not_asked_for(
    rule_url: str, server: Emulator, recwarn: pytest.WarningsRecorder
) -> None:
    """D-761."""
    passes_without(server, rule_url, None)
    # A rule that another one before it left without an attempt is meant as it is.
    with server.new_world() as world:
        for status in (200, 503):
            world.destinations.respond(URL, status=status)
        world.publish(URL)
    assert recwarn.list == []


def test_unused_rules_are_in_the_timeline(server: Emulator) -> None:
    """D-761."""
    with server.new_world() as world:
        world.destinations.fault("https://mail.test/*", "reset")
        world.destinations.sequence("https://crm.test/", [503, 200])
        world.destinations.forward("https://shop.test/*", "http://127.0.0.1:1")
        world.destinations.disturb("https://bank.test/*", duplicate=True)
        world.destinations.respond(URL, status=204)
        world.publish(URL)
        shown = world.timeline().partition("Rules that decided no attempt:\n")[2].partition("\n\n")[0]
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "https://mail.test/* fails: reset",
        "https://crm.test/ responds 503, 200",
        "https://shop.test/* forwards to http://127.0.0.1:1",
        "https://bank.test/* disturbs",
    ]


def test_verify_asks_for_the_mount_that_is_near_to_its_own_url(emu: Emulator) -> None:
    emu.mount(ORIGIN, lambda request: 200)
    emu.publish(URL)
    with pytest.raises(AssertionError, match=r"https://app.test is mounted; is https meant\?"):
        emu.verify("http://app.test/hook")


def test_what_flask_hides_from_its_server_reaches_the_test(emu: Emulator) -> None:
    """D-591."""
    app = flask.Flask(__name__)

    @app.post("/hook")
    def hook() -> str:
        raise {b"assert": AssertionError, b"": LookupError, b"teapot": NotImplementedError}[flask.request.data](
            "broken"
        )

    @app.errorhandler(NotImplementedError)
    def teapot(error: Exception) -> tuple[str, int]:
        return "", 418

    emu.mount(ORIGIN, app)
    for propagates in (None, True):
        app.config["PROPAGATE_EXCEPTIONS"] = propagates
        with pytest.raises(AssertionError, match="broken"):
            emu.publish(URL, "assert", retries=0)
        emu.publish(URL, "", retries=0)
        emu.publish(URL, "teapot", retries=0)
    assert [each.status for each in emu.deliveries()] == [500, 500, 418] * 2
    assert [type(each.error) for each in emu.handler_errors] == [AssertionError, LookupError] * 2
    # A request of the test's own is none of ours.
    app.config["PROPAGATE_EXCEPTIONS"] = None
    assert app.test_client().post("/hook", data=b"assert").status_code == 500
    assert len(emu.handler_errors) == 4


# -- calls without await --------------------------------------------------------------------------


def test_a_call_that_is_not_awaited_fails_the_next_one() -> None:
    """D-474."""

    async def test() -> None:
        async with AsyncEmulator() as emulator:
            emulator.mount(ORIGIN, lambda request: 503)  # type: ignore[unused-coroutine]
            with pytest.raises(EmulatorError, match=r"^mount\(\.\.\.\) was not awaited.*`await emulator.mount"):
                await emulator.publish(URL)
            emulator.clock.advance("1d")  # type: ignore[unused-coroutine]
            with pytest.raises(EmulatorError, match=r"`await emulator.clock.advance\(\.\.\.\)`"):
                await emulator.deliveries()
            # Tasks that are cancelled before they begin were not forgotten.
            waits = asyncio.create_task(emulator.wait_for(URL))
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            await asyncio.gather(emulator.deliveries(), asyncio.create_task(emulator.deliveries()))
            # One that is made now and awaited after the next call is not either.
            later = emulator.deliveries()
            await emulator.messages.all()
            assert await later == []

    asyncio.run(test())


def test_a_call_is_a_coroutine_of_its_own(recwarn: pytest.WarningsRecorder) -> None:
    """D-474. Not every tool takes an object that is like one."""

    async def test() -> None:
        async with AsyncEmulator() as emulator:
            call = emulator.clock.advance("1d")
            assert inspect.iscoroutine(call)
            assert call.__qualname__ == "AsyncClock.advance"
            call.close()

    asyncio.run(test())
    assert not recwarn.list


def test_a_call_that_is_kept_and_not_awaited_fails_the_end(server: Emulator) -> None:
    kept: list[object] = []

    async def test(emulator: AsyncEmulator, *, is_kept: bool) -> None:
        async with emulator:
            kept.append(emulator.verify(URL, times=3))
            if not is_kept:
                kept.clear()

    for emulator, is_kept in ((AsyncEmulator.sharing(server.new_world().start()), False), (AsyncEmulator(), True)):
        with pytest.raises(EmulatorError, match=r"`await emulator.verify\(\.\.\.\)`"):
            asyncio.run(test(emulator, is_kept=is_kept))


def test_the_report_has_the_frames_of_the_application_alone_after_the_test_has_met_the_error(emu: Emulator) -> None:
    emu.mount(ORIGIN, function(check))
    with pytest.raises(AssertionError, match="sums"):
        emu.publish(URL, retries=0)
    report = emu.session.errors.report()
    assert report is not None
    assert report.count("  File ") == 2
