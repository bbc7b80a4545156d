"""The stream of what happens in a world, as server-sent events, both ways.

An event is a few lines and an empty one: `event: <kind>`, `id: <where to resume>`, `data: <JSON on
one line>`. A line that begins with a colon only keeps the connection alive. Source: the HTML
standard, section 9.2; decision D-225.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

import msgspec

from emulator.core.errors import Malformed
from emulator.core.language.text import excerpt
from emulator.core.record import Record
from emulator.queries.history import HistoryPosition
from emulator.wire.json_reader import Json

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


class Kind(StrEnum):
    """What an event of the stream is about."""

    EVENT = "event"
    ATTEMPT = "attempt"
    CLOCK = "clock"
    # A schedule fired and made no message (D-263).
    FIRING = "firing"
    # A call was answered with 4xx (D-333).
    REFUSED = "refused"
    # What was sent before is void: the new history of the world follows from its beginning (D-221).
    RESET = "reset"
    # The last event of a stream.
    END = "end"


# -- writing ----------------------------------------------------------------------------------


def written(kind: Kind, data: Json | msgspec.Struct, position: HistoryPosition | None = None) -> bytes:
    """One event. Without a position it does not change where its reader would resume."""
    resume = "" if position is None else f"id: {position.generation}-{position.seq}\n"
    return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), resume.encode(), _json(data))


def _json(data: Json | msgspec.Struct) -> bytes:
    """JSON on one line and in ASCII: some readers end a line at characters beyond it as well."""
    try:
        encoded = msgspec.json.encode(data)
    except UnicodeEncodeError:
        encoded = None
    if encoded is not None and encoded.isascii():
        return encoded
    # Several times as slow. It also writes halves of surrogate pairs, which a JSON text may name.
    return json.dumps(msgspec.to_builtins(data), separators=(",", ":")).encode("ascii")


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
