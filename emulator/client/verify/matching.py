"""Whether messages were delivered as a test expects, and which of the others comes nearest.

Which of a message's attempts an expectation speaks of.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import operator
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from typing import Any, TypeAlias

from emulator.client.errors import is_error_of_a_call
from emulator.client.records import Delivery, Dialect
from emulator.client.resources import MessageStatus
from emulator.client.session import Session
from emulator.client.verify.differences import (
    bytes_difference,
    first_difference,
    json_differences,
    shown,
    text_difference,
)
from emulator.client.verify.expectations import Expectation, ExpectedTime, HeaderValue, Key, counted
from emulator.core.language.text import near
from emulator.core.record import jwt_id
from emulator.core.rules.destination_rules import matches_url
from emulator.queries.reports import Credentials
from emulator.wire.messaging.outgoing import claims_for, encode
from emulator.wire.redaction import Surface, visibility_of_fields
from emulator.wire.times import format_duration, iso
from emulator.wire.urls import read_target

# D-250.

# Of the lines about one keyword, the first are enough.
_MAX_LINES = 12

# A value of an attempt, and the text that shows it.
_Shown: TypeAlias = tuple[int | None, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message with its attempts so far. Without any, or where it is asked for, `status` says where it stands."""

    attempts: tuple[Delivery, ...]
    status: MessageStatus | None = None

    @property
    def known(self) -> Delivery | MessageStatus:
        """Its last attempt, or else the message: what both have is the same."""
        if self.attempts:
            return self.last
        assert self.status is not None
        return self.status

    @property
    def is_whole(self) -> bool:
        """Whether the journal has its first attempt still, and so all of them."""
        return not self.attempts or self.first.attempt == 1

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended. Those that have are not asked for their status, or have an end."""
        return self.status is not None and self.status.ended_ms is None

    @property
    def first(self) -> Delivery:
        return self.attempts[0]

    @property
    def last(self) -> Delivery:
        return self.attempts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message and how it differs from the expectation: lines by the keyword. One without findings meets it."""

    message: Sent
    findings: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """An expectation that is not met: the messages that are as expected, and the nearest of the others.

    There is no nearest one if there are no others, or if too many are as expected.
    """

    expectation: Expectation
    fulfilled: tuple[Sent, ...]
    nearest: Candidate | None


def check(
    expectation: Expectation,
    deliveries: Sequence[Delivery],
    credentials: Credentials,
    dialect: Dialect,
    statuses: Sequence[MessageStatus] = (),
) -> Mismatch | None:
    """Whether the messages of a world are as expected; None if they are.

    `deliveries` are all that its journal holds of those that may be meant, in any order; `credentials`
    those that are valid now; `statuses` of messages that have not ended or were not tried.
    """
    candidates = [
        Candidate(message=message, findings=dict(_findings(expectation, message, credentials, dialect)))
        for message in messages_of(deliveries, statuses)
    ]
    fulfilled = tuple(candidate.message for candidate in candidates if not candidate.findings)
    is_met = bool(fulfilled) if expectation.times is None else len(fulfilled) == expectation.times
    if is_met:
        return None
    are_too_many = expectation.times is not None and len(fulfilled) > expectation.times
    others = [] if are_too_many else [candidate for candidate in candidates if candidate.findings]
    # Of equally near ones the latest, which the test has probably just caused.
    nearest = min(reversed(others), key=lambda candidate: _distance(expectation, candidate), default=None)
    return Mismatch(expectation=expectation, fulfilled=fulfilled, nearest=nearest)


def likeness(wanted: str, url: str) -> float:
    """How much two URLs begin and end alike, 1 if they are the same."""
    head = first_difference(wanted, url)
    tail = first_difference(wanted[head:][::-1], url[head:][::-1])
    return (head + tail) / max(len(wanted), len(url), 1)


