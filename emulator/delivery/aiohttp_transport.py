"""What deliveries need of aiohttp: requests sent exactly as given, responses received in small pieces.

aiohttp is a client of applications. A delivery differs from one in three ways, and each stands on as
little of the library as it can:

- **Nothing is added to a request.** A client middleware gives the request its headers; the headers
  that aiohttp would add while sending are skipped. Both are the documented interface.
- **A connection of the pool that has ended is not used.** `PacedConnector.connect` extends the
  documented class. It checks a reused connection before a request is written, and leaves in a context
  variable whether it was reused, since only then is a lost request sent again (D-109).
- **No receiver holds up the event loop, whatever it sends (D-273).** A receiver may send what is costly
  to parse: interim responses, headers, chunks of one byte. It is read 4 KiB at a time, and all
  connections together parse for a few milliseconds before others have a turn. aiohttp has no interface
  for that, so these internals remain, and nothing else:

  - `TCPConnector._factory`, which makes the protocol of a connection, and `client_proto.ResponseHandler`,
    the class of that protocol. `PacedHandler` extends its `connection_made`, `connection_lost`,
    `feed_data`, `pause_reading` and `resume_reading`, and calls `data_received` with each piece.
  - Of `StreamReader`, `total_bytes`, which tells whether a body makes progress.

The oldest supported version (3.12) and the newest are tested; `tests/delivery` fails if one of these is gone.

Importing aiohttp takes a tenth of a second, so import this module at the first request and not before.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections import deque
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import ClientConnectorError, ClientOSError, ClientPayloadError, ServerDisconnectedError, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from emulator.core.record import Headers
from emulator.delivery.listeners import Listeners
from emulator.wire.parts import leads_to_control

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse, ClientTimeout
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

# What aiohttp would add to a request by itself.
AUTOMATIC_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

# Whether the connection that this task was given last had been used before.
_IS_REUSED: ContextVar[bool] = ContextVar("is_reused", default=False)

_PIECE_BYTES = 4096
_TURN_S = 0.005
# Servers send one or two (100, 103). A receiver that sends more does not mean to answer.
_MOST_INTERIM = 8
# Of a head, of trailers or of a chunk's extensions: bytes and lines that carry nothing of the body.
_MOST_WITHOUT_BODY = 1024 * 1024
_MOST_LINES_WITHOUT_BODY = 10_100


class InvalidResponse(Exception):
    """What came is no response that can be read."""


class ControlRefused(Exception):
    """The connection ends at the control API of this process, which takes no deliveries."""


class ConnectionLost(Exception):
    """The connection ended before a response began.

    aiohttp sends again by itself after exceptions that it knows, and this is none of them.
    `is_reused` says whether the connection was used before.
    """

    def __init__(self, cause: Exception, *, is_reused: bool) -> None:
        super().__init__()
        self.cause = cause
        self.is_reused = is_reused


def sending_exactly(headers: Headers) -> ClientMiddlewareType:
    """Middleware that gives a request these headers and no others, in their order, case and number.

    The request is made with `skip_auto_headers=AUTOMATIC_HEADERS`. Raises ConnectionLost.
    """

    async def send(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        request.headers = CIMultiDict(headers)
        try:
            return await handler(request)
        except ClientConnectorError:
            raise
        except (ClientOSError, ServerDisconnectedError) as error:
            raise ConnectionLost(error, is_reused=_IS_REUSED.get()) from error

    return send


class Turns:
    """How long the connections of one event loop may parse before it has a turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spent_s = 0.0
        self._is_counting = False
        self._waiting: deque[PacedHandler] = deque()

    @property
    def is_over(self) -> bool:
        return self._spent_s > _TURN_S

    def charge(self, spent_s: float) -> None:
        """Count the time that a connection took."""
        self._spent_s += spent_s
        self._count()

    def wait(self, handler: PacedHandler) -> None:
        """Let a connection continue in one of the next turns."""
        self._waiting.append(handler)
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


class _Pieces(asyncio.BufferedProtocol):
    """Hands a handler what comes, a piece at a time.

    The transport reads into a buffer of ours, so that it never has more than a piece to hand over;
    the rest stays with the kernel, and in the end with the receiver. This cannot be the handler
    itself: uvloop gives a protocol that is both kinds all that it has.
    """

    def __init__(self, handler: PacedHandler) -> None:
        self._handler = handler
        self._piece = bytearray(_PIECE_BYTES)
        self._view = memoryview(self._piece)
        self.eof_received = handler.eof_received  # type: ignore[method-assign]  # nothing to add
        self.connection_lost = handler.connection_lost  # type: ignore[method-assign]
        self.pause_writing = handler.pause_writing  # type: ignore[method-assign]
        self.resume_writing = handler.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        self._handler.take_in(bytes(self._view[:nbytes]))


