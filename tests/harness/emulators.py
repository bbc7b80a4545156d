"""Emulators to test against, in process and behind a socket, and receivers of what they deliver."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import unquote_to_bytes

import httpx
import jwt

from emulator.api import strict
from emulator.api.endpoint import HAS_QUERY
from emulator.core.checkpoint import Checkpoint, capture
from emulator.core.state import State
from emulator.engine.limits import Limits
from emulator.server import bootstrap, serving
from emulator.server.connections import read_certificate
from emulator.server.settings import Settings
from emulator.worlds.setup import DEFAULT
from emulator.worlds.world import Observer, World
from tests.contracts.answers import WATCHER
from tests.contracts.conformance import check_response
from tests.harness.loops import PATIENCE_S, on_loop

P = ParamSpec("P")

EPOCH = "2026-01-01T00:00:00Z"
EPOCH_MS = 1_767_225_600_000

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the emulator answered; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# -- in process -------------------------------------------------------------------------------


class InProcess:
    """The application itself, called byte for byte: no client between that would tidy a request up."""

    def __init__(self, emulation: bootstrap.Emulation) -> None:
        self.emulation = emulation
        self.token = self.world.account().token
        self.read_only_token = self.world.account().read_only_token

    @property
    def world(self) -> World:
        return self.emulation.worlds.get(DEFAULT)

    def image(self) -> Checkpoint:
        """The whole state of the default world."""
        return capture(cast(State, self.world.state))

    async def call(
        self,
        method: str,
        target: str | bytes,
        headers: Headers = (),
        body: bytes | str | object = b"",
        *,
        token: str | None = "",
        client: str = "203.0.113.7",
    ) -> Answer:
        """One call; anything but text or bytes is sent as JSON. The token is the account's, None sends none."""
        pairs = [("Host", "127.0.0.1:8080"), *(headers.items() if isinstance(headers, Mapping) else headers)]
        if token is not None:
            pairs.append(("Authorization", f"Bearer {token or self.token}"))
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        raw = target.encode("latin-1") if isinstance(target, str) else target
        answer = await asgi_call(self.emulation.app, method, raw, pairs, body, client)
        if self.emulation.settings.strict:
            # Strict mode refuses some calls before the application sees them, and adds a header to all answers.
            headers = {name: value for name, value in answer.headers.items() if name != strict.HEADER.lower()}
            target_text, dialect = raw.decode("latin-1"), self.emulation.dialect
            check_response(method, target_text, answer.status, headers, answer.body, dialect=dialect)
        return answer

    async def get(self, target: str, headers: Headers = (), **options: Any) -> Answer:
        return await self.call("GET", target, headers, **options)

    async def post(self, target: str, headers: Headers = (), body: object = b"", **options: Any) -> Answer:
        return await self.call("POST", target, headers, body, **options)

    async def delete(self, target: str, headers: Headers = (), body: object = b"", **options: Any) -> Answer:
        return await self.call("DELETE", target, headers, body, **options)

    async def control(self, method: str, target: str, body: object = b"", headers: Headers = ()) -> Answer:
        """A call of the control API, which needs no token."""
        return await self.call(method, "/_emulator" + target, headers, body, token=None)

    async def publish(self, destination: str, headers: Headers = (), body: object = b"", **options: Any) -> str:
        """Publish to a URL; the message's id."""
        answer = await self.post(f"/v2/publish/{destination}", headers, body, **options)
        assert answer.status == 200, answer.body
        return cast(str, answer.json["messageId"])

    async def advance(self, by: str | int) -> Any:
        answer = await self.control("POST", "/clock/advance", {"by": by})
        assert answer.status == 200, answer.body
        return answer.json

    async def rule(self, url: str, **rule: object) -> str:
        """Add a destination rule; its id."""
        answer = await self.control("POST", "/destinations", {"match": {"url": url}, **rule})
        assert answer.status == 201, answer.body
        return cast(str, answer.json["id"])

    async def deliveries(self, url: str = "") -> list[Any]:
        answer = await self.control("GET", f"/deliveries?limit=1000&url={url}")
        assert answer.status == 200, answer.body
        return cast(list[Any], answer.json["deliveries"])