def messages_of(deliveries: Sequence[Delivery], statuses: Sequence[MessageStatus] = ()) -> list[Sent]:
    """The messages in the order in which they were first tried; then those that were not."""
    found: dict[str, list[Delivery]] = {}
    for delivery in sorted(deliveries, key=lambda delivery: (delivery.at_ms, delivery.seq)):
        found.setdefault(delivery.message_id, []).append(delivery)
    known = {status.message_id: status for status in statuses}
    tried = [Sent(tuple(attempts), known.get(message_id)) for message_id, attempts in found.items()]
    others = (each for each in statuses if each.message_id not in found)
    return tried + [Sent((), each) for each in others if not each.attempts or each.ended_ms is None]


def _distance(expectation: Expectation, candidate: Candidate) -> tuple[bool, float, int, int]:
    """A sort key: another message or another URL counts for more than any difference of content."""
    unlike = 0.0
    if "url" in candidate.findings and expectation.url is not None:
        unlike = 1.0 - likeness(expectation.url, candidate.message.known.url) / 2
    lines = sum(map(len, candidate.findings.values()))
    return "message_id" in candidate.findings, unlike, len(candidate.findings), lines


# Yields how a message differs from the value of one keyword.
_Check: TypeAlias = Callable[[Any, Sent], Iterator[str]]


# -- one message ------------------------------------------------------------------------------


def _findings(
    expectation: Expectation, message: Sent, credentials: Credentials, dialect: Dialect
) -> Iterator[tuple[str, tuple[str, ...]]]:
    checks: dict[str, _Check] = {
        **_CHECKS,
        "signed_with": partial(_signed_with, credentials=credentials, dialect=dialect),
    }
    for about in expectation.aspects:
        if not message.attempts and about not in _OF_THE_MESSAGE:
            yield about, ("not tried so far",)
            continue
        lines = checks[about](getattr(expectation, about), message)
        shown_lines = tuple(islice(lines, _MAX_LINES))
        if shown_lines:
            more = sum(1 for _ in lines)
            yield about, (*shown_lines, f"... {more} more") if more else shown_lines


def _plain(wanted: str, got: str, fits: Callable[[str, str], bool] = operator.eq) -> Iterator[str]:
    if not fits(wanted, got):
        yield f"expected {wanted}, got {got}"


def _attempts(wanted: int, message: Sent) -> Iterator[str]:
    got = len(message.attempts) or (message.status.attempts if message.status is not None else 0)
    if got != wanted:
        first = message.first.attempt if message.attempts else 1
        lost = f" (the journal begins with attempt {first}: it was cleared)" if first > 1 else ""
        yield f"expected {wanted}, got {got}{lost}"


def _pending(wanted: bool, message: Sent) -> Iterator[str]:
    if message.is_waiting is not wanted:
        state = message.status.state if message.status is not None else "ended"
        yield f"expected a message that {'waits' if wanted else 'has ended'}, it is {state}"


def _label(wanted: str, message: Sent) -> Iterator[str]:
    labels = message.known.labels
    if wanted not in labels:
        yield f"expected {wanted}, got {', '.join(labels) or 'none'}"


def _of(name: str) -> _Check:
    """The check of a name that a message may have."""

    def check(wanted: str, message: Sent) -> Iterator[str]:
        return _plain(wanted, getattr(message.known, name) or "none")

    return check


def _each_attempt(verb: str, wanted: Sequence[_Shown], got: Sequence[_Shown]) -> Iterator[str]:
    """Lines for the attempts that differ; each value comes with its text."""
    for number, (expected, found) in enumerate(zip_longest(wanted, got), 1):
        if expected is None:
            yield f"attempt {number}: unexpected, {verb} {found[1]}"
        elif found is None:
            yield f"attempt {number}: expected {expected[1]}, not made so far"
        elif expected[0] != found[0]:
            yield f"attempt {number}: expected {expected[1]}, {verb} {found[1]}"


def _at(moments: Sequence[ExpectedTime], message: Sent) -> Iterator[str]:
    created_ms = message.first.created_ms
    wanted = [(moment.since(created_ms), _both(moment, created_ms)) for moment in moments]
    began = [each.at_ms for each in message.attempts]
    shown_began = [(at_ms, f"+{format_duration(at_ms - created_ms)} ({iso(at_ms)})") for at_ms in began]
    return _each_attempt("began", wanted, shown_began)


