"""The request headers of one attempt, complete and in order.

The HTTP client adds nothing to them, so the delivery journal shows exactly what a receiver saw.
Source: interface document, Svc-Forward-*, Content-Type and Authentication 1.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Protocol

from emulator.core.language.headers import value_of
from emulator.core.model.answers import AttemptOutcome
from emulator.core.model.messages import Attempt, Message
from emulator.core.model.names import Headers
from emulator.core.model.options import CallType, Method, RunPart
from emulator.core.record import Record
from emulator.wire.messaging.signing import sign
from emulator.wire.urls import read_target

NON_RETRYABLE_STATUS = 489

# They describe one connection or the framing of one body, which are the sender's own (D-101).
CONNECTION_HEADERS = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


class OutgoingNames(Protocol):
    """What a delivery needs of a dialect."""

    @property
    def header_prefix(self) -> str: ...

    @property
    def user_agent(self) -> str: ...

    @property
    def issuer(self) -> str: ...


class _OwnNames(Record):
    message_id: str
    retried: str
    signature: str
    topic_name: str
    schedule_id: str
    caller_ip: str
    region: str
    never_forwarded: frozenset[str]


@lru_cache(maxsize=16)
def _own_names(prefix: str) -> _OwnNames:
    own = {
        "message_id": f"{prefix}Message-Id",
        "retried": f"{prefix}Retried",
        "signature": f"{prefix}Signature",
        "topic_name": f"{prefix}Topic-Name",
        "schedule_id": f"{prefix}Schedule-Id",
        "caller_ip": f"{prefix}Caller-Ip",
        "region": f"{prefix.lower()}region",
    }
    never_forwarded = {*CONNECTION_HEADERS, "proxy-connection", *(name.lower() for name in own.values())}
    return _OwnNames(**own, never_forwarded=frozenset(never_forwarded))


def request_headers(attempt: Attempt, *, dialect: OutgoingNames, signature: str, url: str | None = None) -> Headers:
    """Every header of the request, in the order they are sent (D-102).

    `url` is where the request goes if that is not the message's own URL (a rule's `forward_to`);
    it decides the Host header, nothing else.
    """
    message = attempt.message
    prefix = dialect.header_prefix
    names = _own_names(prefix)
    headers = [
        *_published(message.headers, prefix, dialect.user_agent, message.url, url or message.url),
        (names.message_id, message.message_id),
        (names.retried, str(attempt.number - 1)),
        (names.signature, signature),
    ]
    if message.url_group is not None:
        headers.append((names.topic_name, message.url_group))
    if message.schedule_id is not None:
        headers.append((names.schedule_id, message.schedule_id))
    if message.caller_ip:
        headers.append((names.caller_ip, message.caller_ip))
    headers.append((names.region, _region(attempt.region)))
    if message.run is not None:
        headers = _of_run(headers, message.run, prefix)
    if message.body or message.method is not Method.GET:
        headers.append(("Content-Length", str(len(message.body))))
    return tuple(headers)


def headers_of_attempt(
    message: Message, number: int, at_ms: int, outcome: AttemptOutcome, *, is_duplicate: bool = False
) -> Headers:
    """The headers of the request of an attempt that began at `at_ms`: as sent, or as they would have been."""
    unsent = outcome.unsent
    if unsent is None:
        return outcome.request_headers
    attempt = Attempt(
        message=message,
        number=number,
        at_ms=at_ms,
        answer=None,
        signing_key=unsent.signing_key,
        region=unsent.region,
        is_duplicate=is_duplicate,
    )
    signature = sign(attempt, issuer=unsent.issuer, wall_ms=unsent.wall_ms)
    return request_headers(attempt, dialect=unsent, signature=signature, url=unsent.url)


def _of_run(headers: list[tuple[str, str]], part: RunPart, prefix: str) -> list[tuple[str, str]]:
    """The headers of a call of a workflow run; the request of a call step has none of its own (D-367)."""
    if part.call_type is CallType.TO_CALLBACK:
        return headers
    own = [
        (f"{prefix}Workflow-RunId", part.run_id),
        (f"{prefix}Workflow-Init", "true" if part.is_init else "false"),
        (f"{prefix}Workflow-Url", part.url),
        (f"{prefix}Workflow-CreatedAt", str(part.run_created_ms)),
    ]
    if part.awaits_sdk:
        own.append((f"{prefix}Workflow-Unknown-Sdk", "true"))
    if part.call_type is CallType.FAILURE_CALL:
        own.append((f"{prefix}Workflow-Is-Failure", "true"))
        own.append((f"{prefix}Workflow-Failure-Callback", "true"))
    taken = {name.lower() for name, _ in own}
    return [*(pair for pair in headers if pair[0].lower() not in taken), *own]


def is_non_retryable(headers: Headers, status: int, prefix: str) -> bool:
    """Whether an answer asks for no further attempt: its status and its header together (D-017)."""
    if status != NON_RETRYABLE_STATUS:
        return False
    value = value_of(headers, f"{prefix}NonRetryable-Error")
    return value is not None and value.strip().lower() == "true"


@lru_cache(maxsize=64)
def _region(region: str) -> str:
    return region.upper()


# Cached: the attempts of one message, and the messages of one schedule, share these headers.
@lru_cache(maxsize=2048)
def _published(headers: Headers, prefix: str, user_agent: str, signed_url: str, url: str) -> Headers:
    """Host, then the headers as published, then defaults where the user gave none."""
    target = read_target(url)
    dropped = _own_names(prefix).never_forwarded
    published = [("Host", "" if target is None else target.host_header)]
    published += [pair for pair in headers if pair[0].lower() not in dropped]
    given = {name.lower() for name, _ in published}
    source = target if url == signed_url else read_target(signed_url)
    if source is not None and source.credentials is not None and "authorization" not in given:
        # The credentials of a URL never go over the wire in it (D-103).
        encoded = base64.b64encode(source.credentials.encode("utf-8", "replace")).decode("ascii")
        published.append(("Authorization", f"Basic {encoded}"))
    if "user-agent" not in given:
        published.append(("User-Agent", user_agent))
    if "accept-encoding" not in given:
        published.append(("Accept-Encoding", "gzip"))
    return tuple(published)