class PacedHandler(ResponseHandler):
    """The HTTP client's end of a connection, which takes in a piece at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        super().__init__(loop)
        self._turns = turns
        self._interim = 0
        self._without_body = 0
        self._lines_without_body = 0
        self._body: StreamReader | None = None
        self._body_bytes = 0
        # The reader of the body has more than it wants for now.
        self._is_held = False
        # What came when the turn was over.
        self._kept: list[bytes] = []
        self._is_waiting = False
        self._times_taken = 0

    @property
    def is_reused(self) -> bool:
        """Whether the connection was taken from the pool, and not made for the request that it has."""
        return self._times_taken > 1

    def take(self) -> bool:
        """Count a request on this connection; False if it has ended, or has sent bytes before a request.

        The socket is asked, because the event loop may not have been notified yet.
        """
        self._times_taken += 1
        return not self.is_reused or (self.transport is not None and not _is_readable(self.transport))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).set_protocol(_Pieces(self))

    def take_in(self, piece: bytes) -> None:
        """Parse what has come, or keep it for the next turn."""
        if self._is_waiting or self._turns.is_over:
            self._kept.append(piece)
            self._wait()
        else:
            self._parse(piece)

    def _parse(self, piece: bytes) -> None:
        began_s = time.perf_counter()
        # Before it is parsed: aiohttp before 3.14 has no limit for the number of headers.
        self._lines_without_body += piece.count(b"\n")
        if self._lines_without_body > _MOST_LINES_WITHOUT_BODY:
            self._give_up()
            return
        self.data_received(piece)
        self._check_progress(len(piece))
        if len(piece) == _PIECE_BYTES:
            # There may be more at once.
            self._turns.charge(time.perf_counter() - began_s)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self)
        self._rest()

    def take_turn(self) -> None:
        """Parse what was kept, and read on unless the reader of the body wants no more."""
        self._is_waiting = False
        self._parse_kept()
        if not self._is_held and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse_kept(self) -> None:
        kept, self._kept = self._kept, []
        for piece in kept:
            self._parse(piece)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._parse_kept()
        super().connection_lost(exc)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A response head is complete. 1xx responses are ignored."""
        message, body = data
        if 100 <= message.code < 200 and message.code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                self._give_up()
            return
        self._interim = self._without_body = self._lines_without_body = self._body_bytes = 0
        self._body = body
        super().feed_data(data, size)

    def _check_progress(self, nbytes: int) -> None:
        """Give up on a receiver that sends and sends, and never a byte of a body."""
        received = self._body_bytes if self._body is None else self._body.total_bytes
        if received != self._body_bytes:
            self._body_bytes, self._without_body, self._lines_without_body = received, 0, 0
            return
        self._without_body += nbytes
        if self._without_body > _MOST_WITHOUT_BODY:
            self._give_up()

    def _give_up(self) -> None:
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(ClientPayloadError(), InvalidResponse())
        self.set_exception(InvalidResponse())
        if self.transport is not None:
            self.transport.abort()

    # -- flow control -----------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._is_held = True
        super().pause_reading()

    def resume_reading(self, *args: Any, **options: Any) -> None:
        # aiohttp passes an argument from 3.14 on, which is its own affair.
        self._is_held = False
        super().resume_reading(*args, **options)
        if self._is_waiting:
            self._rest()

    def _rest(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()


class PacedConnector(TCPConnector):
    """A connector whose connections share the turns of their event loop, and are not ended when they are given out.

    No request leaves by it to the control API of one of `own_listeners`.
    """

    def __init__(self, own_listeners: Listeners, **options: Any) -> None:
        super().__init__(**options)
        self._own_listeners = own_listeners
        loop = asyncio.get_running_loop()
        turns = Turns(loop)
        # aiohttp has no public way to choose the protocol of its connections.
        self._factory = lambda: PacedHandler(loop, turns)  # type: ignore[assignment]  # a function as well

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """A connection of the pool that is still open, or a new one.

        Nothing has been written to it yet. Raises: ControlRefused; else as the HTTP client's own.
        """
        while True:
            connection = await super().connect(req, traces, timeout)
            handler = cast(PacedHandler, connection.protocol)
            if handler.take():
                if leads_to_control(req.url.raw_path_qs) and self._ends_here(handler.transport):
                    connection.close()
                    raise ControlRefused
                _IS_REUSED.set(handler.is_reused)
                return connection
            connection.close()

    def _ends_here(self, transport: asyncio.BaseTransport | None) -> bool:
        """Whether a connection ends at a listener of this process, of whichever emulator (D-770)."""
        if transport is None:
            return self._own_listeners.take(None, None)
        return self._own_listeners.take(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))


def _is_readable(transport: asyncio.BaseTransport) -> bool:
    """Whether something has come on a connection, its end included."""
    number = transport.get_extra_info("socket").fileno()
    if sys.platform == "win32":
        return bool(select.select([number], [], [], 0)[0])
    # Not `select`, which takes no numbers above 1023.
    waiting = select.poll()
    waiting.register(number, select.POLLIN)
    return bool(waiting.poll(0))
