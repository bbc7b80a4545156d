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
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.server.certificates import Certificate

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

T = TypeVar("T")

# How long running requests may take to end after a signal; what they did is recorded either way.
_GRACE_S = 0.2
# Clients keep connections for later; one that closes first never finds its own closed under it.
_KEEP_ALIVE_S = 75
# Bytes of a request's head that hypercorn takes over HTTP/1.1.
_MAX_HEAD = 1024 * 1024


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


def url_of(listener: socket.socket, *, scheme: str = "http") -> str:
    """The base URL under which a listener is reached from this machine."""
    host, port = listener.getsockname()[:2]
    host = local_host(host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def local_host(host: str) -> str:
    """Where this machine itself reaches a server that listens on a host."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


async def serve(
    app: ASGIApp, listener: socket.socket, *, server: str, stop: asyncio.Event, certificate: Certificate | None = None
) -> None:
    """Serve until `stop` is set, then end within a second. The listener is closed at the end.

    With a certificate https alone is served, with HTTP/2 for clients that offer it to hypercorn;
    without one hypercorn takes HTTP/2 from clients that begin with it or ask for it (h2c).
    """
    watcher = asyncio.get_running_loop().create_task(_mute_when_stopping(stop))
    served = _WholeExchange(_EndingInTime(app, stop))
    try:
        if server == "hypercorn":
            await _serve_hypercorn(served, listener, stop, certificate)
        else:
            await _serve_uvicorn(served, listener, stop, certificate)
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


class _Request:
    """A request that knows whether it was heard to its end, or to where it broke off."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_heard = False

    async def hear(self) -> Message:
        message = await self._receive()
        self.is_heard = not message.get("more_body", False)
        return message


class _EndingInTime:
    """An application whose answers without an end are told that their client has gone, once the server stops.

    The servers themselves only wait for such an answer, and cut it off when their grace is over.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app = app
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive)

        async def hear() -> Message:
            return await (self._until_stopped(receive) if request.is_heard else request.hear())

        await self._app(scope, hear, send)

    async def _until_stopped(self, receive: Receive) -> Message:
        loop = asyncio.get_running_loop()
        leaving, stopping = loop.create_task(_next(receive)), loop.create_task(self._stop.wait())
        try:
            await asyncio.wait((leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return leaving.result() if leaving.done() else {"type": "http.disconnect"}
        finally:
            leaving.cancel()
            stopping.cancel()


async def _next(receive: Receive) -> Message:
    return await receive()


class _WholeExchange:
    """An application that hears a request to its end before it ends its answer.

    An answer may come early (413, 404) while its client is still sending. Both servers would close
    the connection on it, and the client would lose the answer to the reset; over HTTP/2 the late
    bytes would end the connection with every other request on it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.body" and not (request.is_heard or message.get("more_body", False)):
                await send({**message, "more_body": True})
                while not request.is_heard:
                    await request.hear()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(_with_path_alone(scope), request.hear, answer)


def _with_path_alone(scope: Scope) -> Scope:
    """The scope of a request whose target may name scheme and host too (RFC 9112, 3.2.2), which hypercorn leaves in."""
    raw_path: bytes = scope.get("raw_path") or b""
    if not raw_path.startswith((b"http://", b"https://")):
        return scope
    _, _, _, *rest = raw_path.split(b"/", 3)
    path = b"/" + b"".join(rest)
    return {**scope, "raw_path": path, "path": unquote(path.decode("latin-1"))}


async def _serve_uvicorn(
    app: ASGIApp, listener: socket.socket, stop: asyncio.Event, certificate: Certificate | None
) -> None:
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
        ssl_certfile=None if certificate is None else certificate.cert,
        ssl_keyfile=None if certificate is None else certificate.key,
        timeout_keep_alive=_KEEP_ALIVE_S,
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
    fragment would be delivered to something the client did not name. And what it refuses itself,
    because it is no HTTP, gets the one error shape (D-231).
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class ExactTargetProtocol(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            if b"#" in self.url:
                raw_path, _, query = self.url.partition(b"?")
                self.scope["raw_path"] = raw_path
                self.scope["query_string"] = query

        def send_400_response(self, msg: str) -> None:
            body = b'{"error":"%s"}' % msg.encode("ascii")
            head = [b"HTTP/1.1 400 Bad Request", *(b"%s: %s" % header for header in self.server_state.default_headers)]
            head += [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close"]
            self.transport.write(b"\r\n".join([*head, b"", body]))
            self.transport.close()

    return ExactTargetProtocol


async def _serve_hypercorn(
    app: ASGIApp, listener: socket.socket, stop: asyncio.Event, certificate: Certificate | None
) -> None:
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # It closes what it is given.
    if certificate is not None:
        config.certfile, config.keyfile = str(certificate.cert), str(certificate.key)
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = _GRACE_S
    config.shutdown_timeout = _GRACE_S
    config.include_server_header = False
    config.keep_alive_timeout = _KEEP_ALIVE_S
    # It would end a connection after so many requests, over HTTP/2 with those under way on it.
    config.keep_alive_max_requests = sys.maxsize
    # A destination's address and what is forwarded to it stand in the head; uvicorn knows no limit.
    config.h11_max_incomplete_size = _MAX_HEAD
    # A full queue would block the whole connection when nobody reads it any more.
    config.max_app_queue_size = 0
    serving = asyncio.get_running_loop().create_task(
        hypercorn_serve(app, config, shutdown_trigger=stop.wait)  # type: ignore[arg-type]  # its own ASGI types
    )
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        # From Python 3.12 on, closing a listener waits for its connections, one that streams without end too.
        await asyncio.wait((serving,), timeout=2 * _GRACE_S)
    finally:
        for task in (serving, stopping):
            task.cancel()
        await asyncio.wait((serving, stopping))
    if not serving.cancelled():
        serving.result()


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
