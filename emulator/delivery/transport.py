"""Attempts: what answers them, and how they leave.

A destination rule comes first, then a mounted application, then the egress policy: the first that
applies to the destination answers (D-110).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from msgspec.structs import replace

from emulator.core.language.text import beginning
from emulator.core.model.messages import MAX_KEPT_BYTES, Attempt, AttemptOutcome, Response, Unsent, Via
from emulator.core.model.resources import Fault, ScriptedAnswer
from emulator.core.record import Headers, Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery import http
from emulator.delivery.egress import CheckedResolver, EgressPolicy, EgressVerdict
from emulator.delivery.http import HttpClient, SendFailure
from emulator.delivery.mounts import MOUNT_TIMEOUT_MS, Mount, MountedRequest, call, near_mount
from emulator.wire.messaging import chat
from emulator.wire.messaging.outgoing import OutgoingNames, is_non_retryable, request_headers, sign
from emulator.wire.urls import origin_of, read_target

logger = logging.getLogger(__name__)

_CAPTURED = Response(status=200, headers=(), body=b"")


class DeliveryTransport:
    """Makes attempts: by rule, mount, capture or network. Failures are outcomes."""

    def __init__(
        self,
        *,
        dialect: OutgoingNames,
        egress: EgressPolicy,
        wall_ms: Callable[[], int],
        client: HttpClient | None = None,
        llm_url: str | None = None,
        world: str = "",
        mount_timeout_ms: int = MOUNT_TIMEOUT_MS,
        add_headers: Callable[[Attempt, Headers], Headers] = lambda attempt, headers: headers,
    ) -> None:
        """`wall_ms` reads the wall clock, for signatures. A `client` given here may be shared: `close` spares it.

        `llm_url` is where the messages to the service's own language model are sent instead. `world` is the
        id that mounted applications see, and `mount_timeout_ms` the real time that they may take. `add_headers` makes
        the headers of a request that leaves out of those that it has.
        """
        self._dialect = dialect
        self._egress = egress
        self._wall_ms = wall_ms
        self._owns_client = client is None
        self._client = client or HttpClient(CheckedResolver(egress))
        self._llm_url = llm_url
        self._world = world
        self._mount_timeout_ms = mount_timeout_ms
        self._add_headers = add_headers
        self._mounts: dict[str, Mount] = {}
        # Origins that were captured beside mounts, each with the question whether a mount was meant.
        self._captured: dict[str, str | None] = {}

    def mount(self, origin: str, application: Mount) -> None:
        """Let an application answer the deliveries to an origin such as `https://app.test`.

        Raises: ValueError if the text is not an http(s) origin.
        """
        self._mounts[_known_origin(origin)] = application
        self._captured.clear()

    def take_mounts(self, other: DeliveryTransport) -> None:
        """Let the applications that answer in another world answer here as well."""
        self._mounts = dict(other._mounts)

    def unmount(self, origin: str) -> None:
        """Undo `mount`; an origin without a mount is no error. Raises: ValueError as `mount`."""
        self._mounts.pop(_known_origin(origin), None)

    def mount_at(self, url: str) -> Mount | None:
        """The application that answers the deliveries to a URL, None without one."""
        return self._mounts.get(origin_of(url) or "")

    @property
    def mounted(self) -> tuple[str, ...]:
        """The origins that have an application."""
        return tuple(self._mounts)

    @property
    def near_mounts(self) -> Mapping[str, str]:
        """Captured origins that are near to a mounted one, each with the question that this raises (D-473)."""
        return {origin: question for origin, question in self._captured.items() if question is not None}

    def _ask_for_mount(self, url: str) -> None:
        """Ask in the log, once, whether what is captured was meant for a mounted application."""
        origin = origin_of(url) or ""
        if origin not in self._captured:
            question = self._captured[origin] = near_mount(url, self._mounts)
            if question is not None:
                logger.warning("no application is mounted at %s: %s", origin, question)

    def route(self, attempt: Attempt) -> Route:
        """Where an attempt goes; with its outcome, if it needs no network."""
        url, rule = attempt.message.url, _deciding(attempt)
        if rule is not None:
            scripted = scripted_answer(rule, _host(url))
            if scripted is not None:
                return self._inside(attempt, url, scripted, Via.RULE)
            url = forwarded_url(url, rule.forward_to)
        if self._mounts and (mount := self.mount_at(url)) is not None:
            return Leaves(url=url, origin=origin_of(url) or "", mount=mount)
        if attempt.message.source.api is not None and rule is None:
            # The model is the service's own and no external destination (D-311).
            if self._llm_url is None:
                message = attempt.message
                completion = chat.canned(message.body, message_id=message.message_id, at_ms=attempt.at_ms)
                return self._inside(attempt, url, completion, Via.CAPTURE)
            url = self._llm_url
        verdict = self._egress.decide(url)
        if verdict is EgressVerdict.NETWORK:
            return Leaves(url=url, origin=origin_of(url) or "")
        if rule is not None:
            # The rule asks for a real request: pretending that it was answered would hide the mistake (D-111).
            return self._inside(
                attempt, url, _refused(url, why="the rule forwards to an external destination"), Via.RULE
            )
        if self._mounts:
            self._ask_for_mount(url)
        return self._inside(attempt, url, _answer_of(verdict, url), Via.CAPTURE)

    async def send(self, attempt: Attempt, route: Leaves) -> AttemptOutcome:
        """Make one attempt and wait for its answer, at most the message's timeout. Raises: only cancellation."""
        message = attempt.message
        # The signature covers the message's URL, wherever it is sent.
        signature = sign(attempt, issuer=self._dialect.issuer, wall_ms=self._wall_ms())
        headers = request_headers(attempt, dialect=self._dialect, signature=signature, url=route.url)
        headers = self._add_headers(attempt, headers)
        answer: Response | SendFailure
        clock = asyncio.get_running_loop().time
        began_s = clock()
        if route.mount is not None:
            via = Via.MOUNT
            request = MountedRequest(
                method=message.method,
                url=route.url,
                headers=headers,
                body=message.body,
                world=self._world,
                message_id=message.message_id,
                at_ms=attempt.at_ms,
            )
            answer = await call(
                route.mount, request, timeout_ms=message.policy.timeout_ms, mount_timeout_ms=self._mount_timeout_ms
            )
        else:
            via = Via.NETWORK
            answer = await self._client.exchange(
                method=message.method,
                url=route.url,
                headers=headers,
                body=message.body,
                timeout_ms=message.policy.timeout_ms,
            )
        # The virtual clock may stand still meanwhile (D-510).
        took_ms = round((clock() - began_s) * 1000)
        via = via if _deciding(attempt) is None else Via.RULE
        return self._outcome(answer, via, headers=headers, took_ms=took_ms)

    async def close(self) -> None:
        """Close the connections, unless the client is shared."""
        if self._owns_client:
            await self._client.close()

    def _inside(self, attempt: Attempt, url: str, answer: Response | SendFailure, via: Via) -> Inside:
        dialect = self._dialect
        unsent = Unsent(
            wall_ms=self._wall_ms(),
            signing_key=attempt.signing_key,
            region=attempt.region,
            header_prefix=dialect.header_prefix,
            user_agent=dialect.user_agent,
            issuer=dialect.issuer,
            url=None if url == attempt.message.url else url,
        )
        return Inside(outcome=self._outcome(answer, via, unsent=unsent))

    def _outcome(
        self,
        answer: Response | SendFailure,
        via: Via,
        *,
        headers: Headers = (),
        unsent: Unsent | None = None,
        took_ms: int | None = None,
    ) -> AttemptOutcome:
        response, error = (None, answer.text) if isinstance(answer, SendFailure) else (_as_kept(answer), None)
        return AttemptOutcome(
            response=response,
            error=error,
            via=via,
            request_headers=headers,
            unsent=unsent,
            non_retryable=response is not None
            and is_non_retryable(response.headers, response.status, self._dialect.header_prefix),
            took_ms=took_ms,
        )


