"""Spans of what worlds do, for another tool: noted as it happens, made and exported in the background.

A world pays for a note of each fact. What it does never waits for a span: notes and spans that there is no room for
are dropped, and counted (D-729). A span is made when its facts are durable, so it shows nothing that a crash could take
back.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from emulator.core.errors import Conflict, WorldBroken
from emulator.core.message_facts import AttemptFinished, DuplicateFinished, MessageCreated
from emulator.core.run_facts import RunStarted
from emulator.core.state import Fact, StateView
from emulator.telemetry.spans import Group, Notes, Span, SpanMaker
from emulator.wire.trace_context import AllSpanIds, SpanIds
from emulator.worlds.world import World

logger = logging.getLogger(__name__)

_MOST_GROUPS = 10_000
# So many groups become spans before other tasks get a turn.
_AT_ONCE = 100
_OF_SPANS = (MessageCreated, AttemptFinished, DuplicateFinished, RunStarted)


class Exporter(Protocol):
    """Where spans go. Neither method waits."""

    def export(self, span: Span) -> None: ...
    def close(self) -> None: ...


class _Traced:
    """What is known of one world."""

    def __init__(self, world: World, ids: SpanIds) -> None:
        self.world = weakref.ref(world)
        self.shared_ids = ids
        self.ids = ids.copy()
        self.notes = Notes()
        self.maker = SpanMaker()


class Tracing:
    """Makes spans of what all worlds of a server do; an observer of them."""

    def __init__(self, exporter: Exporter, ids: AllSpanIds, count: Callable[[str, int], None]) -> None:
        """`count` is called with `dropped` and a number of spans."""
        self._exporter = exporter
        self._ids = ids
        self._count = count
        self._worlds: weakref.WeakKeyDictionary[World, _Traced] = weakref.WeakKeyDictionary()
        self._groups: deque[tuple[_Traced, Group]] = deque()
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def observe(self, world: World, state: StateView, produced: Sequence[Fact]) -> None:
        """See `worlds.world.Observer`."""
        traced = self._worlds.get(world)
        if traced is None or not produced:
            if traced is not None:
                # Another life of the world: the same messages are others.
                traced.shared_ids.begin()
            traced = self._worlds[world] = _Traced(world, self._ids.of(world.id))
        notes = traced.notes.of(state, produced)
        if not notes:
            return
        if len(self._groups) >= _MOST_GROUPS:
            self._count("dropped", sum(isinstance(note.fact, _OF_SPANS) for note in notes))
            return
        group = Group(world_id=world.id, ids=traced.ids, at_ns=time.time_ns(), notes=notes)
        self._groups.append((traced, group))
        self._came.set()

    def start(self) -> None:
        """Make spans until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="spans")

    async def close(self) -> None:
        """Make spans of what is noted. Call when the worlds are closed, and all they did is durable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._make(self._groups)
        self._exporter.close()

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            while self._groups:
                groups = [self._groups.popleft() for _ in range(min(_AT_ONCE, len(self._groups)))]
                try:
                    durable = await self._durable(groups)
                except asyncio.CancelledError:
                    self._groups.extendleft(reversed(groups))
                    raise
                self._make(durable)
                await asyncio.sleep(0)

    async def _durable(self, groups: Sequence[tuple[_Traced, Group]]) -> list[tuple[_Traced, Group]]:
        """Those that are durable, or were when their world ended."""
        lost: set[_Traced] = set()
        for traced in dict.fromkeys(traced for traced, _ in groups):
            world = traced.world()
            try:
                if world is not None:
                    await world.driver.commit()
            except Conflict:
                # It was reset or closed, and whatever it had done was written before.
                pass
            except WorldBroken:
                lost.add(traced)
        return [(traced, group) for traced, group in groups if traced not in lost]

    def _make(self, groups: Iterable[tuple[_Traced, Group]]) -> None:
        for traced, group in groups:
            try:
                for span in traced.maker.spans_of(group):
                    self._exporter.export(span)
            except Exception:  # An edge: a fault of ours here must not end the spans of others.
                logger.exception("a span could not be made")
