"""The stream of what happens in a world, as server-sent events, both ways.

An event is a few lines and an empty one: `event: <kind>`, `id: <where to resume>`, `data: <JSON on
one line>`. A line that begins with a colon only keeps the connection alive. Source: the HTML
standard, section 9.2; decision D-225.
"""

from __future__ import annotations

import contextlib
import json
import re
from enum import StrEnum
from typing import Final

import msgspec

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.facts import ScheduleFired
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record
from emulator.queries.history import Event, HistoryPosition
from emulator.wire.control.deliveries import read_brief
from emulator.wire.control.instants import instant_fields, rate_view
from emulator.wire.control.parameters import Pairs, read_flag, read_parameters, read_redact
from emulator.wire.control.workflow_names import run_fields
from emulator.wire.fields import parse_number, read_field
from emulator.wire.json_fields import Json, read_choice

MEDIA_TYPE = "text/event-stream"
# How long a client waits before it connects again, in milliseconds.
RETRY_MS = 1_000
OPENING: Final = b"retry: %d\n\n" % RETRY_MS
# Proxies and clients close a connection that is silent for long; a comment keeps it open.
KEEP_ALIVE: Final = b": still here\n\n"
KEEP_ALIVE_S = 15.0

# More than any history in memory holds by default.
MAX_LAST = 1_000_000

ID_HEADER = "Last-Event-ID"
_ID = re.compile(r"(?P<generation>[0-9a-f]{8})-(?P<seq>0|[1-9][0-9]{0,14})")
_PARAMETERS = ("last_event_id", "last", "from", "follow", "redact", "brief")


class Kind(StrEnum):
    """What an event of the stream is about."""

    EVENT = "event"
    ATTEMPT = "attempt"
    CLOCK = "clock"
    # A schedule fired and made no message (D-263).
    FIRING = "firing"
    # A call was answered with 4xx (D-333).
    REFUSED = "refused"
    # What was told before is void: the new history of the world follows from its beginning (D-221).
    RESET = "reset"
    # The last event of a stream.
    END = "end"


class ResetReason(StrEnum):
    """Why what was told before is void."""

    RESET = "reset"
    UNKNOWN_ID = "unknown_id"


class EndReason(StrEnum):
    """Why a stream has ended."""

    DELETED = "deleted"
    BROKEN = "broken"


class StreamRequest(Record):
    """What a client wants to be told: from which position on, whether it waits for more, what is redacted, and
    whether attempts come without headers and bodies.

    Without a position `last` is how many of the latest entries are told first, None for all.
    """

    after: HistoryPosition | None = None
    last: int | None = 0
    follow: bool = True
    redact: bool = False
    brief: bool = False


def read_stream_request(pairs: Pairs, last_event_id: str | None) -> StreamRequest:
    """The query, and the header `Last-Event-ID`, which precedes it (D-220, D-222, D-326). Raises: InvalidInput."""
    pairs = tuple(pairs)
    given = read_parameters(pairs, _PARAMETERS)
    by_query = _read_id(given["last_event_id"], "last_event_id") if "last_event_id" in given else None
    by_header = _read_id(last_event_id, ID_HEADER) if last_event_id else None
    last = None if read_choice(given.get("from", "now"), "from", ("now", "start")) == "start" else 0
    if "last" in given:
        last = read_field("last", given["last"], _parse_last)
    return StreamRequest(
        # A client that connects again repeats its address, and says in the header how far it came since.
        after=by_header or by_query,
        last=last,
        follow=read_flag(given.get("follow", "true"), "follow"),
        redact=read_redact(pairs),
        brief=read_brief(pairs),
    )


def _parse_last(text: str) -> int:
    return parse_number(text, "a number of entries", 0, MAX_LAST, digits=7)


def _read_id(text: str, field: str) -> HistoryPosition:
    match = _ID.fullmatch(text)
    if match is None:
        raise InvalidInput(field, f"expected the id of an event of this stream, got {excerpt(text)}")
    return HistoryPosition(generation=match["generation"], seq=int(match["seq"]))


# -- writing ----------------------------------------------------------------------------------


def written(kind: Kind, data: Json, position: HistoryPosition | None = None) -> bytes:
    """One event. Without a position it does not change where its reader would resume."""
    resume = "" if position is None else f"id: {position.generation}-{position.seq}\n"
    return b"event: %b\n%bdata: %b\n\n" % (kind.value.encode(), resume.encode(), _json(data))


def _json(data: Json) -> bytes:
    """JSON on one line and in ASCII: some readers end a line at characters beyond it as well."""
    with contextlib.suppress(UnicodeEncodeError):
        encoded = msgspec.json.encode(data)
        if encoded.isascii():
            return encoded
    # Several times as slow. It also writes halves of surrogate pairs, which a JSON text may name.
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def event_view(event: Event) -> dict[str, Json]:
    """An entry of the event log in the control API's words. What was sent and answered is told by the attempts."""
    message = event.message
    return {
        "seq": event.seq,
        **instant_fields("at", event.at_ms),
        "message_id": message.message_id,
        "state": event.state.value,
        "url": message.url,
        **run_fields(message),
        "error": event.error,
        "status": None if event.response is None else event.response.status,
        **instant_fields("next_delivery", event.next_delivery_ms),
        "url_group": message.url_group,
        "queue": message.queue,
        "schedule_id": message.schedule_id,
        "flow_control_key": None if message.flow_control is None else message.flow_control.key,
        "labels": list(message.labels),
    }


def clock_view(*, now_ms: int, rate: float, from_ms: int | None) -> dict[str, Json]:
    """Where the clock stands, and where it was moved from; null if it was not."""
    return instant_fields("now", now_ms) | {"rate": rate_view(rate)} | instant_fields("from", from_ms)


def firing_view(firing: ScheduleFired) -> dict[str, Json]:
    """A firing that was refused: the schedule, and why."""
    return {
        **instant_fields("at", firing.at_ms),
        "schedule_id": firing.schedule_id,
        "account_id": firing.account_id,
        "error": firing.error,
        **instant_fields("next", firing.next_ms),
    }


def reset_view(reason: ResetReason) -> dict[str, Json]:
    """Why what was told before is void."""
    return {"reason": reason.value}


def end_view(reason: EndReason, error: str | None = None) -> dict[str, Json]:
    """Why a stream has ended; `error` says what broke a world."""
    return {"reason": reason.value, "error": error}


# -- reading ----------------------------------------------------------------------------------


class StreamEvent(Record):
    """An event as it was received; `id` is what to resume from once it is dealt with, None before the first id."""

    kind: str
    id: str | None
    data: Json


class StreamReader:
    """Lines of a stream -> its events, for clients."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def take(self, line: str) -> StreamEvent | None:
        """The event that this line ends, if it does; the line without its own end. Raises: Malformed."""
        if not line:
            return self._whole()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case _:
                pass  # A comment, the time to wait before connecting again, or something yet to be invented.
        return None

    def _whole(self) -> StreamEvent | None:
        kind, self._kind = self._kind, ""
        lines, self._data = self._data, []
        if not lines:
            return None
        try:
            data: Json = json.loads("\n".join(lines))
        except ValueError as error:
            raise Malformed(f"expected JSON in an event of the stream, got {excerpt(lines[0])}") from error
        return StreamEvent(kind=kind or "message", id=self._id, data=data)
