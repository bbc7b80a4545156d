"""The HTTP client of deliveries: sends exactly what it is given, over pooled connections.

aiohttp is imported at the first real request, because the import takes a tenth of a second of the start.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import io
import logging
import re
import socket
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from emulator.core.language.text import beginning
from emulator.core.model.messages import MAX_KEPT_BYTES, Response
from emulator.core.model.options import Method
from emulator.core.record import Headers, Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.egress import CheckedResolver, EgressRefused, LookupTimeout
from emulator.delivery.listeners import OF_PROCESS, Listeners
from emulator.wire.parts import TAKES_NO_DELIVERIES
from emulator.wire.urls import Target, read_target

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp.abc import AbstractResolver
    from yarl import URL

_LOG = logging.getLogger(__name__)

# The texts of failures hold no port, address or wall time: a trace reads the same on any machine (D-108).
REFUSED: Final = "connection refused"
RESET: Final = "connection reset by peer"
TLS_FAILED: Final = "TLS handshake failed"
DISCONNECTED: Final = "server disconnected without a response"
CUT_SHORT: Final = "server disconnected in the middle of the response"
INVALID_RESPONSE: Final = "invalid response"
INVALID_REQUEST: Final = "invalid request: a header or the URL cannot be sent"
TOO_LARGE: Final = "response body too large"
NO_ROOM: Final = "no room for the response: the bodies of all attempts under way exceed 256 MiB together"
UNREACHABLE: Final = "host unreachable"
CONNECTION_FAILED: Final = "connection failed"

# A longer body fails the attempt; of all others the beginning is kept.
MAX_RESPONSE_BYTES = 100 * 1024 * 1024
MAX_BODIES_BYTES = 256 * 1024 * 1024

# Shorter than what servers keep an idle connection for (2 s and 5 s are common), so that the
# server closing it and our next request rarely meet.
_KEEPALIVE_S = 1.0
_MAX_TRIES = 3
_MAX_HEADER_BYTES = 1024 * 1024
_MAX_HEADERS = 10_000
# The beginning of a body that needs no room in the budget: large responses never make small ones fail.
_SMALL_BODY = 64 * 1024
# What a byte that is kept takes: itself, as long as the unpacked answer is, and the base64 of a callback (D-790).
_ROOM_OF_A_BYTE = 1 + 4 / 3
# How much of a body waits for the reader of it.
_READ_BUFFER = 64 * 1024
_MAX_BYTES_IN_ONE_PIECE = 1024 * 1024
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


class SendFailure(Record):
    """Why there is no response, in one of the texts above."""

    text: str


class _Unread(Exception):
    """The response body is not read to its end, for the reason in one of the texts above."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class HttpClient:
    """One pool of connections. It belongs to the event loop that first sends with it."""

    def __init__(
        self,
        resolver: CheckedResolver,
        *,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_bodies_bytes: int = MAX_BODIES_BYTES,
        max_kept_bytes: int = MAX_KEPT_BYTES,
        own_listeners: Listeners = OF_PROCESS,
    ) -> None:
        """A body is at most `max_response_bytes` long. Its first `max_kept_bytes` are kept.

        What is kept of all that are in flight takes at most `max_bodies_bytes`. `own_listeners` are where no
        request gets to the control API.
        """
        self._resolver = resolver
        self._own_listeners = own_listeners
        self._max_response_bytes = max_response_bytes
        self._max_kept_bytes = max_kept_bytes
        self._room_of_one_piece = min(_SMALL_BODY, max_response_bytes, max_kept_bytes)
        self._free_bytes = max_bodies_bytes
        self._session: ClientSession | None = None

    async def exchange(
        self, *, method: Method, url: str, headers: Headers, body: bytes, timeout_ms: int
    ) -> Response | SendFailure:
        """Send one request and read its whole response; `timeout_ms` of real time covers both.

        `headers` are sent as they are, and nothing is added. Redirects are not followed, cookies
        not kept, bodies not decompressed. Raises: nothing but cancellation.
        """
        target = read_target(url)
        if target is None:
            return SendFailure(text=INVALID_REQUEST)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._exchange(method, target, headers, body)
        except Exception as error:  # An edge: whatever went wrong is an outcome.
            if _is_mistake(error):
                _LOG.error("an attempt failed by a mistake in the emulator or its HTTP client", exc_info=error)
            return SendFailure(text=failure_text(error, target))

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(self, method: Method, target: Target, headers: Headers, body: bytes) -> Response:
        """Send, and send again if the connection came from the pool and died without an answer.

        A server may close an idle connection at any time, also while a request is in flight. Only a
        connection that was used before can be stale, so a failure on a new one counts at once (D-109).
        """
        from emulator.delivery.aiohttp_transport import AUTOMATIC_HEADERS, ConnectionLost, sending_exactly

        session = self._session or self._open_session()
        tries = 0
        while True:
            tries += 1
            try:
                response = await session.request(
                    method.value,
                    _url(target),
                    # aiohttp warns about a large body in one piece.
                    data=io.BytesIO(body) if len(body) > _MAX_BYTES_IN_ONE_PIECE else body or None,
                    allow_redirects=False,
                    skip_auto_headers=AUTOMATIC_HEADERS,
                    middlewares=(sending_exactly(headers),),
                )
                return await self._read(response)
            except ConnectionLost as lost:
                if tries == _MAX_TRIES or not lost.is_reused:
                    raise lost.cause from None

    async def _read(self, response: ClientResponse) -> Response:
        try:
            body, received = (b"", None) if response.status == 101 else await self._read_body(response)
        except BaseException:
            response.close()
            raise
        if response.status == 101:
            # The server now speaks another protocol on this connection.
            response.close()
        response.release()
        headers = tuple(
            [
                (name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
                for name, value in response.raw_headers
            ]
        )
        return Response(status=response.status, headers=headers, body=body, received_bytes=received)

    async def _read_body(self, response: ClientResponse) -> tuple[bytes, int | None]:
        """The beginning of the body, and its length if that is not all. It is read to its end all the same."""
        content = response.content
        first = await content.readany()
        if not first or (len(first) <= self._room_of_one_piece and content.at_eof() and content.exception() is None):
            return first, None
        # All bodies under way share one budget (D-274). A BytesIO hands over what it holds without a copy.
        # One byte more than is kept shows where a character ends.
        kept, taken, most = io.BytesIO(), 0, self._max_kept_bytes + 1
        size = 0
        try:
            chunk = first
            while chunk:
                size += len(chunk)
                if size > self._max_response_bytes:
                    raise _Unread(TOO_LARGE)
                more = _room_for(min(size, most)) - taken
                if more > self._free_bytes:
                    raise _Unread(NO_ROOM)
                self._free_bytes -= more
                taken += more
                kept.write(chunk[: most - kept.tell()])
                chunk = await content.readany()
            is_whole = size <= self._max_kept_bytes
            return beginning(kept.getvalue(), self._max_kept_bytes), None if is_whole else size
        finally:
            self._free_bytes += taken

    def _open_session(self) -> ClientSession:
        import aiohttp

        from emulator.delivery.aiohttp_transport import PacedConnector

        connector = PacedConnector(
            self._own_listeners,
            limit=0,
            # The resolver has the interface, but not the base class: that would import aiohttp.
            resolver=cast("AbstractResolver", self._resolver),
            keepalive_timeout=_KEEPALIVE_S,
        )
        # aiohttp limits a response's number of headers from 3.14 on.
        has_limit = "max_headers" in inspect.signature(aiohttp.ClientSession).parameters
        limit: dict[str, Any] = {"max_headers": _MAX_HEADERS} if has_limit else {}
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            read_bufsize=_READ_BUFFER,
            **limit,
        )
        return self._session


