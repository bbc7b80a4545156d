"""All operations of the management API, each declared beside its handler.

Those beyond the interface document's table are not shown there; they are those that the service's
own clients use (D-167).
"""

from __future__ import annotations

from functools import partial

from emulator.api.endpoint import Endpoint, endpoints_of
from emulator.api.management import addresses, queue_accounts, search_indexes, team, vector_indexes
from emulator.api.management.call import CHALLENGE, ManagementCall, ManagementRoute, opener
from emulator.worlds.registry import Worlds

ROUTES: tuple[ManagementRoute, ...] = (
    *addresses.ROUTES,
    *search_indexes.ROUTES,
    *vector_indexes.ROUTES,
    *queue_accounts.ROUTES,
    *team.ROUTES,
)


def endpoints(worlds: Worlds) -> dict[str, Endpoint[ManagementCall]]:
    """Every path of the API with its operations; `{queue}` in a path is the dialect's segment."""
    found = endpoints_of(worlds.dialect, ROUTES, partial(opener, worlds), challenge=CHALLENGE)
    return {path.replace("{queue}", worlds.dialect.queue_segment): endpoint for path, endpoint in found.items()}
