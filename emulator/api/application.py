"""The ASGI application: every route, most frequent first, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route, Router

from emulator.api.control import routes as control
from emulator.api.control.options import ControlOptions
from emulator.api.endpoint import DESTINATION, not_found
from emulator.api.front import Front
from emulator.api.management import routes as management
from emulator.api.messaging import routes as messaging
from emulator.api.proxies import Proxies
from emulator.api.refused import RefusedCallLog
from emulator.api.senders import Senders
from emulator.api.workflow import routes as workflow
from emulator.worlds.registry import Worlds


def build(
    worlds: Worlds,
    options: ControlOptions,
    middleware: Sequence[Middleware] = (),
    *,
    senders: Senders | None = None,
    proxies: Proxies | None = None,
) -> Router:
    """The application that serves these worlds; the caller opens and closes them.

    A router alone: each endpoint answers for its own errors, so the middleware of a whole Starlette
    would only cost time. `middleware` sees only what may be answered.
    """
    # The version is in the path, and is chosen by nothing else (D-054).
    messages = [
        _route(path, endpoint)
        for path, endpoint in (*messaging.endpoints(worlds).items(), *workflow.endpoints(worlds).items())
    ]
    routes: list[BaseRoute] = [
        *messages,
        *(_route(path, endpoint) for path, endpoint in management.endpoints(worlds).items()),
        *(_route(path, endpoint) for path, endpoint in control.endpoints(worlds, options).items()),
    ]
    pages = [route for route in routes if isinstance(route, Route) and route.path in control.PAGES]
    front = Middleware(
        Front,
        senders=senders or Senders(),
        proxies=proxies or Proxies(),
        messaging=messages,
        pages=pages,
        refused=RefusedCallLog(worlds, [*messaging.endpoints(worlds), *management.endpoints(worlds)]),
    )
    return Router(routes=routes, middleware=[front, *middleware], redirect_slashes=False, default=not_found)


def _route(path: str, endpoint: object) -> Route:
    route = Route(path, endpoint)  # type: ignore[arg-type]  # an ASGI application, which Route takes as it is
    # The service's own clients write `/v2/Schedules`, and end a collection's path with a slash (D-003).
    pattern = route.path_regex.pattern.removesuffix("$")
    if path.endswith(DESTINATION):
        # Without a destination, or a queue before it, the operation is still meant, and says what is missing (D-310).
        words, *names = pattern.replace("[^/]+", "[^/]*").split("/(")
        pattern = words + "".join(f"(?:/({name}" for name in names) + ")?" * len(names)
    end = r"\Z" if ":path}" in path else r"/?\Z"
    # A destination may hold any character percent-encoded, a line break too.
    route.path_regex = re.compile(pattern + end, re.IGNORECASE | re.DOTALL)
    return route
