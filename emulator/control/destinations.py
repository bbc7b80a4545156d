"""`/_emulator/destinations`: rules that answer in place of destinations."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.core.commands import AddRule, OrderRules, RemoveRules
from emulator.core.record import RuleId
from emulator.wire.destination_rules import read_rule, read_rule_order, rule_view


async def list_rules(call: ControlCall) -> Response:
    state = await call.world.current_state()
    return Answer({"destinations": [rule_view(rule) for rule in state.rules.values()]})


async def add_rule(call: ControlCall) -> Response:
    rule = read_rule(call.body)
    rule_id = await call.world.submit(AddRule(rule=rule))
    return Answer(rule_view(call.world.state.rules[rule_id]), 201)


async def order_rules(call: ControlCall) -> Response:
    await call.world.submit(OrderRules(rule_ids=read_rule_order(call.body)))
    return await list_rules(call)


async def remove_rules(call: ControlCall) -> Response:
    await call.world.submit(RemoveRules(rule_id=None))
    return Answer(status=204)


async def remove_rule(call: ControlCall) -> Response:
    await call.world.submit(RemoveRules(rule_id=RuleId(call.name)))
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/destinations", list_rules, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/destinations", add_rule, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/destinations", order_rules, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/destinations", remove_rules, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/destinations/{name}", remove_rule, WORLD_ONLY),
)
