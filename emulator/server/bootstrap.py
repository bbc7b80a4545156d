"""Making an emulation from settings: worlds, transport and application."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from starlette.middleware import Middleware
from starlette.routing import Router

from emulator.api import application
from emulator.api.control.options import ControlOptions, Inspector
from emulator.api.ending import Ending
from emulator.api.proxies import Proxies
from emulator.api.senders import Senders
from emulator.core.errors import Malformed
from emulator.core.model.accounts import Plan
from emulator.core.rules.chaos import Chaos
from emulator.core.world_setup import DEFAULT, WorldSetup
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy, Verdict
from emulator.delivery.http import HttpClient
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import wall_ms
from emulator.engine.limits import Limits
from emulator.fixtures import files as fixture_files
from emulator.fixtures.records import Fixtures
from emulator.journal.dropping import Keep
from emulator.server.settings import Settings, SettingsError
from emulator.wire import dialect as dialects
from emulator.wire.dialect import Dialect, DialectError
from emulator.wire.instants import iso, number_or_text, read_clock_instant_ms
from emulator.wire.messaging.chat import completions_url
from emulator.worlds.options import WorldOptions
from emulator.worlds.registry import Worlds

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """A running emulator without a server around it: its worlds, and the application that serves them."""

    settings: Settings
    dialect: Dialect
    worlds: Worlds
    app: Router
    client: HttpClient

    @property
    def ending(self) -> Ending:
        """What the calls under way are told when the server around it ends."""
        return Ending(self.worlds)

    async def close(self) -> int:
        """Finish or record what is in flight, and close files and connections; how many attempts were cut off."""
        cut_off = await self.worlds.close()
        await self.client.close()
        return cut_off


async def start(
    settings: Settings,
    document: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    given: Collection[str] = (),
) -> Emulation:
    """Open the worlds that the settings describe; a fixtures document given as such precedes their file.

    `given` names settings that were asked for although they are the default. What a database that
    holds a world already makes void is logged.

    Raises SettingsError, FixturesError for a fixtures file that cannot be used, and UnusableDatabase
    for a database that cannot be opened; each is one line.
    """
    dialect, setup = _dialect(settings), _setup(settings)
    fixtures = None
    if document is not None:
        fixtures = fixture_files.read(document, dialect, setup)
    elif settings.fixtures:
        fixtures = fixture_files.load(Path(settings.fixtures), dialect, setup)
    egress = EgressPolicy(external=ExternalPolicy(settings.external), allow_hosts=settings.allow_host)
    llm_url = _llm_url(settings, egress)
    # All worlds share one pool of connections. Mounted applications belong to one world.
    client = HttpClient(CheckedResolver(egress))
    worlds = Worlds(
        setup,
        options=_world_options(settings, dialect, limits or Limits(), fixtures),
        new_transport=lambda: DeliveryTransport(
            dialect=dialect, egress=egress, wall_ms=wall_ms, client=client, llm_url=llm_url
        ),
    )
    app = _application(settings, worlds)
    try:
        await worlds.start()
        not_applied = _not_applied(settings, setup, worlds, given, has_fixtures=fixtures is not None)
    except BaseException:
        await worlds.close()
        raise
    if not_applied:
        logger.warning(
            "%s holds a world already, so these settings are not applied: %s (--fresh starts over)",
            settings.db,
            ", ".join(not_applied),
        )
    return Emulation(settings=settings, dialect=dialect, worlds=worlds, app=app, client=client)


def _world_options(settings: Settings, dialect: Dialect, limits: Limits, fixtures: Fixtures | None) -> WorldOptions:
    entries, age_ms = settings.kept
    return WorldOptions(
        dialect=dialect,
        db=settings.db,
        fresh=settings.fresh,
        limits=replace(
            limits,
            concurrency=settings.concurrency or None,
            max_attempts_per_instant=settings.max_attempts_per_instant,
        ),
        fixtures=fixtures,
        keep_history=Keep(entries=entries, age_ms=age_ms),
    )


def _application(settings: Settings, worlds: Worlds) -> Router:
    """The application that serves the worlds. Raises SettingsError."""
    inspector = Inspector(settings.inspector)
    control = ControlOptions(
        token=settings.read_control_token() or None, inspector=inspector, is_strict=settings.strict
    )
    senders = Senders(
        control_hosts=settings.control_hosts,
        public_hosts=settings.public_hosts,
        origins=settings.origins,
        own_pages_write=inspector is Inspector.ON,
    )
    middleware: list[Middleware] = []
    if settings.strict:
        from emulator.api.strict import StrictMode

        middleware.append(Middleware(StrictMode, worlds=worlds))
    return application.build(worlds, control, middleware, senders=senders, proxies=Proxies(networks=settings.proxies))


def _not_applied(
    settings: Settings, wanted: WorldSetup, worlds: Worlds, given: Collection[str], *, has_fixtures: bool
) -> list[str]:
    """The settings for a new world that the one in the database was not made with, each with what it has (D-292)."""
    kept = worlds.kept
    if kept is None:
        return []
    default = Settings()
    pairs = {
        "epoch": (iso(wanted.epoch_ms), iso(kept.setup.epoch_ms)),
        "seed": (wanted.seed, kept.setup.seed),
        "plan": (wanted.plan.value, kept.setup.plan.value),
        "chaos": (wanted.chaos.level, kept.setup.chaos.level),
    }
    found = [
        f"{name} {asked} (it has {has})"
        for name, (asked, has) in pairs.items()
        if asked != has and (name in given or getattr(settings, name) != getattr(default, name))
    ]
    if has_fixtures and not worlds.begins_as(kept):
        found.append(f"fixtures {settings.fixtures}".rstrip() + " (it began with others)")
    return found


def read_fixtures(settings: Settings) -> Fixtures:
    """The fixtures of the file that the settings name, once a state has been made of them as a trial.

    Raises SettingsError and FixturesError.
    """
    return fixture_files.load(Path(settings.fixtures), _dialect(settings), _setup(settings))


def _dialect(settings: Settings) -> Dialect:
    try:
        return dialects.load(settings.dialect)
    except DialectError as error:
        raise SettingsError(f"dialect: {error}") from error


def _setup(settings: Settings) -> WorldSetup:
    return WorldSetup(
        id=DEFAULT,
        seed=settings.seed,
        epoch_ms=_epoch_ms(settings.epoch),
        rate=settings.rate,
        plan=Plan(settings.plan),
        epoch_is_given=bool(settings.epoch),
        chaos=Chaos(level=settings.chaos_level),
    )


def _llm_url(settings: Settings, egress: EgressPolicy) -> str | None:
    """Where chat completions are asked for, None for nowhere. The egress policy holds for it too (D-311)."""
    if not settings.llm_url:
        return None
    try:
        url = completions_url(settings.llm_url)
    except Malformed as malformed:
        raise SettingsError(f"llm_url: {malformed.reason}") from malformed
    verdict = egress.decide(url)
    if verdict is Verdict.FORBIDDEN:
        raise SettingsError("llm_url: a cloud metadata or link-local address is never contacted")
    if verdict is not Verdict.NETWORK:
        raise SettingsError("llm_url: an external server, which allow_host has to name as well")
    return url


def _epoch_ms(text: str) -> int:
    if not text:
        return wall_ms()
    try:
        return read_clock_instant_ms(number_or_text(text))
    except Malformed as malformed:
        raise SettingsError(f"epoch: {malformed.reason}") from malformed
