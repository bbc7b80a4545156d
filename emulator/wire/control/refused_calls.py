"""Calls of the messaging and the management API that were answered with 4xx, as the control API lists them."""

from __future__ import annotations

import re

from emulator.core.record import Record
from emulator.wire.control.instants import fields_of
from emulator.wire.control.parameters import Pairs, read_limit, read_parameters
from emulator.wire.json_fields import Json

DEFAULT_LIMIT = 100
# As many as are kept of each world.
MAX_LIMIT = 1_000
_LONGEST_PATH = 2_000

_SECRET = re.compile(r"token|secret|password|passwd|credential|signature|auth|api[-_]?key", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=//)[^/@?]*@")
_MASK = "***"


class RefusedCall(Record):
    """One refused call.

    `at_ms` is its instant on the clock of its world, `wall_ms` the same on the wall clock. `path` is what was
    asked for with its query, credentials masked; `caller` the address of who called. `account_id` is None if the
    credentials were of no account. `error` and `field` are what was answered, `hint` says what was probably meant.
    """

    seq: int
    at_ms: int
    wall_ms: int
    method: str
    path: str
    caller: str | None
    account_id: str | None
    status: int
    error: str
    field: str | None
    hint: str | None


class DeduplicatedPublish(Record):
    """A publish that made no message at `at_ms`, because the message that it repeats stands for it."""

    at_ms: int
    message_id: str
    url: str


def deduplicated_view(publish: DeduplicatedPublish) -> dict[str, Json]:
    """A publish that made no message, as JSON."""
    return fields_of(publish, "at_ms")


def refused_call_view(call: RefusedCall) -> dict[str, Json]:
    """A refused call as JSON; its instant on the virtual and on the real clock."""
    return fields_of(call, "at_ms", "wall_ms")


def read_refused_query(pairs: Pairs) -> int:
    """How many calls are asked for. Raises: InvalidInput."""
    given = read_parameters(pairs, ("limit",))
    return read_limit(given["limit"], MAX_LIMIT) if "limit" in given else DEFAULT_LIMIT


def masked(path: str, query: str) -> str:
    """What was asked for, as text without credentials: of parameters that are named like one, and of URLs (D-332)."""
    pieces = (
        f"{name}={_MASK}" if equals and _SECRET.search(name) else f"{name}{equals}{value}"
        for name, equals, value in (piece.partition("=") for piece in query.split("&"))
    )
    text = path + ("?" + "&".join(pieces) if query else "")
    text = _USER_INFO.sub(f"{_MASK}@", text)
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}..."
