"""Spans of what happens: what they say, how they hang together, and that nothing waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from emulator.wire.trace_context import SpanContext, read_traceparent
from tests.harness.emulators import InProcess, in_process, receiver
from tests.harness.loops import on_loop
from tests.telemetry.collectors import Collected, Collector, collector

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{SPAN}-01"
INTERNAL, CLIENT, PRODUCER = 1, 3, 4


@asynccontextmanager
async def traced(monkeypatch: pytest.MonkeyPatch, found: Collector) -> AsyncIterator[InProcess]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
    async with in_process() as emulator:
        yield emulator


def tree(spans: list[Collected]) -> list[tuple[str, str | None]]:
    """Each span's name with that of its parent, None for a root."""
    names = {span.span_id: span.name for span in spans}
    return [(span.name, names.get(span.parent_id, span.parent_id or None)) for span in spans]


@on_loop
async def test_spans_of_a_message_that_fails_and_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-728, D-730."""
    with collector() as found, receiver(lambda received: 503 if received.path.startswith("/down") else 200) as app:
        async with traced(monkeypatch, found) as emulator:
            headers = [
                ("traceparent", CALLER),
                ("Svc-Retries", "1"),
                ("Svc-Delay", "10s"),
                ("Svc-Failure-Callback", f"{app.url}/failed"),
            ]
            message_id = await emulator.publish(f"{app.url}/down?q=1", headers)
            await emulator.advance("1h")
        assert {"traceparent"} & {name for each in app.requests for name in each.headers} == set()
    spans = found.spans
    assert found.services == {"svc-emulator"}
    assert tree(spans) == [
        (f"publish {app.url}", SPAN),
        ("POST", f"publish {app.url}"),
        ("POST", f"publish {app.url}"),
        (f"dead letter {app.url}", "POST"),
        (f"callback {app.url}", "POST"),
        ("POST", f"callback {app.url}"),
    ]
    assert {span.trace_id for span in spans} == {TRACE}
    assert [span.kind for span in spans] == [PRODUCER, CLIENT, CLIENT, INTERNAL, PRODUCER, CLIENT]
    assert [span.is_error for span in spans] == [False, True, True, True, False, False]
    publish, first, second, _, callback, _ = spans
    assert (callback.parent_id, spans[3].parent_id) == (second.span_id, second.span_id)
    assert publish.events == ("delayed: not before 2026-01-01T00:00:10.000Z",)
    assert first.events == (
        "attempt: attempt 1 was answered 503 by the destination",
        "backoff: retry 1 of 1 at 2026-01-01T00:00:22.000Z: default backoff min(86400, e^(2.5 * 1)) s -> 12s",
    )
    assert second.events[1].startswith("failed: all retries are spent, dead letter ")
    host, port = app.url.removeprefix("http://").split(":")
    assert second.attributes == {
        "messaging.system": "svc_emulator",
        "messaging.destination.name": app.url,
        "messaging.message.id": message_id,
        "svc_emulator.world": "default",
        "http.request.method": "POST",
        "url.full": f"{app.url}/down?q=REDACTED",
        "svc_emulator.attempt": 2,
        "svc_emulator.via": "network",
        "svc_emulator.virtual_time": "2026-01-01T00:00:22.000Z",
        "svc_emulator.virtual_end_time": "2026-01-01T00:00:22.000Z",
        "server.address": host,
        "server.port": int(port),
        "http.request.resend_count": 1,
        "http.response.status_code": 503,
        "error.type": "503",
    }
    # Wall times, whatever the virtual clock shows.
    assert all(abs(time.time() - span.end_ns / 1e9) < 60 and span.start_ns <= span.end_ns for span in spans)


@on_loop
async def test_each_life_of_a_world_has_traces_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        async with traced(monkeypatch, found) as emulator:
            ids = []
            for _ in range(2):
                ids.append(await emulator.publish("https://app.test/"))
                await emulator.control("POST", "/reset")
        assert ids[0] == ids[1]
    roots = [span for span in found.spans if not span.parent_id]
    assert [span.name for span in roots] == ["publish https://app.test"] * 2
    assert len({span.trace_id for span in found.spans}) == 2


@pytest.mark.parametrize(
    ("headers", "forwarded"),
    [
        ([], None),
        ([("traceparent", CALLER)], None),
        ([("traceparent", CALLER), ("Svc-Forward-Traceparent", "mine")], "mine"),
    ],
    ids=["no caller", "a caller", "forwarded"],
)
@on_loop
async def test_a_traceparent_is_injected_where_none_was_forwarded(
    headers: list[tuple[str, str]], forwarded: str | None
) -> None:
    """D-731."""
    with receiver(lambda received: 500 if received.path == "/" and len(app.at("/")) == 1 else 200) as app:
        async with in_process(trace="inject") as emulator:
            await emulator.publish(f"{app.url}/", [*headers, ("Svc-Callback", f"{app.url}/callback")])
            await emulator.advance("1h")
            journal = await emulator.deliveries()
        first, again, callback = (
            received.headers.get("traceparent") for received in (*app.at("/"), app.at("/callback")[0])
        )
        assert journal[0]["headers"].get("traceparent", journal[0]["headers"].get("Traceparent")) == [first]
    found = [read_traceparent(text) for text in (first, again, callback) if text != forwarded]
    spans = [span for span in found if span is not None]
    assert (first == forwarded) == (again == forwarded) == (forwarded is not None)
    assert len({span.span_id for span in spans}) == len(found) == len(spans)
    assert {span.trace_id for span in spans} == {TRACE} if headers else len({span.trace_id for span in spans}) == 1


@on_loop
async def test_a_span_that_was_delivered_is_not_forwarded_for_good() -> None:
    """D-731: the clients of workflows forward the headers of the request that they answer."""
    with receiver() as app:
        async with in_process(trace="inject") as emulator:
            await emulator.publish(f"{app.url}/1")
            delivered = app.at("/1")[0].headers["traceparent"]
            await emulator.publish(f"{app.url}/2", [("Svc-Forward-Traceparent", delivered)])
        again = app.at("/2")[0].headers["traceparent"]
    first, second = read_traceparent(delivered), read_traceparent(again)
    assert first is not None
    assert second is not None
    assert (first.trace_id == second.trace_id, first.span_id == second.span_id) == (True, False)


@on_loop
async def test_nothing_is_added_unless_it_is_asked_for() -> None:
    with receiver() as app:
        async with in_process() as emulator:
            await emulator.publish(f"{app.url}/", [("traceparent", CALLER)])
            await emulator.advance("1s")
            assert b"traceparent" not in json.dumps(await emulator.deliveries()).encode()
        assert "traceparent" not in app.requests[0].headers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CALLER, SpanContext(trace_id=TRACE, span_id=SPAN)),
        (f"00-{TRACE}-{SPAN}-00", SpanContext(trace_id=TRACE, span_id=SPAN, is_sampled=False)),
        (f"cc-{TRACE}-{SPAN}-01-what-follows", SpanContext(trace_id=TRACE, span_id=SPAN)),
        (f"00-{TRACE}-{SPAN}-01-x", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        ("", None),
        (None, None),
    ],
)
def test_a_traceparent_is_read(text: str | None, expected: SpanContext | None) -> None:
    assert read_traceparent(text) == expected


@on_loop
async def test_a_collector_that_is_down_costs_nothing_and_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-729."""
    with socket.socket() as silent:
        # It takes connections, and never answers.
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
        async with in_process() as emulator:
            began = time.monotonic()
            for _ in range(50):
                await emulator.publish("https://app.test/")
            assert len(await emulator.deliveries()) == 50
            assert time.monotonic() - began < 5
            await asyncio.sleep(0.2)
            assert b'trace_spans_total{outcome="dropped"}' in (await emulator.control("GET", "/metrics")).body
            began = time.monotonic()
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("length", ["", "Content-Length: 1000000000\r\n"], ids=["endless", "1 GB"])
@on_loop
async def test_of_a_collectors_answer_no_more_than_its_beginning_is_read(
    monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    """D-791."""
    sent: list[int] = []
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode())
        sent.append(0)
        with contextlib.suppress(ConnectionError):
            while sent[-1] < 100_000_000:
                writer.write(bytes(65_536))
                sent[-1] += 65_536
                await writer.drain()
        writer.close()
        ended.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    async with in_process() as emulator:
        await emulator.publish("https://app.test/")
        async with asyncio.timeout(20):
            await ended.wait()
            while b'trace_spans_total{outcome="exported"}' not in (await emulator.control("GET", "/metrics")).body:
                pass
    # What the two ends of a connection have buffered is a few megabytes.
    assert max(sent) < 50_000_000
    server.close()
    await server.wait_closed()


