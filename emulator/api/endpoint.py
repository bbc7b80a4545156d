"""One HTTP exchange: from an ASGI scope to request parts, from a handler's answer to a response.

Every operation goes through `PathEndpoint`: read the request, open it (credentials, world), call the
handler of the method, show the answer, or the refusal in the one error shape.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from emulator.api.next_steps import beginning_of, similar_operation, with_next_step
from emulator.core.errors import Damaged, InvalidInput, NoRoom, PayloadTooLarge, Refused, UnreadableRow, WorldBroken
from emulator.core.record import Headers, Record
from emulator.wire import error_body
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json
from emulator.wire.parts import Pairs, RequestParts, is_control, read_parts
from emulator.wire.urls import no_destination
from emulator.worlds.world import World

logger = logging.getLogger(__name__)

C = TypeVar("C")
P = TypeVar("P")

# The interface document's limit of one batch call, and so of any request (Limits 5).
MAX_BODY = 100 * 1024 * 1024
# The most that the bodies of all calls under way have together, of those that come in pieces (D-812).
MAX_BODIES = 256 * 1024 * 1024

# How the path of an operation ends that takes a destination.
DESTINATION = "/{destination:path}"

# In the scope of a call that is answered with what somebody else has answered: that is no refusal of ours.
PASSED_ON = "emulator.passed_on"

_encode = msgspec.json.Encoder().encode
_JSON_TYPE = (b"content-type", b"application/json")


def encoded(content: Json | msgspec.Struct) -> msgspec.Raw:
    """A part of an answer, encoded at once: thousands of dicts that live together start the garbage collector."""
    return msgspec.Raw(_encode(content))


class Answer(Response):
    """A JSON answer. Without content (None) the body is empty, and has no type."""

    # Starlette's own constructor looks through the headers for what is known here.
    def __init__(self, content: Json | msgspec.Struct = None, status: int = 200, headers: Headers = ()) -> None:
        self.status_code = status
        self.background = None
        self.body = b"" if content is None else _encode(content)
        raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        raw_headers.append((b"content-length", b"%d" % len(self.body)))
        if content is not None:
            raw_headers.append(_JSON_TYPE)
        self.raw_headers = raw_headers


# In the scope of a request: ends its connection at once, without what is still to be sent.
DISCONNECT: Final = "emulator.disconnect"
# In the scope of a request: whether its target has a question mark. ASGI does not tell an empty query from none.
HAS_QUERY: Final = "emulator.has_query"
# In the disconnect that a call gets when its server ends.
IS_END_OF_SERVER: Final = "emulator.is_end_of_server"


async def _never() -> None:
    """Who sends a request that was made up here does not go away."""
    await asyncio.get_running_loop().create_future()


async def _nothing() -> AsyncIterator[bytes]:
    """The pieces of a body that was read whole."""
    return
    yield


class RoutedRequest(Record):
    """A request as read, with the parameters its route found in the path (decoded)."""

    parts: RequestParts
    path_parameters: Mapping[str, str] = {}
    # The body of a streamed request, piece by piece; the `body` of its parts is empty.
    pieces: Callable[[], AsyncIterator[bytes]] = _nothing
    # Returns when the client has gone away; of a request that was read whole.
    gone: Callable[[], Awaitable[None]] = _never

    def raw_rest(self, fixed_segments: int) -> str:
        """The raw path behind its first segments: `/v2/publish/https://x` has two before the destination."""
        pieces = self.parts.path.split("/", fixed_segments + 1)
        return pieces[fixed_segments + 1] if len(pieces) > fixed_segments + 1 else ""

    def raw_segment(self, number: int) -> str:
        """One raw segment of the path, counted from 0."""
        return self.raw_rest(number).partition("/")[0]


class Bodies:
    """How many bytes of bodies the calls under way have received. Short ones, of one piece, are not counted."""

    # In the scope of a request: all bodies, and the size of its own.
    ALL: Final = "emulator.bodies"
    _OWN: Final = "emulator.body_size"

    def __init__(self, most: int = MAX_BODIES) -> None:
        self._most = most
        self._size = 0

    def take(self, scope: Scope, size: int) -> None:
        """A piece of a request's body has come. Raises NoRoom."""
        if self._size + size > self._most:
            raise NoRoom(f"the bodies of all calls under way exceed {self._most} bytes together")
        self._size += size
        scope[self._OWN] = scope.get(self._OWN, 0) + size

    def release(self, scope: Scope) -> None:
        """The request has ended."""
        self._size -= scope.pop(self._OWN, 0)


