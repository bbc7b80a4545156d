"""Worlds and their snapshots in the control API's JSON."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from emulator.core.errors import InvalidInput
from emulator.core.model.accounts import Plan
from emulator.core.rules.chaos import Chaos
from emulator.core.world_setup import WorldSetup, parse_token, parse_world_name
from emulator.queries.reports import ClockStatus, Credentials, Snapshot
from emulator.wire.control.clock import clock_view, read_rate
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.rules import read_probability, read_spared
from emulator.wire.dialect import Dialect
from emulator.wire.instants import iso
from emulator.wire.json_fields import MAX_EXACT, Json, JsonObject, kind_of, read_clock_instant
from emulator.wire.object_fields import Fields, integer, one_of, parsed

_read_name = parsed(parse_world_name, str)
_read_token = parsed(parse_token, str)


def read_world(value: Json, defaults: WorldSetup) -> WorldSetup:
    """The body that makes a world, which may be missing (null); `defaults` fills in the rest. Raises: InvalidInput."""
    names = ("id", "seed", "epoch", "rate", "fixtures", "plan", "token", "chaos")
    given = Fields({} if value is None else value, "", names)
    return WorldSetup(
        id=given.get("id", _read_name, defaults.id),
        seed=given.get("seed", integer(-MAX_EXACT), defaults.seed),
        epoch_ms=given.get("epoch", read_clock_instant, defaults.epoch_ms),
        rate=given.get("rate", read_rate, defaults.rate),
        fixtures=given.get("fixtures", _read_fixtures, None),
        plan=given.get("plan", one_of(Plan), defaults.plan),
        epoch_is_given="epoch" in given or defaults.epoch_is_given,
        token=given.get("token", _read_token, defaults.token),
        chaos=given.get("chaos", _read_chaos, defaults.chaos),
    )


def read_fork(value: Json, defaults: WorldSetup) -> WorldSetup:
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
        spared=given.get("except", read_spared, ()),
    )


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


def health_view(version: str, worlds: int, troubles: Mapping[str, str]) -> dict[str, Json]:
    """How a server is: `troubles` says by their ids why worlds do not work."""
    view: dict[str, Json] = {"status": "broken" if troubles else "ok", "version": version, "worlds": worlds}
    if troubles:
        view["broken"] = [{"id": world_id, "error": text} for world_id, text in troubles.items()]
    return view


def world_view(world_id: str, credentials: Credentials, clock: ClockStatus, trouble: str | None) -> dict[str, Json]:
    """A world: its id, what opens it, its clock, and why it does not work if it does not."""
    view: dict[str, Json] = {
        "id": world_id,
        "credentials": credentials_view(credentials),
        "clock": clock_view(clock),
    }
    return view if trouble is None else {**view, "error": trouble}


def setup_view(setup: WorldSetup) -> dict[str, Json]:
    """What a world was made from, as the body that makes another one in which the same happens (D-438)."""
    return {
        "seed": setup.seed,
        "epoch": iso(setup.epoch_ms),
        "plan": setup.plan.value,
        "chaos": {"level": setup.chaos.level, "except": list(setup.chaos.spared)},
    }


def unusable_view(unusable: Mapping[str, str]) -> dict[str, Json]:
    """The worlds that could not be opened, if there are any."""
    return {"unusable": [{"id": each, "error": text} for each, text in unusable.items()]} if unusable else {}


def credentials_view(credentials: Credentials) -> dict[str, Json]:
    """All that a client needs to use a world."""
    return {
        "queue": {
            "account_id": credentials.account_id,
            "token": credentials.token,
            "read_only_token": credentials.read_only_token,
            "current_signing_key": credentials.current_signing_key,
            "next_signing_key": credentials.next_signing_key,
        },
        "management": {"username": credentials.username, "password": credentials.password},
        "search_index_ids": list(credentials.search_index_ids),
        "vector_index_ids": list(credentials.vector_index_ids),
    }


def dialect_view(dialect: Dialect) -> dict[str, Json]:
    """The names under which the dialect's clients look for the credentials, and what it calls the service's headers."""
    return {
        "environment": asdict(dialect.environment),
        "dialect": {
            "name": dialect.name,
            "header_prefix": dialect.header_prefix,
            "issuer": dialect.issuer,
            "queue_segment": dialect.queue_segment,
        },
    }


def snapshot_view(snapshot: Snapshot) -> dict[str, Json]:
    """A snapshot: its name, where its clock stands, how many messages were live, and how large its file is."""
    return {
        "name": snapshot.name,
        **instant_fields("created", snapshot.now_ms),
        "pending": snapshot.pending,
        "size_bytes": snapshot.size_bytes,
    }
