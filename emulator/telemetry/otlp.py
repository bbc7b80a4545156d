"""Reading OTLP, in JSON and in protobuf: the spans of an application, cut to what is shown.

Whatever an application sends is text here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from emulator.core.errors import InvalidInput, Malformed
from emulator.telemetry.received import ReceivedEvent, ReceivedSpan, Texts
from emulator.wire.json_reader import WHOLE, decoded

_MOST_ATTRIBUTES = 64
_MOST_EVENTS = 32
_LONGEST = 1_000
_KINDS = {0: "internal", 1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_STATUSES = {0: "unset", 1: "ok", 2: "error"}
# The emulator's own spans, where it exports to itself.
_OWN_SCOPE = "svc-emulator"


# -- JSON ---------------------------------------------------------------------------------------


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: msgspec.Raw | None = None
    kvlist_value: msgspec.Raw | None = None


class _KeyValue(msgspec.Struct):
    key: str
    value: _Value = msgspec.field(default_factory=_Value)


class _Event(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: int | str = 0


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str
    span_id: str
    start_time_unix_nano: int | str
    end_time_unix_nano: int | str
    name: str = ""
    parent_span_id: str = ""
    kind: int = 0
    attributes: list[_KeyValue] = []
    events: list[_Event] = []
    status: _Status = msgspec.field(default_factory=_Status)


class _Scope(msgspec.Struct):
    name: str = ""


class _ScopeSpans(msgspec.Struct):
    scope: _Scope = msgspec.field(default_factory=_Scope)
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: list[_KeyValue] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_spans: list[_ScopeSpans] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


_decoder = msgspec.json.Decoder(_Export)


def read_json(body: bytes) -> list[ReceivedSpan]:
    """The spans of an OTLP request in JSON. Raises InvalidInput that says where it is none."""
    try:
        return list(_spans(decoded(_decoder, body), _text, ("traceId", "spanId", "parentSpanId")))
    except Malformed as malformed:
        raise InvalidInput(WHOLE, f"expected OTLP in JSON: {malformed}") from None


def _text(value: _Value) -> str:
    for nested in (value.array_value, value.kvlist_value):
        if nested is not None:
            return bytes(nested).decode("utf-8", "replace")
    if value.bool_value is not None:
        return "true" if value.bool_value else "false"
    plain = (value.string_value, value.int_value, value.double_value, value.bytes_value)
    return next((str(each) for each in plain if each is not None), "")


# -- protobuf -----------------------------------------------------------------------------------


def read_protobuf(body: bytes) -> list[ReceivedSpan]:
    """The spans of an OTLP request in protobuf. Raises InvalidInput, ImportError without the extra `otel`."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        export = ExportTraceServiceRequest.FromString(body)
        return list(_spans(export, _text_of, ("trace_id", "span_id", "parent_span_id")))
    except Malformed as malformed:
        raise InvalidInput(WHOLE, f"expected OTLP in protobuf: {malformed}") from None
    except (DecodeError, ValueError):
        raise InvalidInput(WHOLE, "expected OTLP in protobuf, as an exporter sends it") from None


def _text_of(value: Any) -> str:
    kind = value.WhichOneof("value")
    match kind:
        case None:
            return ""
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case "array_value":
            return f"[{', '.join(_text_of(each) for each in value.array_value.values[:_MOST_ATTRIBUTES])}]"
        case "kvlist_value":
            pairs = (f"{each.key}: {_text_of(each.value)}" for each in value.kvlist_value.values[:_MOST_ATTRIBUTES])
            return f"{{{', '.join(pairs)}}}"
        case _:
            return str(getattr(value, kind))


# -- both, whose fields have the same names -----------------------------------------------------


def _spans(export: Any, text: Callable[[Any], str], ids: tuple[str, str, str]) -> Iterator[ReceivedSpan]:
    """`text` shows the value of an attribute, `ids` are the names of the ids in an error. Raises Malformed."""
    for resource in export.resource_spans:
        service = next((text(each.value) for each in resource.resource.attributes if each.key == "service.name"), "")
        for scope in resource.scope_spans:
            if scope.scope.name == _OWN_SCOPE:
                continue
            for span in scope.spans:
                yield ReceivedSpan(
                    trace_id=_id(span.trace_id, 32, ids[0]),
                    span_id=_id(span.span_id, 16, ids[1]),
                    parent_id=_id(span.parent_span_id, 16, ids[2]) if span.parent_span_id else "",
                    service=_cut(service),
                    name=_cut(span.name),
                    kind=_KINDS.get(span.kind, "internal"),
                    start_ns=_ns(span.start_time_unix_nano),
                    end_ns=_ns(span.end_time_unix_nano),
                    status=_STATUSES.get(span.status.code, "unset"),
                    status_message=_cut(span.status.message),
                    attributes=tuple(
                        Texts(name=_cut(each.key), value=_cut(text(each.value)))
                        for each in span.attributes[:_MOST_ATTRIBUTES]
                    ),
                    events=tuple(
                        ReceivedEvent(name=_cut(event.name), at_ns=_ns(event.time_unix_nano))
                        for event in span.events[:_MOST_EVENTS]
                    ),
                )


def _id(given: str | bytes, length: int, name: str) -> str:
    text = given if isinstance(given, str) else given.hex()
    if len(text) != length or not all(each in "0123456789abcdef" for each in text.lower()):
        raise Malformed(f"{name}: expected {length} hexadecimal digits")
    return text.lower()


def _ns(given: int | str) -> int:
    if isinstance(given, str) and not re.fullmatch("[0-9]{1,20}", given):
        raise Malformed("expected a time in nanoseconds")
    number = int(given)
    if not 0 <= number < 2**64:
        raise Malformed("expected a time in nanoseconds")
    return number


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
