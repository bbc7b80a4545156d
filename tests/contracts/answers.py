"""Every answer that an emulator of this process gives, held against the contracts, for any client.

`watch` looks at the edge of the application, where all answers leave it: of the tests' own calls, of calls
through a server, and of calls by the command line and by other clients that know nothing of a contract.
"""

from __future__ import annotations

import base64
import dataclasses
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.api import endpoint as exchange
from emulator.server import application
from emulator.wire.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer as it left the application. The body of one that has no end is None."""

    dialect: Dialect
    method: str
    target: str
    status: int
    headers: dict[str, str]
    body: bytes | None

    def check(self) -> None:
        """Raises: NotInContract."""
        # Not before it is needed, because a program that only writes its answers down needs no validator.
        from tests.contracts.conformance import check_response

        check_response(self.method, self.target, self.status, self.headers, self.body, dialect=self.dialect)


Seen = Callable[[Answered], None]


@contextmanager
def watch(seen: Seen) -> Iterator[None]:
    """Reports each answer before its end goes out, or of as much as there is if its client leaves."""
    respond, not_found = exchange.PathEndpoint.__call__, exchange.not_found

    async def endpoint(self: exchange.PathEndpoint[Any], scope: Any, receive: Any, send: Any) -> None:
        await told(lambda sent: respond(self, scope, receive, sent), self._dialect, scope, send, seen)

    async def nowhere(scope: Any, receive: Any, send: Any) -> None:
        dialect = scope["router"].routes[0].endpoint._dialect
        await told(lambda sent: not_found(scope, receive, sent), dialect, scope, send, seen)

    exchange.PathEndpoint.__call__ = endpoint  # type: ignore[method-assign]  # nothing else sees every answer
    vars(application)["not_found"] = nowhere
    try:
        yield
    finally:
        exchange.PathEndpoint.__call__ = respond  # type: ignore[method-assign]
        vars(application)["not_found"] = not_found


async def told(respond: Any, dialect: Dialect, scope: Any, send: Any, seen: Seen) -> None:
    """Lets `respond` answer through a `send` of its own, and reports what went through it."""
    start: dict[str, Any] = {}
    pieces: list[bytes] = []
    is_endless = is_told = False

    async def sent(message: Any) -> None:
        nonlocal start, is_endless
        if message["type"] == "http.response.start":
            start = message
            is_endless = (b"content-type", b"text/event-stream") in [
                (name, value.partition(b";")[0]) for name, value in message.get("headers", ())
            ]
        elif message["type"] == "http.response.body" and not is_endless:
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                # Before its client has it, who may end this process as soon as that is so.
                tell()
        await send(message)

    def tell() -> None:
        nonlocal is_told
        if is_told or not start:
            return
        is_told = True
        raw_path = scope.get("raw_path") or scope["path"].encode()
        seen(
            Answered(
                dialect=dialect,
                method=scope["method"],
                target=raw_path.decode("latin-1"),
                status=start["status"],
                headers={name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]},
                body=None if is_endless else b"".join(pieces),
            )
        )

    try:
        await respond(sent)
    finally:
        tell()


# -- in this process ----------------------------------------------------------------------------


class Watcher:
    """What the answers so far had that the contracts do not have. Servers answer in threads of their own."""

    def __init__(self) -> None:
        self.checked = 0
        self._found: list[AssertionError] = []
        self._lock = threading.Lock()

    def seen(self, answered: Answered) -> None:
        with self._lock:
            self.checked += 1
            try:
                answered.check()
            except AssertionError as error:
                self._found.append(error)

    def raise_found(self) -> None:
        """Raises: NotInContract, the first one; all are forgotten."""
        with self._lock:
            found, self._found = self._found, []
        if found:
            raise found[0]


WATCHER = Watcher()


# -- in another process -------------------------------------------------------------------------


@contextmanager
def write_to(path: Path) -> Iterator[Seen]:
    """Appends each answer to a file, at once, because nobody knows how the process will end.

    The file stays open: a test may take all file descriptors from the process.
    """
    with path.open("ab", buffering=0) as file:

        def seen(answered: Answered) -> None:
            # A mapping that cannot be changed cannot be pickled either.
            dialect = dataclasses.replace(answered.dialect, fields=dict(answered.dialect.fields))
            file.write(base64.b64encode(pickle.dumps(dataclasses.replace(answered, dialect=dialect))) + b"\n")

        yield seen


def read_from(path: Path) -> list[Answered]:
    """The answers of a file; a process that was killed may have left half a line at its end."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [pickle.loads(base64.b64decode(line)) for line in lines if line.endswith(b"\n")]
