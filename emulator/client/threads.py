"""Threads that wait for the emulator, and threads in which mounted functions answer.

A mounted function or WSGI application answers in the test's own thread while that waits for the world, and so has what
the test has bound to its thread, such as a database session; otherwise in a thread of the emulator's. The way to
another event loop and back costs several times as much. In the test's thread `HandlerTimedOut` ends it when its time
is over, in the same way as Ctrl-C would: the test cannot continue before.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from emulator.client.errors import ANSWERING, has_asyncio_loop, is_emulator_error
from emulator.client.event_loops import Handoff, async_wait, blocking_wait, caller_loop

T = TypeVar("T")

logger = logging.getLogger(__name__)

__tracebackhide__ = is_emulator_error


# -- functions of mounts ------------------------------------------------------------------------


# Why a function is ended there.
NOT_AWAITED = "its time is over (mount_timeout), or its world was reset, restored or closed"


class HandlerTimedOut(BaseException):
    """Raised in a mounted function that runs in the test's thread, when nobody waits for its answer any more."""


class Job(Generic[T]):
    """A function that is to run in another thread. It does not raise."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.outcome: Handoff[T] = Handoff(self.give_up)
        # Taken by `run` or `give_up`, whichever comes first.
        self._begins = threading.Lock()
        # None: nobody has. False: HandlerTimedOut was raised since.
        self._is_given_up: bool | None = None
        # Ctrl-C while it ran in the test's thread, and what cancels that thread's call.
        self.interrupt: KeyboardInterrupt | None = None
        self.cancel_call: Callable[[], object] | None = None

    def run(self) -> None:
        """Run it, unless it was given up."""
        if self._begins.acquire(blocking=False):
            self.outcome.finish(self._function())

    def give_up(self) -> None:
        """Nobody waits for it any more: do not begin it, or end it if it runs in the test's thread.

        Called on an event loop, where it is ended again and again while it catches what ends it.
        """
        if not self._begins.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        if _running is not self:
            return
        if self._is_given_up is False:
            logger.error("a mounted application catches what ends it in the test's thread, and is ended again")
        self._is_given_up = True
        signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
        asyncio.get_running_loop().call_later(_AGAIN_S, self._end)

    def check(self) -> None:
        """Raises HandlerTimedOut, once for each time that it was ended."""
        if self._is_given_up:
            self._is_given_up = False
            raise HandlerTimedOut(NOT_AWAITED)


# What runs in the main thread while that waits for the emulator.
_running: Job[Any] | None = None
# Real time that the emulator has to take the outcome of a function that Ctrl-C ended.
_RECORDED_WITHIN_S = 1.0
# Real time that a function has for what it does at its end, before it is ended again.
_AGAIN_S = 1.0
# It is ignored by default, and next to no program uses it. Windows has none.
_SIGNAL: int = getattr(signal, "SIGURG", 0)


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _running is not None and not _is_debugged(frame):
        _running.check()


# The modules of debuggers.
_DEBUGGERS = frozenset(("bdb", "pdb", "ipdb", "pudb", "pydevd", "debugpy"))


def _is_debugged(frame: FrameType | None) -> bool:
    """Whether a debugger holds what runs here: somebody looks at it."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


def note_interrupt(error: BaseException) -> None:
    """If a mounted function raised KeyboardInterrupt in the test's thread, let the test wait no longer."""
    is_main = threading.current_thread() is threading.main_thread()
    job = _running
    if is_main and job is not None and job.cancel_call is not None and isinstance(error, KeyboardInterrupt):
        job.interrupt = error
        # The attempt has its outcome nevertheless: otherwise it would be made again.
        job.outcome.is_ending = True
        job.cancel_call()


def _may_answer_here() -> bool:
    """Whether mounted functions may answer in this thread while it waits.

    Only the main thread can be interrupted. Under an event loop they could not run one of their own, and Django refuses
    them its database. A handler that calls the emulator may hold a lock that the next one needs.
    """
    # D-690.
    if threading.current_thread() is not threading.main_thread() or has_asyncio_loop() or ANSWERING.get() is not None:
        return False
    if not hasattr(signal, "pthread_kill"):
        return False
    found = signal.getsignal(_SIGNAL)
    if found is signal.SIG_DFL:
        signal.signal(_SIGNAL, _on_signal)
    return found in (signal.SIG_DFL, _on_signal)


