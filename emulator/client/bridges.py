"""Between the emulator's event loop and the caller's, whichever asynchronous framework that is.

A caller on asyncio or trio waits for work on the emulator's loop with `async_wait`; the emulator runs a
mounted application on the caller's loop with `EventLoop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from emulator.client.errors import is_emulator_error

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
    if _is_asyncio():
        return await asyncio.wrap_future(future)
    try:
        return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)
    except BaseException:
        future.cancel()
        raise


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class EventLoop(Protocol):
    """An event loop that an application runs on."""

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there, and wait for it here."""


class AsyncioLoop:
    """An asyncio event loop in another thread, or this one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await work()
        if self._loop.is_closed():
            raise RuntimeError("the event loop of the mounted application has ended")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))


class AnyioLoop:
    """An event loop of another framework, in another thread."""

    def __init__(self, token: anyio.lowlevel.EventLoopToken) -> None:
        self._token = token

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        def there() -> T:
            return anyio.from_thread.run(work, token=self._token)

        return await asyncio.to_thread(there)


def caller_loop() -> EventLoop:
    """The event loop of the caller."""
    if _is_asyncio():
        return AsyncioLoop(asyncio.get_running_loop())
    return AnyioLoop(anyio.lowlevel.current_token())


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
            async def work() -> Any:
                return await receive()

            return await caller.run(work)

        async def send_there(message: Any) -> None:
            async def work() -> None:
                await send(message)

            await caller.run(work)

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
