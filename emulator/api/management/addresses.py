"""The addresses from which the service says to deliver; the emulator delivers from this machine."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.api.management.call import ANYBODY, ManagementCall, ManagementRoute

DELIVERY_ADDRESSES = ("3.125.136.186/32", "18.198.95.233/32")


async def list_addresses(call: ManagementCall) -> Response:
    return Answer(DELIVERY_ADDRESSES)


ROUTES: tuple[ManagementRoute, ...] = (ManagementRoute("GET", "/v2/{queue}/ipv4", list_addresses, ANYBODY),)
