"""`/_emulator/trace`: everything that has happened, in a form that is equal on any machine."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO

from starlette.responses import Response, StreamingResponse

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.journal.history import History
from emulator.queries.history import Event
from emulator.wire.control import trace

# A longer trace is laid down on the disk before it is sent.
_IN_MEMORY = 16 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


async def get_trace(call: ControlCall) -> Response:
    """The answer begins when the trace has been read to its end.

    A reset meanwhile is a 409 and damage an error, and neither cuts the answer off (D-286).
    """
    await call.world.current_state()
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the response closes it
    try:
        await _write(call.world.history, file)
    except BaseException:
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    return StreamingResponse(_pieces(file), media_type="application/x-ndjson", headers={"Content-Length": str(size)})


async def _write(history: History, file: IO[bytes]) -> None:
    digest = hashlib.sha256()
    if history.dropped.seq:
        first = trace.dropped_line(history.dropped).encode() + b"\n"
        digest.update(first)
        file.write(first)
    async for entry in history.trace():
        line = trace.event_line(entry) if isinstance(entry, Event) else trace.attempt_line(entry)
        encoded = line.encode() + b"\n"
        digest.update(encoded)
        file.write(encoded)
    file.write(trace.closing_line(digest.hexdigest()).encode() + b"\n")


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/trace", get_trace, WORLD_ONLY),)
