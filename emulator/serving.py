"""An HTTP server around an emulation, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, TypeVar

from starlette.applications import Starlette

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

T = TypeVar("T")

# How long running requests may take to end after a signal; what they did is recorded either way.
_GRACE_S = 0.2


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
            # There it would let two servers share a port; elsewhere it skips the wait after a restart.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen on {host} port {port}: {_reason(error)}") from error
    return listener


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "another program is listening there already (--port 0 picks a free port)"
    return str(getattr(error, "strerror", None) or error)


def url_of(listener: socket.socket) -> str:
    """The base URL under which a listener is reached from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: Starlette, listener: socket.socket, *, server: str, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then end within a second. The listener is closed at the end."""
    watcher = asyncio.get_running_loop().create_task(_mute_when_stopping(stop))
    try:
        if server == "hypercorn":
            await _serve_hypercorn(app, listener, stop)
        else:
            await _serve_uvicorn(app, listener, stop)
    finally:
        watcher.cancel()
        await asyncio.wait((watcher,))


async def _mute_when_stopping(stop: asyncio.Event) -> None:
    """What is cut off at the end is no error, although the servers would log each with a traceback."""
    await stop.wait()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        await asyncio.Event().wait()
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def _serve_uvicorn(app: Starlette, listener: socket.socket, stop: asyncio.Event) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # Signals are the caller's.

    config = uvicorn.Config(
        app,
        http=_exact_target_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_GRACE_S,  # type: ignore[arg-type]  # seconds; a fraction works as well
    )
    instance = Server(config)
    watcher = asyncio.get_running_loop().create_task(_end_when_asked(instance, stop))
    try:
        await instance.serve(sockets=[listener])
    finally:
        watcher.cancel()


async def _end_when_asked(instance: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    instance.should_exit = True


def _exact_target_protocol() -> type[HttpToolsProtocol]:
    """The server's HTTP protocol, made to hand over the request target as it was sent.

    Without this the part behind a `#` would be dropped silently, and a destination with a
    fragment would be delivered to something the client did not name.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class ExactTargetProtocol(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            if b"#" in self.url:
                raw_path, _, query = self.url.partition(b"?")
                self.scope["raw_path"] = raw_path
                self.scope["query_string"] = query

    return ExactTargetProtocol


async def _serve_hypercorn(app: Starlette, listener: socket.socket, stop: asyncio.Event) -> None:
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # It closes what it is given.
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = _GRACE_S
    config.shutdown_timeout = _GRACE_S
    config.include_server_header = False
    await hypercorn_serve(app, config, shutdown_trigger=stop.wait)  # type: ignore[arg-type]  # its own ASGI types


def run(main: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a coroutine function to its end on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        loop_factory = None
    else:
        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGINT and SIGTERM end the server in order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
