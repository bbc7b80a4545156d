"""`/_emulator/worlds`: worlds, what opens and resets one of them, its accounts and people."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, BinaryIO, Literal

from msgspec import UNSET, Meta, UnsetType, convert
from msgspec.structs import asdict, replace
from starlette.responses import Response, StreamingResponse

from emulator.api.endpoint import Answer
from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.clock import Clock, HeldDestination, clock_view, held_view, read_rate
from emulator.control.records import (
    TWIN,
    Count,
    Instant,
    InstantMs,
    Secret,
    ShortText,
    Spared,
    VariableName,
    View,
    WorldId,
)
from emulator.core import world_setup
from emulator.core.errors import InvalidInput
from emulator.core.model.resources import Plan
from emulator.core.record import AccountId
from emulator.core.rules.destination_rules import Chaos
from emulator.core.world_setup import Keep, parse_token, parse_world_name
from emulator.queries import reports
from emulator.version import VERSION
from emulator.wire.accounts import account_view, read_account_changes, team_member_view
from emulator.wire.destination_rules import read_exempt_attempts, read_probability
from emulator.wire.json_reader import (
    MAX_EXACT,
    Fields,
    Json,
    JsonObject,
    integer,
    kind_of,
    one_of,
    parsed,
    read_clock_instant,
)
from emulator.wire.names import read_field
from emulator.wire.times import iso, parse_keep
from emulator.worlds import world as running

Ids = Annotated[tuple[str, ...], Meta(title="Ids")]

_read_name = parsed(parse_world_name, str)
_read_token = parsed(parse_token, str)


def read_world(value: Json, defaults: world_setup.WorldSetup) -> world_setup.WorldSetup:
    """The body that makes a world, which may be missing (null); `defaults` fills in the rest. Raises: InvalidInput."""
    names = ("id", "seed", "epoch", "rate", "fixtures", "plan", "token", "chaos", "keep_history")
    given = Fields({} if value is None else value, "", names)
    return world_setup.WorldSetup(
        id=given.get("id", _read_name, defaults.id),
        seed=given.get("seed", integer(-MAX_EXACT), defaults.seed),
        epoch_ms=given.get("epoch", read_clock_instant, defaults.epoch_ms),
        rate=given.get("rate", read_rate, defaults.rate),
        fixtures=given.get("fixtures", _read_fixtures, None),
        plan=given.get("plan", one_of(Plan), defaults.plan),
        epoch_is_given="epoch" in given or defaults.epoch_is_given,
        token=given.get("token", _read_token, defaults.token),
        chaos=given.get("chaos", _read_chaos, defaults.chaos),
        keep_history=given.get("keep_history", _read_keep, defaults.keep_history),
    )


def read_fork(value: Json, defaults: world_setup.WorldSetup) -> world_setup.WorldSetup:
    """The body of a fork, which may be missing (null): the new world's `id` and `token`. Raises: InvalidInput."""
    given = Fields({} if value is None else value, "", ("id", "token"))
    return replace(
        defaults, id=given.get("id", _read_name, defaults.id), token=given.get("token", _read_token, defaults.token)
    )


def _read_chaos(value: Json, path: str) -> Chaos:
    """A level from 0 to 1, or `{"level": ..., "except": [...]}`."""
    if not isinstance(value, Mapping):
        return Chaos(level=read_probability(value, path))
    given = Fields(value, path, ("level", "except"))
    return Chaos(
        level=given.need("level", read_probability, "missing, expected a number from 0 to 1"),
        exempt_attempts=given.get("except", read_exempt_attempts, ()),
    )


