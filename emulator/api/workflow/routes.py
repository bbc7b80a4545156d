"""All operations of the workflow API, each declared beside its handler."""

from __future__ import annotations

from functools import partial

from emulator.api.endpoint import Endpoint, endpoints_of
from emulator.api.messaging.call import MessagingCall, MessagingRoute, opener
from emulator.api.workflow import dead_letters, events, failed_runs, logs, runs, triggers
from emulator.worlds.registry import Worlds

ROUTES: tuple[MessagingRoute, ...] = (
    *runs.ROUTES,
    *logs.ROUTES,
    *events.ROUTES,
    *triggers.ROUTES,
    *failed_runs.ROUTES,
    *dead_letters.ROUTES,
)


def endpoints(worlds: Worlds) -> dict[str, Endpoint[MessagingCall]]:
    """Every path of the API with its operations."""
    return {
        **endpoints_of(worlds.dialect, ROUTES, partial(opener, worlds)),
        **endpoints_of(worlds.dialect, events.WEBHOOK_ROUTES, partial(events.open_webhook, worlds)),
    }
