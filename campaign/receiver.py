"""A well-behaved receiver on loopback that remembers what it was sent."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a delivery is answered with, by its path, its headers and its body: further headers.
Answering = Callable[[str, Mapping[str, str], str], Mapping[str, str]]


# How long an answer is held back, and how long somebody waits for a delivery that a kill may have prevented.
_HELD_S, _PATIENCE_S = 0.5, 1.0


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One delivery, how it was answered, and when, on the monotonic clock."""

    path: str
    body: str
    status: int
    at_s: float


@dataclass
class Receiver:
    """`/flaky` answers 503 to the first two deliveries of a body, `/broken` always; all else is answered 200.

    Below `/slow/` answers are held back for a moment, and are 503 for half of the paths.
    """

    port: int = 0
    answering: Answering = lambda path, headers, body: {}
    arrivals: list[Arrival] = field(default_factory=list)
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _tries: dict[str, int] = field(default_factory=dict)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def take(self, path: str, body: str) -> int:
        """Note a delivery; the status to answer."""
        with self._lock:
            tried = self._tries[body] = self._tries.get(body, 0) + 1
            is_failing = path == "/broken" or (path == "/flaky" and tried <= 2)
            is_failing |= path.startswith("/slow/") and len(path) % 2 == 1
            status = 503 if is_failing else 200
            self.arrivals.append(Arrival(path=path, body=body, status=status, at_s=time.monotonic()))
            self._lock.notify_all()
        if path.startswith("/slow/"):
            threading.Event().wait(_HELD_S)
        return status

    def at(self, path: str) -> list[Arrival]:
        """The deliveries to a path."""
        with self._lock:
            return [each for each in self.arrivals if each.path == path]

    def wait_for(self, path: str) -> None:
        """Return when there is a delivery to a path, or after a while without one."""
        with self._lock:
            self._lock.wait_for(lambda: any(each.path == path for each in self.arrivals), _PATIENCE_S)

    def accepted(self) -> set[str]:
        """The bodies that were answered 200."""
        with self._lock:
            return {each.body for each in self.arrivals if each.status == 200}

    def bodies(self) -> set[str]:
        """The bodies of all deliveries but those below `/slow/`; of a callback, the one of its source."""
        with self._lock:
            arrivals = list(self.arrivals)
        held = [each for each in arrivals if not each.path.startswith("/slow/")]
        return {_source(each.body) if each.path == "/callback" else each.body for each in held}


def _source(body: str) -> str:
    try:
        return b64decode(json.loads(body)["sourceBody"]).decode()
    except (ValueError, KeyError, TypeError):
        return f"not a callback: {body[:100]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, receiver: Receiver, *arguments: object) -> None:
        self._receiver = receiver
        super().__init__(*arguments)  # type: ignore[arg-type]  # the server gives what the base class takes

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode("utf-8", "replace")
        more = self._receiver.answering(self.path, dict(self.headers.items()), body)
        self.send_response_only(self._receiver.take(self.path, body))
        for name, value in {**more, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that was killed is no error here."""


@contextlib.contextmanager
def receiving(answering: Answering | None = None) -> Iterator[Receiver]:
    """A receiver on a port of its own."""
    receiver = Receiver() if answering is None else Receiver(answering=answering)
    server = _Server(("127.0.0.1", 0), partial(_Handler, receiver))
    receiver.port = server.server_port
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
