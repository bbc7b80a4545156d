"""An HTTP server around an emulation, until a signal ends it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TypeVar

from starlette.types import ASGIApp

from emulator.delivery import listeners
from emulator.server.connections import Certificate, ConnectionLimits
from emulator.server.exchanges import WholeExchanges
from emulator.wire import dialect as dialects
from emulator.worlds.registry import Worlds

T = TypeVar("T")


class CannotListen(Exception):
    """The address to listen on cannot be used; the text says why, in one line."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises CannotListen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"cannot listen on {host} port {port}: {_reason(error)}") from error
    try:
        if sys.platform != "win32":
            # On Windows it would let two servers share a port; elsewhere it allows a restart without a wait.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
        listener.setblocking(False)
        # Before anything is sent: what a database holds may be due at once, and the backlog takes it (D-770).
        listeners.OF_PROCESS.add(listener)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen on {host} port {port}: {_reason(error)}") from error
    return listener


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "address already in use: another program is listening there (--port 0 picks a free port)"
    return str(getattr(error, "strerror", None) or error)


def url_of(listener: socket.socket, *, scheme: str = "http") -> str:
    """The base URL under which a listener is reached from this machine."""
    host, port = listener.getsockname()[:2]
    return local_url(scheme, host, port)


def local_url(scheme: str, host: str, port: int) -> str:
    """The base URL under which this machine reaches a server that listens on a host."""
    host = local_host(host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def local_host(host: str) -> str:
    """Where this machine itself reaches a server that listens on a host."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    server: str,
    stop: asyncio.Event,
    certificate: Certificate | None = None,
    worlds: Worlds | None = None,
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve until `stop` is set, then end within a second. The listener is closed at the end.

    Calls that are under way then are answered with where the clocks of these worlds stand.

    With a certificate https alone is served, with HTTP/2 for clients that offer it to hypercorn;
    without one hypercorn takes HTTP/2 from clients that begin with it or ask for it (h2c).
    """
    if server == "hypercorn":
        from emulator.server import hypercorn_server as chosen
    else:
        from emulator.server import uvicorn_server as chosen  # type: ignore[no-redef]  # the same function of both
    _read_ahead()
    exchanges = WholeExchanges(app, stop, worlds)
    async with _muted_after(stop), exchanges.ended_after_stop():
        await chosen.serve(exchanges, listener, stop, certificate, limits or ConnectionLimits())


def _read_ahead() -> None:
    """Read what requests need of files: later there may be no file descriptor left (D-565)."""
    for name in dialects.BUILT_IN:
        dialects.load(name)
    for encoding in ("ascii", "idna", "latin-1", "punycode", "unicode_escape"):
        codecs.lookup(encoding)


@contextlib.asynccontextmanager
async def _muted_after(stop: asyncio.Event) -> AsyncIterator[None]:
    """From `stop` on, silence the servers' own logs: they log a traceback for each request that is cut off."""
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    levels = [logger.level for logger in loggers]

    async def mute() -> None:
        await stop.wait()
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)

    muting = asyncio.get_running_loop().create_task(mute())
    try:
        yield
    finally:
        muting.cancel()
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def run(main: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a coroutine function to its end on the fastest event loop there is."""
    with runner() as running:
        return running.run(main())


def runner() -> asyncio.Runner:
    """The fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        loop_factory = None
    else:
        loop_factory = uvloop.new_event_loop
    return asyncio.Runner(loop_factory=loop_factory)


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGINT and SIGTERM end the server in order, on Windows Ctrl-C, Ctrl-Break and a console that is closed."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        numbers.append(signal.SIGBREAK)
    for number in numbers:
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:
            # The loops of Windows have no handlers, and wake up for those of Python. In a thread none can be set.
            with contextlib.suppress(ValueError):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
