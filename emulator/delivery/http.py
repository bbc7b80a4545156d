"""The HTTP client of deliveries: sends exactly what it is given, over pooled connections."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from typing import Final

from emulator.core.model import Headers, Method, Response
from emulator.core.record import Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.connecting import CannotConnect, Connections
from emulator.delivery.egress import CheckedResolver, EgressRefused
from emulator.delivery.lookups import LookupTimeout
from emulator.delivery.receiving import Budget, ConnectionLost, CutShort, Disconnected, InvalidResponse, Unread
from emulator.wire.urls import Target, read_target

# The texts of failures hold no port, address or wall time: a trace reads the same on any machine (D-108).
REFUSED: Final = "connection refused"
RESET: Final = "connection reset by peer"
TLS_FAILED: Final = "TLS handshake failed"
DISCONNECTED: Final = "server disconnected without a response"
CUT_SHORT: Final = "server disconnected in the middle of the response"
INVALID_RESPONSE: Final = "invalid response"
INVALID_REQUEST: Final = "invalid request: a header or the URL cannot be sent"
UNREACHABLE: Final = "host unreachable"
CONNECTION_FAILED: Final = "connection failed"

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
MAX_BODIES_BYTES = 256 * 1024 * 1024

# What a header may not hold: it would be another line, or be read differently by different servers.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BY_ERRNO = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: RESET,
    errno.ECONNABORTED: RESET,
    errno.EPIPE: RESET,
    errno.ETIMEDOUT: TIMEOUT_ERROR,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
}
# Errors that say it by their class, whatever number the system has for them.
_BY_CLASS: tuple[tuple[type[OSError], str], ...] = (
    (ConnectionRefusedError, REFUSED),
    (ConnectionResetError, RESET),
    (ConnectionAbortedError, RESET),
    (BrokenPipeError, RESET),
    (TimeoutError, TIMEOUT_ERROR),
)
# The numbers of Windows: of its system calls, and of its sockets from 10000 on. `errno` is none of them there.
_BY_WINERROR = {
    64: RESET,
    121: TIMEOUT_ERROR,
    1225: REFUSED,
    1231: UNREACHABLE,
    1232: UNREACHABLE,
    1236: RESET,
    10051: UNREACHABLE,
    10053: RESET,
    10054: RESET,
    10060: TIMEOUT_ERROR,
    10061: REFUSED,
    10065: UNREACHABLE,
}
# Which of several failures says most.
_TELLING = (REFUSED, RESET, TIMEOUT_ERROR, UNREACHABLE)
# How Python writes the number of an error.
_NUMBER = re.compile(r"\[(Errno|WinError) ([0-9]{1,9})\]")


def name_not_known(host: str) -> str:
    """The text of a failed name lookup."""
    return f"name not known: {host}"


class Failure(Record):
    """Why there is no response, in one of the texts above."""

    text: str


class HttpClient:
    """One pool of connections. It belongs to the event loop that first sends with it."""

    def __init__(
        self,
        resolver: CheckedResolver,
        *,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_bodies_bytes: int = MAX_BODIES_BYTES,
    ) -> None:
        """`max_response_bytes` bound one response body, `max_bodies_bytes` all that are under way together."""
        self._resolver = resolver
        self._budget = Budget(max_response_bytes, max_bodies_bytes)
        self._connections: Connections | None = None

    async def exchange(
        self, *, method: Method, url: str, headers: Headers, body: bytes, timeout_ms: int
    ) -> Response | Failure:
        """Send one request and read its whole response; `timeout_ms` of real time covers both.

        `headers` are sent as they are, and nothing is added. Redirects are not followed, cookies
        not kept, bodies not decompressed. Raises: nothing but cancellation.
        """
        target = read_target(url)
        if target is None:
            return Failure(text=INVALID_REQUEST)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._exchange(method, target, headers, body)
        except Exception as error:  # An edge: whatever went wrong is an outcome.
            return Failure(text=failure_text(error, target))

    async def close(self) -> None:
        """Close the connections that are not in use."""
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.close()

    async def _exchange(self, method: Method, target: Target, headers: Headers, body: bytes) -> Response:
        """Send, and send again if the connection was used before and died without an answer.

        A server may close an idle connection at any time, also while a request is on its way. Only a
        connection that was used before can be stale, so a failure on a new one counts at once (D-109).
        """
        head = _head(method, target.request_target, headers)
        connections = self._connections
        if connections is None:
            connections = self._connections = Connections(self._resolver, self._budget)
        connection = connections.idle_one(target)
        if connection is not None:
            try:
                response = await connection.exchange(head, body)
            except ConnectionLost:
                pass
            else:
                connections.give_back(target, connection)
                return response
        connection = await connections.new_one(target)
        response = await connection.exchange(head, body)
        connections.give_back(target, connection)
        return response


def _head(method: Method, request_target: str, headers: Headers) -> bytes:
    """Everything before the body. Raises ValueError for what cannot be sent."""
    for name, value in headers:
        if _FORBIDDEN.search(name) or _FORBIDDEN.search(value):
            raise ValueError("a header holds a control character")
    lines = [f"{method.value} {request_target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "\r\n"]
    return "\r\n".join(lines).encode()


def failure_text(error: Exception, target: Target) -> str:
    """What an exception of the HTTP client means, in one of the fixed texts."""
    match error:
        case TimeoutError():
            return TIMEOUT_ERROR
        case Unread():
            return str(error)
        case InvalidResponse():
            return INVALID_RESPONSE
        case CannotConnect():
            return _connecting_failed(error.cause, target)
        case ConnectionLost():
            return failure_text(error.cause, target)
        case Disconnected():
            return DISCONNECTED
        case CutShort():
            return CUT_SHORT
        case ssl.SSLError():
            return TLS_FAILED
        case ValueError():
            return INVALID_REQUEST
        case OSError():
            return _by_errno(error)
        case _:
            return CONNECTION_FAILED


def _connecting_failed(error: Exception, target: Target) -> str:
    if isinstance(error, EgressRefused):
        return str(error)
    if isinstance(error, LookupTimeout):
        return str(error)
    if isinstance(error, socket.gaierror):
        return name_not_known(target.host)
    if isinstance(error, ssl.SSLError):
        return TLS_FAILED
    text = _by_errno(error)
    # The handshake is part of connecting; a server that breaks it off resets or just closes.
    return TLS_FAILED if target.scheme == "https" and text in (RESET, CONNECTION_FAILED) else text


def _by_errno(error: BaseException) -> str:
    for kind, text in _BY_CLASS:
        if isinstance(error, kind):
            return text
    number, winerror = getattr(error, "errno", None), getattr(error, "winerror", None)
    if winerror in _BY_WINERROR:
        return _BY_WINERROR[winerror]
    if number is not None:
        return _BY_ERRNO.get(number, CONNECTION_FAILED)
    return _of_several(str(error))


def _of_several(text: str) -> str:
    """Several addresses failed, each for its own reason: the one that says most.

    The HTTP client makes one error of them, in which only the text of each is left.
    """
    found = {
        (_BY_ERRNO if kind == "Errno" else _BY_WINERROR).get(int(number)) for kind, number in _NUMBER.findall(text)
    }
    return next((each for each in _TELLING if each in found), CONNECTION_FAILED)
