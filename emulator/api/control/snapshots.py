"""`/_emulator/snapshots`: saved worlds, restored, and carried from server to server as files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.control.worlds import view_of
from emulator.api.endpoint import Answer
from emulator.wire.control.worlds import read_snapshot_name, snapshot_view

MEDIA_TYPE = "application/vnd.sqlite3"
_PIECE_BYTES = 1024 * 1024


async def list_snapshots(call: ControlCall) -> Response:
    return Answer({"snapshots": [snapshot_view(each) for each in await call.world.snapshots.all()]})


async def save_snapshot(call: ControlCall) -> Response:
    name = read_snapshot_name(call.body)
    return Answer(snapshot_view(await call.world.save_snapshot(name)), 201)


async def restore_snapshot(call: ControlCall) -> Response:
    world = call.world
    await call.worlds.restore_snapshot(world, _name(call))
    return Answer(await view_of(world))


async def delete_snapshot(call: ControlCall) -> Response:
    await call.world.snapshots.remove(_name(call))
    return Answer(status=204)


async def export_snapshot(call: ControlCall) -> Response:
    name = _name(call)
    file = call.world.snapshots.open(name)
    size = os.fstat(file.fileno()).st_size
    headers = {"Content-Disposition": f'attachment; filename="{name}.db"', "Content-Length": str(size)}
    return StreamingResponse(_pieces(file), media_type=MEDIA_TYPE, headers=headers)


async def import_snapshot(call: ControlCall) -> Response:
    snapshot, is_new = await call.world.import_snapshot(_name(call), call.request.pieces())
    return Answer(snapshot_view(snapshot), 201 if is_new else 200)


def _name(call: ControlCall) -> str:
    return read_snapshot_name({"name": call.name})


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    # The open file stays readable if the snapshot is removed or replaced meanwhile.
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/snapshots", list_snapshots, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/snapshots", save_snapshot, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/snapshots/{name}", delete_snapshot, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/snapshots/{name}/restore", restore_snapshot, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/snapshots/{name}/file", export_snapshot, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/snapshots/{name}/file", import_snapshot, WORLD_ONLY, is_streamed=True),
)
