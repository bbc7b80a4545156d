"""The server behind the Python API: one that is started in this process, or one that runs elsewhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict, cast

import httpx

from emulator.client.background import Background
from emulator.client.bridges import AsgiApp, AsgiBridge, Home
from emulator.client.errors import EmulatorError, Refused, Unreachable, is_told
from emulator.client.lifespan import Life
from emulator.client.mounts import Application, Interface, interface_of, mount_of, origin_to_mount
from emulator.client.values import instant
from emulator.fixtures.files import FixturesError
from emulator.journal.files import UnusableDatabase
from emulator.server import bootstrap, serving
from emulator.server.certificates import UnusableCertificate, read_certificate
from emulator.server.settings import Settings, SettingsError

__tracebackhide__ = is_told

# Mounted functions and WSGI applications that may be under way at once; as many as deliveries in real time.
_THREADS = 64
_CONNECT_S = 5.0


class Options(TypedDict, total=False):
    """How a server is to be started: the options of `svc-emulator serve`, with a frozen clock and a free port.

    `epoch` may be a datetime, `clock` a rate, `fixtures` the document itself instead of a file.
    """

    epoch: str | int | datetime
    seed: int
    clock: str | float
    fixtures: str | Path | Mapping[str, Any]
    dialect: str | Path
    external: str
    allow_host: Sequence[str]
    plan: str
    concurrency: int
    max_attempts_per_instant: int
    db: str | Path
    server: str
    host: str
    port: int
    control_token: str
    allow_control_host: Sequence[str]
    strict: bool
    tls_cert: str | Path
    tls_key: str | Path


def check_options(options: Options) -> None:
    """Raises TypeError for an option that does not exist."""
    for name in set(options) - Options.__annotations__.keys():
        near = get_close_matches(name, Options.__annotations__, 1)
        hint = f", did you mean {near[0]}?" if near else f"; there are {', '.join(Options.__annotations__)}"
        raise TypeError(f"no option is named {name}{hint}")


class Server:
    """A server, and the connection to it. Everything but `close` runs on the background loop."""

    def __init__(
        self,
        background: Background,
        url: str,
        control_token: str | None,
        client: httpx.AsyncClient,
        streams: httpx.AsyncClient,
        emulation: bootstrap.Emulation | None = None,
    ) -> None:
        """`emulation` is there if the server runs in this process. Made by `start` and `connect`."""
        self.background = background
        self.url = url
        self.control_token = control_token
        self._client = client
        self._streams = streams
        self._emulation = emulation
        self._closing = AsyncExitStack()
        self._threads: ThreadPoolExecutor | None = None
        self._apps: Background | None = None
        self._lives: dict[tuple[str, str], Life] = {}

    # -- beginning and end ----------------------------------------------------------------

    @staticmethod
    async def start(background: Background, options: Options) -> Server:
        """Start a server that listens on a free port. Raises EmulatorError with one line."""
        try:
            return await Server._start(background, *_read(options))
        except (SettingsError, FixturesError, UnusableCertificate, UnusableDatabase, serving.CannotListen) as error:
            raise EmulatorError(str(error)) from error

    @staticmethod
    async def _start(background: Background, settings: Settings, document: Mapping[str, Any] | None) -> Server:
        scheme = settings.scheme
        certificate = read_certificate(settings.tls_cert, settings.tls_key) if scheme == "https" else None
        listener = serving.listen(settings.host, settings.port)
        url = serving.url_of(listener, scheme=scheme)
        async with AsyncExitStack() as undo:
            undo.callback(listener.close)
            emulation = await bootstrap.start(settings, document)
            undo.push_async_callback(emulation.close)
            stop = asyncio.Event()
            served = asyncio.get_running_loop().create_task(
                serving.serve(emulation.app, listener, server=settings.server, stop=stop, certificate=certificate),
                name="emulator server",
            )

            async def end() -> None:
                stop.set()
                await asyncio.wait((served,))

            undo.push_async_callback(end)
            # In this process a call needs no socket. A stream does, because that transport waits for a whole answer;
            # whose certificate it meets there is no question.
            client = _client(url, httpx.ASGITransport(emulation.app))
            streams = _client(url, httpx.AsyncHTTPTransport(verify=False))
            for each in (client, streams):
                await undo.enter_async_context(each)
            server = Server(background, url, settings.control_token or None, client, streams, emulation)
            server._closing = undo.pop_all()
        return server

    @staticmethod
    async def connect(
        background: Background, url: str, control_token: str | None, verify: ssl.SSLContext | bool
    ) -> Server:
        """Connect to a server that runs already. Raises Unreachable."""
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        try:
            # A proxy of the environment has no way to this machine.
            client = httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False, verify=verify)
        except httpx.InvalidURL as error:
            raise Unreachable(f"{url!r} is no URL: {error}") from error
        server = Server(background, url.rstrip("/"), control_token, client, client)
        await server._closing.enter_async_context(client)
        try:
            await server._check_health()
        except BaseException:
            await client.aclose()
            raise
        return server

    async def end(self) -> None:
        """Stop serving, and let go of everything, the background thread last."""
        try:
            await self.unmount_all()
            await self._closing.aclose()
        finally:
            if self._apps is not None:
                self._apps.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self.background.close()

    # -- calls ------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """A call to its end; the control token is added where it belongs. Raises Refused and Unreachable."""
        given = {**self._control_headers(path), **(headers or {})}
        with self._telling_failures():
            response = await self._client.request(method, path, params=query or None, content=content, headers=given)
        self._refuse_refusal(response)
        return response

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an answer that may never end, from when it began. Raises Refused and Unreachable."""
        with self._telling_failures():
            async with self._streams.stream("GET", path, params=query, headers=self._control_headers(path)) as response:
                if not response.is_success:
                    await response.aread()
                self._refuse_refusal(response)
                yield response.aiter_lines()

    def _control_headers(self, path: str) -> dict[str, str]:
        is_control = self.control_token is not None and path.startswith("/_emulator")
        return {"Authorization": f"Bearer {self.control_token}"} if is_control else {}

    @contextmanager
    def _telling_failures(self) -> Iterator[None]:
        try:
            yield
        except httpx.InvalidURL as error:
            raise EmulatorError(f"a call to {self.url} cannot be made: {error}") from None
        except httpx.TransportError as error:
            raise Unreachable(f"no emulator answers at {self.url}: {str(error) or type(error).__name__}") from error

    def _refuse_refusal(self, response: httpx.Response) -> None:
        """Raises Refused with what the server says, and EmulatorError for another program."""
        if response.is_success:
            return
        try:
            refusal = response.json()
            text, field = str(refusal["error"]), refusal.get("field")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise EmulatorError(
                f"{self.url} is no emulator: it answered {response.status_code} to {response.url.path}"
            ) from None
        raise Refused(text, status=response.status_code, field=field)

    @property
    def is_own(self) -> bool:
        """Whether the server runs in this process, where applications can be mounted."""
        return self._emulation is not None

    async def _check_health(self) -> None:
        """Raises EmulatorError for another program, and Unreachable."""
        answer = await self.request("GET", "/_emulator/health")
        try:
            is_well = answer.json()["status"] == "ok"
        except (ValueError, LookupError, TypeError):
            is_well = False
        if not is_well:
            raise EmulatorError(f"{self.url} is no emulator: it answered, but not as one does")

    def door(self) -> AsgiBridge:
        """The application itself. Raises EmulatorError for a server in another process."""
        return AsgiBridge(self._own("asgi").app, self.background.submit)

    def _own(self, what: str) -> bootstrap.Emulation:
        if self._emulation is None:
            raise EmulatorError(f"{what} needs an emulator in this process, and this one is a server at {self.url}")
        return self._emulation

    # -- mounts -----------------------------------------------------------------------------

    async def mount(
        self, world: str, origin: str, application: Application, interface: Interface | None, home: Home | None
    ) -> None:
        """Let an application answer for an origin in a world. Without a home it gets one, and is started up there.

        Raises EmulatorError for a server in another process, ValueError for what is no origin,
        TypeError for what is no application, and whatever its start-up raises.
        """
        transport = self._own("mount").worlds.get(world).transport
        origin = origin_to_mount(origin)
        interface = interface_of(application) if interface is None else Interface(interface)
        await self.unmount(world, origin)
        if home is None:
            home = self._home_of_apps()
            if interface is Interface.ASGI:
                life = await home.run(lambda: Life.begin(cast(AsgiApp, application)))
                self._lives[world, origin] = life
                application = life.app
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mounted application")
        transport.mount(origin, mount_of(application, interface, home, self._threads))

    def _home_of_apps(self) -> Home:
        """A loop apart from the emulator's: an application that blocks it can still be answered."""
        if self._apps is None:
            self._apps = Background("mounted applications")
        return self._apps.home()

    async def unmount(self, world: str, origin: str) -> None:
        """Undo `mount`, and shut the application down. Raises ValueError for what is no origin."""
        origin = origin_to_mount(origin)
        self._own("mount").worlds.get(world).transport.unmount(origin)
        life = self._lives.pop((world, origin), None)
        if life is not None:
            await self._home_of_apps().run(life.end)

    async def unmount_all(self, world: str | None = None) -> None:
        """Undo every mount of a world, or of all worlds."""
        for of_world, origin in tuple(self._lives):
            if world in (None, of_world):
                await self.unmount(of_world, origin)


def _client(url: str, transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url=url, timeout=None, trust_env=False)


def _read(options: Options) -> tuple[Settings, Mapping[str, Any] | None]:
    """Options as settings, and a fixtures document given as such. Raises SettingsError."""
    given: dict[str, Any] = {"clock": "frozen", "port": 0, **options}
    fixtures = given.pop("fixtures", None)
    document = fixtures if isinstance(fixtures, Mapping) else None
    if fixtures is not None and document is None:
        given["fixtures"] = str(fixtures)
    if "epoch" in given:
        given["epoch"] = str(instant(given["epoch"]))
    for name in ("clock", "dialect", "db", "tls_cert", "tls_key"):
        if name in given:
            given[name] = str(given[name])
    for name in ("allow_host", "allow_control_host"):
        if name in given:
            # A single text is one name, not as many as it has letters.
            given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
    return Settings(**given), document
