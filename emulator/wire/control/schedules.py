"""A list of schedules as JSON, and the query that asks for it."""

from __future__ import annotations

import re

from emulator.core.errors import InvalidInput
from emulator.core.model.options import Method
from emulator.queries.listings import Firing, ListedSchedule
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_parameters
from emulator.wire.instants import local_iso
from emulator.wire.json_fields import Json

MAX_FIRINGS = 100


def read_firings(pairs: Pairs) -> int:
    """How many of its next firings each schedule is to show: `firings`, none without it. Raises: InvalidInput."""
    text = read_parameters(pairs, ("firings",)).get("firings", "0")
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > MAX_FIRINGS:
        raise InvalidInput("firings", f"expected an integer from 0 to {MAX_FIRINGS}")
    return int(text)


def schedule_view(listed: ListedSchedule) -> dict[str, Json]:
    """A schedule, what came of its last firing, and its next ones in UTC and in its own zone."""
    progress = listed.progress
    schedule = progress.schedule
    options = schedule.options
    return {
        "schedule_id": schedule.schedule_id,
        "account_id": schedule.account_id,
        "destination": schedule.destination.text,
        "destination_kind": schedule.destination.kind.value,
        "method": (options.method or Method.POST).value,
        "cron": schedule.cron,
        "time_zone": listed.time_zone,
        "paused": progress.paused,
        **instant_fields("created", schedule.created_ms),
        **instant_fields("next", progress.next_ms),
        **instant_fields("last", progress.last_fired_ms),
        "last_messages": {message_id: state.value for message_id, state in progress.last_states},
        "error": progress.error,
        "labels": list(options.labels),
        "queue": options.queue,
        "firings": [_firing_view(firing) for firing in listed.firings],
    }


def _firing_view(firing: Firing) -> dict[str, Json]:
    return {**instant_fields("at", firing.at_ms), "local": local_iso(firing.at_ms, firing.offset_minutes)}
