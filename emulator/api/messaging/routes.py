"""All operations of the messaging API (D-055), each declared beside its handler."""

from __future__ import annotations

from functools import partial

from emulator.api.endpoint import Endpoint, endpoints_of
from emulator.api.messaging import (
    chat,
    dead_letters,
    events,
    flow_control,
    keys,
    messages,
    publish,
    queues,
    schedules,
    url_groups,
)
from emulator.api.messaging.call import MessagingCall, MessagingRoute, opener
from emulator.worlds.registry import Worlds

ROUTES: tuple[MessagingRoute, ...] = (
    *publish.ROUTES,
    *messages.ROUTES,
    *schedules.ROUTES,
    *url_groups.ROUTES,
    *queues.ROUTES,
    *flow_control.ROUTES,
    *events.ROUTES,
    *dead_letters.ROUTES,
    *keys.ROUTES,
    *chat.ROUTES,
)


def endpoints(worlds: Worlds) -> dict[str, Endpoint[MessagingCall]]:
    """Every path of the API with its operations."""
    return endpoints_of(worlds.dialect, ROUTES, partial(opener, worlds))
