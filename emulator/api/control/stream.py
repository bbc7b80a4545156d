"""`GET /_emulator/stream`: a world's events, attempts and clock moves as they happen.

The stream is read from history, a page at a time, whether its reader is an hour behind or follows
live. So it shows only what is durable (a crash undoes nothing of it), resumes exactly, and a slow
reader costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.core.errors import Conflict, Damaged, WorldBroken
from emulator.core.facts import ScheduleFired
from emulator.queries.history import Delivery, Event, HistoryPosition
from emulator.wire.control import event_stream
from emulator.wire.control.deliveries import brief_view, delivery_view
from emulator.wire.control.event_stream import EndReason, Kind, ResetReason, StreamRequest, written
from emulator.wire.control.refused_calls import refused_call_view
from emulator.worlds.registry import Worlds
from emulator.worlds.watch import ClockMove
from emulator.worlds.world import World

# Entries read at a time: few, because each may hold a body, and other calls wait for the reading.
_PAGE = 100
# Wait at least so long after each round, so that entries of a burst are read together and not one by one; and
# so many times as long as the round took, but no longer than that, so that most time is left for other calls.
# After a full page, which takes a burst, it is that long: to write history has a price however little there is.
_SHORTEST_BREATH_S, _LONGEST_BREATH_S = 0.01, 0.1
_BREATHS_PER_ROUND = 9

Emit = Callable[[bytes], Awaitable[None]]


async def stream(call: ControlCall) -> Response:
    wanted = event_stream.read_stream_request(call.parts.query, call.parts.header("last-event-id"))
    world = call.world
    await world.current_state()
    follower = _Follower(call.worlds, world, wanted)
    # Before the answer begins: a client that has it is told everything it does next.
    await follower.find_position()
    return EventStream(follower.run)


class EventStream(Response):
    """A response that `run` writes for as long as it likes, and that ends at once when its client has gone."""

    media_type = event_stream.MEDIA_TYPE

    def __init__(self, run: Callable[[Emit], Awaitable[None]]) -> None:
        self.status_code = 200
        self.background = None
        self._run = run
        # Without a charset: this format has only one.
        self.raw_headers = [(b"content-type", self.media_type.encode()), (b"cache-control", b"no-store")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def emit(content: bytes) -> None:
            await send({"type": "http.response.body", "body": content, "more_body": True})

        loop = asyncio.get_running_loop()
        tasks = (loop.create_task(_whole(self._run(emit))), loop.create_task(_until_gone(receive)))
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


async def _whole(running: Awaitable[None]) -> None:
    # Some servers refuse what is sent to a client that has gone, instead of ignoring it.
    with contextlib.suppress(OSError):
        await running


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Follower:
    """One reader of a stream: the position it has come to, and what it is to be told next."""

    def __init__(self, worlds: Worlds, world: World, wanted: StreamRequest) -> None:
        self._worlds = worlds
        self._world = world
        self._wanted = wanted
        self._generation = world.generation
        self._reset: ResetReason | None = None
        self._told_refused = world.refused_calls.last_seq

    async def find_position(self) -> None:
        """Where the stream begins. A reset is told first if what the reader knows from before is void."""
        after, end = self._wanted.after, await self._world.history.position()
        # An entry that history has not come to is of another generation too, whatever its id says. What follows
        # one that was dropped may have been dropped as well.
        kept = range(self._world.history.dropped.seq, end.seq + 1)
        is_known = after is not None and after.generation == end.generation and after.seq in kept
        if after is not None and is_known:
            self._position = after
        else:
            last = self._wanted.last if after is None else None
            first = 0 if last is None else max(end.seq - last, 0)
            self._position = HistoryPosition(generation=end.generation, seq=first)
            self._reset = None if after is None else ResetReason.UNKNOWN_ID

    async def run(self, emit: Emit) -> None:
        world = self._world
        with world.watches.watch() as watch:
            await emit(event_stream.OPENING)
            move: ClockMove | None = watch.start(world.clock.now_ms, world.clock.rate)
            refused: list[ScheduleFired] = []
            while not world.is_closed:
                began_s, is_burst = time.monotonic(), False
                try:
                    if world.generation != self._generation:
                        await self._begin_anew()
                        move = watch.start(world.clock.now_ms, world.clock.rate)
                        refused = []
                    await self._tell_reset(emit)
                    is_burst = await self._tell_all(emit, refused, move)
                except Conflict:
                    pass  # The world is being reset or removed; it wakes its watchers afterwards.
                except (Damaged, WorldBroken) as broken:
                    await emit(written(Kind.END, event_stream.end_view(EndReason.BROKEN, str(broken))))
                    return
                if not self._wanted.follow:
                    return
                shortest_s = _LONGEST_BREATH_S if is_burst else _SHORTEST_BREATH_S
                breath_s = _BREATHS_PER_ROUND * (time.monotonic() - began_s)
                await asyncio.sleep(min(max(breath_s, shortest_s), _LONGEST_BREATH_S))
                while not await watch.wait(event_stream.KEEP_ALIVE_S):
                    await emit(event_stream.KEEP_ALIVE)
                refused = watch.take_refused()
                move = watch.take_move(world.clock.now_ms, world.clock.rate)
            if self._is_deleted:
                await emit(written(Kind.END, event_stream.end_view(EndReason.DELETED)))
            # Otherwise the server ends, and a client that comes back to it is told the rest.

    async def _begin_anew(self) -> None:
        """The world was reset: its history is told from its beginning. Raises Conflict."""
        generation = self._world.generation
        history_generation = await self._world.history.generation()
        self._position, self._reset = HistoryPosition(generation=history_generation, seq=0), ResetReason.RESET
        self._generation = generation

    async def _tell_reset(self, emit: Emit) -> None:
        if self._reset is not None:
            await emit(written(Kind.RESET, event_stream.reset_view(self._reset), self._position))
            self._reset = None

    async def _tell_all(self, emit: Emit, refused: list[ScheduleFired], move: ClockMove | None) -> bool:
        """Tell what has happened up to now, then which firings were refused and how the clock was moved meanwhile.

        So everything up to the instant of a clock event is told before it. Returns whether that was a page or
        more. Raises Conflict, WorldBroken.
        """
        history = self._world.history
        await self._world.driver.commit()
        end = await history.position()
        is_burst = end.seq - self._position.seq >= _PAGE
        # What happens meanwhile is for the next round: history is written in large groups, one for each round.
        while self._position.seq < end.seq:
            entries = await history.since(self._position.seq, min(_PAGE, end.seq - self._position.seq))
            if self._world.generation != self._generation:
                return is_burst
            if not entries:
                break  # They were dropped meanwhile.
            shown_after = history.cleared_up_to
            content = b"".join(self._written_entry(entry, shown_after) for entry in entries)
            if content:
                await emit(content)
        for firing in refused:
            await emit(written(Kind.FIRING, event_stream.firing_view(firing), self._position))
        for call in self._world.refused_calls.after(self._told_refused):
            self._told_refused = call.seq
            await emit(written(Kind.REFUSED, refused_call_view(call), self._position))
        if move is not None:
            view = event_stream.clock_view(now_ms=move.now_ms, rate=move.rate, from_ms=move.from_ms)
            await emit(written(Kind.CLOCK, view, self._position))
        return is_burst

    def _written_entry(self, entry: Event | Delivery, shown_after: int) -> bytes:
        self._position = HistoryPosition(generation=self._position.generation, seq=entry.seq)
        if isinstance(entry, Event):
            return written(Kind.EVENT, event_stream.event_view(entry), self._position)
        if entry.seq <= shown_after:
            return b""  # It was removed from view (D-224).
        view = brief_view(entry) if self._wanted.brief else delivery_view(entry, redact=self._wanted.redact)
        return written(Kind.ATTEMPT, view, self._position)

    @property
    def _is_deleted(self) -> bool:
        return all(world is not self._world for world in self._worlds.all())


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/stream", stream, OWN_QUERY),)
