"""The server behind the Python API: started in this process, or running elsewhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from socket import socket
from typing import Any, TypedDict, cast

import httpx
from starlette.types import ASGIApp

from emulator.api.ending import Ending
from emulator.client.asgi import Exchange, RawHeaders, raw_headers, target_of
from emulator.client.background import Background
from emulator.client.bridges import AsgiApp, AsgiBridge, EventLoop
from emulator.client.control import Answer, Call, answer_of, request_of
from emulator.client.errors import EmulatorError, Refused, is_emulator_error
from emulator.client.lifespan import Lifespan
from emulator.client.mounts import ANSWERING, Application, Interface, interface_of, mount_of, origin_to_mount
from emulator.client.values import check_names, instant
from emulator.delivery.mounts import Mount
from emulator.engine.outbox import NOT_FROM_A_HANDLER
from emulator.fixtures.files import FixturesError
from emulator.journal.files import UnusableDatabase
from emulator.server import bootstrap, serving
from emulator.server.certificates import Certificate, UnusableCertificate, read_certificate
from emulator.server.settings import Settings, SettingsError

__tracebackhide__ = is_emulator_error

# Mounted functions and WSGI applications that may run at once; the default concurrency in real time.
_THREADS = 64

# The methods whose requests say that they have no content.
_WITH_CONTENT = ("POST", "PUT", "PATCH")


class Options(TypedDict, total=False):
    """How a server is to be started: the options of `svc-emulator serve`, with a frozen clock and a free port.

    `epoch` may be a datetime, `clock` a rate, `fixtures` the document itself instead of a file.
    """

    epoch: str | int | datetime
    seed: int
    chaos: float
    clock: str | float
    fixtures: str | Path | Mapping[str, Any]
    dialect: str | Path
    external: str
    allow_host: Sequence[str]
    plan: str
    concurrency: int
    max_attempts_per_instant: int
    db: str | Path
    fresh: bool
    server: str
    host: str
    port: int
    control_token: str
    control_token_file: str | Path
    allow_control_host: Sequence[str]
    public_host: Sequence[str]
    allow_origin: Sequence[str]
    trust_proxy: Sequence[str]
    strict: bool
    tls_cert: str | Path
    tls_key: str | Path


def check_options(options: Options) -> None:
    """Raises TypeError for an option that does not exist."""
    check_names(options, Options.__annotations__)


class Server:
    """A server, and the connection to it. Everything runs on the background loop."""

    def __init__(
        self,
        background: Background,
        url: str,
        control_token: str | None,
        http: httpx.AsyncClient,
        streams: httpx.AsyncClient,
        emulation: bootstrap.Emulation | None = None,
    ) -> None:
        """Made by `start` and `connect`. A server in this process has an `emulation`."""
        self.background = background
        self.url = url
        self.control_token = control_token
        self.http = http
        self.streams = streams
        self._emulation = emulation
        # What a call has that says nothing else, in this process as over HTTP.
        self._defaults = [(name.lower(), value) for name, value in http.headers.raw]
        self._closing = AsyncExitStack()
        self._threads: ThreadPoolExecutor | None = None
        self._apps: Background | None = None
        self._lifespans: dict[tuple[str, str], Lifespan] = {}

    # -- beginning and end ----------------------------------------------------------------

    @staticmethod
    async def start(background: Background, options: Options) -> Server:
        """Start a server that listens on a free port. Raises EmulatorError with one line."""
        try:
            return await Server._start(background, *_read(options), given=options.keys())
        except FixturesError as error:
            raise EmulatorError("\n".join(error.problems)) from error
        except (SettingsError, UnusableCertificate, UnusableDatabase, serving.CannotListen) as error:
            raise EmulatorError(str(error)) from error

    @staticmethod
    async def _start(
        background: Background, settings: Settings, document: Mapping[str, Any] | None, given: Collection[str]
    ) -> Server:
        scheme = settings.scheme
        certificate = read_certificate(settings.tls_cert, settings.tls_key) if scheme == "https" else None
        listener = serving.listen(settings.host, settings.port)
        url = serving.url_of(listener, scheme=scheme)
        async with AsyncExitStack() as undo:
            undo.callback(listener.close)
            emulation = await bootstrap.start(settings, document, given=given)
            undo.push_async_callback(emulation.close)
            await undo.enter_async_context(
                served(
                    emulation.app,
                    listener,
                    server=settings.server,
                    certificate=certificate,
                    ending=emulation.ending,
                )
            )
            # Calls need no socket in this process. Streams do: that transport waits for the whole response.
            # The certificate is the one given above, so it is not verified.
            http = await undo.enter_async_context(_client(httpx.ASGITransport(emulation.app)))
            streams = await undo.enter_async_context(_client(httpx.AsyncHTTPTransport(verify=False)))
            server = Server(background, url, settings.read_control_token() or None, http, streams, emulation)
            server._closing = undo.pop_all()
        return server

    @staticmethod
    async def connect(
        background: Background, url: str, control_token: str | None, verify: ssl.SSLContext | bool
    ) -> Server:
        """A client of a server that runs already. Nothing is sent yet."""
        # A proxy of the environment has no way to this machine.
        http = httpx.AsyncClient(trust_env=False, verify=verify)
        server = Server(background, url.rstrip("/"), control_token, http, http)
        await server._closing.enter_async_context(http)
        return server

    async def end(self) -> None:
        """Stop serving and release everything, the background thread last."""
        try:
            await self.unmount_all()
            await self._closing.aclose()
        finally:
            if self._apps is not None:
                self._apps.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self.background.close()

    async def exchange(self, call: Call) -> Answer:
        """Make a call: without HTTP if the server is in this process.

        Raises httpx.InvalidURL, httpx.HTTPError.
        """
        if self._emulation is not None:
            target = target_of(call.url, tuple(call.query.items()))
            headers = self._headers(call, target.netloc)
            made = Exchange(call.content or b"")
            await made.run(self._emulation.app, call.method, target, headers)
            return Answer(path=target.path, status=made.final_status(), body=made.body)
        return answer_of(await self.http.send(request_of(self.http, call)))

    def _headers(self, call: Call, netloc: bytes) -> RawHeaders:
        """The headers that the call would have over HTTP."""
        own = raw_headers(call.headers.items())
        if call.content or call.method in _WITH_CONTENT:
            own.append((b"content-length", b"%d" % len(call.content or b"")))
        given = {name for name, _ in own}
        defaults = (pair for pair in ((b"host", netloc), *self._defaults) if pair[0] not in given)
        return [*defaults, *own]

    # -- this process -----------------------------------------------------------------------

    @property
    def is_own(self) -> bool:
        """Whether the server runs in this process, where applications can be mounted."""
        return self._emulation is not None

    def asgi(self) -> AsgiBridge:
        """The application itself. Raises EmulatorError for a server in another process."""
        return AsgiBridge(self._own("asgi").app, self.background.submit)

    def _own(self, what: str) -> bootstrap.Emulation:
        if self._emulation is None:
            raise EmulatorError(f"{what} needs an emulator in this process, and this one is a server at {self.url}")
        return self._emulation

    # -- mounts -----------------------------------------------------------------------------

    def _own_for_mounts(self) -> bootstrap.Emulation:
        if self._emulation is None:
            raise EmulatorError(
                f"mount needs an emulator in this process, and this one is a server at {self.url}: "
                "serve the application where that server can reach it and destinations.forward(url, "
                "to='http://HOST:PORT'), script its answers with destinations.respond(...), or have an emulator here, "
                "without --emulator-url and EMULATOR_URL, or by Emulator() instead of Emulator.connect(...)"
            )
        return self._emulation

    async def mount(
        self, world: str, origin: str, application: Application, interface: Interface | None, loop: EventLoop | None
    ) -> None:
        """Let an application answer for an origin in a world. Without a loop it gets one, where it is started up.

        Raises EmulatorError for a server in another process, ValueError for what is no origin,
        TypeError for what is no application, and whatever its start-up raises.
        """
        transport = self._own_for_mounts().worlds.get(world).transport
        origin = origin_to_mount(origin)
        interface = interface_of(application) if interface is None else Interface(interface)
        await self.unmount(world, origin)
        if loop is None:
            loop = self._loop_of_apps()
            if interface is Interface.ASGI:
                lifespan = await loop.run(lambda: Lifespan.begin(cast(AsgiApp, application)))
                self._lifespans[world, origin] = lifespan
                application = lifespan.app
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mounted application")
        transport.mount(origin, mount_of(application, interface, loop, self._threads, (self, world)))

    def mount_at(self, world: str, url: str) -> Mount | None:
        """The application that answers for a URL's origin in a world; None without one, and for a server elsewhere."""
        return None if self._emulation is None else self._emulation.worlds.get(world).transport.mount_at(url)

    def check_may_move_clock(self, world: str) -> None:
        """Raises Refused in the handler of an application that is mounted in this world (D-293)."""
        if ANSWERING.get() == (self, world):
            raise Refused(f"an attempt is under way; {NOT_FROM_A_HANDLER}", status=HTTPStatus.CONFLICT)

    def _loop_of_apps(self) -> EventLoop:
        """A loop apart from the emulator's, so that an application that blocks it does not block the emulator."""
        if self._apps is None:
            self._apps = Background("mounted applications")
        return self._apps.event_loop()

    async def unmount(self, world: str, origin: str) -> None:
        """Undo `mount`, and shut the application down. Raises ValueError for what is no origin."""
        origin = origin_to_mount(origin)
        self._own_for_mounts().worlds.get(world).transport.unmount(origin)
        lifespan = self._lifespans.pop((world, origin), None)
        if lifespan is not None:
            await self._loop_of_apps().run(lifespan.end)

    async def unmount_all(self, world: str | None = None) -> None:
        """Undo every mount of a world, or of all worlds."""
        for of_world, origin in tuple(self._lifespans):
            if world in (None, of_world):
                await self.unmount(of_world, origin)


