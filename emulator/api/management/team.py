"""The teams that queue accounts belong to."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.management.call import OWNER, ManagementCall, ManagementRoute
from emulator.wire.management import bodies


async def move_to_team(call: ManagementCall) -> Response:
    return await call.carry_out(bodies.read_team_move(call.body, call.dialect))


ROUTES: tuple[ManagementRoute, ...] = (ManagementRoute("POST", "/v2/{queue}/move-to-team", move_to_team, OWNER),)
