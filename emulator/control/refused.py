"""`/_emulator/refused` and `mismatches`: the calls that had no effect, and what strict mode found."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict
from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.control.call import OWN_QUERY, WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import TWIN, Instant, InstantMs, PositiveNumber, Text, View
from emulator.core.record import AccountId, MessageId
from emulator.wire.query_reader import control_query
from emulator.worlds import calls
from emulator.worlds.calls import MAX_LIMIT

DEFAULT_LIMIT = 100


class RefusedCall(View):
    """A call of the messaging or the management API that was answered with 4xx."""

    seq: Annotated[int, Meta(ge=1)]  #: The number of the refused call in its world since the server started.
    at: Instant = TWIN
    at_ms: InstantMs
    wall: Instant = TWIN  #: When it was refused by the wall clock.
    wall_ms: InstantMs  #: The same in milliseconds.
    method: Text  #: The method.
    path: str  #: What was asked for with its query; what looks like a credential is masked.
    caller: str | None  #: The address of who called, null if it is not known.
    account_id: AccountId | None  #: The account whose token the call had; null with any other credentials.
    status: Annotated[int, Meta(ge=400, le=499)]  #: What was answered.
    error: str  #: Why, as it was answered.
    #: What was at fault, by the client's name for it; null if it is no header, parameter or field.
    field: str | None
    hint: str | None  #: What was probably meant, null without a guess.


class DeduplicatedPublish(View):
    """A publish that made no message, because of an earlier one with the same key."""

    at: Instant = TWIN
    at_ms: InstantMs
    message_id: MessageId
    url: str


class RefusedList(View):
    """The calls that had no effect."""

    refused: tuple[RefusedCall, ...]
    deduplicated: tuple[DeduplicatedPublish, ...]


class Mismatch(View):
    """What is wrong with a request."""

    operation: Text  #: The operation as method and path, the method alone if there is none.
    mismatch: Text  #: What is wrong, in the words of the log.
    count: PositiveNumber  #: In how many calls it was found.


class MismatchList(View):
    """What was found."""

    strict: bool  #: Whether the server is in strict mode.
    mismatches: tuple[Mismatch, ...]  #: The different mismatches.


def refused_call_view(call: calls.RefusedCall) -> RefusedCall:
    """A refused call; its instant on the virtual and on the real clock."""
    return RefusedCall(**asdict(call))


async def list_refused(call: ControlCall) -> RefusedList:
    limit = control_query(call.parts.query, "limit").limit(MAX_LIMIT, DEFAULT_LIMIT)
    kept = call.world.refused_calls
    return RefusedList(
        refused=tuple(refused_call_view(each) for each in list(kept.calls)[-limit:]),
        deduplicated=tuple(DeduplicatedPublish(**asdict(each)) for each in list(kept.deduplicated)[-limit:]),
    )


async def clear_refused(call: ControlCall) -> Response:
    call.world.refused_calls.clear()
    return Answer(status=204)


async def list_mismatches(call: ControlCall) -> MismatchList:
    found = tuple(
        Mismatch(operation=operation, mismatch=mismatch, count=count)
        for (operation, mismatch), count in call.world.mismatches.counts.items()
    )
    return MismatchList(strict=call.options.is_strict, mismatches=found)


async def clear_mismatches(call: ControlCall) -> Response:
    call.world.mismatches.counts.clear()
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/refused", list_refused, OWN_QUERY),
    ControlRoute("DELETE", "/_emulator/refused", clear_refused, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/mismatches", list_mismatches, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/mismatches", clear_mismatches, WORLD_ONLY),
)