def _room_for(kept_bytes: int) -> int:
    """What a body takes of the room that all share, of which so much is kept."""
    return int(max(kept_bytes - _SMALL_BODY, 0) * _ROOM_OF_A_BYTE)


@lru_cache(maxsize=4096)
def _url(target: Target) -> URL:
    from yarl import URL

    host = f"[{target.host}]" if ":" in target.host else target.host
    # The query stays in the path, or yarl would drop a lone question mark.
    return URL.build(scheme=target.scheme, host=host, port=target.port, path=target.request_target, encoded=True)


def _is_mistake(error: BaseException | None) -> bool:
    """Whether an error comes from wrong code, such as ours beside a version of aiohttp that differs.

    aiohttp wraps such an error in one that reads as the receiver's fault.
    """
    while error is not None:
        if isinstance(error, TypeError | AttributeError | NameError):
            return True
        error = error.__cause__
    return False


def failure_text(error: Exception, target: Target) -> str:
    """What an exception of the HTTP client means, in one of the fixed texts."""
    import aiohttp

    from emulator.delivery.aiohttp_transport import ControlRefused, InvalidResponse

    match error:
        case TimeoutError():
            return TIMEOUT_ERROR
        case _Unread():
            return error.text
        case InvalidResponse():
            return INVALID_RESPONSE
        case ControlRefused():
            return TAKES_NO_DELIVERIES
        case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError() | ssl.SSLError():
            return TLS_FAILED
        case aiohttp.ClientConnectorError():
            return _connecting_failed(error.os_error, target)
        case aiohttp.ServerDisconnectedError():
            return DISCONNECTED
        case aiohttp.ClientPayloadError():
            return INVALID_RESPONSE if isinstance(error.__cause__, InvalidResponse) else CUT_SHORT
        case aiohttp.ClientResponseError():
            return INVALID_RESPONSE
        case aiohttp.InvalidURL() | ValueError():
            return INVALID_REQUEST
        case OSError():
            text = _by_errno(error)
            # The HTTP client's own error has the number at most; of Windows' that is not what tells.
            return _by_errno(error.__cause__) if text == CONNECTION_FAILED and error.__cause__ is not None else text
        case _:
            return CONNECTION_FAILED


def _connecting_failed(error: Exception, target: Target) -> str:
    if isinstance(error, EgressRefused | LookupTimeout):
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
    """Several addresses failed, each for its own reason: the most informative.

    The HTTP client makes one error of them, in which only the text of each is left.
    """
    found = {
        (_BY_ERRNO if kind == "Errno" else _BY_WINERROR).get(int(number)) for kind, number in _NUMBER.findall(text)
    }
    return next((each for each in _TELLING if each in found), CONNECTION_FAILED)
