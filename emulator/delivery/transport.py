"""Attempts: what answers them, and how they leave.

A destination rule comes first, then a mounted application, then the egress policy: the first that
has something to say about the destination answers (D-110).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Protocol, assert_never

from emulator.core.model import Attempt, AttemptOutcome, Fault, Headers, Method, Response, ScriptedAnswer, Via
from emulator.core.record import Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery import http
from emulator.delivery.egress import CheckedResolver, EgressPolicy, Route
from emulator.delivery.signing import sign
from emulator.wire.messaging.outgoing import OutgoingNames, is_non_retryable, request_headers
from emulator.wire.urls import read_target

logger = logging.getLogger(__name__)

_CAPTURED = Response(status=200, headers=(), body=b"")


class MountedRequest(Record):
    """A delivery to a mounted application: the request as a receiver at `url` would get it."""

    method: Method
    url: str
    headers: Headers
    body: bytes


class Mount(Protocol):
    """An application in this process that answers the deliveries to one origin."""

    def __call__(self, request: MountedRequest, /) -> Awaitable[Response]: ...


class DeliveryTransport:
    """Makes attempts: by rule, mount, capture or network. Neither method raises; failures are outcomes."""

    def __init__(
        self,
        *,
        dialect: OutgoingNames,
        egress: EgressPolicy,
        wall_ms: Callable[[], int],
        client: http.HttpClient | None = None,
    ) -> None:
        """`wall_ms` reads the wall clock, for signatures. A `client` given here may be shared: `close` spares it."""
        self._dialect = dialect
        self._egress = egress
        self._wall_ms = wall_ms
        self._owns_client = client is None
        self._client = client or http.HttpClient(CheckedResolver(egress))
        self._mounts: dict[str, Mount] = {}

    # -- mounts -------------------------------------------------------------------------------

    def mount(self, origin: str, application: Mount) -> None:
        """Let an application answer the deliveries to an origin such as `https://app.test`.

        Raises: ValueError if the text is not an http(s) origin.
        """
        self._mounts[origin_of(origin)] = application

    def unmount(self, origin: str) -> None:
        """Undo `mount`; an origin without a mount is no error. Raises: ValueError as `mount`."""
        self._mounts.pop(origin_of(origin), None)

    # -- attempts -----------------------------------------------------------------------------

    def answer_inside(self, attempt: Attempt) -> AttemptOutcome | None:
        """Answer without the network (a rule, capture, refusal), or None if the attempt has to leave.

        A rule's latency is not waited for: it passes on the virtual clock, which is the core's business.
        """
        url = attempt.message.url
        answer = attempt.answer
        if answer is not None:
            if answer.respond is not None:
                scripted = answer.respond
                response = Response(status=scripted.status, headers=scripted.headers, body=scripted.body)
                return self._answered(self._signed_headers(attempt), response, Via.RULE)
            if answer.fault is not None:
                return self._failed(self._signed_headers(attempt), _fault_text(answer.fault, url), Via.RULE)
            url = _forwarded_url(url, answer)
            if self._is_mounted(url):
                return None
            if self._egress.decide(url) is Route.NETWORK:
                return None
            # The rule asks for a real request: pretending that it was answered would hide the mistake (D-111).
            headers = self._signed_headers(attempt, url)
            return self._failed(headers, _refused(url, why="the rule forwards to an external destination"), Via.RULE)
        if self._is_mounted(url):
            return None
        match self._egress.decide(url):
            case Route.NETWORK:
                return None
            case Route.CAPTURE:
                return self._answered(self._signed_headers(attempt), _CAPTURED, Via.CAPTURE)
            case Route.FAIL:
                error = f"connection failed: external destination {_host(url)} (external=fail)"
                return self._failed(self._signed_headers(attempt), error, Via.CAPTURE)
            case Route.FORBIDDEN:
                error = _refused(url, why="a cloud metadata or link-local address")
                return self._failed(self._signed_headers(attempt), error, Via.CAPTURE)
            case unknown:
                assert_never(unknown)

    async def send(self, attempt: Attempt) -> AttemptOutcome:
        """Make one attempt and wait for its answer, at most the message's timeout. Raises: only cancellation."""
        inside = self.answer_inside(attempt)
        if inside is not None:
            return inside
        message = attempt.message
        url = message.url if attempt.answer is None else _forwarded_url(message.url, attempt.answer)
        headers = self._signed_headers(attempt, url)
        mounted = self._mounts.get(origin_of(url)) if self._mounts else None
        answer: Response | http.Failure
        if mounted is not None:
            request = MountedRequest(method=message.method, url=url, headers=headers, body=message.body)
            via, answer = Via.MOUNT, await _call(mounted, request, message.timeout_ms)
        else:
            via, answer = (
                Via.NETWORK,
                await self._client.exchange(
                    method=message.method,
                    url=url,
                    headers=headers,
                    body=message.body,
                    timeout_ms=message.timeout_ms,
                ),
            )
        if attempt.answer is not None:
            via = Via.RULE
        if isinstance(answer, http.Failure):
            return self._failed(headers, answer.text, via)
        return self._answered(headers, answer, via)

    async def close(self) -> None:
        """Close the connections, unless the client is shared."""
        if self._owns_client:
            await self._client.close()

    # -- outcomes -----------------------------------------------------------------------------

    def _signed_headers(self, attempt: Attempt, url: str | None = None) -> Headers:
        """The request's headers, signed now. The signature covers the message's URL wherever it is sent."""
        signature = sign(attempt, issuer=self._dialect.issuer, wall_ms=self._wall_ms(), now_ms=attempt.at_ms)
        return request_headers(attempt, dialect=self._dialect, signature=signature, url=url)

    def _answered(self, headers: Headers, response: Response, via: Via) -> AttemptOutcome:
        return AttemptOutcome(
            response=response,
            error=None,
            via=via,
            request_headers=headers,
            non_retryable=is_non_retryable(response.headers, response.status, self._dialect.header_prefix),
        )

    def _failed(self, headers: Headers, error: str, via: Via) -> AttemptOutcome:
        return AttemptOutcome(response=None, error=error, via=via, request_headers=headers)

    def _is_mounted(self, url: str) -> bool:
        if not self._mounts:
            return False
        target = read_target(url)
        return target is not None and target.origin in self._mounts


