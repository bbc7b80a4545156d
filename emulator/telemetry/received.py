"""The spans of applications, kept in memory: the latest ones, within a limit (D-732)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter

from emulator.core.record import Record

MOST_BYTES = 16 * 1024 * 1024
# About what a span takes beside its texts.
_BYTES_OF_SPAN = 1_000


class Texts(Record):
    """An attribute: its name and its value as text."""

    name: str
    value: str


class ReceivedEvent(Record):
    """A moment within a span, in nanoseconds since the Unix epoch."""

    name: str
    at_ns: int


class ReceivedSpan(Record):
    """A span of an application; times in nanoseconds since the Unix epoch, ids in hex, `parent_id` empty for a root."""

    trace_id: str
    span_id: str
    parent_id: str
    service: str
    name: str
    kind: str
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: tuple[Texts, ...]
    events: tuple[ReceivedEvent, ...]

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        texts = sum(len(each.name) + len(each.value) for each in self.attributes)
        return _BYTES_OF_SPAN + texts + sum(len(event.name) for event in self.events) + len(self.name)


class ReceivedSpans:
    """The latest spans of applications, within a limit of memory."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._spans: OrderedDict[tuple[str, str], ReceivedSpan] = OrderedDict()
        self._by_trace: dict[str, dict[str, ReceivedSpan]] = {}

    def add(self, spans: Iterable[ReceivedSpan]) -> None:
        """Keep spans; one that is sent again replaces itself."""
        for span in spans:
            self._remove((span.trace_id, span.span_id))
            self._spans[span.trace_id, span.span_id] = span
            self._by_trace.setdefault(span.trace_id, {})[span.span_id] = span
            self._bytes += span.bytes
        while self._bytes > self._most_bytes:
            self._remove(next(iter(self._spans)))

    def _remove(self, key: tuple[str, str]) -> None:
        span = self._spans.pop(key, None)
        if span is not None:
            self._bytes -= span.bytes
            of_trace = self._by_trace[span.trace_id]
            del of_trace[span.span_id]
            if not of_trace:
                del self._by_trace[span.trace_id]

    def below(self, trace_id: str, span_id: str) -> list[tuple[int, ReceivedSpan]]:
        """The spans that a span has caused, each with its depth, 0 for a child, in the order of a drawing."""
        children: dict[str, list[ReceivedSpan]] = {}
        for span in self._by_trace.get(trace_id, {}).values():
            children.setdefault(span.parent_id, []).append(span)
        found: list[tuple[int, ReceivedSpan]] = []
        seen = {span_id}
        waiting = [(0, span) for span in sorted(children.get(span_id, ()), key=attrgetter("start_ns"), reverse=True)]
        while waiting:
            depth, span = waiting.pop()
            # An application may send a circle.
            if span.span_id not in seen:
                seen.add(span.span_id)
                found.append((depth, span))
                below = sorted(children.get(span.span_id, ()), key=attrgetter("start_ns"), reverse=True)
                waiting += [(depth + 1, each) for each in below]
        return found