@on_loop
async def test_sampling_is_that_of_the_standard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    with collector() as found:
        async with traced(monkeypatch, found) as emulator:
            await emulator.publish("https://app.test/")
        assert found.bodies == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "there is no exporter zipkin (pip install opentelemetry-exporter-zipkin)"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "pip install opentelemetry-exporter-otlp-proto-grpc"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, "OTEL_BSP_MAX_QUEUE_SIZE: expected a whole number"),
        ({"OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
@on_loop
async def test_variables_that_no_span_can_be_exported_by_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str], said: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with in_process() as emulator:
        await emulator.publish("https://app.test/")
    assert said in caplog.text
    assert bool(said) == ("no spans are exported" in caplog.text)


@on_loop
async def test_without_the_extra_the_log_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.delitem(sys.modules, "emulator.telemetry.exporting", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    async with in_process() as emulator:
        await emulator.publish("https://app.test/")
    assert "pip install 'svc-emulator[otel]'" in caplog.text


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """A server that has started has no library of metrics, spans or agents, and no module of ours that needs one."""
    program = (
        "import asyncio, sys, emulator, emulator.cli.serve\n"
        "from emulator.server import application, bootstrap, settings\n"
        "async def main():\n"
        "    emulation = await bootstrap.start(settings.Settings())\n"
        "    await emulation.close()\n"
        "asyncio.run(main())\n"
        "ours = ('exporting', 'metrics', 'otlp', 'spans', 'tracing')\n"
        "wanted = ['prometheus_client', 'opentelemetry', 'google.protobuf', 'mcp', 'mcp_types', 'emulator.agents']\n"
        "print([name for name in [*wanted, *(f'emulator.telemetry.{each}' for each in ours)] if name in sys.modules])\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
