from __future__ import annotations

import time
import warnings

import jwt
import pytest
from qstash import Receiver

from emulator.core.identifiers import jwt_id
from emulator.wire.messaging.signing import sign
from tests.delivery.samples import NEXT_SIGNING_KEY, SIGNING_KEY, attempt

VIRTUAL_MS = 1_767_225_600_999
WALL_MS = 1_760_000_000_500


def decoded(token: str, key: str = SIGNING_KEY) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(token, key, algorithms=["HS256"], options={"verify_exp": False})
    return claims


def test_the_token_says_what_was_sent_where_and_when() -> None:
    """D-104, D-112."""
    token = sign(attempt(body=b"", at_ms=VIRTUAL_MS), issuer="Svc", wall_ms=WALL_MS)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert decoded(token) == {
        "iss": "Svc",
        "sub": "https://api.example.com/hook",
        "exp": 1_767_225_900,
        "nbf": 0,
        "iat": 1_760_000_000,
        "jti": jwt_id(b"msg_1", 1),
        "body": "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
    }


def test_a_virtual_clock_in_the_past_gives_a_token_that_lives_now() -> None:
    """D-104."""
    claims = decoded(sign(attempt(at_ms=WALL_MS), issuer="Svc", wall_ms=VIRTUAL_MS))
    assert (claims["iat"], claims["exp"]) == (1_760_000_000, 1_767_225_900)


@pytest.mark.parametrize("offset_ms", [0, 86_400_000, 10 * 365 * 86_400_000, -86_400_000, -50 * 365 * 86_400_000])
@pytest.mark.parametrize("body", [b"", b"hello", "schön ☃".encode()], ids=["empty", "ascii", "unicode"])
def test_the_public_receiver_accepts_it_wherever_the_virtual_clock_stands(offset_ms: int, body: bytes) -> None:
    wall_ms = time.time_ns() // 1_000_000
    made = attempt(body=body, at_ms=wall_ms + offset_ms)
    signature = sign(made, issuer="Upstash", wall_ms=wall_ms)
    receiver = Receiver(SIGNING_KEY, NEXT_SIGNING_KEY)
    receiver.verify(signature=signature, body=body.decode(), url="https://api.example.com/hook")


def test_the_public_receiver_accepts_it_by_its_next_key_after_a_rotation() -> None:
    wall_ms = time.time_ns() // 1_000_000
    signature = sign(attempt(signing_key=NEXT_SIGNING_KEY, at_ms=wall_ms), issuer="Upstash", wall_ms=wall_ms)
    Receiver(SIGNING_KEY, NEXT_SIGNING_KEY).verify(signature=signature, body="hello")


def test_a_key_signs_as_it_is_however_short_it_is() -> None:
    """A warning of the JWT library would fail this test."""
    token = sign(attempt(signing_key="short", at_ms=VIRTUAL_MS), issuer="Svc", wall_ms=WALL_MS)
    with warnings.catch_warnings(action="ignore"):  # Reading it may warn; signing it did not.
        assert decoded(token, "short")["jti"] == jwt_id(b"msg_1", 1)
