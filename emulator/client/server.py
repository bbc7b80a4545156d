"""The server behind the Python API: started in this process, or running elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from os import PathLike
from pathlib import Path
from socket import socket
from typing import Any, Literal, TypeAlias, TypedDict, cast

import httpx
from starlette.types import ASGIApp

from emulator.client.arguments import check_text, instant
from emulator.client.asgi import (
    BrokeOut,
    Exchange,
    InProcessTransport,
    Lifespan,
    RawHeaders,
    raw_headers,
    target_of,
)
from emulator.client.control import Call, HttpAnswer, answer_of
from emulator.client.errors import (
    ANSWERING,
    EmulatorError,
    HandlerErrors,
    LoopMisuse,
    Mode,
    Refused,
    add_note,
    is_emulator_error,
    read_mode,
)
from emulator.client.event_loops import AsgiApp, AsgiBridge, AsyncioLoop, Background, EventLoop, hear_of_unawaited
from emulator.client.mounts import Application, Interface, interface_to_call, mount_of, origin_to_mount
from emulator.client.threads import Threads
from emulator.core.errors import InvalidInput, NotFound, WorldBroken
from emulator.core.world_setup import parse_token
from emulator.delivery.mounts import Mount, named_when_slow
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.limits import Limits
from emulator.engine.outbox import NOT_FROM_A_HANDLER
from emulator.fixtures.files import FixturesError
from emulator.journal.files import UnusableDatabase
from emulator.server import bootstrap, serving
from emulator.server.connections import Certificate, UnusableCertificate, read_certificate
from emulator.server.settings import Settings, SettingsError
from emulator.wire.names import read_field
from emulator.worlds.registry import Worlds

logger = logging.getLogger(__name__)

__tracebackhide__ = is_emulator_error

# Mounted functions and WSGI applications that may run at once; the default concurrency in real time.
_THREADS = 64

# Real time for which a call waits for the deliveries that it causes, unless `settle` is shorter.
_USUAL_WAIT_S = Limits().settle_s

# Real time in which the loop of mounted applications answers, unless one of them blocks it.
_BLOCKED_S = 2.0

# The methods whose requests say that they have no content.
_WITH_CONTENT = ("POST", "PUT", "PATCH")


Plan: TypeAlias = Literal["free", "paid"]
External: TypeAlias = Literal["capture", "fail", "allow"]
# Beside these, the path of a TOML file.
DialectName: TypeAlias = Literal["svc", "upstash"]


class Options(TypedDict, total=False):
    """How a server is to be started: the options of `svc-emulator serve`, with a frozen clock and a free port.

    `epoch` may be a datetime, `clock` a rate, `fixtures` the document itself instead of a file. All history is
    kept unless `keep_history` says otherwise: a number of its newest entries (about four a delivery), or an age
    such as "30d".
    """

    epoch: str | int | datetime
    seed: int
    chaos: float
    clock: Literal["frozen", "realtime"] | str | float
    fixtures: str | Path | Mapping[str, Any]
    dialect: DialectName | str | PathLike[str]
    foreign_options: Literal["refuse", "ignore"]
    region: Literal["plan", "eu-central-1", "us-east-1"]
    external: External
    allow_host: Sequence[str]
    plan: Plan
    concurrency: int
    max_attempts_per_instant: int
    keep_history: int | str
    db: str | Path
    fresh: bool
    server: Literal["uvicorn", "hypercorn"]
    host: str
    port: int
    control_token: str
    control_token_file: str | Path
    allow_control_host: Sequence[str]
    public_host: Sequence[str]
    allow_origin: Sequence[str]
    trust_proxy: Sequence[str]
    trace: Literal["off", "inject"]
    strict: bool
    settle: float | str | timedelta
    tls_cert: str | Path
    tls_key: str | Path
    handler_errors: Mode
    mount_timeout: float | str | timedelta


def check_values(options: Mapping[str, Any]) -> None:
    """Raises TypeError and ValueError that begin with the option whose value no server takes. Nothing is started."""
    token = options.get("token")
    try:
        read_mode(options.get("handler_errors", "raise"))
        if token is not None:
            check_text("token", token)
            read_field("token", token, parse_token)
        bootstrap.check(*_read(cast(Options, {name: value for name, value in options.items() if name != "token"})))
    except FixturesError as error:
        raise ValueError("; ".join(error.problems)) from None
    except (SettingsError, InvalidInput) as error:
        raise ValueError(str(error)) from None


class Server:
    """A server, and the connection to it. Everything runs on the background loop."""

    def __init__(
        self,
        background: Background,
        url: str,
        control_token: str | None,
        http: httpx.AsyncClient,
        emulation: bootstrap.Emulation | None = None,
        mode: Mode = "raise",
    ) -> None:
        """Made by `start` and `connect`. A server in this process has an `emulation`.

        `mode` is how errors of mounted code reach the test.
        """
        self.background = background
        self.url = url
        self.control_token = control_token
        self.http = http
        # The same without an emulation; else None until somebody asks for a stream.
        self._streams = http if emulation is None else None
        self._emulation = emulation
        # What a call has that says nothing else, in this process as over HTTP.
        self._defaults = [(name.lower(), value) for name, value in http.headers.raw]
        self._closing = AsyncExitStack()
        # None until something is mounted.
        self.threads: Threads | None = None
        # How many deliveries to mounted applications could not overlap with others; see `take_turn`.
        self.turns_taken = 0
        # Read once: every delivery to a mount asks for them.
        self._has_turns = emulation is not None and not emulation.settings.concurrency
        self._is_patient = emulation is not None and emulation.settings.settle_s >= _USUAL_WAIT_S
        self._apps: Background | None = None
        # Each with the loop that it runs on.
        self._lifespans: dict[tuple[str, str], tuple[Lifespan, EventLoop]] = {}
        self._mode = mode
        # By the ids of worlds.
        self._errors: dict[str, HandlerErrors] = {}

    # -- beginning and end ----------------------------------------------------------------

    @staticmethod
    async def start(background: Background, options: Options) -> Server:
        """Start a server that listens on a free port. Raises EmulatorError with one line."""
        try:
            mode = read_mode(options.get("handler_errors", "raise"))
            settings, document = _read(options)
            scheme = settings.scheme
            certificate = read_certificate(settings.tls_cert, settings.tls_key) if scheme == "https" else None
            listener = serving.listen(settings.host, settings.port)
            async with AsyncExitStack() as undo:
                undo.callback(listener.close)
                emulation = await bootstrap.start(settings, document, given=options.keys())
                undo.push_async_callback(emulation.close)
                serve = partial(served, server=settings.server, certificate=certificate, worlds=emulation.worlds)
                await undo.enter_async_context(serve(emulation.app, listener))
                # Calls need no socket in this process.
                http = await undo.enter_async_context(_client(InProcessTransport(emulation.app)))
                url, token = serving.url_of(listener, scheme=scheme), settings.read_control_token() or None
                server = Server(background, url, token, http, emulation, mode)
                server._closing = undo.pop_all()
            return server
        except FixturesError as error:
            raise EmulatorError("\n".join(error.problems)) from error
        except (SettingsError, UnusableCertificate, UnusableDatabase, serving.CannotListen) as error:
            raise EmulatorError(str(error)) from error

    @staticmethod
    async def connect(
        background: Background, url: str, control_token: str | None, verify: ssl.SSLContext | bool
    ) -> Server:
        """A client of a server that runs already. Nothing is sent yet."""
        if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
            raise EmulatorError(f"url: expected an address such as http://127.0.0.1:8080, got {url!r}")
        # A proxy of the environment has no way to this machine. Without TLS, nobody has to be trusted: to read the
        # authorities takes longer than a call.
        http = httpx.AsyncClient(trust_env=False, verify=url.lower().startswith("https://") and verify)
        server = Server(background, url.rstrip("/"), control_token, http)
        await server._closing.enter_async_context(http)
        return server

    async def end(self) -> None:
        """Stop serving and release everything, the background thread last."""
        try:
            await self.unmount_all()
            await self._closing.aclose()
        finally:
            if self._apps is not None:
                self._apps.close(_BLOCKED_S)
            if self.threads is not None:
                self.threads.close()
            self.background.close()

    @property
    def streams(self) -> httpx.AsyncClient:
        """The client for answers that are read piece by piece.

        In this process too it needs a socket: the transport without one waits for the whole answer. The certificate
        is the server's own, so it is not verified.
        """
        if self._streams is None:
            # Its transport takes as long to import as a hundred tests.
            self._streams = _client(httpx.AsyncHTTPTransport(verify=False))
            self._closing.push_async_callback(self._streams.aclose)
        return self._streams

    async def exchange(self, call: Call) -> HttpAnswer:
        """Make a call: without HTTP if the server is in this process.

        Raises httpx.InvalidURL, httpx.HTTPError.
        """
        if self._emulation is not None:
            target = target_of(call.url, tuple(call.query.items()))
            headers = self._headers(call, target.netloc)
            made = Exchange(call.content or b"")
            await made.run(self._emulation.app, call.method, target, headers)
            return HttpAnswer(path=target.path, status=made.final_status(), body=made.body)
        return answer_of(await self.http.send(call.request(self.http)))

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

    def _own(self, what: str, instead: str = "") -> bootstrap.Emulation:
        if self._emulation is None:
            text = f"{what} needs an emulator in this process, and this one is a server at {self.url}{instead}"
            raise EmulatorError(text)
        return self._emulation

    def errors_of(self, world: str) -> HandlerErrors:
        """What mounted code has raised in a world."""
        found = self._errors.get(world)
        if found is None:
            found = self._errors[world] = HandlerErrors(self._mode)
        return found

    def forget_errors_of(self, world: str) -> None:
        """Begin anew: a world of that id would be another one."""
        self._errors.pop(world, None)

    def virtual_time(self, world: str) -> Callable[[], int]:
        """What tells the virtual instant of a world, epoch ms, in any thread; at the end its last one.

        Raises EmulatorError for a server in another process, whose clock it would have to be asked for each time.
        """
        worlds = self._own("follow_time").worlds
        last_ms = worlds.get(world).clock.now_ms

        def now_ms() -> int:
            nonlocal last_ms
            with contextlib.suppress(NotFound, WorldBroken):
                last_ms = worlds.get(world).clock.now_ms
            return last_ms

        return now_ms

    # -- mounts -----------------------------------------------------------------------------

    def _own_for_mounts(self) -> bootstrap.Emulation:
        return self._own(
            "mount",
            ": serve the application where that server can reach it and destinations.forward(url, "
            "to='http://HOST:PORT'), script its answers with destinations.respond(...), or have an emulator here, "
            "without --emulator-url and EMULATOR_URL, or by Emulator() instead of Emulator.connect(...)",
        )

    async def mount(
        self,
        world: str,
        origin: str,
        application: Application,
        interface: Interface | str | None,
        loop: EventLoop | None,
    ) -> None:
        """Let an application answer for an origin in a world. Without a loop it gets one, where it is started up.

        Raises EmulatorError for a server in another process, ValueError for what is no origin,
        TypeError for what is no application, and whatever its start-up raises.
        """
        transport = self._own_for_mounts().worlds.get(world).transport
        origin = origin_to_mount(origin)
        interface = interface_to_call(application, interface)
        await self.unmount(world, origin)
        has_own_loop = loop is None
        loop = loop or await self._loop_of_apps()
        if isinstance(loop, AsyncioLoop):
            await loop.run(hear_of_unawaited)
        if has_own_loop and interface is Interface.ASGI:
            lifespan = await self._begin(world, origin, cast(AsgiApp, application), loop)
            self._lifespans[world, origin] = lifespan, loop
            application = lifespan.app
        if self.threads is None:
            self.threads = Threads(_THREADS, "mounted application")
        transport.mount(origin, mount_of(application, interface, loop, self.threads, self, world))

    def mount_at(self, world: str, url: str) -> Mount | None:
        """The application that answers for a URL's origin in a world; None without one, and for a server elsewhere."""
        transport = self._transport(world)
        return None if transport is None else transport.mount_at(url)

    def take_turns(self, world: str) -> bool:
        """Whether the deliveries to the applications that are mounted in a world never overlap."""
        # D-538.
        return self._has_turns and self._is_frozen(world)

    def is_waited_for(self, world: str) -> bool:
        """Whether a call about a world waits a second or longer for the deliveries that it causes."""
        return self._is_patient and self._is_frozen(world)

    def _is_frozen(self, world: str) -> bool:
        try:
            return self._own("mount").worlds.get(world).pace.is_frozen
        except NotFound:
            return False

    def mounted(self, world: str) -> tuple[str, ...]:
        """The origins of the applications that are mounted in a world; none of a server elsewhere."""
        transport = self._transport(world)
        return () if transport is None else transport.mounted

    def near_mounts(self, world: str) -> Mapping[str, str]:
        """What was captured in a world although a mounted application may have been meant; see the transport."""
        transport = self._transport(world)
        return {} if transport is None else transport.near_mounts

    def _transport(self, world: str) -> DeliveryTransport | None:
        """How a world's attempts leave, None without that world in this process."""
        try:
            return None if self._emulation is None else self._emulation.worlds.get(world).transport
        except NotFound:
            return None

    def check_may_move_clock(self, world: str) -> None:
        """Raises Refused in the handler of an application that is mounted in this world."""
        # D-293.
        if ANSWERING.get() == (self, world):
            raise Refused(f"an attempt is under way; {NOT_FROM_A_HANDLER}", status=HTTPStatus.CONFLICT)

    async def _begin(self, world: str, origin: str, application: AsgiApp, loop: EventLoop) -> Lifespan:
        """Start an application up. Raises as `mount`."""

        def broke(error: BaseException) -> None:
            self.errors_of(world).add(error, url=origin, is_unseen=True)

        try:
            async with self._limited(origin, "start-up"):
                return await loop.run(lambda: Lifespan.begin(application, world, broke))
        except LoopMisuse as error:
            add_note(error, f"It was raised by the start-up of the application at {origin}")
            raise
        except BrokeOut as out:
            # The call of `mount` raises the error itself.
            self.errors_of(world).add(out.error, url=origin)
            raise EmulatorError(f"the application for {origin} did not start: {out}") from None

    @asynccontextmanager
    async def _limited(self, origin: str, what: str) -> AsyncIterator[None]:
        """Limit the start-up or shutdown of an application in real time. Raises EmulatorError."""
        limit_s = self._own("mount").settings.mount_timeout_s
        try:
            with named_when_slow(f"the application mounted at {origin}", f"has not ended its {what}", limit_s):
                async with asyncio.timeout(limit_s):
                    yield
        except TimeoutError:
            raise EmulatorError(
                f"the application mounted at {origin} did not end its {what} within {limit_s:g} s of real time "
                "(mount_timeout)"
            ) from None

    async def _loop_of_apps(self) -> EventLoop:
        """A loop apart from the emulator's, so that an application that blocks it does not block the emulator.

        Another one when an application blocks it for good, so that this one's tests alone suffer.
        """
        if self._apps is not None and not await asyncio.to_thread(self._apps.answers, _BLOCKED_S):
            self._apps.close(0)
            self._apps = None
        if self._apps is None:
            self._apps = Background("mounted applications", knows_tasks=True)
        return self._apps.event_loop()

    async def unmount(self, world: str, origin: str) -> None:
        """Undo `mount`, and shut the application down. Raises ValueError for what is no origin."""
        origin = origin_to_mount(origin)
        self._own_for_mounts().worlds.get(world).transport.unmount(origin)
        found = self._lifespans.pop((world, origin), None)
        if found is not None:
            lifespan, loop = found
            try:
                async with self._limited(origin, "shutdown"):
                    await loop.run(lifespan.end)
            except EmulatorError as error:
                logger.error("%s", error)
                self.errors_of(world).add(error, url=origin, is_unseen=True)

    async def unmount_all(self, world: str | None = None) -> None:
        """Undo every mount of a world, or of all worlds."""
        for of_world, origin in tuple(self._lifespans):
            if world in (None, of_world):
                await self.unmount(of_world, origin)
        if self._apps is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BLOCKED_S):
                    await asyncio.wrap_future(self._apps.submit(self._apps.take_failed(world)))

    def errors_of_others(self, world: str) -> list[HandlerErrors]:
        """What mounted code has raised in other worlds than this one that are still there."""
        return [errors for name, errors in self._errors.items() if name != world]


