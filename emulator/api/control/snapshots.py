"""Snapshots of worlds: saved, restored, and carried from server to server as files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse

from emulator.api.control.call import Call
from emulator.api.endpoint import Answer
from emulator.wire.control import bodies as control_json
from emulator.wire.control.snapshots import snapshot_view, snapshots_view

MEDIA_TYPE = "application/vnd.sqlite3"
_PIECE_BYTES = 1024 * 1024


async def list_snapshots(call: Call) -> Response:
    return Answer(snapshots_view(await call.world.snapshots.all()))


async def save_snapshot(call: Call) -> Response:
    name = control_json.read_snapshot_name(call.body)
    return Answer(snapshot_view(await call.world.save_snapshot(name)), 201)


async def restore_snapshot(call: Call) -> Response:
    world = call.world
    await world.restore_snapshot(_name(call))
    return Answer(control_json.world_view(world.id, world.credentials(), await world.clock_status()))


async def delete_snapshot(call: Call) -> Response:
    await call.world.snapshots.remove(_name(call))
    return Answer(status=204)


async def export_snapshot(call: Call) -> Response:
    world, name = call.world, _name(call)
    file = world.snapshots.open(name)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.db"',
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


async def import_snapshot(call: Call) -> Response:
    snapshot, is_new = await call.world.import_snapshot(_name(call), call.parts.body)
    return Answer(snapshot_view(snapshot), 201 if is_new else 200)


def _name(call: Call) -> str:
    return control_json.read_snapshot_name({"name": call.name})


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    # Whatever happens to the snapshot meanwhile, this goes on with the file that it was.
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
