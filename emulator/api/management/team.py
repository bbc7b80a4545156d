"""The teams that queue accounts belong to."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.management.call import OWNER, ManagementCall, ManagementRoute, done
from emulator.core.commands import MoveToTeam
from emulator.wire.management import bodies


async def move_to_team(call: ManagementCall) -> Response:
    move = bodies.read_team_move(call.body, call.dialect)
    await call.world.submit(MoveToTeam(account_id=move.account_id, team_id=move.team_id))
    return done()


ROUTES: tuple[ManagementRoute, ...] = (ManagementRoute("POST", "/v2/{queue}/move-to-team", move_to_team, OWNER),)