class Threads:
    """Where functions run: in the thread that waits for their world, or in one of at most `most` threads.

    These are started when none is idle, and are daemons: those of `concurrent.futures` keep a program from ending
    while one of them hangs.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        # By the worlds that they wait for.
        self.waiting: dict[str, BlockingCaller] = {}
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0

    def start(self, job: Job[Any], world: str | None) -> None:
        """Run a function: where a world is waited for, if one is named."""
        caller = None if world is None else self.waiting.get(world)
        if caller is None or not caller.take(job):
            self.put(job.run)

    def put(self, work: Callable[[], None]) -> None:
        """Run work in a thread of these."""
        self._work.put(work)
        if not self._idle.acquire(blocking=False):
            with self._lock:
                if self._count < self._most:
                    self._count += 1
                    threading.Thread(target=self._run, name=f"{self._name} {self._count}", daemon=True).start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
            self._idle.release()

    def close(self) -> None:
        """Let the threads end that are idle, and the others when they are."""
        for _ in range(self._count):
            self._work.put(None)


# -- callers ------------------------------------------------------------------------------------


class BlockingCaller:
    """A thread without an event loop that waits for work, and meanwhile runs functions for it.

    Made and waited in by that thread; `call` and `take` are for the work.
    """

    def __init__(self) -> None:
        # None: the work is done.
        self._calls: SimpleQueue[Callable[[], None] | Job[Any] | None] = SimpleQueue()
        # Whether it runs no mounted function and may.
        self._is_free = False
        self._lock = threading.Lock()

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in the waiting thread. Raises what it raises."""
        # Not as the exception of a future, which cannot be a StopIteration.
        done: Future[Callable[[], T]] = Future()

        def run() -> None:
            try:
                result = function()
            except Exception as error:
                raised = error
                done.set_result(lambda: _raise(raised))
            else:
                done.set_result(lambda: result)

        self._calls.put(run)
        return (await asyncio.wrap_future(done))()

    def take(self, job: Job[Any]) -> bool:
        """Run a mounted function in the waiting thread, unless one runs there already; whether it will."""
        with self._lock:
            is_free, self._is_free = self._is_free, False
            if is_free:
                self._calls.put(job)
        return is_free

    def wait(self, future: Future[T], threads: Threads | None = None, world: str = "") -> T:
        """As `blocking_wait`, and run what is called meanwhile. An outcome of pytest ends the wait at once.

        With `threads`, what is mounted in a world answers here instead, as far as it may.
        """
        if threads is None or world in threads.waiting or not _may_answer_here():
            return self._wait(future)
        threads.waiting[world] = self
        self._is_free = True
        try:
            return self._wait(future)
        finally:
            del threads.waiting[world]
            self._leave(threads)

    def _wait(self, future: Future[T]) -> T:
        future.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                if isinstance(call, Job):
                    call.cancel_call = future.cancel
                    self._answer(call)
                else:
                    call()
        except BaseException:
            future.cancel()
            raise
        return blocking_wait(future)

    def _answer(self, job: Job[Any]) -> None:
        """Run a mounted function. Raises KeyboardInterrupt if that ended it."""
        global _running
        try:
            _running = job
            try:
                # It sees the context variables of the test, and keeps its own to itself.
                contextvars.copy_context().run(job.run)
            finally:
                _running = None
        except HandlerTimedOut:
            # It ended in the same moment.
            _running = None
        if job.interrupt is not None:
            deadline_s = time.monotonic() + _RECORDED_WITHIN_S
            while not job.outcome.is_taken and time.monotonic() < deadline_s:
                time.sleep(0.001)
            raise job.interrupt
        self._is_free = True

    def _leave(self, threads: Threads) -> None:
        """Hand over what came as the wait ended."""
        with self._lock:
            self._is_free = False
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if isinstance(call, Job):
                threads.put(call.run)


class AsyncCaller:
    """As `BlockingCaller`, for a caller on an event loop: functions run on that loop."""

    def __init__(self) -> None:
        self._loop = caller_loop()

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the caller's loop. Raises what it raises."""

        async def run() -> T:
            return function()

        return await self._loop.run(run)

    async def wait(self, future: Future[T], threads: Threads | None = None, world: str = "") -> T:
        """As `async_wait`. What is mounted never answers in this thread, whose event loop would stand still."""
        return await async_wait(future)


class Caller(Protocol):
    """Who has called, as far as work on the emulator's loop needs them."""

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread that waits for the work."""


def _raise(error: Exception) -> NoReturn:
    raise error
