"""The request of one attempt: its headers, complete and in order, and its signature."""

from __future__ import annotations

import base64
import hmac
from binascii import b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

from msgspec import json

from emulator.core.language.text import value_of
from emulator.core.model.messages import Attempt, AttemptOutcome, Message
from emulator.core.model.options import CallType, Method, RunPart
from emulator.core.record import Headers, jwt_id
from emulator.wire.urls import read_target

# -- the signature of a delivery: a JWT over the destination URL and the body ------------------
# It is always HS256 with one header, so it is made here: a JWT library takes several times as long,
# and objects to short keys, which a user's fixtures may have.

LIFETIME_S = 300


@lru_cache(maxsize=256)
def _keyed(key: str) -> hmac.HMAC:
    """The state of HMAC-SHA256 after its key; each signature begins with a copy."""
    return hmac.new(key.encode(), digestmod=sha256)


def sign(attempt: Attempt, *, issuer: str, wall_ms: int) -> str:
    """The token of one attempt; each attempt is signed anew, with an id of its own.

    Units: epoch ms in, seconds in the token. Raises: nothing. Source: as `claims_of`.
    """
    return encode(claims_of(attempt, issuer=issuer, wall_ms=wall_ms), attempt.signing_key)


def claims_of(attempt: Attempt, *, issuer: str, wall_ms: int) -> dict[str, str | int]:
    """What the token of an attempt says.

    It is issued at the earlier of the virtual and the wall clock and expires 300 s after
    the later one, so a receiver accepts it on either clock, wherever the virtual one stands (D-104),
    and finds the virtual instant in one of them (D-505).
    The `body` claim keeps its base64 padding; receivers compare it without.

    Units: epoch ms in, seconds in the claims. Raises: nothing.
    Source: interface document, Authentication 1; the claims are not shown there (D-112).
    """
    message = attempt.message
    # Attempts are far fewer than 2^19; a duplicate has an id of its own, and so has each redelivery (D-421, D-705).
    number = attempt.number + (attempt.is_duplicate << 19) + (attempt.redelivery << 20)
    token_id = jwt_id(message.message_id.encode(), number)
    return claims_for(
        message.url, message.body, issuer=issuer, now_ms=attempt.at_ms, wall_ms=wall_ms, token_id=token_id
    )


def claims_for(url: str, body: bytes, *, issuer: str, now_ms: int, wall_ms: int, token_id: str) -> dict[str, str | int]:
    """What the token of a request says that is sent now; see `claims_of`."""
    return {
        "iss": issuer,
        "sub": url,
        "exp": max(wall_ms, now_ms) // 1000 + LIFETIME_S,
        "nbf": 0,
        "iat": min(wall_ms, now_ms) // 1000,
        "jti": token_id,
        "body": _hash_of(body) if len(body) > _SHORT_BODY else _short_hash_of(body),
    }


def encode(claims: dict[str, str | int], key: str) -> str:
    """Claims as a token, signed with a key. Raises: nothing."""
    signed = _HEADER + _part(_encode(claims))
    signature = _keyed(key).copy()
    signature.update(signed)
    return (signed + b"." + _part(signature.digest())).decode("ascii")


def _part(content: bytes) -> bytes:
    return _url_safe(content).rstrip(b"=")


def _url_safe(content: bytes) -> bytes:
    """Base64 for URLs (RFC 4648, 5), with its padding. The library's function takes three times as long."""
    return b2a_base64(content, newline=False).replace(b"+", b"-").replace(b"/", b"_")


def _hash_of(body: bytes) -> str:
    return _url_safe(sha256(body).digest()).decode("ascii")


# Bodies up to so many bytes are remembered by their hashes: the messages of one schedule have the same one.
_SHORT_BODY = 1024
_short_hash_of = lru_cache(maxsize=256)(_hash_of)


_HEADER = _part(b'{"alg":"HS256","typ":"JWT"}') + b"."
_encode = json.Encoder().encode


# -- the request headers of one attempt -------------------------------------------------------
# The HTTP client adds nothing to them, so the delivery journal shows exactly what a receiver saw.
# Source: interface document, Svc-Forward-*, Content-Type and Authentication 1.

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


_OWN_NAMES = ("Message-Id", "Retried", "Signature", "Topic-Name", "Schedule-Id", "Caller-Ip")


@lru_cache(maxsize=16)
def _own_names(prefix: str) -> dict[str, str]:
    """The names of the service's own headers, by what follows the prefix."""
    return {**{name: prefix + name for name in _OWN_NAMES}, "region": f"{prefix.lower()}region"}


@lru_cache(maxsize=16)
def _never_forwarded(prefix: str) -> frozenset[str]:
    own = (name.lower() for name in _own_names(prefix).values())
    return frozenset((*CONNECTION_HEADERS, "proxy-connection", *own))


def is_delivery(raw_names: Iterable[bytes]) -> bool:
    """Whether a request with headers of these names is a delivery, of whichever dialect.

    Every delivery has the id of its message and a signature, and publishers can forward neither name. The prefix of
    both is the dialect's, which another emulator may have from a file of its own (D-771). Raises: nothing.
    """
    # A gateway of WSGI knows no hyphens.
    names = {name.lower().replace(b"_", b"-") for name in raw_names}
    return any(name.endswith(_SIGNATURE) and name.removesuffix(_SIGNATURE) + _MESSAGE_ID in names for name in names)


_SIGNATURE, _MESSAGE_ID = b"-signature", b"-message-id"


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
        (names["Message-Id"], message.message_id),
        (names["Retried"], str(attempt.number - 1)),
        (names["Signature"], signature),
    ]
    if message.source.url_group is not None:
        headers.append((names["Topic-Name"], message.source.url_group))
    if message.source.schedule_id is not None:
        headers.append((names["Schedule-Id"], message.source.schedule_id))
    if message.source.caller_ip:
        headers.append((names["Caller-Ip"], message.source.caller_ip))
    headers.append((names["region"], _region(attempt.region)))
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
        redelivery=outcome.redelivery,
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
    if part.names_sdk:
        # As a client forwards it to itself: without it the endpoint would take the list of steps for the payload.
        own.append((f"{prefix}Workflow-Sdk-Version", "1"))
    if part.call_type is CallType.FAILURE_CALL:
        own += [(f"{prefix}Workflow-Is-Failure", "true"), (f"{prefix}Workflow-Failure-Callback", "true")]
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
    dropped = _never_forwarded(prefix)
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
