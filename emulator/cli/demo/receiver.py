"""The demo's receiver: a real HTTP server that believes no delivery without a valid signature."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jwt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from emulator.cli.demo.story import Arrival, Delivery, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeys:
    """What a receiver knows of the sender: who it is, its key, and the key it will have next."""

    issuer: str
    current: str
    next: str


class Receiver:
    """Checks and remembers every request, and answers by `replies`: one per attempt, the last repeats."""

    def __init__(self, url: str, keys: SigningKeys, header_prefix: str, replies: Mapping[str, Sequence[Reply]]) -> None:
        self._receipts: dict[tuple[str, int], str | None] = {}
        self._url = url
        self._keys = keys
        self._prefix = header_prefix
        self._replies = replies
        self._seen: Counter[str] = Counter()
        self.app = Starlette(routes=[Route("/{path:path}", self._receive, methods=["POST"])])

    def confirm(self, entry: Mapping[str, Any]) -> Delivery:
        """An entry of the delivery journal, with what became of its signature here."""
        response = entry["response"]
        return Delivery(
            arrival=Arrival(
                at=entry["at"],
                path=urlsplit(entry["url"]).path,
                attempt=entry["attempt"],
                status=None if response is None else response["status"],
            ),
            message_id=entry["message_id"],
            problem=self._receipts.get((entry["message_id"], entry["attempt"]), "never arrived"),
        )

    async def _receive(self, request: Request) -> Response:
        path, headers = request.url.path, request.headers
        message_id = headers.get(f"{self._prefix}Message-Id", "")
        attempt = int(headers.get(f"{self._prefix}Retried", "0")) + 1
        problem = self._problem(headers.get(f"{self._prefix}Signature", ""), path, await request.body())
        self._receipts[message_id, attempt] = problem
        if problem is not None:
            return Response(problem, 401)
        replies = self._replies.get(path, (Reply(),))
        reply = replies[min(self._seen[path], len(replies) - 1)]
        self._seen[path] += 1
        hint = {} if reply.retry_after_s is None else {"Retry-After": str(reply.retry_after_s)}
        return Response(status_code=reply.status, headers=hint)

    def _problem(self, signature: str, path: str, body: bytes) -> str | None:
        """What a receiver checks: key, issuer, time, destination and body."""
        try:
            claims = self._claims(signature)
        except jwt.InvalidTokenError as error:
            return f"invalid signature: {error}"
        if claims["sub"] != self._url + path:
            return f"the signature is for {claims['sub']}"
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
        if claims["body"].rstrip("=") != digest:
            return "the signature is for another body"
        return None

    def _claims(self, signature: str) -> dict[str, str]:
        try:
            return self._decoded(signature, self._keys.current)
        except jwt.InvalidSignatureError:
            # Signed after a rotation of the keys that this receiver has not heard of.
            return self._decoded(signature, self._keys.next)

    def _decoded(self, signature: str, key: str) -> dict[str, str]:
        required = ["iss", "sub", "exp", "nbf", "body"]
        claims: dict[str, str] = jwt.decode(
            signature, key, algorithms=["HS256"], issuer=self._keys.issuer, options={"require": required}
        )
        return claims