def http_scope(method: str, target: bytes, headers: Iterable[tuple[str, str]], client: str) -> dict[str, Any]:
    """A request as an ASGI server describes it, its target exactly as given."""
    raw_path, mark, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in headers
        ],
        "client": (client, 50_000),
        "server": ("127.0.0.1", 8080),
        HAS_QUERY: bool(mark),
    }


async def asgi_call(
    app: Any, method: str, target: bytes, headers: Iterable[tuple[str, str]], body: bytes, client: str
) -> Answer:
    """One HTTP exchange with an ASGI application, its target exactly as given."""
    scope = http_scope(method, target, headers, client)
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if not incoming:
            await asyncio.Event().wait()  # The client stays until it has its answer.
        return incoming.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    # The end of the test would notice as well; here one sees by which call.
    WATCHER.raise_found()
    start = next(message for message in sent if message["type"] == "http.response.start")
    return Answer(
        status=start["status"],
        headers={name.decode().lower(): value.decode() for name, value in start["headers"]},
        body=b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
    )


@contextlib.asynccontextmanager
async def in_process(*, limits: Limits | None = None, **settings: Any) -> AsyncIterator[InProcess]:
    """An emulator without a server, on the running event loop, its clock frozen at EPOCH."""
    emulation = await bootstrap.start(Settings(**{"clock": "frozen", "epoch": EPOCH, **settings}), limits=limits)
    try:
        yield InProcess(emulation)
    finally:
        await emulation.close()


def with_emulator(
    **settings: Any,
) -> Callable[[Callable[Concatenate[InProcess, P], Awaitable[None]]], Callable[P, None]]:
    """Makes an asynchronous test of one emulator in process an ordinary one; its first parameter is the emulator."""

    def decorate(test: Callable[Concatenate[InProcess, P], Awaitable[None]]) -> Callable[P, None]:
        @on_loop
        @functools.wraps(test)
        async def run(*args: P.args, **kwargs: P.kwargs) -> None:
            async with in_process(**settings) as emulator:
                await test(emulator, *args, **kwargs)

        # What is left for pytest's fixtures and tables.
        signature = inspect.signature(test)
        run.__dict__["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
        return run

    return decorate


# -- behind a socket --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server and what its clients need to know."""

    url: str
    port: int
    token: str
    current_signing_key: str
    next_signing_key: str


@contextlib.contextmanager
def server(observers: Sequence[Observer] = (), **settings: Any) -> Iterator[Server]:
    """A real server in a thread of its own, on a port that the system chose, its clock frozen at EPOCH.

    `observers` are those that a process adds to its worlds: the log.
    """
    wanted = Settings(**{"clock": "frozen", "epoch": EPOCH, "port": 0, **settings})
    started: Future[tuple[Server, Callable[[], object]]] = Future()

    async def main() -> None:
        emulation = await bootstrap.start(wanted)
        emulation.worlds.observers.extend(observers)
        try:
            listener = serving.listen("127.0.0.1", 0)
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            account = emulation.worlds.get(DEFAULT).account()
            found = Server(
                url=serving.url_of(listener, scheme=wanted.scheme),
                port=listener.getsockname()[1],
                token=account.token,
                current_signing_key=account.signing_keys.current,
                next_signing_key=account.signing_keys.next,
            )
            started.set_result((found, lambda: loop.call_soon_threadsafe(stop.set)))
            certificate = read_certificate(wanted.tls_cert, wanted.tls_key) if wanted.scheme == "https" else None
            await serving.serve(
                emulation.app,
                listener,
                server=wanted.server,
                stop=stop,
                certificate=certificate,
                worlds=emulation.worlds,
            )
        finally:
            await emulation.close()

    def run() -> None:
        try:
            serving.run(main)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=run, name="emulator under test")
    thread.start()
    found, stop = started.result(PATIENCE_S)
    try:
        yield found
    finally:
        stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server did not stop"


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request that reached a receiver; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Respond = Callable[[Received], int]


