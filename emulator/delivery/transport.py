"""Attempts: what answers them, and how they leave.

A destination rule comes first, then a mounted application, then the egress policy: the first that
applies to the destination answers (D-110).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, assert_never

from emulator.core.model.answers import AttemptOutcome, Response, ScriptedAnswer, Unsent, Via
from emulator.core.model.messages import Attempt
from emulator.core.model.names import Headers
from emulator.delivery.egress import CheckedResolver, EgressPolicy, Verdict
from emulator.delivery.http import Failure, HttpClient
from emulator.delivery.mounts import Mount, MountedRequest, call
from emulator.delivery.route import Inside, Leaves, Route
from emulator.delivery.rules import forwarded_url, scripted_answer
from emulator.wire.messaging import chat
from emulator.wire.messaging.outgoing import OutgoingNames, is_non_retryable, request_headers
from emulator.wire.messaging.signing import sign
from emulator.wire.urls import origin_of, read_target

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
    ) -> None:
        """`wall_ms` reads the wall clock, for signatures. A `client` given here may be shared: `close` spares it.

        `llm_url` is where the messages to the service's own language model are sent instead.
        """
        self._dialect = dialect
        self._egress = egress
        self._wall_ms = wall_ms
        self._owns_client = client is None
        self._client = client or HttpClient(CheckedResolver(egress))
        self._llm_url = llm_url
        self._mounts: dict[str, Mount] = {}

    def mount(self, origin: str, application: Mount) -> None:
        """Let an application answer the deliveries to an origin such as `https://app.test`.

        Raises: ValueError if the text is not an http(s) origin.
        """
        self._mounts[_known_origin(origin)] = application

    def take_mounts(self, other: DeliveryTransport) -> None:
        """Let the applications that answer in another world answer here as well."""
        self._mounts = dict(other._mounts)

    def unmount(self, origin: str) -> None:
        """Undo `mount`; an origin without a mount is no error. Raises: ValueError as `mount`."""
        self._mounts.pop(_known_origin(origin), None)

    def mount_at(self, url: str) -> Mount | None:
        """The application that answers the deliveries to a URL, None without one."""
        return self._mounts.get(origin_of(url) or "")

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
        if attempt.message.api is not None and rule is None:
            # The model is the service's own and no external destination (D-311).
            if self._llm_url is None:
                return self._inside(attempt, url, _completion(attempt), Via.CAPTURE)
            url = self._llm_url
        verdict = self._egress.decide(url)
        if verdict is Verdict.NETWORK:
            return Leaves(url=url, origin=origin_of(url) or "")
        if rule is not None:
            # The rule asks for a real request: pretending that it was answered would hide the mistake (D-111).
            return self._inside(
                attempt, url, _refused(url, why="the rule forwards to an external destination"), Via.RULE
            )
        return self._inside(attempt, url, _answer_of(verdict, url), Via.CAPTURE)

    async def send(self, attempt: Attempt, route: Leaves) -> AttemptOutcome:
        """Make one attempt and wait for its answer, at most the message's timeout. Raises: only cancellation."""
        message = attempt.message
        headers = self._signed_headers(attempt, route.url)
        answer: Response | Failure
        if route.mount is not None:
            via = Via.MOUNT
            request = MountedRequest(method=message.method, url=route.url, headers=headers, body=message.body)
            answer = await call(route.mount, request, timeout_ms=message.timeout_ms)
        else:
            via = Via.NETWORK
            answer = await self._client.exchange(
                method=message.method,
                url=route.url,
                headers=headers,
                body=message.body,
                timeout_ms=message.timeout_ms,
            )
        return self._outcome(answer, via if _deciding(attempt) is None else Via.RULE, headers=headers)

    async def close(self) -> None:
        """Close the connections, unless the client is shared."""
        if self._owns_client:
            await self._client.close()

    def _inside(self, attempt: Attempt, url: str, answer: Response | Failure, via: Via) -> Inside:
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

    def _signed_headers(self, attempt: Attempt, url: str) -> Headers:
        """The request's headers, signed now. The signature covers the message's URL, wherever it is sent."""
        signature = sign(attempt, issuer=self._dialect.issuer, wall_ms=self._wall_ms())
        return request_headers(attempt, dialect=self._dialect, signature=signature, url=url)

    def _outcome(
        self, answer: Response | Failure, via: Via, *, headers: Headers = (), unsent: Unsent | None = None
    ) -> AttemptOutcome:
        if isinstance(answer, Failure):
            return AttemptOutcome(response=None, error=answer.text, via=via, request_headers=headers, unsent=unsent)
        return AttemptOutcome(
            response=answer,
            error=None,
            via=via,
            request_headers=headers,
            unsent=unsent,
            non_retryable=is_non_retryable(answer.headers, answer.status, self._dialect.header_prefix),
        )


def _deciding(attempt: Attempt) -> ScriptedAnswer | None:
    """What a rule says about where the attempt goes; a rule that only disturbs it says nothing."""
    return attempt.answer if attempt.answer is not None and attempt.answer.decides else None


def _completion(attempt: Attempt) -> Response:
    return chat.canned(attempt.message.body, message_id=attempt.message.message_id, at_ms=attempt.at_ms)


def _answer_of(verdict: Literal[Verdict.CAPTURE, Verdict.FAIL, Verdict.FORBIDDEN], url: str) -> Response | Failure:
    match verdict:
        case Verdict.CAPTURE:
            return _CAPTURED
        case Verdict.FAIL:
            return Failure(text=f"connection failed: external destination {_host(url)} (external=fail)")
        case Verdict.FORBIDDEN:
            return _refused(url, why="a cloud metadata or link-local address")
        case unknown:
            assert_never(unknown)


def _refused(url: str, *, why: str) -> Failure:
    host = _host(url)
    return Failure(text=f"egress refused: {host} ({why})" if host else "egress refused: the URL names no usable host")


def _host(url: str) -> str:
    target = read_target(url)
    return "" if target is None else target.host


def _known_origin(text: str) -> str:
    origin = origin_of(text)
    if origin is None:
        raise ValueError(f"not an http(s) origin: {text!r}")
    return origin
