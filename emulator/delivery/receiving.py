"""One connection to a receiver: sends requests, and reads responses so that no receiver holds the event loop (D-273).

A receiver may send what is costly to parse: interim answers, headers, chunks of one byte. It is read
4 KiB at a time, and all connections together parse for a few milliseconds before others have a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections import deque
from http import HTTPStatus
from typing import cast

import httptools

from emulator.core.model import Headers, Response

_PIECE_BYTES = 4096
_TURN_S = 0.005
# Servers send one or two (100, 103). A receiver that sends more does not mean to answer.
_MOST_INTERIM = 8
# Of a head, of trailers or of a chunk's extensions: bytes that bring nothing of the body.
_MOST_WITHOUT_BODY = 1024 * 1024
_MOST_HEADERS = 10_000
# The beginning of a body that needs no room in the budget: large responses never make small ones fail.
_SMALL_BODY = 64 * 1024
# What is written at once of a request; the rest waits until that has left.
_WRITTEN_AT_ONCE = 64 * 1024

# Why a body is not read to its end.
TOO_LARGE = "response body too large"
NO_ROOM = "no room for the response: the bodies of all attempts under way exceed 256 MiB together"


class InvalidResponse(Exception):
    """What came is no response that can be read."""


class CutShort(Exception):
    """The connection ended in the middle of a response."""


class Disconnected(Exception):
    """The connection ended before a response had begun, and nothing says why."""


class Unread(Exception):
    """The response body is not read to its end; the text says why."""


class ConnectionLost(Exception):
    """The connection ended before a response had begun, for this cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


