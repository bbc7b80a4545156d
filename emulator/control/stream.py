"""`GET /_emulator/stream`: a world's events, attempts and clock moves as they happen.

The stream is read from history, a piece at a time, whether its reader is an hour behind or follows
live. So it shows only what is durable (a crash undoes nothing of it), resumes exactly, and a slow
reader costs no memory but the piece that it is being sent.

Followers that are at the same place get the same piece: it is read and written as JSON once for all
of them, and the last pieces are kept for those that come a little later. A follower that takes
nothing for a while is cut off; a client connects again and continues by `Last-Event-ID` (D-563).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from weakref import WeakKeyDictionary

from msgspec import UnsetType
from msgspec.structs import asdict
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.endpoint import DISCONNECT
from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.control.clock import HeldDestination, held_view
from emulator.control.deliveries import Url, brief_view, delivery_view
from emulator.control.records import (
    TWIN,
    Instant,
    InstantMs,
    PositiveNumber,
    Rate,
    Status,
    Text,
    View,
    rate_view,
    run_of,
    step_name_of,
)
from emulator.control.refused import refused_call_view
from emulator.core.errors import Conflict, Damaged, InvalidInput, WorldBroken
from emulator.core.language.text import excerpt
from emulator.core.model.messages import EventState
from emulator.core.record import AccountId, MessageId, Record
from emulator.core.resource_facts import ScheduleFired
from emulator.journal.files import DAMAGE
from emulator.journal.history import History
from emulator.queries.history import Event, HistoryPosition, RecordedDelivery
from emulator.wire.event_stream import ID_HEADER, KEEP_ALIVE, KEEP_ALIVE_S, MAX_LAST, MEDIA_TYPE, OPENING, Kind, written
from emulator.wire.names import parse_number
from emulator.wire.query_reader import Pairs, control_query
from emulator.worlds.registry import Worlds
from emulator.worlds.watch import ClockMove
from emulator.worlds.world import World

logger = logging.getLogger(__name__)

# A piece is sent once it has so many bytes. An entry is never split.
_PIECE_BYTES = 64 * 1024
# Pieces that are kept for followers a little behind the first.
_KEPT_BYTES = 4 * 1024 * 1024
# Entries read at a time: few, because each may hold a body, and other calls wait for the reading.
_PAGE = 100
# Wait at least so long after each round, so that entries of a burst are read together and not one by one; and
# so many times as long as the round took, but no longer than that, so that most time is left for other calls.
# After a full page, which takes a burst, it is that long: to write history has a price however little there is.
_SHORTEST_BREATH_S, _LONGEST_BREATH_S = 0.01, 0.1
_BREATHS_PER_ROUND = 9

_ID = re.compile(r"(?P<generation>[0-9a-f]{8})-(?P<seq>0|[1-9][0-9]{0,14})")

Emit = Callable[[bytes], Awaitable[None]]


class ResetReason(StrEnum):
    """Why what was sent before is void."""

    RESET = "reset"
    UNKNOWN_ID = "unknown_id"


class EndReason(StrEnum):
    """Why a stream has ended."""

    DELETED = "deleted"
    BROKEN = "broken"


class StreamRequest(Record):
    """What a client of the stream wants: from which position on, whether it waits for more, what is redacted, and
    whether attempts come without headers and bodies.

    Without a position `last` is how many of the latest entries are sent first, None for all.
    """

    after: HistoryPosition | None = None
    last: int | None = 0
    follow: bool = True
    redact: bool = False
    brief: bool = False


def read_stream_request(pairs: Pairs, last_event_id: str | None) -> StreamRequest:
    """The query, and the header `Last-Event-ID`, which precedes it (D-220, D-222, D-326). Raises: InvalidInput."""
    given = control_query(pairs, "last_event_id", "last", "from", "follow", "redact", "brief")
    query_id = given.text("last_event_id")
    last = given.one("last", lambda text: parse_number(text, "a number of entries", 0, MAX_LAST, digits=7), strip=False)
    by_query = _read_id(query_id, "last_event_id") if query_id else None
    by_header = _read_id(last_event_id, ID_HEADER) if last_event_id else None
    return StreamRequest(
        # A client that connects again repeats its address, and says in the header how far it came since.
        after=by_header or by_query,
        last=0 if given.one_of("from", ("now", "start")) != "start" and last is None else last,
        follow=given.flag("follow", default=True),
        redact=given.flag("redact"),
        brief=given.flag("brief"),
    )


def _read_id(text: str, field: str) -> HistoryPosition:
    match = _ID.fullmatch(text)
    if match is None:
        raise InvalidInput(field, f"expected the id of an event of this stream, got {excerpt(text)}")
    return HistoryPosition(generation=match["generation"], seq=int(match["seq"]))


class StreamedEvent(View):
    """An entry of the event log. What was sent and answered is in the attempts."""

    seq: PositiveNumber  #: The number of the entry; events and attempts are counted together.
    at: Instant = TWIN
    at_ms: InstantMs
    message_id: MessageId  #: The message.
    state: EventState  #: What has become of the message.
    url: Url  #: The destination, exactly as it was published.
    workflow_run_id: Text | UnsetType  #: The workflow run that it is about; only there if it is about one.
    step: str | UnsetType | None  #: The step of that run; null for the first call and for failure functions.
    error: str | None  #: What went wrong, for ERROR and FAILED.
    status: Status | None  #: The status that the destination answered, for ERROR and FAILED.
    next_delivery: Instant | None = TWIN  #: When the next attempt is due, for ERROR and RETRY.
    next_delivery_ms: InstantMs | None
    url_group: str | None  #: The URL group that the message was published to.
    queue: str | None  #: The queue of the message.
    schedule_id: str | None  #: The schedule that made the message.
    flow_control_key: str | None  #: The flow control key of the message.
    labels: tuple[str, ...]  #: The labels of the message.


class StreamedClock(View, rename={"from_": "from"}):
    """The virtual time, from where it was moved, and which destinations are held. Sent when one of these changes."""

    now: Instant = TWIN
    now_ms: InstantMs
    rate: Rate
    from_: Instant | None = TWIN  #: From where it was moved; null if it was not.
    from_ms: InstantMs | None
    #: Destinations to which nothing leaves, as they publish to themselves; only there if there is one.
    held: tuple[HeldDestination, ...] | UnsetType


class StreamedFiring(View):
    """A firing of a schedule that made no message."""

    at: Instant = TWIN
    at_ms: InstantMs
    schedule_id: Text  #: The schedule.
    account_id: AccountId
    error: Text  #: Why it made none.
    next: Instant = TWIN  #: When it fires next.
    next_ms: InstantMs


class StreamReset(View):
    """Why what was sent before is void."""

    #: The world was reset or restored, or no history that there still is has the id to resume from.
    reason: ResetReason


class StreamEnd(View):
    """Why nothing will ever follow."""

    reason: EndReason  #: The world was deleted, or has stopped because of an error.
    error: str | None = None  #: The error that has stopped the world.


def event_view(event: Event) -> StreamedEvent:
    """An entry of the event log."""
    message, policy = event.message, event.message.policy
    return StreamedEvent(
        seq=event.seq,
        at_ms=event.at_ms,
        message_id=message.message_id,
        state=event.state,
        url=message.url,
        workflow_run_id=run_of(message),
        step=step_name_of(message),
        error=event.error,
        status=None if event.response is None else event.response.status,
        next_delivery_ms=event.next_delivery_ms,
        url_group=message.source.url_group,
        queue=policy.queue,
        schedule_id=message.source.schedule_id,
        flow_control_key=policy.flow_key,
        labels=policy.labels,
    )


async def stream(call: ControlCall) -> Response:
    wanted = read_stream_request(call.parts.query, call.parts.header("last-event-id"))
    world = call.world
    await world.current_state()
    follower = _Follower(call.worlds, world, wanted)
    # Before the answer begins: the stream has all that the client does once it has the head.
    await follower.find_position()
    return EventStream(follower.run, stalled_s=world.limits.stalled_s)


class EventStream(Response):
    """A response that `run` writes for as long as it likes, and that ends at once when its client has gone."""

    media_type = MEDIA_TYPE

    def __init__(self, run: Callable[[Emit], Awaitable[None]], *, stalled_s: float) -> None:
        """A client that takes nothing for `stalled_s` is disconnected."""
        self.status_code = 200
        self.background = None
        self._run = run
        self._stalled_s = stalled_s
        # Without a charset: this format has only one.
        self.raw_headers = [(b"content-type", self.media_type.encode()), (b"cache-control", b"no-store")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def emit(content: bytes) -> None:
            # A server takes the next piece once its client has taken most of the last one.
            try:
                async with asyncio.timeout(self._stalled_s):
                    await send({"type": "http.response.body", "body": content, "more_body": True})
            except TimeoutError:
                logger.warning("a follower of the stream took nothing for %g s and was disconnected", self._stalled_s)
                # To end the answer would wait for the client too.
                disconnect = scope.get(DISCONNECT)
                if disconnect is not None:
                    disconnect()
                raise

        async def run() -> None:
            # Some servers refuse what is sent to a client that has gone. A TimeoutError is an OSError.
            with contextlib.suppress(OSError):
                await self._run(emit)

        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        loop = asyncio.get_running_loop()
        tasks = (loop.create_task(run()), loop.create_task(until_gone()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        await send({"type": "http.response.body", "body": b""})


class _Follower:
    """One reader of a stream: its position, and what it gets next."""

    def __init__(self, worlds: Worlds, world: World, wanted: StreamRequest) -> None:
        self._worlds = worlds
        self._world = world
        self._wanted = wanted
        self._generation = world.generation
        self._reset: ResetReason | None = None
        self._sent_refused = world.refused_calls.last_seq
        self._pieces = _PIECES.setdefault(world, _Pieces())

    async def find_position(self) -> None:
        """Where the stream begins. A reset is sent first if what the reader knows from before is void."""
        after, end = self._wanted.after, await self._world.history.position()
        # An entry beyond the end of history is of another generation too, whatever its id says. What follows
        # one that was dropped may have been dropped as well.
        kept = range(self._world.history.dropped.seq, end.seq + 1)
        if after is not None and after.generation == end.generation and after.seq in kept:
            self._position = after
        else:
            last = self._wanted.last if after is None else None
            first = 0 if last is None else max(end.seq - last, 0)
            self._position = HistoryPosition(generation=end.generation, seq=first)
            self._reset = None if after is None else ResetReason.UNKNOWN_ID

    async def run(self, emit: Emit) -> None:
        world = self._world
        with world.watches.watch() as watch:
            await emit(OPENING)
            move: ClockMove | None = watch.start(world.clock.now_ms, world.clock.rate)
            refused: list[ScheduleFired] = []
            while not world.is_closed:
                began_s, is_burst = time.monotonic(), False
                try:
                    if world.generation != self._generation:
                        await self._begin_anew()
                        move = watch.start(world.clock.now_ms, world.clock.rate)
                        refused = []
                    if self._reset is not None:
                        await emit(written(Kind.RESET, StreamReset(reason=self._reset), self._position))
                        self._reset = None
                    is_burst = await self._tell_all(emit, refused, move)
                except Conflict:
                    pass  # The world is being reset or removed; it wakes its watchers afterwards.
                except (Damaged, WorldBroken) as broken:
                    await emit(written(Kind.END, StreamEnd(reason=EndReason.BROKEN, error=str(broken))))
                    return
                except DAMAGE as error:
                    unreadable = await world.why_unreadable(error)
                    if unreadable is None:
                        raise
                    logger.error("the stream of the world %s: %s", world.id, unreadable)
                    await emit(written(Kind.END, StreamEnd(reason=EndReason.BROKEN, error=str(unreadable))))
                    return
                if not self._wanted.follow:
                    return
                shortest_s = _LONGEST_BREATH_S if is_burst else _SHORTEST_BREATH_S
                breath_s = _BREATHS_PER_ROUND * (time.monotonic() - began_s)
                await asyncio.sleep(min(max(breath_s, shortest_s), _LONGEST_BREATH_S))
                while not await watch.wait(KEEP_ALIVE_S):
                    await emit(KEEP_ALIVE)
                refused = watch.take_refused()
                move = watch.take_move(world.clock.now_ms, world.clock.rate)
            if all(each is not world for each in self._worlds.all()):
                await emit(written(Kind.END, StreamEnd(reason=EndReason.DELETED)))
            # Otherwise the server ends, and a client that reconnects gets the rest.

    async def _begin_anew(self) -> None:
        """The world was reset: its history is sent from its beginning. Raises Conflict."""
        generation = self._world.generation
        history_generation = await self._world.history.generation()
        self._position, self._reset = HistoryPosition(generation=history_generation, seq=0), ResetReason.RESET
        self._generation = generation

    async def _tell_all(self, emit: Emit, refused: list[ScheduleFired], move: ClockMove | None) -> bool:
        """Send what has happened up to now, then which firings were refused and how the clock was moved meanwhile.

        So everything up to the instant of a clock event is sent before it. Returns whether that was a page or
        more. Raises Conflict, WorldBroken.
        """
        await self._world.driver.commit()
        end = await self._world.history.position()
        is_burst = end.seq - self._position.seq >= _PAGE
        # What happens meanwhile is for the next round: history is written in large groups, one for each round.
        while self._position.seq < end.seq:
            piece = await self._pieces.after(self._world.history, self._position, end.seq, self._wanted)
            if self._world.generation != self._generation:
                return is_burst
            if piece.last == self._position.seq:
                break  # What follows was dropped meanwhile.
            self._position = HistoryPosition(generation=self._position.generation, seq=piece.last)
            if content := piece.content:
                del piece
                await emit(content)
        for firing in refused:
            await emit(written(Kind.FIRING, StreamedFiring(**asdict(firing)), self._position))
        for call in self._world.refused_calls.after(self._sent_refused):
            self._sent_refused = call.seq
            await emit(written(Kind.REFUSED, refused_call_view(call), self._position))
        if move is not None:
            held = held_view(tuple(self._world.state.held_destinations.values()))
            clock = StreamedClock(now_ms=move.now_ms, rate=rate_view(move.rate), from_ms=move.from_ms, held=held)
            await emit(written(Kind.CLOCK, clock, self._position))
        return is_burst


class _Piece(Record):
    """Entries of history as followers get them, up to and with entry `last`."""

    content: bytes
    last: int


class _Pieces:
    """What the followers of a world are sent next, made once for all that are at the same place."""

    def __init__(self) -> None:
        # Those that were asked for last come last.
        self._made: OrderedDict[tuple[object, ...], _Piece] = OrderedDict()
        self._bytes = 0
        self._count = _PAGE
        # One follower reads while the others wait for what it reads.
        self._reading = asyncio.Lock()

    async def after(self, history: History, position: HistoryPosition, end: int, wanted: StreamRequest) -> _Piece:
        """What follows a position, up to entry `end` at most."""
        async with self._reading:
            key = (position.generation, position.seq, history.cleared_up_to, wanted.brief, wanted.redact)
            piece = self._made.get(key)
            if piece is None or piece.last > end:
                count = min(self._count, end - position.seq)
                entries = await history.since(position.seq, count)
                piece, taken = await _make_piece(history, position, entries, wanted)
                # Of long entries few are read at a time: those that the piece has no place for are read again.
                self._count = min(_PAGE, 2 * taken + 1)
                before = self._made.pop(key, None)
                self._bytes += len(piece.content) - (0 if before is None else len(before.content))
                self._made[key] = piece
                while self._bytes > _KEPT_BYTES and len(self._made) > 1:
                    _, oldest = self._made.popitem(last=False)
                    self._bytes -= len(oldest.content)
            self._made.move_to_end(key)
            return piece


async def _make_piece(
    history: History, position: HistoryPosition, entries: Sequence[Event | RecordedDelivery], wanted: StreamRequest
) -> tuple[_Piece, int]:
    """A piece of the first of these entries, and how many it has."""
    shown_after = history.cleared_up_to
    attempts = [each for each in entries if isinstance(each, RecordedDelivery)]
    sent = iter(attempts) if wanted.brief else await history.as_sent(attempts)
    parts: list[bytes] = []
    size, last = 0, position.seq
    for entry in entries:
        if size >= _PIECE_BYTES:
            break
        last = entry.seq
        here = HistoryPosition(generation=position.generation, seq=last)
        if isinstance(entry, Event):
            part = written(Kind.EVENT, event_view(entry), here)
        elif last <= shown_after:
            next(sent)
            part = b""  # It was removed from view (D-224).
        else:
            attempt = next(sent)
            view = (brief_view if wanted.brief else delivery_view)(attempt, redact=wanted.redact)
            part = written(Kind.ATTEMPT, view, here)
        parts.append(part)
        size += len(part)
    return _Piece(content=b"".join(parts), last=last), len(parts)


_PIECES: WeakKeyDictionary[World, _Pieces] = WeakKeyDictionary()

ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/stream", stream, OWN_QUERY),)