def _both(moment: ExpectedTime, created_ms: int) -> str:
    """A moment as it was given, and in the other way."""
    instant_ms = moment.since(created_ms)
    other = f"+{format_duration(instant_ms - created_ms)}" if moment.absolute else iso(instant_ms)
    return f"{moment} ({other})"


def _status(wanted: int | tuple[int | None, ...], message: Sent) -> Iterator[str]:
    last = message.last
    if isinstance(wanted, tuple):
        shown_wanted = [(status, "no response" if status is None else str(status)) for status in wanted]
        yield from _each_attempt("got", shown_wanted, [(each.status, _answer(each)) for each in message.attempts])
    elif last.status != wanted:
        which = "" if len(message.attempts) == 1 else f" for attempt {last.attempt}, the last so far"
        yield f"expected {wanted}, got {_answer(last)}{which}"


def _answer(delivery: Delivery) -> str:
    return f"no response ({delivery.error})" if delivery.response is None else str(delivery.response.status)


def _outcome(wanted: str, message: Sent) -> Iterator[str]:
    if message.last.succeeded is not (wanted == "succeeded"):
        yield f"expected {wanted}, but attempt {message.last.attempt} got {_answer(message.last)}"


def _body(wanted: bytes, message: Sent) -> Iterator[str]:
    if message.last.body != wanted:
        lines = iter((bytes_difference(wanted, message.last.body),))
        hides = message.last.body and visibility_of_fields(message.last.redacts, Surface.OWN).hides_body
        yield from _redacted_lines(lines) if hides else lines


def _body_json(wanted: Any, message: Sent) -> Iterator[str]:
    if message.last.body and visibility_of_fields(message.last.redacts, Surface.OWN).hides_body:
        yield from _redacted_lines(_json_lines(wanted, message))
    else:
        yield from _json_lines(wanted, message)


def _redacted_lines(lines: Iterator[str]) -> Iterator[str]:
    """Instead of differences of what is redacted, that there are some."""
    # No text of a failed check has redacted content (D-779).
    if any(lines):
        yield "differs, and is redacted; emulator.deliveries() has the original"


def _json_lines(wanted: Any, message: Sent) -> Iterator[str]:
    try:
        got = message.last.json()
    except (ValueError, RecursionError):
        body = message.last.body
        yield "expected JSON, got an empty body" if not body else f"expected JSON, got {shown(message.last.text)}"
        return
    yield from json_differences(wanted, got)


def _headers(expected: Sequence[tuple[str, HeaderValue]], message: Sent) -> Iterator[str]:
    headers = message.last.headers
    redaction = visibility_of_fields(message.last.redacts, Surface.OWN)
    for name, wanted in expected:
        values = headers.get_list(name)
        # Several headers of one name mean the same as one with all values, between commas.
        if values and wanted is not None and any(_fits(wanted, each) for each in (*values, ", ".join(values))):
            continue
        if values and redaction.hides_header(name):
            yield from (f"{name}: {line}" for line in _redacted_lines(iter((name,))))
        elif values:
            yield _unfit(name, wanted, ", ".join(values))
        elif wanted is not None:
            sent = [raw.decode("latin-1") for raw, _ in headers.raw]
            hint = "".join(f"; did you mean {each}?" for each in near(name, sent))
            yield f"{name}: missing, expected {_wanted(wanted)}{hint}"


def _fits(wanted: str | re.Pattern[str], value: str) -> bool:
    return wanted.search(value) is not None if isinstance(wanted, re.Pattern) else wanted == value


def _unfit(name: str, wanted: HeaderValue, value: str) -> str:
    match wanted:
        case None:
            return f"{name}: expected none, got {shown(value)}"
        case str():
            return f"{name}: {text_difference(wanted, value)}"
        case _:
            return f"{name}: expected {_wanted(wanted)}, got {shown(value)}"


def _wanted(wanted: str | re.Pattern[str]) -> str:
    return f"a value with {wanted.pattern!r} in it" if isinstance(wanted, re.Pattern) else shown(wanted)


