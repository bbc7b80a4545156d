"""The ASGI application: every route, most frequent first, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route, Router

from emulator.api import dead_letters, management, messages, messaging, queues, schedules, url_groups, workflow
from emulator.api.endpoint import DESTINATION, PathEndpoint, endpoints_of, not_found
from emulator.api.management import ManagementCall
from emulator.api.messaging import MessagingCall, MessagingRoute
from emulator.api.middleware import RequestGuard
from emulator.api.origins import AllowedOrigins, Proxies
from emulator.api.refused import RefusedCallLog
from emulator.control import routes as control
from emulator.control.call import ControlOptions
from emulator.worlds.registry import Worlds

# All operations of the messaging API (D-055).
MESSAGING_ROUTES: tuple[MessagingRoute, ...] = (
    *messages.ROUTES,
    *schedules.ROUTES,
    *url_groups.ROUTES,
    *queues.ROUTES,
    *dead_letters.ROUTES,
    *messaging.ROUTES,
)


def messaging_endpoints(worlds: Worlds) -> dict[str, PathEndpoint[MessagingCall]]:
    """Every path of the messaging API with its operations."""
    return endpoints_of(
        worlds.dialect, MESSAGING_ROUTES, partial(messaging.opener, worlds), gate=partial(messaging.gate, worlds)
    )


def workflow_endpoints(worlds: Worlds) -> dict[str, PathEndpoint[MessagingCall]]:
    """Every path of the workflow API with its operations."""
    routes = (*workflow.ROUTES, *dead_letters.WORKFLOW_ROUTES)
    return {
        **endpoints_of(worlds.dialect, routes, partial(messaging.opener, worlds), gate=partial(messaging.gate, worlds)),
        **endpoints_of(worlds.dialect, workflow.WEBHOOK_ROUTES, partial(workflow.open_webhook, worlds)),
    }


def management_endpoints(worlds: Worlds) -> dict[str, PathEndpoint[ManagementCall]]:
    """Every path of the management API with its operations; `{queue}` in a path is the dialect's segment."""
    found = endpoints_of(
        worlds.dialect,
        management.ROUTES,
        partial(management.opener, worlds),
        challenge=management.CHALLENGE,
        gate=partial(management.gate, worlds),
    )
    return {path.replace("{queue}", worlds.dialect.queue_segment): endpoint for path, endpoint in found.items()}


def build(
    worlds: Worlds,
    options: ControlOptions,
    middleware: Sequence[Middleware] = (),
    *,
    allowed_origins: AllowedOrigins | None = None,
    proxies: Proxies | None = None,
) -> Router:
    """The application that serves these worlds; the caller opens and closes them.

    A router alone: each endpoint answers for its own errors, so the middleware of a whole Starlette
    would only cost time. `middleware` sees only what may be answered.
    """
    # The version is in the path, and is chosen by nothing else (D-054).
    messages = [
        _route(path, endpoint)
        for path, endpoint in (*messaging_endpoints(worlds).items(), *workflow_endpoints(worlds).items())
    ]
    routes: list[BaseRoute] = [
        *messages,
        *(_route(path, endpoint) for path, endpoint in management_endpoints(worlds).items()),
        *(_route(path, endpoint) for path, endpoint in control.endpoints(worlds, options).items()),
    ]
    worlds.observers.append(options.counts.observe)
    pages = [route for route in routes if isinstance(route, Route) and route.path in control.PAGES]
    front = Middleware(
        RequestGuard,
        allowed_origins=allowed_origins or AllowedOrigins(),
        proxies=proxies or Proxies(),
        messaging=messages,
        pages=pages,
        refused=RefusedCallLog(
            worlds, [*messaging_endpoints(worlds), *workflow_endpoints(worlds), *management_endpoints(worlds)]
        ),
        answered=options.counts.count_request,
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
