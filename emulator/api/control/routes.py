"""All operations of the control API, each declared beside its handler."""

from __future__ import annotations

from functools import partial

from emulator.api.control import (
    accounts,
    clock,
    contract,
    dead_letters,
    deliveries,
    destinations,
    flow_control,
    inspector,
    meanings,
    messages,
    mismatches,
    pages,
    previews,
    queues,
    refused,
    runs,
    schedules,
    snapshots,
    stream,
    trace,
    url_groups,
    worlds,
)
from emulator.api.control.call import ControlCall, ControlRoute, opener
from emulator.api.control.options import ControlOptions
from emulator.api.endpoint import Endpoint, endpoints_of
from emulator.worlds.registry import Worlds

ROUTES: tuple[ControlRoute, ...] = (
    *clock.ROUTES,
    *worlds.ROUTES,
    *deliveries.ROUTES,
    *destinations.ROUTES,
    *accounts.ROUTES,
    *snapshots.ROUTES,
    *messages.ROUTES,
    *schedules.ROUTES,
    *queues.ROUTES,
    *flow_control.ROUTES,
    *url_groups.ROUTES,
    *dead_letters.ROUTES,
    *previews.ROUTES,
    *meanings.ROUTES,
    *runs.ROUTES,
    *trace.ROUTES,
    *stream.ROUTES,
    *refused.ROUTES,
    *mismatches.ROUTES,
    *contract.ROUTES,
    *inspector.ROUTES,
    *pages.ROUTES,
)

# The paths of the pages that a person reads.
PAGES = frozenset(route.path for route in ROUTES if route.policy.is_page)


def endpoints(registry: Worlds, options: ControlOptions) -> dict[str, Endpoint[ControlCall]]:
    """Every path of the API with its operations."""
    return endpoints_of(registry.dialect, ROUTES, partial(opener, registry, options))
