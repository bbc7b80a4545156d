"""`GET /_emulator/stream`: a world's events, attempts and clock moves as they happen.

The stream is read from history, a page at a time, whether its reader is an hour behind or follows
live. So it shows only what is durable (a crash undoes nothing of it), resumes exactly, and a slow
reader costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.control.call import Call
from emulator.core.errors import Conflict, WorldBroken
from emulator.journal.history import History
from emulator.queries.history import Delivery, Event, HistoryPosition
from emulator.wire.control import event_stream
from emulator.wire.control.bodies import delivery_view
from emulator.wire.control.event_stream import EndReason, Kind, ResetReason, StreamRequest, written
from emulator.worlds.registry import Worlds
from emulator.worlds.watch import ClockMove
from emulator.worlds.world import World

# Entries read at a time: few, because each may hold a body, and everything else waits for the reading.
_PAGE = 100
# After each telling, so that a burst is told together: reading has it written first, in ever so small pieces.
_BREATH_S = 0.01

Emit = Callable[[bytes], Awaitable[None]]


async def stream(call: Call) -> Response:
    wanted = event_stream.read_stream_request(call.parts.query, call.parts.header("last-event-id"))
    world, history = call.world, call.world.history
    await world.current_state()
    # Before the answer begins: whoever has it may rely on being told all that they do next.
    beginning = await _beginning(history, wanted)
    return EventStream(_Follower(call.worlds, world, wanted, history, beginning).run)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """Where a stream begins, and why what its reader knows from before is void, if it is."""

    position: HistoryPosition
    reset: ResetReason | None = None


async def _beginning(history: History, wanted: StreamRequest) -> _Beginning:
    end = await history.position()
    start = HistoryPosition(generation=end.generation, seq=0)
    if wanted.after is None:
        return _Beginning(position=start if wanted.from_start else end)
    # A number that history has not come to is of another one too, whatever its generation says.
    if wanted.after.generation == end.generation and wanted.after.seq <= end.seq:
        return _Beginning(position=wanted.after)
    return _Beginning(position=start, reset=ResetReason.UNKNOWN_ID)


class _Follower:
    """One reader of a stream: where it has come to, and what it is to be told next."""

    def __init__(
        self, worlds: Worlds, world: World, wanted: StreamRequest, history: History, beginning: _Beginning
    ) -> None:
        self._worlds = worlds
        self._world = world
        self._wanted = wanted
        self._history = history
        self._position = beginning.position
        self._reset = beginning.reset

    async def run(self, emit: Emit) -> None:
        world = self._world
        with world.watched() as watch:
            await emit(event_stream.OPENING)
            move: ClockMove | None = watch.start(world.now_ms, world.clock.rate)
            while not world.is_closed:
                if world.history is not self._history:
                    self._history = world.history
                    move = watch.start(world.now_ms, world.clock.rate)
                try:
                    await self._tell_reset(emit)
                    await self._tell_all(emit, move)
                except Conflict:
                    pass  # The world is being reset or removed; it wakes its watchers when it has been.
                except WorldBroken as broken:
                    await emit(written(Kind.END, event_stream.end_view(EndReason.BROKEN, str(broken))))
                    return
                if not self._wanted.follow:
                    return
                await asyncio.sleep(_BREATH_S)
                while not await watch.wait(event_stream.KEEP_ALIVE_S):
                    await emit(event_stream.KEEP_ALIVE)
                move = watch.take_move(world.now_ms, world.clock.rate)
            if self._is_deleted:
                await emit(written(Kind.END, event_stream.end_view(EndReason.DELETED)))
            # Otherwise the server ends, and whoever comes back to it will be told the rest.

    async def _tell_reset(self, emit: Emit) -> None:
        """Begin anew if the world has begun another generation. Raises Conflict."""
        generation = await self._history.generation()
        if generation != self._position.generation:
            self._position, self._reset = HistoryPosition(generation=generation, seq=0), ResetReason.RESET
        if self._reset is not None:
            await emit(written(Kind.RESET, event_stream.reset_view(self._reset), self._position))
            self._reset = None

    async def _tell_all(self, emit: Emit, move: ClockMove | None) -> None:
        """Tell what has happened up to now, then how the clock was moved meanwhile.

        So everything up to the instant that a clock event tells has been told before it. Raises
        Conflict, WorldBroken.
        """
        history, world = self._history, self._world
        await world.driver.commit()
        is_up_to_date = False
        while not is_up_to_date:
            entries = await history.since(self._position.seq, _PAGE)
            if world.history is not history:
                return  # A reset came in between.
            content = b"".join(self._written_entry(entry) for entry in entries)
            if content:
                await emit(content)
            is_up_to_date = len(entries) < _PAGE
        if move is not None:
            view = event_stream.clock_view(now_ms=move.now_ms, rate=move.rate, from_ms=move.from_ms)
            await emit(written(Kind.CLOCK, view, self._position))

    def _written_entry(self, entry: Event | Delivery) -> bytes:
        self._position = HistoryPosition(generation=self._position.generation, seq=entry.seq)
        if isinstance(entry, Event):
            return written(Kind.EVENT, event_stream.event_view(entry), self._position)
        if entry.seq <= self._history.cleared_up_to:
            return b""  # It was removed from view (D-224).
        return written(Kind.ATTEMPT, delivery_view(entry, redact=self._wanted.redact), self._position)

    @property
    def _is_deleted(self) -> bool:
        return all(world is not self._world for world in self._worlds.all())
