"""Refused calls: each 4xx answer of the messaging and the management API, kept by world and logged (D-332).

What was answered is seen on its way out, so a call that is answered otherwise pays one comparison.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence

from starlette.types import Message, Scope, Send

from emulator.api.callers import known_caller
from emulator.api.endpoint import PASSED_ON
from emulator.api.hints import Hints
from emulator.core.errors import Refused
from emulator.core.world_setup import DEFAULT
from emulator.engine.clock import wall_ms
from emulator.wire.control.refused_calls import RefusedCall, masked
from emulator.wire.instants import iso
from emulator.wire.parts import RequestParts, read_parts
from emulator.worlds.registry import Worlds

logger = logging.getLogger(__name__)
# Every call, for `--log-level debug`.
calls = logging.getLogger("emulator.calls")

_CONTROL = "/_emulator"
# What browsers ask for by themselves.
_NO_CALLS = ("/favicon.ico",)


class RefusedCallLog:
    """What keeps the refused calls of all worlds. `paths` are those of the operations that it watches."""

    def __init__(self, worlds: Worlds, paths: Sequence[str]) -> None:
        self._worlds = worlds
        self._hints = Hints(worlds, paths)

    def keep(self, scope: Scope, status: int, body: bytes) -> None:
        """Keep a call that is answered with 4xx, unless it is of another API or no refusal of ours."""
        path = scope["path"].lower()
        if not (path == _CONTROL or path.startswith(f"{_CONTROL}/") or path in _NO_CALLS or PASSED_ON in scope):
            self._keep(scope, status, body)

    def _keep(self, scope: Scope, status: int, body: bytes) -> None:
        error, field = _said(body)
        parts = _parts(scope)
        known, hint = None, None
        if parts is not None:
            found = self._hints.of(parts, status, known_caller(self._worlds, parts))
            known, hint = found.known, found.text
        world = self._worlds.get(DEFAULT) if known is None else known.world
        client = scope.get("client")
        call = RefusedCall(
            seq=world.refused_calls.last_seq + 1,
            at_ms=world.clock.now_ms,
            wall_ms=wall_ms(),
            method=scope["method"],
            path=_shown_path(scope),
            caller=None if client is None else client[0],
            account_id=None if known is None else known.account_id,
            status=status,
            error=error,
            field=field,
            hint=hint,
        )
        world.refused_calls.add(call)
        world.watches.wake()
        _log(world.id, call)


def timed(scope: Scope, send: Send) -> Send:
    """A `send` that logs the call when its answer has ended, with the time since now; the same one without debug."""
    if not calls.isEnabledFor(logging.DEBUG):
        return send
    began = time.perf_counter()
    status = 0

    async def log(message: Message) -> None:
        nonlocal status
        await send(message)
        if message["type"] == "http.response.start":
            status = message["status"]
        elif not message.get("more_body", False):
            duration_ms = (time.perf_counter() - began) * 1000
            path = _shown_path(scope)
            calls.debug(
                "%s %s -> %d in %.1f ms",
                scope["method"],
                path,
                status,
                duration_ms,
                extra={"method": scope["method"], "path": path, "status": status, "duration_ms": duration_ms},
            )

    return log


def _shown_path(scope: Scope) -> str:
    return masked(_raw_path(scope).decode("latin-1"), scope["query_string"].decode("latin-1"))


def _log(world_id: str, call: RefusedCall) -> None:
    logger.warning(
        "%s refused: %s %s -> %d %s%s",
        iso(call.at_ms),
        call.method,
        call.path,
        call.status,
        call.error,
        "" if call.hint is None else f" ({call.hint})",
        extra={
            "at_ms": call.at_ms,
            "method": call.method,
            "path": call.path,
            "caller": call.caller,
            "status": call.status,
            "error": call.error,
            "field": call.field,
            "hint": call.hint,
            "world": world_id,
        },
    )


def _said(body: bytes) -> tuple[str, str | None]:
    """The error and the field of an answer (D-001)."""
    content = json.loads(body)
    return content["error"], content.get("field")


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw


def _parts(scope: Scope) -> RequestParts | None:
    """The head of a request, None for one that cannot be read."""
    try:
        return read_parts(
            method=scope["method"],
            raw_path=_raw_path(scope),
            query_string=scope["query_string"],
            raw_headers=scope["headers"],
            body=b"",
            client_ip="",
        )
    except Refused:
        return None
