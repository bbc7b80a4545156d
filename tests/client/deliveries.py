"""Deliveries and their snapshot as a server would answer them, made by hand."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from httpx import Headers

from emulator.client.records import Delivery, Dialect, Response
from emulator.client.verify.expectations import Expected, expectation
from emulator.client.verify.matching import Mismatch, check
from emulator.client.verify.mismatches import text_of
from emulator.client.verify.timeline import WorldSnapshot
from emulator.core.model.messages import Via
from emulator.core.record import AccountId
from emulator.queries.reports import ClockStatus, Credentials
from tests.harness.emulators import EPOCH_MS

SVC = Dialect(name="svc", header_prefix="Svc-", issuer="Svc")
CURRENT, NEXT = "sig_current_key_of_thirty_two_chars", "sig_next_key_of_more_than_thirty_two"
CREDENTIALS = Credentials(
    account_id=AccountId("account"),
    token="token",
    read_only_token="read only",
    current_signing_key=CURRENT,
    next_signing_key=NEXT,
    username="user",
    password="password",
    search_index_ids=(),
    vector_index_ids=(),
)


def delivery(
    message: str = "a",
    *,
    after_s: float = 0,
    attempt: int = 1,
    url: str = "https://app.test/hook",
    method: str = "POST",
    status: int | None = 200,
    error: str = "connection refused",
    body: bytes = b"",
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    via: Via = Via.RULE,
    created_s: float = 0,
    redacts: tuple[str, ...] = (),
) -> Delivery:
    """An attempt of the message `message`, `after_s` seconds after it was made; without a status it failed."""
    at_ms = EPOCH_MS + round((created_s + after_s) * 1000)
    return Delivery(
        seq=at_ms - EPOCH_MS + attempt,
        at_ms=at_ms,
        created_ms=EPOCH_MS + round(created_s * 1000),
        message_id=message_id(message),
        attempt=attempt,
        method=method,
        url=url,
        headers=Headers([*(headers.items() if isinstance(headers, Mapping) else headers)]),
        body=body,
        via=via,
        response=None if status is None else Response(status),
        error=error if status is None else None,
        duration_ms=0,
        redacts=redacts,
    )


def message_id(name: str) -> str:
    return f"msg_7YoJx{name:->48}"


def signature(
    key: str, *, algorithm: str = "HS256", body: bytes = b"", hash: str | None = None, **claims: object
) -> str:
    """A signature of a body for https://app.test/hook, unless a claim says otherwise."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode() if hash is None else hash
    return jwt.encode(
        {"iss": "Svc", "sub": "https://app.test/hook", "body": digest, **claims}, key, algorithm=algorithm
    )


def checked(deliveries: Sequence[Delivery], **expected: Any) -> Mismatch | None:
    """What `verify` finds of these deliveries; the keywords are its own."""
    wanted: Expected = expected  # type: ignore[assignment]  # tests also give what the types forbid
    return check(expectation(**wanted), deliveries, CREDENTIALS, SVC)


def findings(deliveries: Sequence[Delivery], **expected: Any) -> dict[str, tuple[str, ...]]:
    """What differs at the nearest message."""
    mismatch = checked(deliveries, **expected)
    assert mismatch is not None
    assert mismatch.nearest is not None
    return dict(mismatch.nearest.findings)


def told(
    deliveries: Sequence[Delivery],
    *,
    now_s: float = 0,
    rate: float = 0,
    items: Sequence[Mapping[str, Any]] = (),
    waiting: Sequence[Mapping[str, Any]] = (),
    explanations: Mapping[str, str] | None = None,
    **expected: Any,
) -> str:
    """The text of a failed `verify` in these snapshot."""
    mismatch = checked(deliveries, **expected)
    assert mismatch is not None
    return text_of(
        mismatch,
        WorldSnapshot(
            deliveries=deliveries,
            clock=clock(now_s, rate=rate),
            upcoming=upcoming(now_s, items, waiting),
            explanations=explanations or {},
        ),
    )


def clock(now_s: float = 0, *, rate: float = 0) -> ClockStatus:
    return ClockStatus(now_ms=EPOCH_MS + round(now_s * 1000), rate=rate, next_due_ms=None, pending=0, in_flight=0)


def upcoming(
    now_s: float = 0, items: Sequence[Mapping[str, Any]] = (), waiting: Sequence[Mapping[str, Any]] = ()
) -> Mapping[str, Any]:
    """The answer of the control API, as far as it is used."""
    return {"now_ms": EPOCH_MS + round(now_s * 1000), "items": list(items), "waiting": list(waiting)}


def due(at_s: float, kind: str, why: str, **subject: str) -> Mapping[str, Any]:
    return {"kind": kind, "at_ms": EPOCH_MS + round(at_s * 1000), "why": why, **subject}


def lines(text: str) -> list[str]:
    """A text as it is compared: one that is written over several lines begins with an empty one."""
    return text.removeprefix("\n").splitlines()
