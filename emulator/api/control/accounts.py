"""`/_emulator/accounts` and `/_emulator/team`: what the management API cannot change."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.core.model.names import AccountId
from emulator.wire.management.accounts import account_view, read_account_changes, team_member_view


async def list_accounts(call: ControlCall) -> Response:
    state = await call.world.current_state()
    return Answer({"accounts": [account_view(owner.account, call.dialect) for owner in state.accounts.values()]})


async def change_account(call: ControlCall) -> Response:
    world = call.world
    account = world.find_account(AccountId(call.name))
    await call.worlds.change_account(world, read_account_changes(call.body, account, call.dialect))
    return Answer(account_view(world.find_account(account.id), call.dialect))


async def list_team(call: ControlCall) -> Response:
    return Answer({"team": [team_member_view(member) for member in call.world.state.team]})


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/accounts", list_accounts, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/accounts/{name}", change_account, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/team", list_team, WORLD_ONLY),
)
