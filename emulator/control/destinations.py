"""`/_emulator/destinations`: rules that answer in place of destinations, in the words that they were given in."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import Base64, Spared, Text, View, WholeNumber, values_by_name
from emulator.core.commands import AddRule, OrderRules, RemoveRules
from emulator.core.model import resources
from emulator.core.model.options import Method
from emulator.core.model.resources import DestinationRule, Fault
from emulator.core.record import RuleId
from emulator.wire.destination_rules import read_rule, read_rule_order

DurationShown = Annotated[str, Meta(title="DurationShown")]


class LatencyRange(View):
    """A range of latencies in which each attempt draws its own."""

    min: DurationShown
    max: DurationShown


# They have schemas that are written by hand, for what a rule is given with has them too.
LatencyShown = Annotated[str | LatencyRange, Meta(title="LatencyShown")]
WhenShown = Annotated[bool | str, Meta(title="WhenShown")]
ScriptedStatus = Annotated[int, Meta(title="ScriptedStatus")]
ScriptedHeaders = Annotated[dict[str, str | list[str]], Meta(title="ScriptedHeaders")]
Origin = Annotated[str, Meta(title="Origin")]
Chance = Annotated[float, Meta(title="Chance")]
Times = Annotated[int, Meta(title="Times")]


class ScriptedResponse(View):
    """What the destination answers."""

    status: ScriptedStatus
    headers: ScriptedHeaders | UnsetType
    body: Text | UnsetType  #: The body as text; absent when empty.
    body_base64: Base64 | UnsetType  #: The body, if it is not UTF-8 text.
    latency: LatencyShown | UnsetType


class RuleMatch(View):
    """Which attempts the rule is for."""

    url: Text  #: An exact URL, or a glob in which `*` matches any characters.
    method: Method | UnsetType  #: A method; all methods without it.


class Rule(View, rename={"exempt_attempts": "except"}):
    """A destination rule in the words it was given in, and how often it has decided."""

    id: RuleId
    match: RuleMatch
    respond: ScriptedResponse | UnsetType
    #: One response per attempt; the last one repeats.
    sequence: Annotated[tuple[ScriptedResponse, ...], Meta(min_length=1)] | UnsetType
    forward_to: Origin | UnsetType
    fault: Fault | UnsetType
    latency: LatencyShown | UnsetType
    duplicate: WhenShown | UnsetType
    reorder: WhenShown | UnsetType
    chance: Chance | UnsetType
    exempt_attempts: Spared | UnsetType
    times: Times | UnsetType
    used: WholeNumber  #: How many attempts the rule has decided.


class RuleList(View):
    """The rules."""

    destinations: tuple[Rule, ...]


def rule_view(rule: DestinationRule) -> Rule:
    """A rule in the words it was given in, with its `id` and how many attempts it has decided (`used`)."""
    responses = tuple(_response(response) for response in rule.responses)
    return Rule(
        id=rule.rule_id,
        match=RuleMatch(url=rule.url, method=rule.method or UNSET),
        respond=responses[0] if responses and not rule.is_sequence else UNSET,
        sequence=responses if rule.is_sequence else UNSET,
        forward_to=UNSET if rule.forward_to is None else rule.forward_to,
        fault=rule.fault or UNSET,
        latency=_latency(rule),
        duplicate=_when(rule.duplicate_ms),
        reorder=_when(rule.reorder_ms),
        chance=UNSET if rule.chance is None else rule.chance,
        exempt_attempts=rule.exempt_attempts or UNSET,
        times=UNSET if rule.times is None else rule.times,
        used=rule.used,
    )


def _response(response: resources.ScriptedResponse) -> ScriptedResponse:
    values = values_by_name(response.headers)
    try:
        text, base64 = response.body.decode(), ""
    except UnicodeDecodeError:
        text, base64 = "", b64encode(response.body).decode()
    return ScriptedResponse(
        status=response.status,
        headers={name: found[0] if len(found) == 1 else found for name, found in values.items()} or UNSET,
        body=text or UNSET,
        body_base64=base64 or UNSET,
        latency=_latency(response),
    )


def _latency(given: DestinationRule | resources.ScriptedResponse) -> str | LatencyRange | UnsetType:
    if given.latest_ms is not None:
        return LatencyRange(min=_duration_text(given.latency_ms), max=_duration_text(given.latest_ms))
    return _duration_text(given.latency_ms) if given.latency_ms else UNSET


def _when(after_ms: int | None) -> bool | str | UnsetType:
    """True for at once, or how long after."""
    if after_ms is None:
        return UNSET
    return _duration_text(after_ms) if after_ms else True


def _duration_text(ms: int) -> str:
    """A duration in the form a rule may be written with: `2s`, `1m500ms`."""
    terms: list[str] = []
    for unit_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")):
        count, ms = divmod(ms, unit_ms)
        if count:
            terms.append(f"{count}{unit}")
    return "".join(terms) or "0s"


async def list_rules(call: ControlCall) -> RuleList:
    state = await call.world.current_state()
    return RuleList(destinations=tuple(rule_view(rule) for rule in state.rules.values()))


async def add_rule(call: ControlCall) -> Response:
    rule = read_rule(call.body)
    rule_id = await call.world.submit(AddRule(rule=rule))
    return Answer(rule_view(call.world.state.rules[rule_id]), 201)


async def order_rules(call: ControlCall) -> RuleList:
    await call.world.submit(OrderRules(rule_ids=read_rule_order(call.body)))
    return await list_rules(call)


async def remove_rules(call: ControlCall) -> Response:
    """Removes the rule that the path names, or all."""
    name = call.request.path_parameters.get("name")
    await call.world.submit(RemoveRules(rule_id=None if name is None else RuleId(name)))
    return Answer(status=204)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/destinations", list_rules, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/destinations", add_rule, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/destinations", order_rules, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/destinations", remove_rules, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/destinations/{name}", remove_rules, WORLD_ONLY),
)