@asynccontextmanager
async def served(
    app: ASGIApp,
    listener: socket,
    *,
    server: str = "uvicorn",
    certificate: Certificate | None = None,
    worlds: Worlds | None = None,
) -> AsyncIterator[None]:
    """Serve an application for the length of a block; see `serving.serve`."""
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(
        serving.serve(app, listener, server=server, stop=stop, certificate=certificate, worlds=worlds),
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
    given: dict[str, Any] = {"clock": "frozen", "port": 0, "keep_history": "all", **options}
    given.pop("handler_errors", None)
    fixtures = given.pop("fixtures", None)
    document = fixtures if isinstance(fixtures, Mapping) else None
    if fixtures is not None and document is None:
        if not isinstance(fixtures, str | PathLike):
            raise SettingsError(f"fixtures: expected a file, or what one says as a mapping, got {fixtures!r}")
        given["fixtures"] = str(fixtures)
    if "epoch" in given:
        given["epoch"] = str(instant("epoch", given["epoch"]))
    for name in ("settle", "mount_timeout"):
        if name in given:
            given[name] = _seconds(name, given[name])
    for name in ("clock", "chaos", "keep_history", "dialect", "db", "tls_cert", "tls_key", "control_token_file"):
        # Numbers are so written in a file of settings too.
        value = given.get(name)
        if isinstance(value, PathLike) or (name in _NUMBERS and isinstance(value, int | float)):
            given[name] = str(value)
    for name in ("allow_host", "allow_control_host", "public_host", "allow_origin", "trust_proxy"):
        if name in given:
            # A single string is one host.
            several = (given[name],) if isinstance(given[name], str) else given[name]
            if not isinstance(several, Sequence):
                raise SettingsError(f"{name}: expected a text or several, got {several!r}")
            given[name] = tuple(several)
    return Settings(**given), document


# Settings of text that may be numbers.
_NUMBERS = ("clock", "chaos", "keep_history")


def _seconds(name: str, value: float | str | timedelta) -> str:
    """A time of the machine's clock as settings have it: a number is seconds. Raises SettingsError."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 1e6:
        raise SettingsError(f"{name}: expected seconds, a timedelta or a text such as 30s, got {value!r}")
    return f"{round(seconds * 1000)}ms"
