"""The control API under `/_emulator`: the clock, destinations, deliveries, worlds and the trace."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response, StreamingResponse

from emulator.api.contract import contract_answer, reference_answer
from emulator.api.exchange import Answer, Endpoint, Request
from emulator.core import commands
from emulator.core.errors import Forbidden, InvalidInput, Unauthenticated
from emulator.core.history import Event
from emulator.core.model import AccountId, RuleId
from emulator.version import VERSION
from emulator.wire import control_json, trace
from emulator.wire.account_json import account_view, read_account_changes, team_member_view
from emulator.wire.credentials import authorization_token
from emulator.wire.json_fields import Json
from emulator.wire.parts import RequestParts
from emulator.worlds import DEFAULT, World, Worlds, WorldSetup

_LOCAL_SUFFIXES = (".localhost", ".internal", ".local")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """Who may call the control API, and what a new world takes over from the server."""

    token: str | None
    allowed_hosts: Sequence[str]
    new_world: WorldSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A control call. `world` is found only when a handler asks for it."""

    request: Request
    worlds: Worlds
    options: ControlOptions

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def world(self) -> World:
        """The world that the query names, `default` without one. Raises NotFound."""
        named = [value for name, value in self.parts.query if name == "world"]
        return self.worlds.get(named[-1] if named else DEFAULT)

    @property
    def name(self) -> str:
        return self.request.path_parameters["name"]

    @property
    def body(self) -> Json:
        """The JSON body, None without one. Raises InvalidInput."""
        if not self.parts.body:
            return None
        try:
            content: Json = msgspec.json.decode(self.parts.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput("body", f"expected JSON: {error}") from error
        except RecursionError:
            raise InvalidInput("body", "expected JSON: too many nested values") from None
        return content


def endpoints(worlds: Worlds, options: ControlOptions) -> dict[str, Endpoint[Call]]:
    """Every path of the control API with its operations."""

    async def open_free(request: Request) -> Call:
        _check_origin(request.parts, options.allowed_hosts)
        if options.token is not None:
            given = authorization_token(request.parts) or ""
            if not hmac.compare_digest(given.encode(), options.token.encode()):
                raise Unauthenticated("the control API needs its bearer token (--control-token)")
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


# -- who may call -----------------------------------------------------------------------------


def _check_origin(parts: RequestParts, allowed_hosts: Sequence[str]) -> None:
    """A web page must not drive a developer's emulator: neither by its origin nor by a name it controls.

    Raises Forbidden. Source: decision D-150.
    """
    host = parts.header("host") or parts.header(":authority") or ""
    if host and not _is_own_name(_host_name(f"//{host}"), allowed_hosts):
        raise Forbidden(f"the control API is not served to the host {host!r} (--allow-control-host)")
    origin = parts.header("origin")
    if origin is not None and _authority(origin) != host:
        raise Forbidden(f"the control API is not served to pages of {origin!r}")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_own_name(name: str, allowed_hosts: Sequence[str]) -> bool:
    """Addresses, and names that no public page can have: a web page's own name is none of them."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        is_single_label = bool(name) and "." not in name
        return is_single_label or name.endswith(_LOCAL_SUFFIXES) or name in {host.lower() for host in allowed_hosts}
    return True


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
    await call.world.present()
    return Answer(control_json.deliveries_page(await call.world.history.deliveries(query), redact=redact))


async def clear_deliveries(call: Call) -> Response:
    await call.world.history.clear_deliveries()
    return Answer(status=204)


async def list_rules(call: Call) -> Response:
    state = await call.world.present()
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
    names = asdict(call.worlds.dialect.environment)
    return Answer({**control_json.credentials_view(call.world.credentials()), "environment": names})


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
    state = await call.world.present()
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
    await call.world.present()
    return StreamingResponse(_trace_lines(call.world), media_type="application/x-ndjson")


async def _trace_lines(world: World) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    async for entry in world.history.trace():
        line = trace.event_line(entry) if isinstance(entry, Event) else trace.attempt_line(entry)
        encoded = line.encode() + b"\n"
        digest.update(encoded)
        yield encoded
    yield trace.closing_line(digest.hexdigest()).encode() + b"\n"


# -- the contract -----------------------------------------------------------------------------


async def get_contract(call: Call) -> Response:
    return await contract_answer(call.parts, call.worlds.dialect)


async def get_reference(call: Call) -> Response:
    return await reference_answer(call.parts, call.worlds.dialect)


Handler = Callable[[Call], Awaitable[Response]]

# These read further parameters, and refuse those they do not know, themselves.
_WITH_PARAMETERS = frozenset(("/_emulator/deliveries", "/_emulator/contract", "/_emulator/reference"))

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
    "/_emulator/trace": {"GET": get_trace},
    "/_emulator/contract": {"GET": get_contract},
    "/_emulator/reference": {"GET": get_reference},
}
