"""What is wrong with the signature of a delivery, checked as a receiver does."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from emulator.client.records import Delivery, Dialect
from emulator.client.verify.expectations import Key
from emulator.queries.reports import Credentials


def problem_with_signature(
    delivery: Delivery, signed_with: Key, credentials: Credentials, dialect: Dialect
) -> str | None:
    """Why a delivery is not signed with that key, for its URL and its body; None if it is.

    Its times are not checked: a signature is for the moment of its delivery, which has passed on
    the wall clock, and `exp` and `nbf` are for the receiver, who had it then (D-104, D-250).
    """
    name = f"{dialect.header_prefix}Signature"
    tokens = delivery.headers.get_list(name)
    if len(tokens) != 1:
        return f"there are {len(tokens)} headers {name}" if tokens else f"there is no {name}"
    try:
        head, claims, signature = _read(tokens[0])
    except ValueError as error:
        return f"the signature cannot be read: {error}"
    if head.get("alg") != "HS256":
        return f'alg: expected "HS256", got {json.dumps(head.get("alg"))}'
    keys = {"current": credentials.current_signing_key, "next": credentials.next_signing_key}
    fitting = [name for name, key in keys.items() if _fits(key, tokens[0], signature)]
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


def _read(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
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


def _fits(key: str, token: str, signature: bytes) -> bool:
    signed = token.rpartition(".")[0]
    return hmac.compare_digest(hmac.digest(key.encode(), signed.encode(), "sha256"), signature)
