"""All operations of the control API, each declared beside its handler."""

from __future__ import annotations

from functools import partial

from emulator.api.endpoint import PathEndpoint, endpoints_of
from emulator.control import (
    clock,
    dead_letters,
    deliveries,
    destinations,
    explain,
    messages,
    pages,
    queues,
    refused,
    run_explanations,
    runs,
    schedules,
    stream,
    telemetry,
    trace,
    upcoming,
    when,
    worlds,
)
from emulator.control.call import ControlCall, ControlOptions, ControlRoute, gate, opener
from emulator.worlds.registry import Worlds

ROUTES: tuple[ControlRoute, ...] = (
    *clock.ROUTES,
    *worlds.ROUTES,
    *deliveries.ROUTES,
    *destinations.ROUTES,
    *messages.ROUTES,
    *dead_letters.ROUTES,
    *schedules.ROUTES,
    *queues.ROUTES,
    *upcoming.ROUTES,
    *explain.ROUTES,
    *when.ROUTES,
    *runs.ROUTES,
    *run_explanations.ROUTES,
    *trace.ROUTES,
    *stream.ROUTES,
    *refused.ROUTES,
    *telemetry.ROUTES,
    *pages.ROUTES,
)

# The paths of the pages that a person reads.
PAGES = frozenset(route.path for route in ROUTES if route.policy.is_page)


def endpoints(registry: Worlds, options: ControlOptions) -> dict[str, PathEndpoint[ControlCall]]:
    """Every path of the API with its operations."""
    return endpoints_of(registry.dialect, ROUTES, partial(opener, registry, options), gate=partial(gate, options))
