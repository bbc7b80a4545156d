"""The signatures that the battery sends: good ones, and each that a receiver has to refuse."""

from __future__ import annotations

from enum import StrEnum

import jwt
from msgspec.structs import replace

from emulator.core.model.messages import Attempt
from emulator.wire.messaging.signing import claims_of, encode

_HOUR_S = 3600
_UNKNOWN_KEY = "sig_unknown_to_every_receiver_of_the_world"


class Signature(StrEnum):
    """How a request is signed; the value says it in a report."""

    CURRENT = "signed with the current key"
    NEXT = "signed with the next key"
    OTHER_BODY = "signed with the current key for another body"
    OTHER_URL = "signed with the current key for another URL"
    UNKNOWN_KEY = "signed with an unknown key"
    NONE = 'with the algorithm "none" in place of a signature'
    EXPIRED = "signed with the current key, expired an hour ago"
    NOT_YET = "signed with the current key, valid in an hour"
    MALFORMED = "with the signature `not-a-token`"
    MISSING = "without a signature"


def token_of(attempt: Attempt, kind: Signature, *, issuer: str, token_id: str) -> str:
    """The signature header's value, empty for none. The attempt has the key that signs, and begins now.

    `token_id` differs for every request: the same attempt of a message that is delivered twice is signed anew.
    Each differs from the good one in what its name says, and in nothing else. Raises: nothing.
    """
    message = attempt.message
    if kind is Signature.OTHER_BODY:
        attempt = replace(attempt, message=replace(message, body=message.body + b" "))
    if kind is Signature.OTHER_URL:
        attempt = replace(attempt, message=replace(message, url=f"{message.url}/other"))
    claims = {**claims_of(attempt, issuer=issuer, wall_ms=attempt.at_ms), "jti": token_id}
    now_s = attempt.at_ms // 1000
    match kind:
        case Signature.MISSING:
            return ""
        case Signature.MALFORMED:
            return "not-a-token"
        case Signature.NONE:
            return jwt.encode(claims, "", algorithm="none")
        case Signature.UNKNOWN_KEY:
            return encode(claims, _UNKNOWN_KEY)
        case Signature.EXPIRED:
            return encode({**claims, "iat": now_s - 2 * _HOUR_S, "exp": now_s - _HOUR_S}, attempt.signing_key)
        case Signature.NOT_YET:
            return encode({**claims, "nbf": now_s + _HOUR_S, "exp": now_s + 2 * _HOUR_S}, attempt.signing_key)
        case _:
            return encode(claims, attempt.signing_key)
