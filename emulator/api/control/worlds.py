"""`/_emulator/worlds`, and what opens and resets one of them."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.version import VERSION
from emulator.wire.control.worlds import (
    credentials_view,
    dialect_view,
    health_view,
    read_fork,
    read_reset,
    read_world,
    setup_view,
    unusable_view,
    world_view,
)
from emulator.wire.json_fields import Json
from emulator.worlds.world import World

# A list of very many worlds lets other calls have a turn.
_LISTED_AT_ONCE = 50


async def get_health(call: ControlCall) -> Response:
    troubles = call.worlds.troubles()
    return Answer(health_view(VERSION, len(call.worlds), troubles), 503 if troubles else 200)


async def get_credentials(call: ControlCall) -> Response:
    return Answer({**credentials_view(call.world.credentials()), **dialect_view(call.dialect)})


async def list_worlds(call: ControlCall) -> Response:
    views: list[Json] = []
    for world in call.worlds.all():
        views.append(await view_of(world))
        if len(views) % _LISTED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return Answer({"worlds": views, **unusable_view(call.worlds.unusable)})


async def create_world(call: ControlCall) -> Response:
    setup = read_world(call.body, call.worlds.new_setup())
    return Answer(await view_of(await call.worlds.create(setup)), 201)


async def get_world(call: ControlCall) -> Response:
    return Answer(await view_of(call.worlds.get(call.name)))


async def get_setup(call: ControlCall) -> Response:
    return Answer(setup_view(call.worlds.get(call.name).setup))


async def fork_world(call: ControlCall) -> Response:
    source = call.worlds.get(call.name)
    wanted = read_fork(call.body, call.worlds.new_setup())
    return Answer(await view_of(await call.worlds.fork(source, wanted)), 201)


async def delete_world(call: ControlCall) -> Response:
    await call.worlds.delete(call.name)
    return Answer(status=204)


async def reset(call: ControlCall) -> Response:
    world = call.world
    await call.worlds.reset(world, read_reset(call.body))
    return Answer(await view_of(world))


async def view_of(world: World) -> dict[str, Json]:
    return world_view(world.id, world.credentials(), await world.clock_status(), world.trouble())


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/health", get_health, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/credentials", get_credentials, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds", list_worlds, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/worlds", create_world, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds/{name}", get_world, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/worlds/{name}", delete_world, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds/{name}/setup", get_setup, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/worlds/{name}/fork", fork_world, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/reset", reset, WORLD_ONLY),
)
