"""Sends spans by OpenTelemetry: its SDK makes and samples them, its exporters send them, all by its own variables.

The queue and the thread are ours, because what is dropped has to be counted, and because the end of the server must not
wait for a collector that is down.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanKind, Status, StatusCode, TraceFlags

from emulator.telemetry.spans import Kind, Span
from emulator.version import VERSION
from emulator.wire.trace_context import SpanContext

logger = logging.getLogger(__name__)

SCOPE = "svc-emulator"
_KINDS = {Kind.INTERNAL: SpanKind.INTERNAL, Kind.PRODUCER: SpanKind.PRODUCER, Kind.CLIENT: SpanKind.CLIENT}
# How long the end of the server waits for the last spans.
_LAST_S = 1.0


class NotInstalled(Exception):
    """An exporter that the variables name is not installed; the text says what to do."""


class _GivenIds(IdGenerator):
    """The ids of the span that is made next."""

    def __init__(self) -> None:
        self._next: SpanContext | None = None

    def give(self, context: SpanContext) -> None:
        self._next = context

    def generate_span_id(self) -> int:
        return RandomIdGenerator().generate_span_id() if self._next is None else int(self._next.span_id, 16)

    def generate_trace_id(self) -> int:
        return RandomIdGenerator().generate_trace_id() if self._next is None else int(self._next.trace_id, 16)


class OpenTelemetryExporter:
    """Exports spans; `count` is called with what became of how many: exported, failed or dropped.

    Raises NotInstalled for an exporter that there is none of, ValueError for a variable that cannot be read.
    """

    def __init__(self, count: Callable[[str, int], None], environment: Mapping[str, str] = os.environ) -> None:
        self._ids = _GivenIds()
        self._queue = _Queue(_exporter(environment), count, environment)
        own = {} if environment.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: SCOPE}
        if "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            own = {}
        provider = TracerProvider(resource=Resource.create(own), id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer(SCOPE, VERSION)

    def export(self, span: Span) -> None:
        self._ids.give(span.context)
        parent = trace.set_span_in_context(trace.INVALID_SPAN)
        if span.parent is not None:
            parent = trace.set_span_in_context(NonRecordingSpan(_context(span.parent)))
        made = self._tracer.start_span(
            span.name, parent, _KINDS[span.kind], attributes=dict(span.attributes), start_time=span.start_ns
        )
        for event in span.events:
            made.add_event(event.name, {"svc_emulator.reason": event.text}, timestamp=span.end_ns)
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(span.end_ns)

    def close(self) -> None:
        self._queue.shutdown()


def _context(context: SpanContext) -> trace.SpanContext:
    return trace.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if context.is_sampled else TraceFlags.DEFAULT),
    )


def _exporter(environment: Mapping[str, str]) -> SpanExporter:
    """The exporter that the variables name; OTLP over HTTP if they name none."""
    name = environment.get("OTEL_TRACES_EXPORTER", "").split(",")[0].strip() or "otlp"
    if name == "otlp":
        own, general = (f"OTEL_EXPORTER_OTLP_{each}PROTOCOL" for each in ("TRACES_", ""))
        protocol = environment.get(own) or environment.get(general) or "http/protobuf"
        name = "otlp_proto_grpc" if protocol == "grpc" else f"otlp_proto_{protocol.partition('/')[0]}"
    options: dict[str, object] = {}
    if name == "otlp_proto_http" and not any("_CREDENTIAL_PROVIDER" in each for each in environment):
        # Otherwise the session is the provider's.
        options["session"] = _new_session()
    for found in entry_points(group="opentelemetry_traces_exporter", name=name):
        made: SpanExporter = found.load()(**options)
        return made
    package = name.replace("_", "-")
    raise NotInstalled(f"there is no exporter {name} (pip install opentelemetry-exporter-{package})")


def _new_session() -> object:
    """What an exporter of OTLP over HTTP sends with; None where it is not installed."""
    try:
        from emulator.telemetry.collector_session import CollectorSession
    except ImportError:
        return None
    return CollectorSession()


class _Queue(SpanProcessor):
    """Takes spans as they end, and has a thread export them in groups. What there is no room for is dropped."""

    def __init__(
        self, exporter: SpanExporter, count: Callable[[str, int], None], environment: Mapping[str, str]
    ) -> None:
        self._exporter = exporter
        self._count = count
        self._most = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
        self._group = min(self._most, _number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512))
        self._wait_s = _number(environment, "OTEL_BSP_SCHEDULE_DELAY", 5_000) / 1000
        self._spans: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._is_closing = False
        # A daemon: a collector that does not answer must not keep the process.
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if len(self._spans) >= self._most or self._is_closing:
            self._count("dropped", 1)
            return
        self._spans.append(span)
        if len(self._spans) >= self._group:
            self._wake.set()

    def shutdown(self) -> None:
        self._is_closing = True
        self._wake.set()
        self._thread.join(_LAST_S)
        if self._thread.is_alive():
            self._exporter.shutdown()

    def _run(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._wait_s)
            self._wake.clear()
            self._export()
        self._export()
        self._exporter.shutdown()

    def _export(self) -> None:
        while self._spans:
            group = [self._spans.popleft() for _ in range(min(self._group, len(self._spans)))]
            try:
                is_exported = self._exporter.export(group) is SpanExportResult.SUCCESS
            except Exception as error:  # An edge: an exporter is another program's code.
                logger.debug("spans could not be exported", exc_info=error)
                is_exported = False
            self._count("exported" if is_exported else "failed", len(group))


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Raises ValueError that names the variable."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name}: expected a whole number, 1 or more, got {text!r}")
    return int(text)