def _as_kept(response: Response) -> Response:
    """An answer of an application or a rule, of which no more is kept than of one that came over the network."""
    if len(response.body) <= MAX_KEPT_BYTES:
        return response
    return replace(response, body=beginning(response.body, MAX_KEPT_BYTES), received_bytes=len(response.body))


def _deciding(attempt: Attempt) -> ScriptedAnswer | None:
    """What a rule says about where the attempt goes; a rule that only disturbs it says nothing."""
    return attempt.answer if attempt.answer is not None and attempt.answer.decides else None


def _answer_of(
    verdict: Literal[EgressVerdict.CAPTURE, EgressVerdict.FAIL, EgressVerdict.FORBIDDEN], url: str
) -> Response | SendFailure:
    match verdict:
        case EgressVerdict.CAPTURE:
            return _CAPTURED
        case EgressVerdict.FAIL:
            return SendFailure(text=f"connection failed: external destination {_host(url)} (external=fail)")
        case EgressVerdict.FORBIDDEN:
            return _refused(url, why="a cloud metadata or link-local address")
        case unknown:
            assert_never(unknown)


def _refused(url: str, *, why: str) -> SendFailure:
    host = _host(url)
    return SendFailure(
        text=f"egress refused: {host} ({why})" if host else "egress refused: the URL names no usable host"
    )


def _host(url: str) -> str:
    target = read_target(url)
    return "" if target is None else target.host


def _known_origin(text: str) -> str:
    origin = origin_of(text)
    if origin is None:
        raise ValueError(f"not an http(s) origin: {text!r}")
    return origin


# -- where an attempt goes: it is answered inside, or it leaves -------------------------------


class Inside(Record):
    """The attempt needs no network (a rule, capture, a refusal): this is its outcome."""

    outcome: AttemptOutcome


class Leaves(Record):
    """The attempt is sent to `url`: to the application mounted at its origin, or over the network."""

    url: str
    origin: str
    mount: Mount | None = None


Route: TypeAlias = Inside | Leaves


# -- answers of rules -------------------------------------------------------------------------
# A rule's latency is not waited for here: it passes on the virtual clock.


_FAULTS = {
    Fault.REFUSED: http.REFUSED,
    Fault.TIMEOUT: TIMEOUT_ERROR,
    Fault.RESET: http.RESET,
    Fault.TLS: http.TLS_FAILED,
}


def scripted_answer(answer: ScriptedAnswer, host: str) -> Response | SendFailure | None:
    """What a rule answers an attempt with, or None if it forwards it. `host` is the destination's."""
    if answer.respond is not None:
        scripted = answer.respond
        return Response(status=scripted.status, headers=scripted.headers, body=scripted.body)
    if answer.fault is None:
        return None
    return SendFailure(text=http.name_not_known(host) if answer.fault is Fault.DNS else _FAULTS[answer.fault])


@lru_cache(maxsize=4096)
def forwarded_url(url: str, forward_to: str | None) -> str:
    """The URL at the origin that a rule forwards to, path and query kept."""
    if forward_to is None:
        return url
    source, target = read_target(url), read_target(forward_to)
    if source is None or target is None:
        return forward_to
    return f"{target.scheme}://{target.host_header}{source.request_target}"