async def _call(mounted: Mount, request: MountedRequest, timeout_ms: int) -> Response | http.Failure:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await mounted(request)
    except TimeoutError:
        return http.Failure(text=TIMEOUT_ERROR)
    except Exception as error:  # An edge: an application that breaks is a failed attempt, not ours.
        logger.warning("a mounted application could not be called: %s: %s", type(error).__name__, error)
        return http.Failure(text=f"mounted application failed: {type(error).__name__}")


def _fault_text(fault: Fault, url: str) -> str:
    match fault:
        case Fault.REFUSED:
            return http.REFUSED
        case Fault.TIMEOUT:
            return TIMEOUT_ERROR
        case Fault.RESET:
            return http.RESET
        case Fault.DNS:
            return http.name_not_known(_host(url))
        case Fault.TLS:
            return http.TLS_FAILED
        case unknown:
            assert_never(unknown)


def _forwarded_url(url: str, answer: ScriptedAnswer) -> str:
    return url if answer.forward_to is None else _with_origin(url, answer.forward_to)


@lru_cache(maxsize=4096)
def _with_origin(url: str, forward_to: str) -> str:
    """The URL at another origin: path and query kept."""
    source, target = read_target(url), read_target(forward_to)
    if source is None or target is None:
        return forward_to
    return f"{target.scheme}://{target.host_header}{source.request_target}"


def origin_of(url: str) -> str:
    """The origin of an http(s) URL, as mounts are found by it. Raises: ValueError if it has none."""
    target = read_target(url)
    if target is None:
        raise ValueError(f"not an http(s) origin: {url!r}")
    return target.origin


def _host(url: str) -> str:
    target = read_target(url)
    return "" if target is None else target.host


def _refused(url: str, *, why: str) -> str:
    host = _host(url)
    return f"egress refused: {host} ({why})" if host else "egress refused: the URL names no usable host"
