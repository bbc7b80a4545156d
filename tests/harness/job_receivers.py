"""A receiver of jobs that does everything right, or makes one mistake on purpose."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jwt
from anyio.lowlevel import checkpoint

from emulator.client.mounts import Function
from emulator.client.records import Request
from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.delivery.mounts import MountedRequest
from tests.harness import emulators

CURRENT, NEXT = "sig_current_key_of_a_receiver_12", "sig_next_key_of_a_receiver_12345"
JOB = b'{"email": "ada@example.com"}'

# Each mistake, with the one check that finds it.
MISTAKES = {
    "knows the current key only": "next-key",
    "does not compare the body": "tampered-body",
    "does not compare the URL": "tampered-url",
    "reads the claims without verifying them": "wrong-key",
    "lets the token choose its algorithm": "algorithm-none",
    "ignores exp": "expired",
    "ignores nbf": "not-yet-valid",
    "verifies a signature if there is one": "missing-signature",
    "breaks on what is no token": "malformed-signature",
    "verifies POST only": "methods",
    "works before it verifies": "no-effect",
    "refuses duplicates": "duplicate",
    "works twice for duplicates": "idempotency",
    "looks before it works": "concurrent-effect",
    "breaks while it works": "concurrent",
    "refuses retries": "retry",
    "ignores retries": "retry-effect",
    "verifies what it has parsed and written again": "exact-body",
    "verifies JSON only": "content-type",
    "breaks on text": "content-type",
    "takes forms for forged": "content-type",
    "breaks on nothing": "empty-body",
    "limits bodies to 100 kB": "large-body",
    "normalizes line ends": "binary-body",
    "decodes before it verifies": "invalid-utf8",
    "refuses callbacks": "callback",
    "refuses failure callbacks": "failure-callback",
    "is slow": "latency",
}


class Refused(Exception):
    """The receiver refuses a request."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class JobReceiver:
    """A mount that verifies deliveries and does each job once; `done` are the ids of messages that were done.

    `clock_s` is its clock, which advances by what a job takes.
    """

    url: str = "https://jobs.test/run"
    mistake: str = ""
    current: str = CURRENT
    following: str = NEXT
    prefix: str = "svc-"
    issuer: str = "Svc"
    done: list[str] = field(default_factory=list)
    clock_s: float = 0.0
    _seen: set[str] = field(default_factory=set)
    _working: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def makes(self, mistake: str) -> bool:
        assert mistake in MISTAKES
        return self.mistake == mistake

    async def __call__(self, request: MountedRequest) -> Response:
        headers = {name.lower(): value for name, value in request.headers}
        try:
            status = await self._answer(request.method, headers, request.body)
        except Refused as refused:
            status = refused.status
        except Exception:
            status = 500
        return Response(status=status, headers=(), body=b"")

    async def _answer(self, method: str, headers: dict[str, str], body: bytes) -> int:
        message_id = headers[f"{self.prefix}message-id"]
        if self.makes("works before it verifies"):
            await self._work(message_id)
        if not (self.makes("verifies POST only") and method != "POST"):
            self._verify(headers.get(f"{self.prefix}signature"), body, headers["content-type"])
            if method != "POST":
                return 405
        if self.makes("limits bodies to 100 kB") and len(body) > 100_000:
            return 413
        if self.makes("is slow"):
            self.clock_s += 6
        retried = int(headers[f"{self.prefix}retried"])
        if retried and self.makes("refuses retries"):
            return 400
        self._read(headers["content-type"], body)
        if not (retried and self.makes("ignores retries")):
            await self._work(message_id)
        return 200

    def _read(self, content_type: str, body: bytes) -> None:
        if content_type.startswith("text/") and self.makes("breaks on text"):
            raise ZeroDivisionError
        if content_type != "application/json" and not self.makes("verifies JSON only"):
            raise Refused(415)
        if not body and self.makes("breaks on nothing"):
            raise ZeroDivisionError
        try:
            job = json.loads(body)
        except ValueError:
            raise Refused(422) from None
        if "sourceMessageId" in job:
            is_failure = "dlqId" in job
            if self.makes("refuses failure callbacks" if is_failure else "refuses callbacks"):
                raise Refused(422)

    def _verify(self, token: str | None, body: bytes, content_type: str) -> None:
        if not content_type.endswith("/json") and self.makes("verifies JSON only"):
            return
        if content_type.endswith("form-urlencoded") and self.makes("takes forms for forged"):
            raise Refused(401)
        if token is None:
            if self.makes("verifies a signature if there is one"):
                return
            raise Refused(401)
        if self.makes("breaks on what is no token"):
            assert token.count(".") == 2
        if self.makes("decodes before it verifies"):
            body = body.decode().encode()
        if self.makes("verifies what it has parsed and written again"):
            with contextlib.suppress(ValueError):
                body = json.dumps(json.loads(body)).encode()
        if self.makes("normalizes line ends"):
            body = body.replace(b"\r\n", b"\n")
        claims = self._claims(token)
        if claims["sub"] != self.url and not self.makes("does not compare the URL"):
            raise Refused(401)
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode()
        if claims["body"].rstrip("=") != digest.rstrip("=") and not self.makes("does not compare the body"):
            raise Refused(401)

    def _claims(self, token: str) -> dict[str, Any]:
        options: dict[str, Any] = {
            "verify_exp": not self.makes("ignores exp"),
            "verify_nbf": not self.makes("ignores nbf"),
            "verify_iss": True,
        }
        keys = [self.current] if self.makes("knows the current key only") else [self.current, self.following]
        for key in keys:
            with contextlib.suppress(jwt.InvalidTokenError):
                algorithm = jwt.get_unverified_header(token)["alg"]
                is_unsigned = algorithm == "none" and self.makes("lets the token choose its algorithm")
                if algorithm != "HS256" and not is_unsigned:
                    raise Refused(401)
                is_blind = is_unsigned or self.makes("reads the claims without verifying them")
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=["HS256"],
                    issuer=self.issuer,
                    options={**options, "verify_signature": not is_blind},  # type: ignore[arg-type]  # built from parts
                )
                return claims
        raise Refused(401)

    async def _work(self, message_id: str) -> None:
        """Do the job of a message, unless it is done."""
        if self.makes("looks before it works"):
            is_known = message_id in self.done
            await checkpoint()
            if not is_known:
                self.done.append(message_id)
            return
        with self._lock:
            is_known = message_id in self._seen
            self._seen.add(message_id)
        if is_known and self.makes("breaks while it works") and message_id in self._working:
            raise ZeroDivisionError
        if is_known and self.makes("refuses duplicates"):
            raise Refused(409)
        if not is_known or self.makes("works twice for duplicates"):
            self._working.add(message_id)
            await checkpoint()
            self.done.append(message_id)
            self._working.discard(message_id)


def as_function(receiver: JobReceiver) -> Function:
    """The receiver as a function to mount."""

    async def answer(request: Request) -> int:
        pairs = tuple(request.headers.multi_items())
        made = MountedRequest(method=Method(request.method), url=request.url, headers=pairs, body=request.body)
        return (await receiver(made)).status

    return answer


@contextlib.contextmanager
def served(receiver: JobReceiver, *, one_at_a_time: bool = False) -> Iterator[str]:
    """The receiver on a port of loopback, at `/run`; `/done` says how many jobs are done."""

    def answer(received: emulators.Received) -> tuple[int, dict[str, str], bytes]:
        if received.path == "/done":
            return 200, {}, str(len(receiver.done)).encode()
        headers = tuple(received.headers.items())
        request = MountedRequest(
            method=Method(received.method),
            url=receiver.url,
            headers=headers,
            body=received.body,
        )
        return asyncio.run(receiver(request)).status, {}, b""

    with emulators.http_server(answer, one_at_a_time=one_at_a_time) as url:
        receiver.url = f"{url}/run"
        yield receiver.url