@dataclass
class Receiver:
    """A real HTTP server that records what it gets; `respond` decides the status of each answer."""

    url: str
    respond: Respond
    requests: list[Received] = field(default_factory=list)
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def record(self, received: Received) -> int:
        with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        return self.respond(received)

    def wait_for(self, count: int) -> list[Received]:
        """The requests so far, once there are `count` of them."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, PATIENCE_S), self.requests
            return list(self.requests)

    def at(self, path: str) -> list[Received]:
        return [request for request in self.requests if request.path == path]


@contextlib.contextmanager
def receiver(respond: Respond = lambda received: 200) -> Iterator[Receiver]:
    """A receiver in threads of its own, on a port of loopback that the system chose."""
    state = Receiver(url="", respond=respond)
    with http_server(lambda received: (state.record(received), {}, b"seen")) as state.url:
        yield state


class _HttpServer(ThreadingHTTPServer):
    # As many attempts leave at once, and more; by default the sixth connection may be reset.
    request_queue_size = 256


@contextlib.contextmanager
def http_server(
    answer: Callable[[Received], tuple[int, Mapping[str, str], bytes]], *, one_at_a_time: bool = False
) -> Iterator[str]:
    """A server at this URL, in threads of its own, which answers each request with status, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def parse_request(self) -> bool:
            is_good = super().parse_request()
            if is_good:
                # Every method is answered alike.
                setattr(self, f"do_{self.command}", self.answer)
            return is_good

        def answer(self) -> None:
            received = Received(
                method=self.command,
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.chunks() if "Transfer-Encoding" in self.headers else self.rfile.read(self.length()),
            )
            status, headers, body = answer(received)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def length(self) -> int:
            return int(self.headers.get("Content-Length", "0"))

        def chunks(self) -> bytes:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = (HTTPServer if one_at_a_time else _HttpServer)(("127.0.0.1", 0), Handler)
    if isinstance(httpd, ThreadingHTTPServer):
        httpd.daemon_threads = False
    thread = threading.Thread(target=functools.partial(httpd.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join(PATIENCE_S)
        httpd.server_close()


def verify(received: Received, url: str, key: str, *, header: str = "svc-signature", issuer: str = "Svc") -> None:
    """Check a delivery's signature as a receiver does: algorithm, issuer, times, address and body."""
    claims = jwt.decode(
        received.headers[header],
        key,
        algorithms=["HS256"],
        issuer=issuer,
        options={"require": ["iss", "sub", "exp", "nbf", "iat", "jti", "body"]},
    )
    assert claims["sub"] == url
    assert claims["nbf"] == 0
    digest = base64.urlsafe_b64encode(hashlib.sha256(received.body).digest()).decode()
    assert claims["body"].rstrip("=") == digest.rstrip("=")


def control(server: Server, method: str, path: str, body: object = None, **query: str) -> Any:
    """A call of a running server's control API; its answer."""
    return _content(http(method, f"{server.url}/_emulator{path}", json=body, params=query))


def service(server: Server, method: str, path: str, headers: Headers = (), body: object = b"") -> Any:
    """A call of a running server's messaging API; its answer. Anything but bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Authorization": f"Bearer {server.token}", **dict(headers)}
    # Bytes, so that a header may have any text.
    sent = [(name.encode(), value.encode()) for name, value in named.items()]
    return _content(http(method, f"{server.url}{path}", content=content, headers=sent))


def http(method: str, url: str, **options: Any) -> httpx.Response:
    """A call of a server without TLS: to read the authorities that a machine trusts takes longer than all the rest."""
    return httpx.request(method, url, timeout=PATIENCE_S, trust_env=False, verify=False, **options)


def _content(response: httpx.Response) -> Any:
    assert response.is_success, response.text
    return response.json() if response.content else None