@asynccontextmanager
async def served(
    app: ASGIApp,
    listener: socket,
    *,
    server: str = "uvicorn",
    certificate: Certificate | None = None,
    ending: Ending | None = None,
) -> AsyncIterator[None]:
    """Serve an application for the length of a block; `ending` answers the calls that are under way at its end."""
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(
        serving.serve(app, listener, server=server, stop=stop, certificate=certificate, ending=ending),
        name="emulator server",
    )
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait((task,))


def _client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, trust_env=False)


def _read(options: Options) -> tuple[Settings, Mapping[str, Any] | None]:
    """Options as settings, and a fixtures document given as such. Raises SettingsError."""
    given: dict[str, Any] = {"clock": "frozen", "port": 0, **options}
    fixtures = given.pop("fixtures", None)
    document = fixtures if isinstance(fixtures, Mapping) else None
    if fixtures is not None and document is None:
        given["fixtures"] = str(fixtures)
    if "epoch" in given:
        given["epoch"] = str(instant(given["epoch"]))
    for name in ("clock", "chaos", "dialect", "db", "tls_cert", "tls_key", "control_token_file"):
        if name in given:
            given[name] = str(given[name])
    for name in ("allow_host", "allow_control_host", "public_host", "allow_origin", "trust_proxy"):
        if name in given:
            # A single string is one host.
            given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
    return Settings(**given), document
