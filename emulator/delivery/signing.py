"""The signature of a delivery: a JWT over the destination URL and the body.

PyJWT is imported at the first signature, because the import is slow and a server that only answers
health checks does not need it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING

from emulator.core.model import Attempt

if TYPE_CHECKING:
    from jwt import PyJWS

LIFETIME_S = 300

# Made once: json.dumps with options of its own makes an encoder at every call.
_to_json = json.JSONEncoder(separators=(",", ":")).encode


def sign(attempt: Attempt, *, issuer: str, wall_ms: int, now_ms: int) -> str:
    """The token of one attempt; each attempt is signed anew.

    It is issued at the earlier of the virtual (`now_ms`) and the wall clock and expires 300 s after
    the later one, so a receiver accepts it on either clock, wherever the virtual one stands (D-104).
    The `body` claim keeps its base64 padding; receivers compare it without.

    Units: epoch ms in, seconds in the token. Raises: nothing.
    Source: interface document, Authentication 1; the claims are not shown there (D-112).
    """
    message = attempt.message
    digest = hashlib.sha256(message.body).digest()
    claims = {
        "iss": issuer,
        "sub": message.url,
        "exp": max(wall_ms, now_ms) // 1000 + LIFETIME_S,
        "nbf": 0,
        "iat": min(wall_ms, now_ms) // 1000,
        "jti": attempt.token_id,
        "body": base64.urlsafe_b64encode(digest).decode("ascii"),
    }
    return _signer().encode(_to_json(claims).encode(), attempt.signing_key, "HS256")


@lru_cache(maxsize=1)
def _signer() -> PyJWS:
    from jwt import PyJWS
    from jwt.algorithms import HMACAlgorithm

    class SigningKeyHmac(HMACAlgorithm):
        """HS256 with the key as it is.

        PyJWT looks at every key for signs of a certificate or a JSON key, and warns about a short
        one. The service's keys are opaque texts, and a user's fixtures may make them short.
        """

        def prepare_key(self, key: str | bytes) -> bytes:
            return key.encode() if isinstance(key, str) else key

        def check_key_length(self, key: bytes) -> str | None:
            return None

    signer = PyJWS(algorithms=["HS256"])
    signer.unregister_algorithm("HS256")
    signer.register_algorithm("HS256", SigningKeyHmac(HMACAlgorithm.SHA256))
    return signer
