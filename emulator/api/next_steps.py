"""What to do next after a refusal of the emulator's own API, which says it in the field `next` (D-747).

The messaging and the management API refuse as the service does, without one; where a path has no operation, their
refusal names what was probably meant (D-802).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from emulator.core.errors import (
    Conflict,
    Damaged,
    Forbidden,
    InvalidInput,
    NotAcceptable,
    NotFound,
    NotInstalled,
    PayloadTooLarge,
    Unauthenticated,
    UnreadableRow,
    WorldBroken,
)
from emulator.core.language.text import near
from emulator.wire.parts import is_control

# Of the emulator's own API too.
_BESIDE = ("/", "/llms.txt", "/llms-full.txt")

# What lists all there is of a kind of things.
LISTS = {
    "account": "GET /_emulator/accounts",
    "delivery": "svc-emulator deliveries",
    "destination rule": "svc-emulator destinations list",
    "dlq message": "svc-emulator dead-letters list",
    "flow control key": "svc-emulator flow-control list",
    "message": "svc-emulator messages",
    "queue": "svc-emulator queues list",
    "schedule": "svc-emulator schedules list",
    "snapshot": "svc-emulator snapshot list",
    "topic": "svc-emulator groups",
    "workflow run": "svc-emulator runs list",
    "world": "svc-emulator worlds list",
}
# What shows that which a call contradicts, by the part of the API that it is of.
_STANDING = {
    "accounts": LISTS["world"],
    "clock": "svc-emulator clock show",
    "deliveries": LISTS["delivery"],
    "snapshots": LISTS["snapshot"],
    "worlds": LISTS["world"],
}
_HEALTH = "svc-emulator health"


def with_next_step(
    error: Mapping[str, str], path: str, status: int, cause: Exception | None = None
) -> Mapping[str, str]:
    """The body of a refusal, with what to do next if the path is of the emulator's own API.

    `cause` is what was raised, if something was.
    """
    is_own = is_control(path) or path.lower() in _BESIDE
    return {**error, "next": _next_step(path, status, cause)} if is_own else error


def _next_step(path: str, status: int, cause: Exception | None) -> str:
    match cause:
        case InvalidInput():
            return "mend that, and call again: GET /_emulator/contract?api=control says what each call takes"
        case NotFound():
            return LISTS.get(cause.kind, _HEALTH)
        case NotInstalled():
            return "install what is missing, and call again"
        case NotAcceptable():
            return "call again with the header Accept: application/json"
        case Unauthenticated():
            return "give the server's control token: --control-token TOKEN, or Authorization: Bearer TOKEN"
        case Forbidden():
            return cause.remedy or _HEALTH
        case PayloadTooLarge():
            return "send less in one call"
        case Conflict():
            return _STANDING.get(path.lower().split("/")[2], _HEALTH)
        case UnreadableRow():
            return "restore a snapshot that is whole, or reset the world; svc-emulator db check FILE lists all damage"
        case Damaged():
            return "svc-emulator db check FILE, with the file that is named"
        case WorldBroken() if cause.is_disk_full:
            return f"make room on the disk, then {_HEALTH}"
    match status:
        case HTTPStatus.NOT_FOUND:
            return "GET /llms.txt, or svc-emulator --help: they list what there is"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return "call it with a method of the header Allow"
        case _:
            return _HEALTH


def beginning_of(path: str) -> str:
    """The fixed part of a path of the messaging or the management API: `/v2/publish`."""
    return "/".join(path.split("/")[:3]).lower()


def similar_operation(path: str, beginnings: Iterable[str]) -> str | None:
    """Which of these fixed parts a path that has no operation was probably to begin with."""
    # The operation may have no version before it, another one, or a path of a proxy.
    words = [word.lower() for word in path.split("/") if word][:3]
    known = list(beginnings)
    close = [each for word in words for each in known if each == f"/v2/{word}"] or near(beginning_of(path), known)
    return close[0] if close else None