def _signed_with(wanted: Key, message: Sent, *, credentials: Credentials, dialect: Dialect) -> Iterator[str]:
    problems = [
        (f"attempt {each.attempt}", problem_with_signature(each, wanted, credentials, dialect))
        for each in message.attempts
    ]
    if len(problems) > 1 and len({problem for _, problem in problems}) == 1:
        problems = [(f"all {counted(len(problems), 'attempt')}", problems[0][1])]
    for which, problem in problems:
        if problem is not None:
            yield problem if len(message.attempts) == 1 else f"{which}: {problem}"


# What a message has before its first attempt.
_OF_THE_MESSAGE = ("message_id", "url", "method", "label", "queue", "schedule_id", "pending", "attempts")
_CHECKS: dict[str, _Check] = {
    "message_id": lambda wanted, message: _plain(wanted, message.known.message_id),
    "url": lambda wanted, message: _plain(wanted, message.known.url, matches_url),
    "method": lambda wanted, message: _plain(wanted, message.known.method),
    "label": _label,
    "queue": _of("queue"),
    "schedule_id": _of("schedule_id"),
    "pending": _pending,
    "attempts": _attempts,
    "at": _at,
    "status": _status,
    "outcome": _outcome,
    "body": _body,
    "body_json": _body_json,
    "headers": _headers,
}


def problem_with_signature(
    delivery: Delivery, signed_with: Key, credentials: Credentials, dialect: Dialect
) -> str | None:
    """Why a delivery is not signed with that key, for its URL and its body; None if it is.

    Its times are not checked: a signature is for the moment of its delivery, which has passed on
    the wall clock, and `exp` and `nbf` are for the receiver, who had it then.
    """
    # D-104, D-250.
    name = f"{dialect.header_prefix}Signature"
    tokens = delivery.headers.get_list(name)
    if len(tokens) != 1:
        return f"there are {len(tokens)} headers {name}" if tokens else f"there is no {name}"
    try:
        head, claims, signature = _token_parts(tokens[0])
    except ValueError as error:
        return f"the signature cannot be read: {error}"
    if head.get("alg") != "HS256":
        return f'alg: expected "HS256", got {json.dumps(head.get("alg"))}'
    keys = {"current": credentials.current_signing_key, "next": credentials.next_signing_key}
    signed = tokens[0].rpartition(".")[0].encode()
    made = {name: hmac.digest(key.encode(), signed, "sha256") for name, key in keys.items()}
    fitting = [name for name, digest in made.items() if hmac.compare_digest(digest, signature)]
    if signed_with not in fitting:
        if fitting:
            return f"expected the {signed_with} key, it is signed with the {fitting[0]} one"
        return "it is signed with neither key of this world's first account (were they rotated afterwards?)"
    for claim, wanted in (("iss", dialect.issuer), ("sub", delivery.url)):
        if claims.get(claim) != wanted:
            return f"{claim}: expected {json.dumps(wanted)}, got {json.dumps(claims.get(claim))}"
    digest = urlsafe_b64encode(hashlib.sha256(delivery.body).digest()).decode()
    # Receivers compare without the padding, so both spellings are right.
    if str(claims.get("body")).rstrip("=") != digest.rstrip("="):
        return "body: the hash is that of another body"
    return None


def _token_parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Head, claims and signature. Raises: ValueError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("expected three parts")
    head, claims = (json.loads(_decoded(part)) for part in parts[:2])
    if not isinstance(head, dict) or not isinstance(claims, dict):
        raise ValueError("expected JSON objects")
    return head, claims, _decoded(parts[2])


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


__tracebackhide__ = is_error_of_a_call


async def signature_headers(session: Session, url: str, body: bytes) -> dict[str, str]:
    """The headers of a delivery to `url` that is signed now. Raises ValueError for what is no URL."""
    if not isinstance(url, str) or read_target(url) is None:
        raise ValueError(f"url: expected a URL such as https://app.test/hook, got {url!r}")
    claims = claims_for(
        url,
        body,
        issuer=session.dialect.issuer,
        now_ms=(await session.clock()).now_ms,
        wall_ms=int(time.time() * 1000),
        token_id=jwt_id(secrets.token_bytes(16), 0),
    )
    return {f"{session.dialect.header_prefix}Signature": encode(claims, session.credentials.current_signing_key)}