# Whether the credentials in the head of a request are right. Raises Refused.
Gate = Callable[[RequestParts], None]
Opener = Callable[[RoutedRequest], Awaitable[C]]
# A record is answered with 200, as JSON.
Handler = Callable[[C], Awaitable[Response | msgspec.Struct]]


class Route(NamedTuple, Generic[C, P]):
    """One operation of an API: where it is found, what answers it, and who may call it how often."""

    method: str
    path: str
    handler: Handler[C]
    policy: P
    # The handler reads the body itself, which may have any size.
    is_streamed: bool = False


class PathEndpoint(Generic[C]):
    """The operations of one path, by method. `open_call` turns a request into what the handlers take.

    `incomplete` are the methods of the path with a destination behind it, which is missing here: their
    refusal says so. `challenge` is the `WWW-Authenticate` for a client without credentials. The handlers of the
    methods `streamed` read the body themselves. `path` is as declared, with parameters in braces. `gate` is
    asked before a body that comes in pieces is received.
    """

    def __init__(
        self,
        dialect: Dialect,
        open_call: Opener[C],
        handlers: Mapping[str, Handler[C]],
        *,
        incomplete: Collection[str] = (),
        challenge: str = "Bearer",
        streamed: Collection[str] = (),
        path: str = "",
        gate: Gate | None = None,
    ) -> None:
        self._gate = gate
        self.path = path
        self._streamed = frozenset(streamed)
        self._dialect = dialect
        self._challenge = challenge
        self._open = open_call
        self._handlers = dict(handlers)
        self._incomplete = frozenset(incomplete)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self._handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(scope, receive)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        method = scope["method"]
        handler = self._handlers.get(method)
        if handler is None:
            # D-536
            lacking = error_body.error_json(no_destination(), self._dialect) if method in self._incomplete else None
            return method_not_allowed(scope["path"], method, self.methods, lacking)
        query: Pairs = ()
        call: C | None = None
        try:
            request = await read_request(scope, receive, is_streamed=method in self._streamed, gate=self._gate)
            query = request.parts.query
            call = await self._open(request)
            answer = await handler(call)
            return answer if isinstance(answer, Response) else Answer(answer)
        except Refused as refused:
            return refusal(refused, scope["path"], self._dialect, query, challenge=self._challenge)
        except WorldBroken as broken:
            return _failure(broken, scope["path"], str(broken), 507 if broken.is_disk_full else 503)
        except Damaged as damaged:
            return _failure(damaged, scope["path"], str(damaged))
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                # No fault of ours, and nothing has changed: what needs a file opens it before it begins (D-565).
                logger.error("%s %s: no file descriptor is left", method, scope["path"])
                return _failure(error, scope["path"], "the emulator has no file descriptor left (ulimit -n)")
            if (unreadable := await _unreadable_row(call, error)) is not None:
                logger.error("%s %s: %s", method, scope["path"], unreadable)
                return _failure(unreadable, scope["path"], str(unreadable), 500)
            # The edge of the program: a fault of ours must still be a clear answer, and be seen.
            logger.exception("%s %s failed", method, scope["path"])
            return _failure(error, scope["path"], f"the emulator failed: {type(error).__name__}, see its log", 500)


