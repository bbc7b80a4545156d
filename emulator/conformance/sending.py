"""The requests of the battery, how they are signed, and the state by which their effects are judged (D-411)."""

from __future__ import annotations

import asyncio
import copy
import json
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import StrEnum

import httpx
import jwt
from msgspec.structs import replace

from emulator.conformance.reports import Exchange, Receiver
from emulator.core.model.messages import MAX_KEPT_BYTES, Attempt, Message, Response, Source
from emulator.core.model.options import DeliveryPolicy, Method
from emulator.core.record import AccountId, Headers, MessageId, Record, jwt_id, message_id
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy
from emulator.delivery.http import CONNECTION_FAILED, HttpClient, SendFailure
from emulator.delivery.mounts import Mount, MountedRequest, call
from emulator.wire.messaging.outgoing import claims_of, encode, request_headers

_HOUR_S = 3600
# The state of an application is read several times, and compared.
_MOST_STATE_BYTES = 8 * 1024 * 1024
TOO_LONG_A_STATE = "more than 8 MiB, expected less, such as a count"
_UNKNOWN_KEY = "sig_unknown_to_every_receiver_of_the_world"


class Signature(StrEnum):
    """How a request is signed; the value says it in a report."""

    CURRENT = "signed with the current key"
    NEXT = "signed with the next key"
    OTHER_BODY = "signed with the current key for another body"
    OTHER_URL = "signed with the current key for another URL"
    UNKNOWN_KEY = "signed with an unknown key"
    NONE = 'with the algorithm "none" in place of a signature'
    EXPIRED = "signed with the current key, expired an hour ago"
    NOT_YET = "signed with the current key, valid in an hour"
    MALFORMED = "with the signature `not-a-token`"
    MISSING = "without a signature"


def token_of(attempt: Attempt, kind: Signature, *, issuer: str, token_id: str) -> str:
    """The signature header's value, empty for none. The attempt has the key that signs, and begins now.

    `token_id` differs for every request: the same attempt of a message that is delivered twice is signed anew.
    Each differs from the good one in what its name says, and in nothing else. Raises: nothing.
    """
    message = attempt.message
    if kind is Signature.OTHER_BODY:
        attempt = replace(attempt, message=replace(message, body=message.body + b" "))
    if kind is Signature.OTHER_URL:
        attempt = replace(attempt, message=replace(message, url=f"{message.url}/other"))
    claims = {**claims_of(attempt, issuer=issuer, wall_ms=attempt.at_ms), "jti": token_id}
    now_s = attempt.at_ms // 1000
    match kind:
        case Signature.MISSING:
            return ""
        case Signature.MALFORMED:
            return "not-a-token"
        case Signature.NONE:
            return jwt.encode(claims, "", algorithm="none")
        case Signature.UNKNOWN_KEY:
            return encode(claims, _UNKNOWN_KEY)
        case Signature.EXPIRED:
            return encode({**claims, "iat": now_s - 2 * _HOUR_S, "exp": now_s - _HOUR_S}, attempt.signing_key)
        case Signature.NOT_YET:
            return encode({**claims, "nbf": now_s + _HOUR_S, "exp": now_s + 2 * _HOUR_S}, attempt.signing_key)
        case _:
            return encode(claims, attempt.signing_key)


# So many pieces does the slow client make of its body.
_PIECES = 4


class Probe(Record):
    """One request of the battery. `message` counts the messages of the run; the same number is the same message."""

    message: int
    signature: Signature = Signature.CURRENT
    retried: int = 0
    body: bytes | None = None
    headers: Headers | None = None
    method: Method | None = None


