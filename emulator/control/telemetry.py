"""`/_emulator/metrics`, `/_emulator/otlp` and `/_emulator/messages/{id}/spans`: metrics as Prometheus reads them, the
spans of applications, and which delivery caused them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from emulator.api.endpoint import Answer
from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import Count, PositiveNumber, Text, View
from emulator.core.errors import InvalidInput, NotFound, NotInstalled, PayloadTooLarge
from emulator.core.language.text import value_of
from emulator.core.record import MessageId
from emulator.core.world_setup import DEFAULT
from emulator.queries.history import DeliveryQuery
from emulator.telemetry.received import ReceivedSpan
from emulator.wire.parts import authorization_token
from emulator.wire.trace_context import HEADER, SpanContext, read_traceparent


async def get_metrics(call: ControlCall) -> Response:
    """The metrics of all worlds together, or of the world that the query names (D-727).

    Raises NotFound, NotInstalled without the library.
    """
    try:
        from emulator.telemetry.metrics import CONTENT_TYPE, exposition
    except ImportError as error:
        raise NotInstalled(f"metrics need prometheus-client (pip install prometheus-client): {error}") from error
    counts, token = call.options.counts, authorization_token(call.parts)
    is_named = any(name == "world" for name, _ in call.parts.query)
    is_named = is_named or (token is not None and call.worlds.by_token(token) is not None)
    picked = call.world if is_named else None
    worlds = call.worlds.all() if picked is None else (picked,)
    clock = next((world for world in worlds if world is picked or world.id == DEFAULT), None)
    size = sum([await world.journal_bytes() for world in worlds])
    content = exposition(
        worlds,
        clock,
        counts.of_all() if picked is None else counts.of(picked),
        counts.requests() if picked is None else None,
        size,
    )
    return Response(content, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


# -- spans of applications --------------------------------------------------------------------

# Of a request, as it comes and unpacked.
MOST_BYTES = 4 * 1024 * 1024
_MOST_DELIVERIES = 1_000
_MOST_SPANS = 1_000
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_MS = 1_000_000

Milliseconds = Annotated[float, Meta(ge=0)]


class AppSpanEvent(View):
    """A moment within a span."""

    name: str  #: What it is called.
    offset_ms: Milliseconds  #: How long after the first span of the delivery it was.


class AppSpan(View):
    """A span of an application, as it sent it; long texts are cut."""

    span_id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]  #: Its own id.
    #: The span that caused it: one above, or that of the delivery.
    parent_id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    depth: Count  #: How many spans of the delivery are above it.
    service: str  #: The name of the application, empty if it gave none.
    name: str  #: What it is called.
    kind: Text  #: `internal`, `server`, `client`, `producer` or `consumer`.
    offset_ms: Milliseconds  #: How long after the first span of the delivery it began, in real time.
    duration_ms: Milliseconds  #: How long it took, in real time.
    status: Text  #: `unset`, `ok` or `error`.
    status_message: str  #: Why it is an error, empty without a reason.
    attributes: dict[str, str]  #: Its attributes, each as text.
    events: tuple[AppSpanEvent, ...]  #: Its events, in the order in which they were sent.


class DeliverySpans(View):
    """The spans that one delivery caused, each below its parent."""

    seq: PositiveNumber  #: The number of the delivery in the journal.
    attempt: PositiveNumber  #: Which attempt of the message it was.
    trace_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]  #: The trace that the delivery named.
    span_id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]  #: The span that the delivery named as the cause.
    #: Whether other deliveries of the message named the same cause, as those do whose `traceparent` was forwarded.
    is_shared: bool
    spans: tuple[AppSpan, ...]  #: Each behind its parent; at most 1000.


class MessageSpans(View):
    """The deliveries of a message that carried a `traceparent`, oldest first."""

    deliveries: tuple[DeliverySpans, ...]  #: The deliveries.


async def receive(call: ControlCall) -> Response:
    """Takes an OTLP request. Raises InvalidInput, PayloadTooLarge."""
    length = call.parts.header("content-length") or ""
    if length.isdecimal() and int(length[:20]) > MOST_BYTES:
        raise PayloadTooLarge(f"the body exceeds {MOST_BYTES} bytes")
    kind = (call.parts.header("content-type") or "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _PROTOBUF):
        raise InvalidInput("content-type", f"expected {_JSON} or {_PROTOBUF}")
    from emulator.telemetry.otlp import read_json, read_protobuf

    body = _unpacked(await _read(call), call.parts.header("content-encoding") or "identity")
    try:
        spans = read_json(body) if kind == _JSON else read_protobuf(body)
    except ImportError as error:
        reason = f"protobuf needs the extra: pip install 'svc-emulator[otel]'; or send {_JSON} ({error})"
        raise InvalidInput("content-type", reason) from error
    call.options.spans.add(spans)
    # All of it was taken: a message without a field.
    return Answer({}) if kind == _JSON else Response(b"", headers={"Content-Type": _PROTOBUF})


async def _read(call: ControlCall) -> bytes:
    body = bytearray()
    async for piece in call.request.pieces():
        body += piece
        if len(body) > MOST_BYTES:
            raise PayloadTooLarge(f"the body exceeds {MOST_BYTES} bytes")
    return bytes(body)


def _unpacked(body: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "identity":
            return body
        case "gzip":
            stream = zlib.decompressobj(wbits=31)
            try:
                unpacked = stream.decompress(body, MOST_BYTES)
            except zlib.error as error:
                raise InvalidInput("body", "is not gzip") from error
            if stream.unconsumed_tail:
                raise PayloadTooLarge(f"the body exceeds {MOST_BYTES} bytes")
            if not stream.eof:
                raise InvalidInput("body", "is not gzip: it breaks off")
            return unpacked
        case _:
            raise InvalidInput("content-encoding", "expected gzip or identity")


async def list_spans(call: ControlCall) -> MessageSpans:
    """The spans that the deliveries of a message caused. Raises NotFound."""
    world, message_id = call.world, MessageId(call.name)
    await world.current_state()
    if await world.logs.find(message_id) is None:
        raise NotFound("message", message_id)
    named: list[tuple[int, int, SpanContext | None]] = []
    query = DeliveryQuery(message_id=message_id, limit=_MOST_DELIVERIES)
    while True:
        page = await world.history.deliveries(query)
        named += [
            (each.seq, each.attempt, read_traceparent(value_of(each.outcome.request_headers, HEADER)))
            for each in page.items
        ]
        # A page is shorter where bodies are long (D-562).
        if page.cursor is None or len(named) >= _MOST_DELIVERIES:
            break
        query = replace(query, cursor=page.cursor)
    shared = Counter(context for _, _, context in named)
    found = [
        DeliverySpans(
            seq=seq,
            attempt=attempt,
            trace_id=context.trace_id,
            span_id=context.span_id,
            is_shared=shared[context] > 1,
            spans=_spans(call, context),
        )
        for seq, attempt, context in named[:_MOST_DELIVERIES]
        if context is not None
    ]
    return MessageSpans(deliveries=tuple(found))


def _spans(call: ControlCall, cause: SpanContext) -> tuple[AppSpan, ...]:
    below = call.options.spans.below(cause.trace_id, cause.span_id)[:_MOST_SPANS]
    first_ns = min((span.start_ns for _, span in below), default=0)
    return tuple(_view(span, depth, first_ns) for depth, span in below)


def _view(span: ReceivedSpan, depth: int, first_ns: int) -> AppSpan:
    return AppSpan(
        span_id=span.span_id,
        parent_id=span.parent_id,
        depth=depth,
        service=span.service,
        name=span.name,
        kind=span.kind,
        offset_ms=_ms(span.start_ns - first_ns),
        duration_ms=_ms(span.end_ns - span.start_ns),
        status=span.status,
        status_message=span.status_message,
        attributes={each.name: each.value for each in span.attributes},
        events=tuple(AppSpanEvent(name=each.name, offset_ms=_ms(each.at_ns - first_ns)) for each in span.events),
    )


def _ms(ns: int) -> float:
    return max(0, ns) / _MS


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/metrics", get_metrics, WORLD_ONLY),
    ControlRoute("POST", "/_emulator/otlp/v1/traces", receive, WORLD_ONLY, is_streamed=True),
    ControlRoute("GET", "/_emulator/messages/{name}/spans", list_spans, WORLD_ONLY),
)
