"""The signature of a delivery: a JWT over the destination URL and the body.

It is always HS256 with one header, so it is made here: a JWT library takes several times as long,
and objects to short keys, which a user's fixtures may have.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256

from msgspec import json

from emulator.core.identifiers import jwt_id
from emulator.core.model.messages import Attempt

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
    the later one, so a receiver accepts it on either clock, wherever the virtual one stands (D-104).
    The `body` claim keeps its base64 padding; receivers compare it without.

    Units: epoch ms in, seconds in the claims. Raises: nothing.
    Source: interface document, Authentication 1; the claims are not shown there (D-112).
    """
    message, now_ms = attempt.message, attempt.at_ms
    return {
        "iss": issuer,
        "sub": message.url,
        "exp": max(wall_ms, now_ms) // 1000 + LIFETIME_S,
        "nbf": 0,
        "iat": min(wall_ms, now_ms) // 1000,
        # Attempts are far fewer than 2^19; a duplicate has an id of its own (D-421).
        "jti": jwt_id(message.message_id.encode(), attempt.number + (attempt.is_duplicate << 19)),
        "body": urlsafe_b64encode(sha256(message.body).digest()).decode("ascii"),
    }


def encode(claims: dict[str, str | int], key: str) -> str:
    """Claims as a token, signed with a key. Raises: nothing."""
    signed = _HEADER + b"." + _part(json.encode(claims))
    signature = _keyed(key).copy()
    signature.update(signed)
    return (signed + b"." + _part(signature.digest())).decode("ascii")


def _part(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


_HEADER = _part(b'{"alg":"HS256","typ":"JWT"}')