class Courier:
    """Sends requests to one receiver, over the network or to a mounted application, and counts them."""

    def __init__(
        self,
        receiver: Receiver,
        mount: Mount | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`clock` gives seconds of real time, by which answers are timed; `now_ms` is the receiver's time."""
        self.receiver = receiver
        self.is_mounted = mount is not None
        self.requests = 0
        self._mount = mount
        self._clock = clock
        self._now_ms = now_ms or _now_ms
        # Who names an endpoint wants it called, wherever it is.
        self._client = HttpClient(CheckedResolver(EgressPolicy(external=ExternalPolicy.ALLOW)))
        # Ids that no other run has used: a receiver may keep those of messages that it has seen.
        self._key = secrets.token_bytes(32)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def message(self, request: Probe) -> Message:
        """The message that a request delivers."""
        receiver = self.receiver
        now_ms = self._now_ms()
        return Message(
            message_id=MessageId(message_id(self._key, request.message)),
            number=request.message,
            account_id=AccountId("check"),
            created_ms=now_ms,
            not_before_ms=now_ms,
            url=receiver.url,
            method=request.method or receiver.method,
            headers=receiver.headers if request.headers is None else request.headers,
            body=receiver.body if request.body is None else request.body,
            policy=DeliveryPolicy(max_retries=3, timeout_ms=receiver.timeout_ms),
            source=Source(caller_ip="127.0.0.1"),
        )

    async def send(self, request: Probe) -> Exchange:
        """Send one request and wait for its answer, at most the receiver's timeout. Raises: only cancellation."""
        made, timeout_ms = self._made(request), self.receiver.timeout_ms

        async def exchange() -> Response | SendFailure:
            if self._mount is not None:
                return await call(self._mount, made, timeout_ms=timeout_ms)
            return await self._client.exchange(
                method=made.method, url=made.url, headers=made.headers, body=made.body, timeout_ms=timeout_ms
            )

        return await self._timed(request, made, exchange)

    async def send_slowly(self, request: Probe, other: Probe, *, patience_ms: int) -> tuple[Exchange, Exchange | None]:
        """Send the body in pieces over `slow_ms`, and another request in the middle of it.

        The second exchange is None if the other was not answered before the slow one continued, which
        waits for it for `patience_ms`. Only for a receiver on the network. Raises: only cancellation.
        """
        made, slow_s = self._made(request), self.receiver.slow_ms / 1000
        size = len(made.body) // _PIECES + 1
        sending: list[asyncio.Task[Exchange]] = []
        answered: list[Exchange] = []

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(made.body), size):
                await asyncio.sleep(slow_s / _PIECES)
                yield made.body[start : start + size]
                if start == 0:
                    sending.append(asyncio.create_task(self.send(other)))
                    done, _ = await asyncio.wait(sending, timeout=patience_ms / 1000)
                    answered.extend(task.result() for task in done)

        async def exchange() -> Response | SendFailure:
            try:
                async with asyncio.timeout((self.receiver.timeout_ms + patience_ms) / 1000 + slow_s):
                    return await _send_pieces(made, pieces())
            except TimeoutError:
                return SendFailure(text=TIMEOUT_ERROR)
            except httpx.HTTPError as error:
                return SendFailure(text=f"{CONNECTION_FAILED}: {error or type(error).__name__}")

        try:
            slow = await self._timed(request, made, exchange)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        return slow, answered[0] if answered else None

    def _made(self, request: Probe) -> MountedRequest:
        receiver, message = self.receiver, self.message(request)
        self.requests += 1
        is_next = request.signature is Signature.NEXT
        attempt = Attempt(
            message=message,
            number=request.retried + 1,
            at_ms=self._now_ms(),
            answer=None,
            signing_key=receiver.next_signing_key if is_next else receiver.current_signing_key,
            region="us-east-1",
        )
        token_id = jwt_id(self._key, self.requests)
        token = token_of(attempt, request.signature, issuer=receiver.issuer, token_id=token_id)
        headers = request_headers(attempt, dialect=receiver, signature=token)
        if not token:
            headers = tuple(pair for pair in headers if pair[0] != f"{receiver.header_prefix}Signature")
        return MountedRequest(method=message.method, url=message.url, headers=headers, body=message.body)

    async def _timed(
        self, request: Probe, made: MountedRequest, exchange: Callable[[], Awaitable[Response | SendFailure]]
    ) -> Exchange:
        began_s = self._clock()
        answer = await exchange()
        took_ms = round((self._clock() - began_s) * 1000)
        retried = f", retry {request.retried}" if request.retried else ""
        sent = f"{made.method} {made.url}, {len(made.body)} bytes, {request.signature}{retried}"
        return Exchange(sent=sent, answer=answer, took_ms=took_ms)


async def _send_pieces(made: MountedRequest, pieces: AsyncIterator[bytes]) -> Response:
    """Raises: httpx.HTTPError."""
    # A client whose bodies may come in pieces. The context is the system's, as that of the delivery client.
    async with httpx.AsyncHTTPTransport(verify=ssl.create_default_context(), trust_env=False) as transport:
        sent = httpx.Request(made.method, made.url, headers=made.headers, content=pieces)
        answer = await transport.handle_async_request(sent)
        try:
            body = await _beginning(answer.aiter_raw(), MAX_KEPT_BYTES)
        finally:
            await answer.aclose()
    return Response(status=answer.status_code, headers=tuple(answer.headers.multi_items()), body=body)


