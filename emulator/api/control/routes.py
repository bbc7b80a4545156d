"""The control API under `/_emulator`: every route with its endpoint."""

from __future__ import annotations

from emulator.api.control import (
    accounts,
    clock,
    contract,
    deliveries,
    destinations,
    previews,
    snapshots,
    stream,
    trace,
    worlds,
)
from emulator.api.control.access import ControlAccess
from emulator.api.control.call import ControlCall, Route
from emulator.api.endpoint import Endpoint, Request
from emulator.core.errors import InvalidInput
from emulator.worlds.registry import Worlds

PREFIX = "/_emulator"
_MODULES = (clock, worlds, deliveries, destinations, accounts, snapshots, previews, trace, stream, contract)
ROUTES: tuple[Route, ...] = tuple(route for module in _MODULES for route in module.ROUTES)


def endpoints(registry: Worlds, access: ControlAccess) -> dict[str, Endpoint[ControlCall]]:
    """Every path of the control API with its operations."""

    async def open_call(request: Request) -> ControlCall:
        access.check(request.parts)
        return ControlCall(request=request, worlds=registry)

    async def open_without_parameters(request: Request) -> ControlCall:
        for name, _ in request.parts.query:
            if name != "world":
                # A misspelt `world` must not act on the default one (D-127).
                raise InvalidInput(name, "unknown parameter, expected world")
        return await open_call(request)

    return {
        PREFIX + route.path: Endpoint(
            registry.dialect, open_call if route.reads_query else open_without_parameters, route.handlers
        )
        for route in ROUTES
    }
