"""The demo's receiver: a real HTTP server that refuses deliveries without a valid signature."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import jwt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from emulator.cli.demo.story import Arrival, Delivery, Reply
from emulator.client.records import Delivery as JournalEntry
from emulator.client.records import Dialect
from emulator.queries.reports import Credentials
from emulator.wire.instants import iso


class Receiver:
    """Checks and remembers every request, and answers by `replies`: one per attempt, the last repeats."""

    def __init__(
        self, url: str, credentials: Credentials, dialect: Dialect, replies: Mapping[str, Sequence[Reply]]
    ) -> None:
        self._receipts: dict[tuple[str, int], str | None] = {}
        self._url = url
        self._credentials = credentials
        self._dialect = dialect
        self._replies = replies
        self._seen: Counter[str] = Counter()
        self.app = Starlette(routes=[Route("/{path:path}", self._receive, methods=["POST"])])

    def confirm(self, delivery: JournalEntry) -> Delivery:
        """An entry of the delivery journal, with what this receiver found wrong with its signature."""
        return Delivery(
            arrival=Arrival(
                at=iso(delivery.at_ms),
                path=urlsplit(delivery.url).path,
                attempt=delivery.attempt,
                status=delivery.status,
            ),
            message_id=delivery.message_id,
            problem=self._receipts.get((delivery.message_id, delivery.attempt), "never arrived"),
        )

    async def _receive(self, request: Request) -> Response:
        path, headers, prefix = request.url.path, request.headers, self._dialect.header_prefix
        message_id = headers.get(f"{prefix}Message-Id", "")
        attempt = int(headers.get(f"{prefix}Retried", "0")) + 1
        problem = self._problem(headers.get(f"{prefix}Signature", ""), path, await request.body())
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
            return self._decoded(signature, self._credentials.current_signing_key)
        except jwt.InvalidSignatureError:
            # Signed after a rotation of the keys that this receiver does not know of yet.
            return self._decoded(signature, self._credentials.next_signing_key)

    def _decoded(self, signature: str, key: str) -> dict[str, str]:
        required = ["iss", "sub", "exp", "nbf", "body"]
        claims: dict[str, str] = jwt.decode(
            signature, key, algorithms=["HS256"], issuer=self._dialect.issuer, options={"require": required}
        )
        return claims
