"""Filters of the service's lists and bulk calls, as keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from emulator.client.errors import is_argument_error
from emulator.client.values import Instant, check_names, instant
from emulator.core.errors import Malformed
from emulator.wire.instants import read_instant_ms

__tracebackhide__ = is_argument_error


class Filters(TypedDict, total=False):
    """What the messages of a call have in common; `since` and `until` are when they were made, both included."""

    url: str | None
    label: str | None
    url_group: str | None
    queue: str | None
    schedule_id: str | None
    flow_control_key: str | None
    since: Instant | None
    until: Instant | None


class DeadLetterFilters(Filters, total=False):
    """The same for dead letters; `status` is that of the last response, 0 for none."""

    message_id: str | None
    status: int | None


_NAMES = {
    "url_group": "topicName",
    "queue": "queueName",
    "schedule_id": "scheduleId",
    "flow_control_key": "flowControlKey",
    "message_id": "messageId",
    "status": "responseStatus",
    "since": "fromDate",
    "until": "toDate",
}


def filter_query(filters: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """The query for filters that are not None. Raises TypeError and ValueError that name a wrong one."""
    check_names(filters, known)
    query = {}
    for name, value in filters.items():
        if value is None:
            continue
        if name in ("since", "until"):
            value = _ms(name, value)
        elif not isinstance(value, int if name == "status" else str) or isinstance(value, bool):
            raise TypeError(f"{name}: expected {'a status' if name == 'status' else 'a text'}, got {value!r}")
        elif value == "":
            # For the service it would be no filter at all.
            raise ValueError(f"{name}: expected a text that is not empty")
        query[_NAMES.get(name, name)] = str(value)
    return query


def _ms(name: str, value: Instant) -> int:
    try:
        return read_instant_ms(instant(value))
    except Malformed as malformed:
        raise ValueError(f"{name}: {malformed.reason}") from None