def endpoints_of(
    dialect: Dialect,
    routes: Iterable[Route[C, P]],
    opener: Callable[[Mapping[str, P]], Opener[C]],
    *,
    challenge: str = "Bearer",
    gate: Callable[[Mapping[str, P]], Gate] | None = None,
) -> dict[str, PathEndpoint[C]]:
    """The endpoint of each path, in the order of declaration.

    `opener` and `gate` get the policies of a path by method.
    """
    by_path: dict[str, list[Route[C, P]]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    endpoints = {}
    for path, found in by_path.items():
        longer = by_path.get(path + DESTINATION, [])
        policies = {route.method: route.policy for route in found}
        endpoints[path] = PathEndpoint(
            dialect,
            opener(policies),
            {route.method: route.handler for route in found},
            incomplete={route.method for route in longer},
            challenge=challenge,
            streamed=[route.method for route in found if route.is_streamed],
            path=path,
            gate=None if gate is None else gate(policies),
        )
    return endpoints


async def read_request(
    scope: Scope, receive: Receive, *, is_streamed: bool = False, gate: Gate | None = None
) -> RoutedRequest:
    """Read a request, whole or only its head.

    Raises PayloadTooLarge beyond what any call may carry, NoRoom, InvalidInput, and what `gate` does.
    """
    return RoutedRequest(
        parts=_parts(scope, b"" if is_streamed else await _read_body(scope, receive, gate)),
        path_parameters=scope.get("path_params", {}),
        pieces=partial(_pieces, receive) if is_streamed else _nothing,
        gone=_never if is_streamed else partial(_until_gone, receive),
    )


def _parts(scope: Scope, body: bytes) -> RequestParts:
    client = scope.get("client")
    raw_path = scope.get("raw_path")
    return read_parts(
        method=scope["method"],
        raw_path=scope["path"].encode() if raw_path is None else raw_path,
        query_string=scope["query_string"],
        raw_headers=scope["headers"],
        body=body,
        client_ip="127.0.0.1" if client is None else client[0],
        scheme=scope.get("scheme", "http"),
        has_query=scope.get(HAS_QUERY, False),
    )


async def _read_body(scope: Scope, receive: Receive, gate: Gate | None) -> bytes:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > MAX_BODY and scope["method"] != "GET":
            raise _too_large()
    message = await _piece(receive)
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    if gate is not None:
        # Who has no credentials must not fill the memory.
        gate(_parts(scope, b""))
    bodies: Bodies = scope.get(Bodies.ALL) or Bodies()
    try:
        return await _join(message, receive, partial(bodies.take, scope))
    except Refused:
        # Not only when the rest has come, too.
        bodies.release(scope)
        raise


async def _join(message: Message, receive: Receive, take: Callable[[int], None]) -> bytes:
    """A body that comes in pieces, of which the first is there; `take` is called with the size of each."""
    # A BytesIO hands over what it holds without a copy; joining the pieces would need the body twice.
    whole = io.BytesIO()
    while True:
        piece = message.get("body", b"")
        if whole.tell() + len(piece) > MAX_BODY:
            raise _too_large()
        take(len(piece))
        whole.write(piece)
        if not message.get("more_body", False):
            return whole.getvalue()
        message = await _piece(receive)


async def _until_gone(receive: Receive) -> None:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    if IS_END_OF_SERVER in message:
        # The client is there, and is answered when its call is cut off.
        await _never()


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """A body as it comes. Raises InvalidInput if the client goes away before its end."""
    more = True
    while more:
        message = await _piece(receive)
        yield message.get("body", b"")
        more = message.get("more_body", False)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"the body exceeds {MAX_BODY} bytes")


async def _piece(receive: Receive) -> Message:
    """The next piece of a body. Raises InvalidInput if the client went away: half a body is none (D-230)."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise InvalidInput("body", "the request broke off before its end")
    return message


def refusal(refused: Refused, path: str, dialect: Dialect, query: Pairs = (), *, challenge: str = "Bearer") -> Response:
    """The one error shape: `{"error": ..., "field"?: ...}` (D-001), on the control API with `next` (D-747)."""
    status = error_body.status_of(refused)
    headers = (("WWW-Authenticate", challenge),) if status == 401 else error_body.extra_headers(refused)
    return Answer(
        with_next_step(error_body.error_json(refused, dialect, query), path, status, refused), status, headers
    )


async def _unreadable_row(call: object, error: Exception) -> UnreadableRow | None:
    """The row of the call's world that may be why a handler failed, None if there is none (D-793)."""
    try:
        world = getattr(call, "world", None)
    except (Refused, AssertionError):
        # The call is about no world.
        return None
    return await world.why_unreadable(error) if isinstance(world, World) else None


def _failure(cause: Exception, path: str, text: str, status: int = 503) -> Response:
    """The answer where no rule refused: what was asked for cannot be done."""
    return Answer(with_next_step({"error": text}, path, status, cause), status)


def method_not_allowed(
    path: str, method: str, allowed: tuple[str, ...], error: Mapping[str, str] | None = None
) -> Response:
    """405 with the methods that the path has; `error` says more than that."""
    text = f"method {method} is not allowed here, expected {' or '.join(allowed)}"
    return Answer(with_next_step(error or {"error": text}, path, 405), 405, (("Allow", ", ".join(allowed)),))


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to a path that no operation has, with what was probably meant (D-802)."""
    path, routes = scope["path"], scope["router"].routes
    beginnings = sorted({beginning_of(each.path) for each in routes if not is_control(each.path)})
    similar = None if is_control(path) else similar_operation(path, beginnings)
    await no_operation(path, similar)(scope, receive, send)


def no_operation(path: str, similar: str | None = None) -> Response:
    """404; `similar` is the beginning of the path that was probably meant."""
    meant = "" if similar is None else f": did you mean {similar}?"
    return Answer(with_next_step({"error": f"no operation has the path {path}{meant}"}, path, 404), 404)
