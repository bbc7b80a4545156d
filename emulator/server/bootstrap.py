"""Making an emulation from settings: worlds, transport and application."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from starlette.middleware import Middleware
from starlette.routing import Router

from emulator.api.origins import AllowedOrigins, Proxies
from emulator.control.call import ControlOptions, Inspector
from emulator.core.errors import Malformed
from emulator.core.model.resources import Plan
from emulator.core.rules.destination_rules import Chaos
from emulator.core.world_setup import DEFAULT, WorldSetup
from emulator.delivery.egress import CheckedResolver, EgressPolicy, EgressVerdict, ExternalPolicy
from emulator.delivery.http import HttpClient
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import wall_ms
from emulator.engine.limits import Limits
from emulator.fixtures import files as fixture_files
from emulator.fixtures.document import Fixtures
from emulator.server import application
from emulator.server.settings import Settings, SettingsError
from emulator.telemetry.counts import Counts
from emulator.wire import dialect as dialects
from emulator.wire.dialect import Dialect, DialectError
from emulator.wire.messaging.chat import completions_url
from emulator.wire.times import iso, number_or_text, read_clock_instant_ms, read_epoch_ms
from emulator.wire.trace_context import AllSpanIds
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import WorldOptions

if TYPE_CHECKING:
    from emulator.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """A running emulator without a server around it: its worlds, and the application that serves them."""

    settings: Settings
    dialect: Dialect
    worlds: Worlds
    app: Router
    client: HttpClient
    tracing: Tracing | None = None

    def variables(self, url: str) -> dict[str, str]:
        """The environment variables that clients of the default world read, with the URL of a server around this."""
        credentials = self.worlds.get(DEFAULT).credentials()
        return self.dialect.environment.variables(
            url=url,
            token=credentials.token,
            current_signing_key=credentials.current_signing_key,
            next_signing_key=credentials.next_signing_key,
        )

    async def close(self) -> int:
        """Finish or record what is in flight, and close files and connections; how many attempts were cut off."""
        cut_off = await self.worlds.close()
        await self.client.close()
        if self.tracing is not None:
            await self.tracing.close()
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
    dialect, setup, fixtures = check(settings, document)
    egress = EgressPolicy(external=ExternalPolicy(settings.external), allow_hosts=settings.allow_host)
    llm_url = _llm_url(settings, egress)
    # All worlds share one pool of connections. Mounted applications belong to one world.
    client = HttpClient(CheckedResolver(egress))
    span_ids = AllSpanIds()
    injects = settings.trace == "inject"
    worlds = Worlds(
        setup,
        options=_world_options(settings, dialect, limits or _limits(settings), fixtures),
        new_transport=lambda world: DeliveryTransport(
            dialect=dialect,
            egress=egress,
            wall_ms=wall_ms,
            client=client,
            llm_url=llm_url,
            world=world,
            mount_timeout_ms=round(settings.mount_timeout_s * 1000),
            **({"add_headers": span_ids.of(world).injected} if injects else {}),
        ),
    )
    control = ControlOptions(
        token=settings.read_control_token() or None,
        inspector=Inspector(settings.inspector),
        is_strict=settings.strict,
    )
    app = _application(settings, worlds, control)
    tracing = _tracing(span_ids, control.counts) if _asks_for_spans(os.environ) else None
    worlds.keeps_traceparents = injects or tracing is not None
    if tracing is not None:
        worlds.observers.append(tracing.observe)
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
    if tracing is not None:
        tracing.start()
    return Emulation(settings=settings, dialect=dialect, worlds=worlds, app=app, client=client, tracing=tracing)


# The variables of OpenTelemetry that say where to send spans.
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def _asks_for_spans(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for spans: they name an exporter, or where to send them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" and bool(exporter or any(environment.get(name) for name in _ENDPOINTS))


def _tracing(span_ids: AllSpanIds, counts: Counts) -> Tracing | None:
    """What makes spans. Where it cannot be, that is logged: the variables may be meant for other programs only."""
    try:
        from emulator.telemetry.exporting import NotInstalled, OpenTelemetryExporter
    except ImportError as error:
        logger.warning("no spans are exported: pip install 'svc-emulator[otel]' (%s)", error)
        return None
    from emulator.telemetry.tracing import Tracing

    try:
        return Tracing(OpenTelemetryExporter(counts.count_spans), span_ids, counts.count_spans)
    except (NotInstalled, ValueError) as error:
        logger.warning("no spans are exported: %s", error)
        return None


def check(
    settings: Settings, document: Mapping[str, object] | None = None
) -> tuple[Dialect, WorldSetup, Fixtures | None]:
    """What the default world is made from. Raises SettingsError and FixturesError."""
    dialect, setup = _dialect(settings), _setup(settings)
    if document is not None:
        return dialect, setup, fixture_files.read(document, dialect, setup)
    fixtures = fixture_files.load(Path(settings.fixtures), dialect, setup) if settings.fixtures else None
    return dialect, setup, fixtures


def _world_options(settings: Settings, dialect: Dialect, limits: Limits, fixtures: Fixtures | None) -> WorldOptions:
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
        keep_history=settings.kept,
    )


def _limits(settings: Settings) -> Limits:
    default = Limits()
    # A call in a frozen world waits for its own deliveries too, but never longer than a receiver can bear (D-490).
    return Limits(settle_s=min(default.settle_s, settings.settle_s), patience_s=settings.settle_s)


def _application(settings: Settings, worlds: Worlds, control: ControlOptions) -> Router:
    """The application that serves the worlds."""
    allowed_origins = AllowedOrigins(
        control_hosts=settings.control_hosts,
        public_hosts=settings.public_hosts,
        origins=settings.origins,
        own_pages_write=control.inspector is Inspector.ON,
    )
    middleware: list[Middleware] = []
    if settings.strict:
        from emulator.api.strict import StrictMode

        middleware.append(Middleware(StrictMode, worlds=worlds))
    return application.build(
        worlds, control, middleware, allowed_origins=allowed_origins, proxies=Proxies(networks=settings.proxies)
    )


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
    if has_fixtures and not worlds.has_same_initial_state(kept):
        found.append(f"fixtures {settings.fixtures}".rstrip() + " (it began with others)")
    return found


def read_fixtures(settings: Settings) -> Fixtures:
    """The fixtures of the file that the settings name, once a state has been made of them as a trial.

    Raises SettingsError and FixturesError.
    """
    return fixture_files.load(Path(settings.fixtures), _dialect(settings), _setup(settings))


def _dialect(settings: Settings) -> Dialect:
    try:
        dialect = dialects.load(settings.dialect)
        # The same object where nothing differs, because parsers remember what they read by it.
        ignores = settings.foreign_options == "ignore"
        return dataclasses.replace(dialect, takes_foreign_options=True) if ignores else dialect
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
        region="" if settings.region == "plan" else settings.region,
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
    if verdict is EgressVerdict.FORBIDDEN:
        raise SettingsError("llm_url: a cloud metadata or link-local address is never contacted")
    if verdict is not EgressVerdict.NETWORK:
        raise SettingsError("llm_url: an external server, which allow_host has to name as well")
    return url


def _epoch_ms(text: str) -> int:
    if not text:
        return wall_ms()
    try:
        given = number_or_text(text)
        return read_clock_instant_ms(given if isinstance(given, str) else read_epoch_ms(given))
    except Malformed as malformed:
        raise SettingsError(f"epoch: {malformed.reason}") from malformed
