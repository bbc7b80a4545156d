"""Event loops and threads: the emulator's own, and the caller's, whichever asynchronous framework that is.

A caller on asyncio or trio waits for work on the emulator's loop with `async_wait`; the emulator runs a
mounted application on the caller's loop with `EventLoop`. Threads of a started emulator, or of the connection to
another, survive what a mounted application raises, and one that hangs keeps neither `close` nor the program from
ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import anyio.to_thread

from emulator.client.errors import LoopMisuse, Unreachable, has_asyncio_loop, is_emulator_error
from emulator.delivery.mounts import MountUnusable
from emulator.server import serving

T = TypeVar("T")

__tracebackhide__ = is_emulator_error


def blocking_wait(future: Future[T]) -> T:
    """Wait in a thread without an event loop; Ctrl-C cancels what is waited for."""
    try:
        error = future.exception()
    except BaseException:
        future.cancel()
        raise
    if error is None:
        return future.result()
    try:
        # Raised here, because the future's frames would show in the traceback of a failed test.
        raise error
    finally:
        # Break the reference cycle of the traceback and this frame.
        del error


async def async_wait(future: Future[T]) -> T:
    """Wait on the caller's event loop, asyncio's or trio's. Cancelling the caller cancels the work."""
    if has_asyncio_loop():
        return await asyncio.wrap_future(future)
    try:
        return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)
    except BaseException:
        future.cancel()
        raise


# Turns of the loop within which a cancellation by another thread has passed from task to task.
_TURNS_UNTIL_CANCELLED = 20