class Budget:
    """How large a response body may be, and how much room is left for all that are under way (D-274)."""

    def __init__(self, most_bytes: int, free_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.free_bytes = free_bytes


class Turns:
    """How long the connections of one event loop may parse before it has a turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spent_s = 0.0
        self._is_counting = False
        self._waiting: deque[Connection] = deque()

    @property
    def is_over(self) -> bool:
        return self._spent_s > _TURN_S

    def charge(self, spent_s: float) -> None:
        """Count the time that a connection took."""
        self._spent_s += spent_s
        self._count()

    def wait(self, connection: Connection) -> None:
        """Let a connection go on in one of the next turns."""
        self._waiting.append(connection)
        self._count()

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_counting = False
        self._spent_s = 0.0
        while self._waiting and not self.is_over:
            self._waiting.popleft().take_turn()
        if self._waiting:
            self._count()


class _Incoming:
    """A response as far as it has come; the methods are those that the parser calls."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0
        self._body = io.BytesIO()
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_count = 0
        self._interim = 0
        self._parser = httptools.HttpResponseParser(self)
        # As other clients are: in what servers write, there is little to smuggle.
        self._parser.set_dangerous_leniencies(lenient_headers=True, lenient_optional_cr_before_lf=True)
        self._without_body = 0
        self._has_head = False
        self._keeps_alive = False
        # What was received when the response was complete, and why there is none.
        self.response: Response | None = None
        self.failure: Exception | None = None
        # Whether something follows the response, which nobody has asked for.
        self.has_more = False

    @property
    def is_over(self) -> bool:
        return self.response is not None or self.failure is not None

    @property
    def leaves_connection(self) -> bool:
        """Whether another request may follow on the same connection."""
        return self._keeps_alive and not self.has_more

    def feed(self, piece: bytes | memoryview) -> None:
        """Parse what has come."""
        received = self._body.tell()
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # The server speaks another protocol from here on; the response is complete.
        except httptools.HttpParserError:
            self.has_more = self.is_over
            self._fail(InvalidResponse())
        if self._body.tell() != received:
            self._without_body = 0
            return
        self._without_body += len(piece)
        if self._without_body > _MOST_WITHOUT_BODY:
            self._fail(InvalidResponse())

    def end(self, error: Exception | None) -> None:
        """The connection has ended, with or without an error. A body of unknown length ends with it."""
        if not self._has_head:
            self._fail(ConnectionLost(error or Disconnected()))
        elif error is None and not self._is_delimited:
            self._complete()
        else:
            self._fail(CutShort())

    @property
    def _is_delimited(self) -> bool:
        """Whether the response says where its body ends."""
        for name, value in self._headers:
            lower = name.lower()
            if lower == b"content-length" or (lower == b"transfer-encoding" and b"chunked" in value.lower()):
                return True
        return False

    def give_back(self) -> None:
        """Return to the budget what the body has taken of it."""
        self._budget.free_bytes += self._taken
        self._taken = 0

    def _fail(self, error: Exception) -> None:
        if not self.is_over:
            self.failure = error

    def _complete(self) -> None:
        if not self.is_over:
            self.response = Response(
                status=self._parser.get_status_code(), headers=_texts(self._headers), body=self._body.getvalue()
            )

    # -- called by the parser -------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.is_over:
            self.has_more = True
        self._has_head = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > _MOST_HEADERS:
            self._fail(InvalidResponse())
        elif not self._has_head:
            # Others are trailers.
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self._is_interim:
            self._has_head = True
            self._without_body = 0

    @property
    def _is_interim(self) -> bool:
        status = self._parser.get_status_code()
        return 100 <= status < 200 and status != HTTPStatus.SWITCHING_PROTOCOLS

    def on_body(self, chunk: bytes) -> None:
        if self.is_over:
            return
        size = self._body.tell() + len(chunk)
        if size > self._budget.most_bytes:
            self._fail(Unread(TOO_LARGE))
            return
        wanted = max(size - _SMALL_BODY, 0) - self._taken
        if wanted > self._budget.free_bytes:
            self._fail(Unread(NO_ROOM))
            return
        self._budget.free_bytes -= wanted
        self._taken += wanted
        self._body.write(chunk)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                self._fail(InvalidResponse())
            self._headers.clear()
            return
        self._keeps_alive = (
            self._parser.should_keep_alive() and self._parser.get_status_code() != HTTPStatus.SWITCHING_PROTOCOLS
        )
        self._complete()


def _texts(headers: list[tuple[bytes, bytes]]) -> Headers:
    return tuple(
        (name.decode("utf-8", "replace"), value.strip(b" \t").decode("utf-8", "replace")) for name, value in headers
    )


class Connection(asyncio.BufferedProtocol):
    """A connection to one receiver, for one exchange at a time.

    The transport reads into a buffer of ours, so that it never has more than a piece to hand over;
    the rest stays with the kernel, and in the end with the receiver.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns, budget: Budget) -> None:
        self._loop = loop
        self._turns = turns
        self._budget = budget
        self._piece = bytearray(_PIECE_BYTES)
        self._view = memoryview(self._piece)
        self._incoming: _Incoming | None = None
        self._answered: asyncio.Future[None] | None = None
        # While the transport has enough to write: done when it wants more.
        self._writable: asyncio.Future[None] | None = None
        # What came when the turn was over.
        self._kept: list[bytes] = []
        self._is_waiting = False
        # When the last exchange ended, by the clock of the event loop.
        self.idle_since_s = 0.0

    # -- exchanges ------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent, as far as one knows."""
        return not self._transport.is_closing()

    async def exchange(self, head: bytes, body: bytes) -> Response:
        """Send a request and receive its response. If the connection can be used again, `is_usable` says so.

        Raises ConnectionLost, CutShort, InvalidResponse, Unread.
        """
        incoming = self._incoming = _Incoming(self._budget)
        self._answered = self._loop.create_future()
        is_sent = False
        try:
            if self._transport.is_closing():
                raise ConnectionLost(Disconnected())
            if len(body) <= _WRITTEN_AT_ONCE:
                self._transport.write(head + body)
            else:
                await self._send(head, body)
            is_sent = True
            await self._answered
        finally:
            incoming.give_back()
            self._incoming = self._answered = None
            if not (is_sent and incoming.leaves_connection and self._is_quiet):
                self._transport.abort()
        if incoming.failure is not None:
            raise incoming.failure
        assert incoming.response is not None
        return incoming.response

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing is left to write or to parse."""
        return not self._is_waiting and self._transport.get_write_buffer_size() == 0

    async def _send(self, head: bytes, body: bytes) -> None:
        """Write a large body piece by piece, unless the answer comes before its end."""
        self._transport.write(head)
        rest = memoryview(body)
        while rest and self._answered is not None and not self._answered.done():
            self._transport.write(rest[:_WRITTEN_AT_ONCE])
            rest = rest[_WRITTEN_AT_ONCE:]
            if self._writable is not None:
                await asyncio.wait((self._writable, self._answered), return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def _take_in(self, piece: bytes | memoryview) -> None:
        incoming = self._incoming
        if incoming is None or incoming.is_over:
            # Nobody has asked for it.
            self._transport.abort()
            return
        incoming.feed(piece)
        if incoming.is_over:
            self._end()

    def _end(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    # -- called by the transport ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport by class, but by what they do.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_waiting or self._turns.is_over:
            self._kept.append(bytes(self._view[:nbytes]))
            self._wait()
        else:
            self._parse(self._view[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self._parse_kept()
        self.resume_writing()
        if self._incoming is not None and not self._incoming.is_over:
            self._incoming.end(exc)
            self._end()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # -- turns ----------------------------------------------------------------------------

    def _parse(self, piece: bytes | memoryview) -> None:
        if len(piece) < _PIECE_BYTES:
            self._take_in(piece)
            return
        # There may be more at once.
        began_s = time.perf_counter()
        self._take_in(piece)
        self._turns.charge(time.perf_counter() - began_s)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self)
        with contextlib.suppress(RuntimeError):  # It was closed.
            self._transport.pause_reading()

    def take_turn(self) -> None:
        """Parse what was kept, and read on."""
        self._is_waiting = False
        self._parse_kept()
        with contextlib.suppress(RuntimeError):
            self._transport.resume_reading()

    def _parse_kept(self) -> None:
        kept, self._kept = self._kept, []
        for piece in kept:
            self._parse(piece)
