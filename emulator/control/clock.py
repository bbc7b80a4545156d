"""`/_emulator/clock`: the virtual time, and moving it.

Times and durations are read as text or as milliseconds, and answered as milliseconds in fields
that end in `_ms`, beside an ISO 8601 twin where a person reads.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import TWIN, Instant, InstantMs, PositiveNumber, Rate, Text, View, WholeNumber, rate_view
from emulator.core.errors import Conflict, InvalidInput, NotFound
from emulator.core.language.calendar import MAX_RATE, MIN_RATE, is_rate
from emulator.core.language.text import excerpt
from emulator.core.model import messages
from emulator.core.model.messages import LoopCause
from emulator.core.record import MessageId, RunId
from emulator.queries.reports import (
    DEFAULT_HORIZON_MS,
    DEFAULT_MAX_DELIVERIES,
    AdvanceReport,
    AdvanceRequest,
    ClockChange,
    ClockStatus,
    DrainRequest,
    Until,
    UntilCondition,
)
from emulator.wire.json_reader import (
    Fields,
    Json,
    boolean,
    integer,
    kind_of,
    read_clock_instant,
    read_duration_ms,
    read_instant,
    read_number,
)
from emulator.wire.times import iso
from emulator.worlds.world_clock import WorldClock


def read_clock_change(value: Json) -> ClockChange:
    """The body of a change of the clock: `rate`, `now` or both. Raises: InvalidInput."""
    given = Fields(value, "", ("rate", "now"))
    if not given.given:
        raise InvalidInput("rate", "expected rate, now or both")
    return ClockChange(rate=given.get("rate", read_rate, None), now_ms=given.get("now", read_clock_instant, None))


def read_advance(value: Json) -> AdvanceRequest:
    """The body of a clock advance: `by`, `to` or `until`, how many attempts it may make, `undoable`.

    Raises: InvalidInput.
    """
    given = Fields(value, "", ("by", "to", "until", "horizon", "max_deliveries", "undoable"))
    ways = [name for name in ("by", "to", "until") if name in given]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        raise InvalidInput(ways[-1] if ways else "by", f"expected exactly one of by, to and until, got {found}")
    if "horizon" in given and ways != ["until"]:
        raise InvalidInput("horizon", "expected only beside until: by and to say themselves how far")
    return AdvanceRequest(
        by_ms=given.get("by", read_duration_ms, None),
        to_ms=given.get("to", read_instant, None),
        max_deliveries=given.get("max_deliveries", integer(1), DEFAULT_MAX_DELIVERIES),
        undoable=given.get("undoable", boolean, False),
        until=given.get("until", read_until, None),
        horizon_ms=given.get("horizon", read_duration_ms, DEFAULT_HORIZON_MS),
    )


_CONDITIONS = "an instant, next, idle, dead-letters, message ID, run ID or deliveries N"


def read_until(value: Json, path: str) -> UntilCondition:
    """A condition until which a clock is advanced, such as `idle` or `message ID`. Raises: InvalidInput."""
    if isinstance(value, str):
        name, _, rest = value.strip().partition(" ")
        rest = rest.strip()
        match name:
            case Until.NEXT | Until.IDLE | Until.DEAD_LETTERS if not rest:
                return UntilCondition(kind=Until(name))
            case Until.MESSAGE | Until.RUN if rest:
                return UntilCondition(kind=Until(name), id=rest)
            case Until.DELIVERIES if re.fullmatch("[1-9][0-9]{0,6}", rest):
                return UntilCondition(kind=Until.DELIVERIES, number=int(rest))
    try:
        return UntilCondition(kind=Until.INSTANT, number=read_instant(value, path))
    except InvalidInput:
        found = excerpt(value) if isinstance(value, str) else kind_of(value)
        raise InvalidInput(path, f"expected {_CONDITIONS}, got {found}") from None


def read_drain(value: Json) -> DrainRequest:
    """The body of a drain, which may be missing (null). Raises: InvalidInput."""
    given = Fields({} if value is None else value, "", ("horizon", "max_deliveries", "undoable"))
    return DrainRequest(
        horizon_ms=given.get("horizon", read_duration_ms, DEFAULT_HORIZON_MS),
        max_deliveries=given.get("max_deliveries", integer(1), DEFAULT_MAX_DELIVERIES),
        undoable=given.get("undoable", boolean, False),
    )


def read_rate(value: Json, path: str) -> float:
    """How fast a clock goes. Raises: InvalidInput."""
    rate = read_number(value, path)
    if not is_rate(rate):
        raise InvalidInput(path, f"expected 0 (frozen), 1 (real time) or a number from {MIN_RATE:f} to {MAX_RATE:.0f}")
    return rate


class HeldDestination(View):
    """A destination to which nothing leaves, because it published to itself without end at one instant (D-785)."""

    origin: Text  #: Its scheme, host and port.
    since: Instant = TWIN
    since_ms: InstantMs
    limit: PositiveNumber  #: It did so more than so many times.
    cause: LoopCause  #: What it did: it published what called it again, or was retried without a delay.
    message_id: MessageId  #: The message that was one too many. The destination is free again when that is deleted.
    why: Text  #: The same in words.


# Where a hold is shown: D-787.
def held_view(held: Sequence[messages.HeldDestination]) -> tuple[HeldDestination, ...] | UnsetType:
    """The destinations that are held; absent if none is."""
    return tuple(HeldDestination(**asdict(each), why=each.why) for each in held) or UNSET


class Clock(View):
    """The virtual time of a world, and what is pending."""

    now: Instant = TWIN
    now_ms: InstantMs
    rate: Rate
    #: The next instant at which anything is due, in milliseconds since the Unix epoch; null if nothing is.
    next_due_ms: WholeNumber | None
    pending: WholeNumber  #: Live messages.
    in_flight: WholeNumber  #: Attempts that have left and are under way.
    #: Virtual time in milliseconds that the clock has lost since its rate was set: a clock faster than real time
    #: slips when more comes due than can be delivered.
    slipped_ms: WholeNumber
    #: Destinations to which nothing leaves; only there if there is one.
    held: tuple[HeldDestination, ...] | UnsetType


def clock_view(status: ClockStatus) -> Clock:
    """The clock as it is now."""
    return Clock(**{**asdict(status), "rate": rate_view(status.rate), "held": held_view(status.held)})


class Moved(View, rename={"from_": "from"}):
    """What a move of the clock did."""

    from_: Instant = TWIN
    from_ms: InstantMs
    to: Instant = TWIN
    to_ms: InstantMs
    deliveries: WholeNumber  #: Attempts that were made.
    succeeded: WholeNumber  #: Attempts that succeeded.
    failed: WholeNumber  #: Attempts that failed.
    schedules_fired: WholeNumber  #: Firings of schedules.
    messages_created: WholeNumber  #: Messages that were created on the way.
    wall_ms: WholeNumber  #: How long it took in real time, in milliseconds.
    #: Destinations to which nothing leaves at its end, as they publish to themselves; only there if there is one.
    held: tuple[HeldDestination, ...] | UnsetType


class Advance(Moved):
    """What a clock advance did."""

    #: What ended it early; absent otherwise. The last two only with `until`: the horizon came first, or nothing is
    #: due any more that could make it true.
    stopped: Literal["max_deliveries", "horizon", "nothing_due"] | UnsetType
    reached: bool | UnsetType  #: Whether the condition is true; only there with `until`.


class Drain(Moved):
    """What a drain did."""

    stopped: Literal["max_deliveries"] | UnsetType  #: What ended it early; absent otherwise.
    idle: bool  #: Whether nothing is due any more but future firings of schedules.


def advance_view(report: AdvanceReport) -> Advance:
    """What an advance did, without what has no value."""
    return Advance(**_fields(report, without="idle"))


def drain_view(report: AdvanceReport) -> Drain:
    """What a drain did, without what has no value."""
    return Drain(**_fields(report, without="reached"))


def _fields(report: AdvanceReport, *, without: str) -> dict[str, Any]:
    fields = {name: UNSET if value is None else value for name, value in asdict(report).items() if name != without}
    return {**fields, "held": held_view(report.held)}


async def get_clock(call: ControlCall) -> Clock:
    return clock_view(await call.world.clock.status())


async def set_clock(call: ControlCall) -> Clock:
    change = read_clock_change(call.body)
    return clock_view(await call.world.clock.set(change))


async def advance(call: ControlCall) -> Advance:
    request = read_advance(call.body)
    if request.until is not None:
        await _check_exists(call, request.until)
    moving = call.world.move(lambda clock: clock.advance(request), undoable=request.undoable)
    return advance_view(await _while_wanted(call, moving))


async def _check_exists(call: ControlCall, until: UntilCondition) -> None:
    """Raises NotFound for a message or a run that the world has never had: it would count as one that has ended."""
    await call.world.current_state()
    if until.kind is Until.MESSAGE and await call.world.logs.find(MessageId(until.id)) is None:
        raise NotFound("message", until.id)
    if until.kind is Until.RUN:
        await call.world.runs.find(RunId(until.id))


async def advance_to_next(call: ControlCall) -> Advance:
    body = call.body
    undoable = Fields({} if body is None else body, "", ("undoable",)).get("undoable", boolean, False)
    moving = call.world.move(WorldClock.advance_to_next, undoable=undoable)
    return advance_view(await _while_wanted(call, moving))


async def drain(call: ControlCall) -> Drain:
    request = read_drain(call.body)
    moving = call.world.move(lambda clock: clock.drain(request), undoable=request.undoable)
    return drain_view(await _while_wanted(call, moving))


async def _while_wanted(call: ControlCall, moving: Coroutine[None, None, AdvanceReport]) -> AdvanceReport:
    """Move the clock; if the client disconnects, the move stops at the present instant (D-323).

    Raises Conflict when the client has disconnected; the answer is not sent.
    """
    move, leaving = asyncio.ensure_future(moving), asyncio.ensure_future(call.request.gone())
    try:
        await asyncio.wait((move, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not move.done():
            move.cancel()
            await asyncio.wait((move,))
    finally:
        leaving.cancel()
        move.cancel()
    if move.cancelled():
        raise Conflict(f"the move was given up, the clock stands at {iso(call.world.clock.now_ms)}")
    return move.result()


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/clock", get_clock, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/clock", set_clock, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/advance", advance, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/next", advance_to_next, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/drain", drain, WORLD_ONLY),
)
