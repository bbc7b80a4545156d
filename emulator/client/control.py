"""The control API over HTTP, for all of its clients: the Python API, the command line and the demo.

Nothing is sent here. A request is built for an httpx client, blocking or asynchronous, and its
response is read; what goes wrong is raised as an EmulatorError.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx

from emulator.client.errors import EmulatorError, NotAnEmulator, Refused, Unreachable, is_emulator_error
from emulator.core.record import Record
from emulator.wire.parts import CONTROL_TOKEN

__tracebackhide__ = is_emulator_error

_PREFIX = "/_emulator/"
# Operations about the server itself, which take no world.
_OF_SERVER = ("health", "worlds")
_CONNECT_S = 5.0
# What a load balancer or a proxy answers for a server that it does not reach.
_BY_A_BALANCER = (502, 503, 504)

# An advance may take as long as it likes.
TIMEOUT = httpx.Timeout(None, connect=_CONNECT_S)


# A body as it is, whole or in pieces.
RawBody: TypeAlias = bytes | Iterator[bytes] | AsyncIterator[bytes]


class Call(Record):
    """A call as it is to be made: the URL without its query, and what goes with it."""

    method: str
    url: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes | None

    def request(
        self,
        http: httpx.Client | httpx.AsyncClient,
        *,
        content: RawBody | None = None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> httpx.Request:
        """The request, with its own content or another one. Raises httpx.InvalidURL."""
        return http.build_request(
            self.method,
            self.url,
            params=self.query or None,
            content=self.content if content is None else content,
            headers=self.headers,
            timeout=timeout,
        )


class HttpAnswer(Record):
    """What a call was answered: the path that was asked for, the status, and the whole body."""

    path: str
    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


def answer_of(response: httpx.Response) -> HttpAnswer:
    """A response that has been read."""
    return HttpAnswer(path=response.url.path, status=response.status_code, body=response.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlApi:
    """The APIs of the server at `url`, for one of its worlds; `token` is the control token.

    With the token of the world that its maker chose, every control call carries that too, so that a load
    balancer can tell by it where the world is.
    """

    # D-433.

    url: str
    world: str
    token: str | None = None
    world_token: str | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Call:
        """A control call to `clock/advance`, or a call of the other APIs to `/v2/...`.

        A body is sent as JSON, content as it is.
        """
        query, headers = query or {}, headers or {}
        if not path.startswith("/"):
            if path.partition("/")[0] not in _OF_SERVER:
                query = {"world": self.world, **query}
            if self.world_token is not None:
                headers = {"Authorization": f"Bearer {self.world_token}", **headers}
            if self.token is not None:
                place = ("Authorization", f"Bearer {self.token}")
                headers = {**dict((place if self.world_token is None else (CONTROL_TOKEN, self.token),)), **headers}
            path = _PREFIX + path
        if body is not None:
            content = json.dumps(body).encode()
        return Call(method=method, url=self.url + path, query=query, headers=headers, content=content)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raises EmulatorError for a request that cannot be made, and Unreachable if no response comes."""
        try:
            yield
        except httpx.InvalidURL as error:
            raise EmulatorError(f"a call to {self.url} cannot be made: {error}") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"no emulator answers at {self.url}: {str(error) or type(error).__name__}") from error

    def check(self, answer: HttpAnswer) -> None:
        """Raises Refused with what the server says, NotAnEmulator if another program answered.

        Unreachable if that is a load balancer that finds no server.
        """
        if 200 <= answer.status <= 299:
            return
        try:
            refusal = answer.json()
            text, field, next_step = str(refusal["error"]), refusal.get("field"), refusal.get("next")
        except (ValueError, LookupError, TypeError, AttributeError):
            if answer.status in _BY_A_BALANCER:
                raise Unreachable(
                    f"no emulator answers behind {self.url}: what stands before it answered {answer.status}, "
                    "as it does when a server has ended or cannot be reached"
                ) from None
            raise self.not_an_emulator_error(answer) from None
        raise Refused(text, status=answer.status, field=field, next=next_step)

    def read(self, answer: HttpAnswer) -> Any:
        """The JSON object of an answer, None without content. Raises as `check` does."""
        self.check(answer)
        if answer.status == 204:
            return None
        try:
            content = answer.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self.not_an_emulator_error(answer)
        return content

    def not_an_emulator_error(self, answer: HttpAnswer) -> NotAnEmulator:
        """The error for an answer that no emulator gives."""
        return NotAnEmulator(
            f"{self.url} is no emulator: it answered {answer.status} to {answer.path}", status=answer.status
        )


def segment(name: str) -> str:
    """A name as one segment of a path. Raises TypeError for what is no text, ValueError for an empty one.

    An empty one would lead to another operation, such as one about all of them.
    """
    if not isinstance(name, str):
        raise TypeError(f"expected an id or a name, got {name!r}")
    if not name:
        # D-486.
        raise ValueError("expected an id or a name, got an empty text")
    return quote(name, safe="")


def trusted(ca: str) -> ssl.SSLContext:
    """What to check a server's certificate against: a PEM file of it, or of its authority's. Raises EmulatorError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Lets the file hold the server's own certificate on every version of Python.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise EmulatorError(f"{ca}: holds no certificate in PEM form") from error
    except OSError as error:
        raise EmulatorError(f"{ca}: cannot be read: {error.strerror}") from error
    return context