async def _beginning(pieces: AsyncIterator[bytes], most_bytes: int) -> bytes:
    """At most so many of the first bytes; what comes behind them is not read."""
    body = bytearray()
    async for piece in pieces:
        body += piece[: most_bytes - len(body)]
        if len(body) == most_bytes:
            break
    return bytes(body)


async def read_state(http: httpx.AsyncClient, url: str) -> bytes | None:
    """What a URL shows of an application's state, by its body; None for one that is too long to be read whole.

    Raises: httpx.HTTPError, httpx.InvalidURL, and httpx.HTTPStatusError for an answer that is no 2xx.
    """
    # Unpacked, a small answer may be very long.
    async with http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
        answer.raise_for_status()
        body = await _beginning(answer.aiter_bytes(), _MOST_STATE_BYTES + 1)
    return None if len(body) > _MOST_STATE_BYTES else body


def written_otherwise(body: bytes) -> bytes | None:
    """The same JSON in bytes that no program writes: spaces, escapes, zeros, another order of keys. None for no JSON.

    Integers stay as they are: `7.0` is another number in some languages.
    """
    try:
        parsed = json.loads(body, object_pairs_hook=_Pairs, parse_float=_Text, parse_int=_Text, parse_constant=_Text)
        return f" \n{_written(parsed)}\t \n".encode()
    except (ValueError, RecursionError):
        return None


class _Pairs(tuple[tuple[str, object], ...]):
    """The members of an object, in their order."""

    __slots__ = ()


class _Text(str):
    """A number as it was written."""

    __slots__ = ()


def _written(value: object) -> str:
    match value:
        case _Pairs():
            members = [f"{_written(name)} :\t {_written(each)}" for name, each in reversed(value)]
            return "{{  {}\n}}".format("  ,\n ".join(members))
        case list():
            return "[ {}  ]".format(" ,  ".join(map(_written, value)))
        case _Text():
            return f"{value}0" if "." in value and "e" not in value.lower() else str(value)
        case str():
            units = value.encode("utf-16-be", "surrogatepass").hex()
            return '"{}"'.format("".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)))
        case _:
            return json.dumps(value)


def _now_ms() -> int:
    return int(time.time() * 1000)


Read = Callable[[], Awaitable[object]]

_TIMEOUT_S = 10.0

NO_SOURCE = "no effect source was given: --effect-url, or effect= in Python"
RESTLESS = "the state changes by itself: it differed between two readings with no request between them"
BLIND = (
    "the valid delivery changed nothing that the effect source shows: its body may have been delivered before, "
    "or the work comes later (an effect delay waits for it)"
)


class EffectUnreadable(Exception):
    """The state cannot be read; the text says why in one line."""


class Effects:
    """Compares the state before and after; `unjudged` says why nothing can be said of effects, if so."""

    def __init__(self, read: Read | None, delay_ms: int) -> None:
        self._read = read
        self._delay_s = delay_ms / 1000
        self.unjudged: str | None = NO_SOURCE if read is None else None

    async def state(self) -> object:
        """The state when the receiver's work is over; None if effects are not judged.

        It is a copy: a function may return the same list each time. Raises: what the reading raises.
        """
        if self._read is None or self.unjudged is not None:
            return None
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return copy.deepcopy(await self._read())


def read_url(url: str) -> Read:
    """The body of a URL as the state. The reading raises EffectUnreadable if it is not answered 2xx."""

    # The authorities that the system trusts are read once.
    trusted = ssl.create_default_context()

    async def read() -> object:
        try:
            async with httpx.AsyncClient(verify=trusted, trust_env=False, timeout=_TIMEOUT_S) as client:
                state = await read_state(client, url)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise EffectUnreadable(f"--effect-url {url} answered {status}, expected 2xx") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EffectUnreadable(f"--effect-url {url} cannot be read: {error or type(error).__name__}") from error
        if state is None:
            raise EffectUnreadable(f"--effect-url {url} answered with {TOO_LONG_A_STATE}")
        return state

    return read


def amount(state: object) -> float | None:
    """How much a state holds: a number, the length of a list, the sum over an object; JSON text is read.

    None for a state that nothing can be counted in, such as another text.
    """
    match state:
        case bool() | None:
            return None
        case int() | float():
            return state
        case bytes() | str():
            try:
                return amount(json.loads(state))
            except ValueError:
                return None
        case Mapping():
            amounts = [found for found in map(amount, state.values()) if found is not None]
            return sum(amounts) if amounts else None
        case list() | tuple() | set():
            return len(state)
        case _:
            return None
