"""All operations of the control API, each declared beside its handler."""

from __future__ import annotations

from functools import partial

from emulator.api.control import (
    accounts,
    clock,
    contract,
    deliveries,
    destinations,
    pages,
    previews,
    runs,
    snapshots,
    stream,
    trace,
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
    *previews.ROUTES,
    *runs.ROUTES,
    *trace.ROUTES,
    *stream.ROUTES,
    *contract.ROUTES,
    *pages.ROUTES,
)


def endpoints(registry: Worlds, options: ControlOptions) -> dict[str, Endpoint[ControlCall]]:
    """Every path of the API with its operations."""
    return endpoints_of(registry.dialect, ROUTES, partial(opener, registry, options))
