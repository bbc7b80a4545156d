"""Sends the battery's requests: to the letter what a delivery of the dialect would be, mistakes on purpose aside."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from msgspec.structs import replace

from emulator.conformance.records import Exchange, Receiver
from emulator.conformance.signatures import Signature, token_of
from emulator.core.identifiers import jwt_id, message_id
from emulator.core.model.answers import Response
from emulator.core.model.messages import Attempt, Message
from emulator.core.model.names import AccountId, Headers, MessageId
from emulator.core.model.options import Method
from emulator.core.record import Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy
from emulator.delivery.http import CONNECTION_FAILED, Failure, HttpClient
from emulator.delivery.mounts import Mount, MountedRequest, call
from emulator.wire.messaging.outgoing import request_headers

# So many pieces does the slow client make of its body.
_PIECES = 4


class Request(Record):
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
        self, receiver: Receiver, mount: Mount | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds of real time, by which answers are timed."""
        self.receiver = receiver
        self.is_mounted = mount is not None
        self.requests = 0
        self._mount = mount
        self._clock = clock
        # Who names an endpoint wants it called, wherever it is.
        self._client = HttpClient(CheckedResolver(EgressPolicy(external=ExternalPolicy.ALLOW)))
        # Ids that no other run has used: a receiver may keep those of messages that it has seen.
        self._key = secrets.token_bytes(32)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def message(self, request: Request) -> Message:
        """The message that a request delivers."""
        receiver = self.receiver
        now_ms = _now_ms()
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
            max_retries=3,
            retry_delay=None,
            timeout_ms=receiver.timeout_ms,
            callback=None,
            failure_callback=None,
            caller_ip="127.0.0.1",
        )

    async def send(self, request: Request) -> Exchange:
        """Send one request and wait for its answer, at most the receiver's timeout. Raises: only cancellation."""
        made, timeout_ms = self._made(request), self.receiver.timeout_ms

        async def exchange() -> Response | Failure:
            if self._mount is not None:
                return await call(self._mount, made, timeout_ms=timeout_ms)
            return await self._client.exchange(
                method=made.method, url=made.url, headers=made.headers, body=made.body, timeout_ms=timeout_ms
            )

        return await self._timed(request, made, exchange)

    async def send_slowly(
        self, request: Request, other: Request, *, patience_ms: int
    ) -> tuple[Exchange, Exchange | None]:
        """Send the body in pieces over `slow_ms`, and another request in the middle of it.

        The second exchange is None if the other was not answered before the slow one went on, which
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

        async def exchange() -> Response | Failure:
            try:
                async with asyncio.timeout((self.receiver.timeout_ms + patience_ms) / 1000 + slow_s):
                    return await _send_pieces(made, pieces())
            except TimeoutError:
                return Failure(text=TIMEOUT_ERROR)
            except httpx.HTTPError as error:
                return Failure(text=f"{CONNECTION_FAILED}: {error or type(error).__name__}")

        try:
            slow = await self._timed(request, made, exchange)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        return slow, answered[0] if answered else None

    def _made(self, request: Request) -> MountedRequest:
        receiver, message = self.receiver, self.message(request)
        self.requests += 1
        is_next = request.signature is Signature.NEXT
        attempt = Attempt(
            message=message,
            number=request.retried + 1,
            at_ms=_now_ms(),
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
        self, request: Request, made: MountedRequest, exchange: Callable[[], Awaitable[Response | Failure]]
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
        body = await answer.aread()
    return Response(status=answer.status_code, headers=tuple(answer.headers.multi_items()), body=body)


def with_effect(exchange: Exchange, *, is_changed: bool | None) -> Exchange:
    """The exchange, with what is known of its effect."""
    return replace(exchange, is_changed=is_changed)


def _now_ms() -> int:
    return int(time.time() * 1000)
