"""A collector of spans: an HTTP server that takes OTLP, as a test's own end of the wire."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.harness.emulators import Received, http_server


@dataclass(frozen=True)
class Collected:
    """A span as it came; times in nanoseconds."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: tuple[str, ...]
    is_error: bool


@dataclass
class Collector:
    """The spans that came, in their order."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    # Their content types.
    kinds: list[str] = field(default_factory=list)

    @property
    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }

    @property
    def spans(self) -> list[Collected]:
        return [
            _collected(span)
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def _collected(span: Any) -> Collected:
    return Collected(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes={each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes},
        events=tuple(f"{event.name}: {event.attributes[0].value.string_value}" for event in span.events),
        is_error=span.status.code == 2,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port."""
    found = Collector("")

    def take(received: Received) -> tuple[int, dict[str, str], bytes]:
        is_packed = received.headers.get("content-encoding") == "gzip"
        found.kinds.append(received.headers["content-type"])
        found.bodies.append(gzip.decompress(received.body) if is_packed else received.body)
        return 200, {"Content-Type": "application/x-protobuf"}, b""

    with http_server(take) as found.url:
        yield found