class Handoff(Generic[T]):
    """What another thread makes for an event loop, whose thread may stand still for it for a moment.

    A future would wake the loop in any case, which costs several times as much as what is handed over.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        """`cancel` ends the work in the other thread."""
        self._cancel = cancel
        # A lock is cheaper than the condition of a future. It is held until there is an outcome.
        self._missing = threading.Lock()
        self._missing.acquire()
        self._result: T
        self._error: BaseException | None = None
        self._wake: Callable[[], object] | None = None
        self._began_s = time.perf_counter()
        # Real time until the outcome.
        self.took_s = math.inf
        # Set by a side that cancels the work which waits for the outcome, and hands that over nevertheless.
        self.is_ending = False
        # Whether `wait` has returned since.
        self.is_taken = False

    def finish(self, result: T) -> None:
        """Hand a result over. In the other thread."""
        self._result = result
        self._end()

    def fail(self, error: BaseException) -> None:
        """Let `wait` raise an exception. In the other thread."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self.took_s = time.perf_counter() - self._began_s
        self._missing.release()
        if self._wake is not None:
            # The loop may have ended.
            with contextlib.suppress(RuntimeError):
                self._wake()

    def wait_briefly(self, seconds: float) -> T | None:
        """Stand still for the result. None if there is none in time, or only for `wait`, which raises."""
        if not self._missing.acquire(timeout=seconds):
            return None
        if self._error is not None or self.is_ending:
            self._missing.release()
            return None
        return self._result

    async def wait(self) -> T:
        """Wait on the running event loop. Raises what the other side raised. Cancelling it cancels the work."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        # In this order, so that no end is missed.
        self._wake = lambda: loop.call_soon_threadsafe(over.set)
        is_here = self._missing.acquire(blocking=False)
        try:
            if not is_here:
                await over.wait()
            if self.is_ending:
                for _ in range(_TURNS_UNTIL_CANCELLED):
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.is_ending:
                self._cancel()
                raise
            if not is_here:
                await over.wait()
            if (task := asyncio.current_task()) is not None:
                task.cancel()
        self.is_taken = True
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            # Break the reference cycle with the traceback.
            self._error = None


class EventLoop(Protocol):
    """An event loop that an application runs on."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is another one than that of this thread, and `start` works."""

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Handoff[T]:
        """Run a coroutine there. Raises RuntimeError if it has ended."""

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there, and wait for it here."""


class AsyncioLoop:
    """An asyncio event loop in another thread, or this one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def is_elsewhere(self) -> bool:
        return asyncio.get_running_loop() is not self._loop

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Handoff[T]:
        tasks: list[asyncio.Task[T]] = []

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):
                self._call(lambda: tasks[0].cancel())

        outcome: Handoff[T] = Handoff(cancel)

        def ended(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                outcome.fail(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                outcome.fail(error)
            else:
                outcome.finish(task.result())

        def begin() -> None:
            tasks.append(self._loop.create_task(work()))
            tasks[0].add_done_callback(ended)

        self._call(begin)
        return outcome

    def _call(self, function: Callable[[], object]) -> None:
        if self._loop.is_closed():
            raise MountUnusable("the event loop of the mounted application has ended")
        self._loop.call_soon_threadsafe(function)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await (self.start(work).wait() if self.is_elsewhere else work())


class TrioLoop:
    """The event loop of trio, in another thread."""

    # Not by anyio, which runs something on the loop of another thread from 4.11 on.
    def __init__(self) -> None:
        from trio.lowlevel import current_trio_token

        self._token = current_trio_token()

    # A coroutine of trio's is waited for in a thread of its own.
    is_elsewhere = False

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Handoff[T]:
        raise NotImplementedError

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        from trio import from_thread

        return await asyncio.to_thread(lambda: from_thread.run(work, trio_token=self._token))


async def awaited(result: Awaitable[T]) -> T:
    """Anything that can be awaited, as a coroutine."""
    return await result


def caller_loop() -> EventLoop:
    """The event loop of the caller."""
    if has_asyncio_loop():
        return AsyncioLoop(asyncio.get_running_loop())
    return TrioLoop()


def no_loop() -> EventLoop | None:
    """The loop of a caller without one."""
    return None


# An ASGI application: scope, receive, send.
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


class AsgiBridge:
    """The emulator's application, for callers on other event loops than its own.

    Give it to `httpx.ASGITransport` or a test client: each exchange runs where the emulator lives.
    """

    def __init__(self, app: AsgiApp, submit: Callable[[Coroutine[Any, Any, None]], Future[None]]) -> None:
        self._app = app
        self._submit = submit

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        caller = caller_loop()

        async def receive_there() -> Any:
            return await caller.run(lambda: awaited(receive()))

        async def send_there(message: Any) -> None:
            await caller.run(lambda: awaited(send(message)))

        async def exchange() -> None:
            await self._app(scope, receive_there, send_there)

        await async_wait(self._submit(exchange()))


async def _lifespan(receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Confirm start-up and shutdown without doing either: the server has its own."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


@dataclass(frozen=True, slots=True)
class TakesErrors:
    """Takes the exceptions of an application's tasks that nothing awaits; `world` is where it is mounted."""

    world: str
    take: Callable[[BaseException], None]


# Set in the contexts of the tasks of one application.
TAKES_UNAWAITED: contextvars.ContextVar[TakesErrors | None] = contextvars.ContextVar("takes_unawaited", default=None)

# Tasks that only their own application may cancel: lifespans.
_PROTECTED: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()


def protect(task: asyncio.Task[Any]) -> None:
    """Let no other application cancel a task."""
    _PROTECTED.add(task)


class Task(asyncio.Task[Any]):
    """A task that can say its context, as all can from Python 3.12 on, and that not everybody may cancel."""

    def __init__(self, coro: Any, *, context: contextvars.Context | None = None, **options: Any) -> None:
        self._context = contextvars.copy_context() if context is None else context
        super().__init__(coro, context=self._context, **options)

    def get_context(self) -> contextvars.Context:
        return self._context

    def cancel(self, msg: Any | None = None) -> bool:
        """Raises LoopMisuse in a mounted application, for a task of the emulator or another application's lifespan."""
        # Other applications, and the emulator's own work, are on the loop (D-798).
        caller, own = TAKES_UNAWAITED.get(), self._context.get(TAKES_UNAWAITED)
        if caller is not None and caller is not own and (own is None or self in _PROTECTED):
            raise LoopMisuse(
                "mounted code cancelled a task that is not its own: others run on its event loop too. "
                "Cancel the tasks that it has made itself, not those of asyncio.all_tasks()"
            )
        return super().cancel(msg)


_HEARD: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


async def hear_of_unawaited() -> None:
    """Let `TAKES_UNAWAITED` have what tasks on this loop raise that nothing awaits, which only a log would have.

    And let no application end the loop.
    """
    # D-471.
    loop = asyncio.get_running_loop()
    if loop in _HEARD:
        return
    _HEARD.add(loop)
    if sys.version_info < (3, 12) and loop.get_task_factory() is None:
        loop.set_task_factory(lambda loop, coro, context=None: Task(coro, loop=loop, context=context))
    log = loop.get_exception_handler()

    def take(loop: asyncio.AbstractEventLoop, happened: dict[str, Any]) -> None:
        loop.default_exception_handler(happened) if log is None else log(loop, happened)
        context = getattr(happened.get("future"), "get_context", contextvars.Context)()
        takes, error = context.get(TAKES_UNAWAITED), happened.get("exception")
        if takes is not None and error is not None:
            takes.take(error)

    loop.set_exception_handler(take)
    _keep_alive(loop)


def _keep_alive(loop: asyncio.AbstractEventLoop) -> None:
    """Let `stop` and `close` of a loop raise LoopMisuse in a mounted application."""
    # A stopped loop would answer the next call only with that it is closed (D-798).

    def guarded(name: str) -> Callable[[], None]:
        original: Callable[[], None] = getattr(loop, name)

        def call() -> None:
            takes = TAKES_UNAWAITED.get()
            if takes is None:
                original()
                return
            error = LoopMisuse(
                f"mounted code called {name}() of the event loop that it runs on: others run there too, and what "
                "made the loop ends it"
            )
            if asyncio.current_task() is None:
                # A callback, whose exceptions only a log would have.
                takes.take(error)
            raise error

        return call

    for name in ("stop", "close"):
        # A loop of another make may have no place for attributes.
        with contextlib.suppress(AttributeError, TypeError):
            setattr(loop, name, guarded(name))


logger = logging.getLogger(__name__)


class Background:
    """A thread that runs an event loop until `close`. It is a daemon, so that it never keeps a program from ending."""

    def __init__(self, name: str, *, knows_tasks: bool = False) -> None:
        """One of mounted applications `knows_tasks`, each of which is then an `event_loops.Task`."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._knows_tasks = knows_tasks
        self._tasks: weakref.WeakSet[Task] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._process = os.getpid()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.result()

    def _run(self, started: Future[None]) -> None:
        try:
            with serving.runner() as runner:
                loop = self._loop = runner.get_loop()
                if self._knows_tasks:
                    loop.set_task_factory(self._make_task)
                loop.call_soon(started.set_result, None)
                # Without a task that all of it depends on: an application may cancel every task that it finds.
                while self._loop is not None:
                    try:
                        loop.run_forever()
                    except (KeyboardInterrupt, SystemExit) as error:
                        # A task has raised it, which stops a loop. The caller that waits for the task gets it too.
                        logger.error("a task of the thread %s raised %s", self._thread.name, type(error).__name__)
                        self._take_from_task(error)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Task:
        task = Task(coro, loop=loop, **options)
        self._tasks.add(task)
        return task

    def _take_from_task(self, error: BaseException) -> None:
        """Give what a task has raised, and stopped the loop with, to the application whose task it is."""
        for task in tuple(self._tasks):
            takes = task.get_context().get(TAKES_UNAWAITED)
            if takes is not None and getattr(task, "_exception", None) is error:
                takes.take(error)

    async def take_failed(self, world: str | None) -> None:
        """Report the tasks of a world's applications, or of all, that have failed and that nothing has awaited.

        Python reports them when it throws them away, which may be after the end of the test. To be run on the loop.
        """
        for task in tuple(self._tasks):
            takes = task.get_context().get(TAKES_UNAWAITED)
            if takes is None or world not in (None, takes.world) or not task.done() or task.cancelled():
                continue
            if getattr(task, "_log_traceback", False):
                happened = {"message": "Task exception was never retrieved", "future": task}
                task.get_loop().call_exception_handler({**happened, "exception": task.exception()})

    @property
    def is_here(self) -> bool:
        """Whether the thread belongs to this process: a fork has no copy of it."""
        return os.getpid() == self._process

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop. Cancelling the future cancels it.

        Raises Unreachable once closed, and in a fork, which has no thread to run it.
        """
        if not self.is_here:
            work.close()
            raise Unreachable("this emulator lives in the process that this one was forked from: use its url and token")
        with self._lock:
            if self._loop is None:
                work.close()
                raise Unreachable("this emulator is closed")
            # In a new context, because sniffio would find trio in that of a caller on trio.
            return contextvars.Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def event_loop(self) -> EventLoop:
        """The loop, for applications that run on it. Raises Unreachable once closed."""
        if self._loop is None:
            raise Unreachable("this emulator is closed")
        return AsyncioLoop(self._loop)

    def answers(self, seconds: float) -> bool:
        """Whether the loop still runs what it is given, within so many seconds: nothing blocks it."""
        with contextlib.suppress(Unreachable, TimeoutError):
            self.submit(asyncio.sleep(0)).result(seconds)
            return True
        return False

    def close(self, patience_s: float | None = None) -> None:
        """Stop the loop and all that runs on it. Waits for the thread, unless this is the thread.

        With `patience_s` it waits no longer than that: what blocks the loop may never end.
        """
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            # In a context that is no application's.
            contextvars.Context().run(loop.call_soon_threadsafe, loop.stop)
        self.join(patience_s)

    def join(self, patience_s: float | None = None) -> None:
        """After `close`, wait for the thread to end; before it, return at once."""
        if self._loop is None and threading.current_thread() is not self._thread:
            self._thread.join(patience_s)
