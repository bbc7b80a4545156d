"""Queue accounts: their records, plans, budgets, credentials and statistics."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.management.call import OWNER, ManagementCall, ManagementRoute
from emulator.core.commands import RotateToken, SetBudget, SetPlan, SetProductionPack
from emulator.wire.management import bodies
from emulator.wire.management.accounts import account_view
from emulator.wire.management.statistics import queue_statistics_view


async def list_accounts(call: ManagementCall) -> Response:
    return Answer([account_view(owner.account, call.dialect) for owner in call.world.state.accounts.values()])


async def get_own_account(call: ManagementCall) -> Response:
    return Answer(account_view(call.world.account(), call.dialect))


async def get_account(call: ManagementCall) -> Response:
    return Answer(account_view(call.world.find_account(call.account_id), call.dialect))


async def rotate_token(call: ManagementCall) -> Response:
    account = await call.world.submit(RotateToken(account_id=call.account_id))
    return Answer(account_view(account, call.dialect))


async def set_plan(call: ManagementCall) -> Response:
    plan = bodies.read_plan(call.body, call.dialect)
    return await call.carry_out(SetPlan(account_id=call.account_id, plan=plan))


async def set_budget(call: ManagementCall) -> Response:
    budget = bodies.read_budget(call.body)
    return await call.carry_out(SetBudget(account_id=call.account_id, budget=budget))


async def enable_production_pack(call: ManagementCall) -> Response:
    return await call.carry_out(SetProductionPack(account_id=call.account_id, enabled=True))


async def disable_production_pack(call: ManagementCall) -> Response:
    return await call.carry_out(SetProductionPack(account_id=call.account_id, enabled=False))


async def get_queue_statistics(call: ManagementCall) -> Response:
    found = await call.world.statistics.queue_account(call.account_id, call.period)
    workflows = await call.world.statistics.workflows(call.account_id, call.period)
    return Answer(queue_statistics_view(found, workflows, call.dialect))


ROUTES: tuple[ManagementRoute, ...] = (
    ManagementRoute("GET", "/v2/{queue}/user", get_own_account, OWNER),
    ManagementRoute("GET", "/v2/{queue}/users", list_accounts, OWNER),
    ManagementRoute("GET", "/v2/{queue}/user/{name}", get_account, OWNER),
    ManagementRoute("GET", "/v2/{queue}/stats/{name}", get_queue_statistics, OWNER),
    ManagementRoute("POST", "/v2/{queue}/rotate-token/{name}", rotate_token, OWNER),
    ManagementRoute("POST", "/v2/{queue}/set-plan/{name}", set_plan, OWNER),
    ManagementRoute("PATCH", "/v2/{queue}/update-budget/{name}", set_budget, OWNER),
    ManagementRoute("POST", "/v2/{queue}/enable-prodpack/{name}", enable_production_pack, OWNER),
    ManagementRoute("POST", "/v2/{queue}/disable-prodpack/{name}", disable_production_pack, OWNER),
)