def _read_keep(value: Json, path: str) -> Keep:
    """A number of entries, or a text as in the setting of the same name."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidInput(path, f"expected 'all', a number of entries or an age such as 30d, got {kind_of(value)}")
    return read_field(path, value, parse_keep)


def read_reset(value: Json) -> JsonObject | None:
    """The body of a reset, which may be missing (null): other fixtures, if any. Raises: InvalidInput."""
    return Fields({} if value is None else value, "", ("fixtures",)).get("fixtures", _read_fixtures, None)


def read_snapshot_name(value: Json) -> str:
    """The body that saves a snapshot: its name. Raises: InvalidInput."""
    return Fields(value, "", ("name",)).need("name", _read_name, "missing, expected the snapshot's name")


def _read_fixtures(value: Json, path: str) -> JsonObject:
    """A fixtures document, which is read when the world is made."""
    if not isinstance(value, Mapping):
        raise InvalidInput(path, f"expected an object, got {kind_of(value)}")
    return value


class Trouble(View):
    """A world that does not work."""

    id: WorldId
    error: str  #: Why it does not.


Troubles = Annotated[tuple[Trouble, ...], Meta(title="Troubles")]


class Health(View):
    """How a server is."""

    #: Whether all worlds work (`ok`), or those that do not continue by themselves (`degraded`), or some do not
    #: (`broken`).
    status: Literal["ok", "degraded", "broken"]
    version: str  #: The version of the emulator.
    worlds: Annotated[int, Meta(ge=1)]  #: How many worlds there are, without those that could not be opened.
    #: Worlds whose disk is full (D-282). They continue by themselves once there is room.
    problems: Troubles | UnsetType
    broken: Troubles | UnsetType
    #: Worlds with destinations to which nothing leaves, as they publish to themselves; only there if there is one.
    held: tuple[HeldInWorld, ...] | UnsetType


class HeldInWorld(View):
    """The destinations of a world to which nothing leaves."""

    id: WorldId
    held: tuple[HeldDestination, ...]  #: The destinations.


def _troubles(errors: Mapping[str, str]) -> tuple[Trouble, ...] | UnsetType:
    """Why worlds do not work, by their ids."""
    return tuple(Trouble(id=each, error=text) for each, text in errors.items()) or UNSET


class QueueCredentials(View):
    """For the messaging API."""

    account_id: AccountId
    token: Secret  #: The token of the messaging API.
    read_only_token: Secret  #: A token that can change nothing.
    current_signing_key: Secret  #: The key with which deliveries are signed.
    next_signing_key: Secret  #: The key that a rotation makes the current one.


class ManagementCredentials(View):
    """For the management API."""

    username: ShortText  #: The user name.
    password: Secret  #: The password.


class Credentials(View):
    """All that a client needs to use a world."""

    queue: QueueCredentials
    management: ManagementCredentials
    search_index_ids: Ids  #: The search indexes of the world.
    vector_index_ids: Ids  #: The vector indexes of the world.


class VariableNames(View):
    """Names of environment variables."""

    url: VariableName
    token: VariableName
    current_signing_key: VariableName
    next_signing_key: VariableName


class WireNames(View):
    """The names that the server has on the wire."""

    name: str  #: The dialect's own name.
    header_prefix: str  #: What the service's own headers begin with.
    issuer: str  #: The issuer that signatures name.
    queue_segment: str  #: How the management API's paths of queue accounts begin behind `/v2/`.


class CredentialsWithEnvironment(Credentials):
    """All that a client needs to use a world, and where the dialect's clients look for it."""

    environment: VariableNames
    dialect: WireNames


class World(View):
    """A world."""

    id: WorldId
    credentials: Credentials
    clock: Clock
    error: str | UnsetType  #: Why the world does not work, if it does not (D-282).


class WorldList(View):
    """All worlds, and those that could not be opened."""

    worlds: tuple[World, ...]
    unusable: Troubles | UnsetType


class WorldSetup(View):
    """What a world was made from."""

    seed: int  #: What seeds every random choice.
    epoch: Instant  #: The first instant of its clock.
    plan: Plan  #: The plan of the built-in account.
    chaos: WorldChaos


class WorldChaos(View, rename={"exempt_attempts": "except"}):
    """How much goes wrong."""

    level: Annotated[float, Meta(ge=0, le=1)]  #: From 0, nothing, to 1.
    exempt_attempts: Spared


def _credential_fields(credentials: reports.Credentials) -> dict[str, Any]:
    return {
        "queue": convert(credentials, QueueCredentials, from_attributes=True),
        "management": convert(credentials, ManagementCredentials, from_attributes=True),
        "search_index_ids": credentials.search_index_ids,
        "vector_index_ids": credentials.vector_index_ids,
    }


# A list of very many worlds lets other calls have a turn.
_LISTED_AT_ONCE = 50


async def get_health(call: ControlCall) -> Response:
    troubles, waiting = call.worlds.troubles(), call.worlds.waiting_for_room()
    broken = {world_id: text for world_id, text in troubles.items() if world_id not in waiting}
    problems = {world_id: text for world_id, text in troubles.items() if world_id in waiting}
    health = Health(
        status="broken" if broken else "degraded" if problems else "ok",
        version=VERSION,
        worlds=len(call.worlds),
        problems=_troubles(problems),
        broken=_troubles(broken),
        held=tuple(
            HeldInWorld(id=world.id, held=held)
            for world in call.worlds.all()
            if (held := held_view(tuple(world.state.held_destinations.values())))
        )
        or UNSET,
    )
    return Answer(health, 503 if broken else 200)


