"""W3C Trace Context: reading `traceparent`, and the ids of the spans that messages and their attempts are."""

from __future__ import annotations

import re
import secrets
import weakref
from hashlib import sha256

from msgspec.structs import replace

from emulator.core.language.text import value_of
from emulator.core.model.messages import Attempt, Message
from emulator.core.model.workflows import WorkflowRun
from emulator.core.record import Headers, Record, RunId

HEADER = "traceparent"
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?:-.*)?"
)
_SAMPLED = 1
_TRACE_ID, _SPAN_ID = 32, 16
# So many digits of the id of a span tell it from others.
_BEGINNING = 10


class SpanContext(Record):
    """A span as other programs name it: its trace and its own id in lower-case hex, and whether it is recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.is_sampled:02x}"


def read_traceparent(text: str | None) -> SpanContext | None:
    """The span that a header names, None without one, or for a text that is none."""
    found = None if text is None else _TRACEPARENT.fullmatch(text.strip())
    if found is None or not found["trace"].strip("0") or not found["span"].strip("0"):
        return None
    # Of a later version only the first four parts are known; this one has no more.
    if text is not None and text.strip().startswith("00-") and len(text.strip()) != 55:
        return None
    is_sampled = bool(int(found["flags"], 16) & _SAMPLED)
    return SpanContext(trace_id=found["trace"], span_id=found["span"], is_sampled=is_sampled)


class SpanIds:
    """The ids of the spans of one life of a world: they follow from the messages, so that nothing is to be kept.

    Two runs of a test have the same messages, and must not make one trace: the ids differ by a number drawn here.
    """

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(8)

    def begin(self) -> None:
        """The world begins again: the same messages are others."""
        self._salt = secrets.token_bytes(8)

    def copy(self) -> SpanIds:
        """The ids of this life of the world, whatever begins after it."""
        twin = SpanIds()
        twin._salt = self._salt
        return twin

    def _hash(self, *parts: object) -> str:
        return sha256(self._salt + repr(parts).encode()).hexdigest()

    def _span_id(self, *parts: object) -> str:
        """An id that `is_own` knows again: its end follows from its beginning."""
        beginning = self._hash(*parts)[:_BEGINNING]
        return beginning + self._hash(beginning)[: _SPAN_ID - _BEGINNING]

    def is_own(self, span_id: str) -> bool:
        """Whether it is the id of a span of this life of the world."""
        return span_id == span_id[:_BEGINNING] + self._hash(span_id[:_BEGINNING])[: _SPAN_ID - _BEGINNING]

    def trace_of(self, message: Message) -> SpanContext:
        """The trace of a message, and what made it: the caller's span, its run, or the message that it is about.

        For a message that nothing made, that is the message's own span.
        """
        source, run = message.source, message.run
        # A caller that sends none of its own may have had its span delivered to it, and forward that.
        caller = read_traceparent(source.traceparent) or read_traceparent(value_of(message.headers, HEADER))
        if caller is not None:
            return caller
        if run is not None:
            return self.run(run.run_id, run.run_created_ms)
        message_id = source.source_message_id or message.message_id
        return SpanContext(
            trace_id=self._hash("trace", message_id)[:_TRACE_ID], span_id=self._span_id("publish", message_id)
        )

    def run(self, run_id: RunId, created_ms: int) -> SpanContext:
        """The span of a workflow run that no caller's span began."""
        trace_id = self._hash("run trace", run_id, created_ms)[:_TRACE_ID]
        return SpanContext(trace_id=trace_id, span_id=self._span_id("run", run_id, created_ms))

    def run_of(self, run: WorkflowRun) -> SpanContext:
        """The span of a run: in the caller's trace if a caller's span began it."""
        own, caller = self.run(run.run_id, run.created_ms), read_traceparent(run.traceparent)
        return own if caller is None else replace(caller, span_id=own.span_id)

    def dead_letter(self, message: Message) -> SpanContext:
        """The span of a dead letter."""
        return replace(self.trace_of(message), span_id=self._span_id("dead letter", message.message_id))

    def publish(self, message: Message) -> SpanContext:
        """The span of a message."""
        return replace(self.trace_of(message), span_id=self._span_id("publish", message.message_id))

    def attempt(self, message: Message, number: int, *, is_duplicate: bool = False, redelivery: int = 0) -> SpanContext:
        """The span of an attempt."""
        span_id = self._span_id("attempt", message.message_id, number, is_duplicate, redelivery)
        return replace(self.trace_of(message), span_id=span_id)

    def injected(self, attempt: Attempt, headers: Headers) -> Headers:
        """The headers of an attempt, with its span if none was forwarded (D-731).

        The clients of workflows forward what was delivered to them: a span of ours makes room for the attempt's own.
        """
        forwarded = read_traceparent(value_of(headers, HEADER))
        if forwarded is None or not self.is_own(forwarded.span_id):
            if any(name.lower() == HEADER for name, _ in headers):
                return headers
        else:
            headers = tuple(pair for pair in headers if pair[0].lower() != HEADER)
        span = self.attempt(
            attempt.message, attempt.number, is_duplicate=attempt.is_duplicate, redelivery=attempt.redelivery
        )
        return (*headers, (HEADER, span.traceparent))


class AllSpanIds:
    """The ids of the spans of each world of a server."""

    def __init__(self) -> None:
        self._by_world: weakref.WeakValueDictionary[str, SpanIds] = weakref.WeakValueDictionary()

    def of(self, world_id: str) -> SpanIds:
        """Those of a world, the same for all who hold them."""
        return self._by_world.setdefault(world_id, SpanIds())
