"""The control API under `/_emulator`: the clock, destinations, deliveries, worlds and the trace."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping

from msgspec.structs import asdict
from starlette.responses import Response, StreamingResponse

from emulator.api.control.call import Call, ControlOptions, Handler, check_caller
from emulator.api.control.contract import get_contract, get_reference
from emulator.api.control.previews import explain_message, list_upcoming
from emulator.api.control.snapshots import (
    delete_snapshot,
    export_snapshot,
    import_snapshot,
    list_snapshots,
    restore_snapshot,
    save_snapshot,
)
from emulator.api.control.stream import stream
from emulator.api.endpoint import Answer, Endpoint, Request
from emulator.core import commands
from emulator.core.errors import InvalidInput
from emulator.core.model import AccountId, RuleId
from emulator.queries.history import Event
from emulator.version import VERSION
from emulator.wire.control import bodies as control_json
from emulator.wire.control import trace
from emulator.wire.json_fields import Json
from emulator.wire.management.accounts import account_view, read_account_changes, team_member_view
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World


def endpoints(worlds: Worlds, options: ControlOptions) -> dict[str, Endpoint[Call]]:
    """Every path of the control API with its operations."""

    async def open_free(request: Request) -> Call:
        check_caller(request.parts, options)
        return Call(request=request, worlds=worlds, options=options)

    async def open_call(request: Request) -> Call:
        for name, _ in request.parts.query:
            if name != "world":
                # A misspelt `world` must not act on the default one (D-127).
                raise InvalidInput(name, "unknown parameter, expected world")
        return await open_free(request)

    return {
        path: Endpoint(worlds.dialect, open_free if path in _WITH_PARAMETERS else open_call, handlers)
        for path, handlers in _OPERATIONS.items()
    }


# -- health and clock -------------------------------------------------------------------------


async def health(call: Call) -> Response:
    return Answer({"status": "ok", "version": VERSION, "worlds": len(call.worlds)})


async def get_clock(call: Call) -> Response:
    return Answer(control_json.clock_view(await call.world.clock_status()))


async def set_clock(call: Call) -> Response:
    change = control_json.read_clock_change(call.body)
    return Answer(control_json.clock_view(await call.world.set_clock(rate=change.rate, now_ms=change.now_ms)))


async def advance(call: Call) -> Response:
    wanted = control_json.read_advance(call.body)
    if wanted.to_ms is not None:
        report = await call.world.advance_to(wanted.to_ms, wanted.max_deliveries)
    else:
        report = await call.world.advance_by(wanted.by_ms or 0, wanted.max_deliveries)
    return Answer(control_json.advance_view(report))


async def advance_to_next(call: Call) -> Response:
    return Answer(control_json.advance_view(await call.world.advance_to_next()))


async def drain(call: Call) -> Response:
    wanted = control_json.read_drain(call.body)
    report = await call.world.advance_until_idle(wanted.horizon_ms, wanted.max_deliveries)
    return Answer(control_json.advance_view(report))


# -- deliveries and destinations --------------------------------------------------------------


async def list_deliveries(call: Call) -> Response:
    query = control_json.delivery_query(call.parts.query)
    redact = control_json.read_redact(call.parts.query)
    await call.world.current_state()
    return Answer(control_json.deliveries_page(await call.world.history.deliveries(query), redact=redact))


async def clear_deliveries(call: Call) -> Response:
    await call.world.history.clear_deliveries()
    return Answer(status=204)


async def list_rules(call: Call) -> Response:
    state = await call.world.current_state()
    return Answer({"destinations": [control_json.rule_view(rule) for rule in state.rules.values()]})


async def add_rule(call: Call) -> Response:
    rule = control_json.read_rule(call.body)
    rule_id = await call.world.submit(commands.AddRule(rule=rule))
    return Answer(control_json.rule_view(call.world.state.rules[rule_id]), 201)


async def remove_rules(call: Call) -> Response:
    await call.world.submit(commands.RemoveRules(rule_id=None))
    return Answer(status=204)


async def remove_rule(call: Call) -> Response:
    await call.world.submit(commands.RemoveRules(rule_id=RuleId(call.name)))
    return Answer(status=204)


# -- worlds -----------------------------------------------------------------------------------


async def get_credentials(call: Call) -> Response:
    # Beside the world's own, the names under which the dialect's clients look for them.
    dialect = call.worlds.dialect
    return Answer(
        {
            **control_json.credentials_view(call.world.credentials()),
            "environment": asdict(dialect.environment),
            "dialect": {
                "name": dialect.name,
                "header_prefix": dialect.header_prefix,
                "issuer": dialect.issuer,
            },
        }
    )


async def list_worlds(call: Call) -> Response:
    return Answer({"worlds": [await _world_view(world) for world in call.worlds.all()]})


async def create_world(call: Call) -> Response:
    wanted = control_json.read_world(call.body)
    return Answer(await _world_view(await call.worlds.create(wanted, call.options.new_world)), 201)


async def get_world(call: Call) -> Response:
    return Answer(await _world_view(call.worlds.get(call.name)))


async def delete_world(call: Call) -> Response:
    await call.worlds.delete(call.name)
    return Answer(status=204)


async def reset(call: Call) -> Response:
    world = call.world
    await world.reset(control_json.read_reset(call.body).fixtures)
    return Answer(await _world_view(world))


async def _world_view(world: World) -> dict[str, Json]:
    return control_json.world_view(world.id, world.credentials(), await world.clock_status())


# -- accounts ---------------------------------------------------------------------------------


async def list_accounts(call: Call) -> Response:
    state = await call.world.current_state()
    dialect = call.worlds.dialect
    return Answer({"accounts": [account_view(book.account, dialect) for book in state.accounts.values()]})


async def change_account(call: Call) -> Response:
    world, dialect = call.world, call.worlds.dialect
    account = world.find_account(AccountId(call.name))
    await world.change_account(read_account_changes(call.body, account, dialect))
    return Answer(account_view(world.find_account(account.id), dialect))


async def list_team(call: Call) -> Response:
    return Answer({"team": [team_member_view(member) for member in call.world.state.team]})


# -- the trace --------------------------------------------------------------------------------


async def get_trace(call: Call) -> Response:
    await call.world.current_state()
    return StreamingResponse(_trace_lines(call.world), media_type="application/x-ndjson")


async def _trace_lines(world: World) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    async for entry in world.history.trace():
        line = trace.event_line(entry) if isinstance(entry, Event) else trace.attempt_line(entry)
        encoded = line.encode() + b"\n"
        digest.update(encoded)
        yield encoded
    yield trace.closing_line(digest.hexdigest()).encode() + b"\n"


# These read further parameters, and refuse those they do not know, themselves.
_WITH_PARAMETERS = frozenset(
    (
        "/_emulator/deliveries",
        "/_emulator/upcoming",
        "/_emulator/stream",
        "/_emulator/contract",
        "/_emulator/reference",
    )
)

_OPERATIONS: Mapping[str, Mapping[str, Handler]] = {
    "/_emulator/health": {"GET": health},
    "/_emulator/clock": {"GET": get_clock, "PUT": set_clock},
    "/_emulator/clock/advance": {"POST": advance},
    "/_emulator/clock/next": {"POST": advance_to_next},
    "/_emulator/clock/drain": {"POST": drain},
    "/_emulator/deliveries": {"GET": list_deliveries, "DELETE": clear_deliveries},
    "/_emulator/destinations": {"GET": list_rules, "POST": add_rule, "DELETE": remove_rules},
    "/_emulator/destinations/{name}": {"DELETE": remove_rule},
    "/_emulator/credentials": {"GET": get_credentials},
    "/_emulator/accounts": {"GET": list_accounts},
    "/_emulator/accounts/{name}": {"PUT": change_account},
    "/_emulator/team": {"GET": list_team},
    "/_emulator/worlds": {"GET": list_worlds, "POST": create_world},
    "/_emulator/worlds/{name}": {"GET": get_world, "DELETE": delete_world},
    "/_emulator/reset": {"POST": reset},
    "/_emulator/snapshots": {"GET": list_snapshots, "POST": save_snapshot},
    "/_emulator/snapshots/{name}": {"DELETE": delete_snapshot},
    "/_emulator/snapshots/{name}/restore": {"POST": restore_snapshot},
    "/_emulator/snapshots/{name}/file": {"GET": export_snapshot, "PUT": import_snapshot},
    "/_emulator/upcoming": {"GET": list_upcoming},
    "/_emulator/messages/{name}/explain": {"GET": explain_message},
    "/_emulator/trace": {"GET": get_trace},
    "/_emulator/stream": {"GET": stream},
    "/_emulator/contract": {"GET": get_contract},
    "/_emulator/reference": {"GET": get_reference},
}
