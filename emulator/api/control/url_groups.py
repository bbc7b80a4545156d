"""`/_emulator/url-groups`: the URL groups of all accounts."""

from __future__ import annotations

from starlette.responses import Response

from emulator.api.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.api.endpoint import Answer
from emulator.wire.control.url_groups import url_group_view


async def list_url_groups(call: ControlCall) -> Response:
    state = await call.world.current_state()
    groups = [url_group_view(group) for owner in state.accounts.values() for group in owner.groups.values()]
    return Answer({"url_groups": groups})


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/url-groups", list_url_groups, WORLD_ONLY),)
