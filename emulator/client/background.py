"""An event loop in its own thread, which runs a started emulator or the connection to another."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from emulator.client.bridges import AsyncioLoop, EventLoop
from emulator.client.errors import Unreachable
from emulator.server import serving

T = TypeVar("T")


class Background:
    """A thread that runs an event loop until `close`. It is a daemon, so that it never keeps a program from ending."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.result()

    def _run(self, started: Future[None]) -> None:
        async def main() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            started.set_result(None)
            await self._stop.wait()

        try:
            serving.run(main)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

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

    def close(self) -> None:
        """Stop the loop and all that runs on it. Waits for the thread, unless this is the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._stop is not None:
            loop.call_soon_threadsafe(self._stop.set)
        self.join()

    def join(self) -> None:
        """After `close`, wait for the thread to end; before it, return at once."""
        if self._loop is None and threading.current_thread() is not self._thread:
            self._thread.join()
