"""Putting a server's parts together. The only module that knows every concrete class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from starlette.middleware import Middleware
from starlette.routing import Router

from emulator.api import application
from emulator.api.control.call import ControlOptions
from emulator.core.errors import Malformed
from emulator.core.model import Plan
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy
from emulator.delivery.http import HttpClient
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import wall_ms
from emulator.engine.limits import Limits
from emulator.fixtures import files as fixture_files
from emulator.fixtures.document import Fixtures
from emulator.server.settings import Settings, SettingsError
from emulator.wire import dialect as dialects
from emulator.wire.dialect import Dialect, DialectError
from emulator.wire.instants import EARLIEST_VIRTUAL_MS, read_instant_ms
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import DEFAULT, WorldSetup, origin_of
from emulator.worlds.world import WorldOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """A running emulator without a server around it: its worlds, and the application that serves them."""

    settings: Settings
    dialect: Dialect
    worlds: Worlds
    app: Router
    client: HttpClient

    async def close(self) -> None:
        """Finish or record what is in flight, and let go of files and connections."""
        await self.worlds.close()
        await self.client.close()


async def start(
    settings: Settings, document: Mapping[str, object] | None = None, limits: Limits | None = None
) -> Emulation:
    """Open the worlds that the settings describe; a fixtures document given as such precedes their file.

    Raises SettingsError, FixturesError for a fixtures file that cannot be used, and UnusableDatabase
    for a database that cannot be opened; each is one line.
    """
    dialect, setup = _dialect(settings), _setup(settings)
    if document is not None:
        fixtures: Fixtures | None = fixture_files.read(document, dialect, origin_of(setup, dialect))
    else:
        fixtures = _fixtures(settings, setup, dialect) if settings.fixtures else None
    egress = EgressPolicy(external=ExternalPolicy(settings.external), allow_hosts=settings.allow_host)
    # One pool of connections for all worlds; what is mounted in a world is the world's own.
    client = HttpClient(CheckedResolver(egress))
    options = WorldOptions(
        db=settings.db,
        limits=replace(
            limits or Limits(),
            concurrency=settings.concurrency or None,
            max_attempts_per_instant=settings.max_attempts_per_instant,
        ),
        fixtures=fixtures,
    )
    worlds = Worlds(
        options=options,
        dialect=dialect,
        new_transport=lambda: DeliveryTransport(dialect=dialect, egress=egress, wall_ms=wall_ms, client=client),
    )
    control = ControlOptions(
        token=settings.control_token or None, allowed_hosts=settings.allow_control_host, new_world=setup
    )
    try:
        await worlds.start(setup)
    except BaseException:
        await worlds.close()
        raise
    middleware: list[Middleware] = []
    if settings.strict:
        from emulator.api.strict import StrictMode

        middleware.append(Middleware(StrictMode, dialect=dialect))
    app = application.build(worlds, control, middleware)
    return Emulation(settings=settings, dialect=dialect, worlds=worlds, app=app, client=client)


def read_fixtures(settings: Settings) -> Fixtures:
    """The fixtures that the settings name, after a try whether a world can be made of them.

    Raises SettingsError and FixturesError.
    """
    return _fixtures(settings, _setup(settings), _dialect(settings))


def _fixtures(settings: Settings, setup: WorldSetup, dialect: Dialect) -> Fixtures:
    return fixture_files.load(Path(settings.fixtures), dialect, origin_of(setup, dialect))


def _dialect(settings: Settings) -> Dialect:
    try:
        return dialects.load(settings.dialect)
    except DialectError as error:
        raise SettingsError(f"dialect: {error}") from error


def _setup(settings: Settings) -> WorldSetup:
    return WorldSetup(
        id=DEFAULT,
        seed=settings.seed,
        epoch_ms=_epoch_ms(settings),
        rate=settings.rate,
        plan=Plan(settings.plan),
    )


def _epoch_ms(settings: Settings) -> int:
    if not settings.epoch:
        return wall_ms()
    try:
        epoch_ms = read_instant_ms(int(settings.epoch) if settings.epoch.isdigit() else settings.epoch)
    except Malformed as malformed:
        raise SettingsError(f"epoch: {malformed.reason}") from malformed
    if epoch_ms < EARLIEST_VIRTUAL_MS:
        raise SettingsError("epoch: expected an instant after 1970-01-01T00:00:00Z")
    return epoch_ms