async def get_credentials(call: ControlCall) -> CredentialsWithEnvironment:
    return CredentialsWithEnvironment(
        **_credential_fields(call.world.credentials()),
        environment=VariableNames(**asdict(call.dialect.environment)),
        dialect=convert(call.dialect, WireNames, from_attributes=True),
    )


async def list_worlds(call: ControlCall) -> WorldList:
    views: list[World] = []
    for world in call.worlds.all():
        views.append(await view_of(world))
        if len(views) % _LISTED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return WorldList(worlds=tuple(views), unusable=_troubles(call.worlds.unusable))


async def create_world(call: ControlCall) -> Response:
    setup = read_world(call.body, call.worlds.new_setup())
    return Answer(await view_of(await call.worlds.create(setup)), 201)


async def get_world(call: ControlCall) -> World:
    return await view_of(call.worlds.get(call.name))


async def get_setup(call: ControlCall) -> WorldSetup:
    """What a world was made from, as the body that makes another one in which the same happens (D-438)."""
    setup = call.worlds.get(call.name).setup
    chaos = WorldChaos(level=setup.chaos.level, exempt_attempts=setup.chaos.exempt_attempts)
    return WorldSetup(seed=setup.seed, epoch=iso(setup.epoch_ms), plan=setup.plan, chaos=chaos)


async def fork_world(call: ControlCall) -> Response:
    source = call.worlds.get(call.name)
    wanted = read_fork(call.body, call.worlds.new_setup())
    return Answer(await view_of(await call.worlds.fork(source, wanted)), 201)


async def delete_world(call: ControlCall) -> Response:
    await call.worlds.delete(call.name)
    return Answer(status=204)


async def reset(call: ControlCall) -> World:
    world = call.world
    await call.worlds.reset(world, read_reset(call.body))
    return await view_of(world)


async def undo(call: ControlCall) -> World:
    world = call.world
    await call.worlds.undo(world)
    return await view_of(world)


async def view_of(world: running.World) -> World:
    """A world: its id, what opens it, its clock, and why it does not work if it does not."""
    trouble = world.problem()
    return World(
        id=world.id,
        credentials=Credentials(**_credential_fields(world.credentials())),
        clock=clock_view(await world.clock_status()),
        error=UNSET if trouble is None else trouble,
    )


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


# -- snapshots --------------------------------------------------------------------------------

MEDIA_TYPE = "application/vnd.sqlite3"
_PIECE_BYTES = 1024 * 1024


class Snapshot(View):
    """A saved world."""

    name: Annotated[str, Meta(title="SnapshotName")]  #: Its name.
    created: Instant = TWIN
    created_ms: InstantMs  #: The virtual time of the world when it was saved, in milliseconds since the Unix epoch.
    pending: Count  #: Messages that were live.
    size_bytes: Annotated[int, Meta(ge=1)]  #: The size of its file in bytes.


class SnapshotList(View):
    """All snapshots of the world."""

    snapshots: tuple[Snapshot, ...]


def snapshot_view(snapshot: reports.Snapshot) -> Snapshot:
    """A snapshot: its name, its virtual time, how many messages were live, and how large its file is."""
    return Snapshot(
        name=snapshot.name,
        created_ms=snapshot.now_ms,
        pending=snapshot.pending,
        size_bytes=snapshot.size_bytes,
    )


async def list_snapshots(call: ControlCall) -> SnapshotList:
    return SnapshotList(snapshots=tuple(snapshot_view(each) for each in await call.world.snapshots.all()))


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
    ControlRoute("GET", "/_emulator/health", get_health, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/credentials", get_credentials, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds", list_worlds, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/worlds", create_world, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds/{name}", get_world, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/worlds/{name}", delete_world, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/worlds/{name}/setup", get_setup, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/worlds/{name}/fork", fork_world, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/reset", reset, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/clock/undo", undo, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/accounts", list_accounts, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/accounts/{name}", change_account, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/team", list_team, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/snapshots", list_snapshots, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/snapshots", save_snapshot, WORLD_ONLY),
    ControlRoute("DELETE", "/_emulator/snapshots/{name}", delete_snapshot, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/snapshots/{name}/restore", restore_snapshot, WORLD_ONLY),
    ControlRoute("GET", "/_emulator/snapshots/{name}/file", export_snapshot, WORLD_ONLY),
    ControlRoute("PUT", "/_emulator/snapshots/{name}/file", import_snapshot, WORLD_ONLY, is_streamed=True),
)
