"""`/_emulator/trace`: everything that has happened, in a form that is equal on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.queries.history import Event
from emulator.wire.control import trace
from emulator.worlds.world import World


async def get_trace(call: ControlCall) -> Response:
    await call.world.current_state()
    return StreamingResponse(_lines(call.world), media_type="application/x-ndjson")


async def _lines(world: World) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    async for entry in world.history.trace():
        line = trace.event_line(entry) if isinstance(entry, Event) else trace.attempt_line(entry)
        encoded = line.encode() + b"\n"
        digest.update(encoded)
        yield encoded
    yield trace.closing_line(digest.hexdigest()).encode() + b"\n"


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/trace", get_trace, WORLD_ONLY),)
