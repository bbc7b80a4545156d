"""Spans of applications: what is taken, what is refused, and below which delivery they are found."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from emulator.control.telemetry import MOST_BYTES
from emulator.telemetry.otlp import read_json, read_protobuf
from emulator.telemetry.received import ReceivedSpans
from emulator.wire.trace_context import read_traceparent
from tests.harness.emulators import InProcess, receiver, with_emulator

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
JSON, PROTOBUF = [("Content-Type", "application/json")], [("Content-Type", "application/x-protobuf")]
TARGET = "/otlp/v1/traces"


def span(number: int, parent: str = "", *, trace: str = TRACE, **fields: object) -> dict[str, Any]:
    start = 1_767_225_600_000_000_000 + number * 1_000_000
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": f"span {number}",
        "kind": 2,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 5_000_000),
        **fields,
    }


def export(*spans: dict[str, Any], scope: str = "app") -> dict[str, Any]:
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    scopes = [{"scope": {"name": scope}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": scopes}]}


def in_protobuf(document: dict[str, Any]) -> bytes:
    """The same in protobuf, where ids are bytes."""
    text = json.loads(json.dumps(document), object_hook=_with_base64_ids)
    return ParseDict(text, ExportTraceServiceRequest()).SerializeToString()


def _with_base64_ids(given: dict[str, Any]) -> dict[str, Any]:
    ids = ("traceId", "spanId", "parentSpanId")
    return {name: b64encode(bytes.fromhex(value)).decode() if name in ids else value for name, value in given.items()}


VALUES = [
    {"stringValue": "text"},
    {"boolValue": True},
    {"intValue": "7"},
    {"doubleValue": 0.5},
    {"bytesValue": "/wA="},
]


def test_both_forms_are_read_alike() -> None:
    attributes = [{"key": f"k{at}", "value": value} for at, value in enumerate(VALUES)]
    events = [{"name": "charged", "timeUnixNano": "1767225600002000000"}]
    document = export(span(1, SPAN, attributes=attributes, events=events, status={"code": 2, "message": "no"}), span(2))
    found = read_json(json.dumps(document).encode())
    assert found == read_protobuf(in_protobuf(document))
    assert [(each.name, each.service, each.kind, each.status, each.parent_id) for each in found] == [
        ("span 1", "shop", "server", "error", SPAN),
        ("span 2", "shop", "server", "unset", ""),
    ]
    assert [each.value for each in found[0].attributes] == ["text", "true", "7", "0.5", "/wA="]


def test_what_is_too_much_of_a_span_is_cut() -> None:
    """D-732."""
    attributes = [{"key": str(at), "value": {"stringValue": "x" * 5_000}} for at in range(100)]
    document = export(span(1, attributes=attributes, name="y" * 5_000))
    for found in (read_json(json.dumps(document).encode()), read_protobuf(in_protobuf(document))):
        assert (len(found[0].name), len(found[0].attributes), len(found[0].attributes[0].value)) == (1_003, 64, 1_003)


def test_the_oldest_spans_make_room() -> None:
    """D-732."""
    kept = ReceivedSpans(most_bytes=5_500)
    kept.add(read_json(json.dumps(export(*(span(number, SPAN) for number in range(1, 9)))).encode()))
    assert [each.name for _, each in kept.below(TRACE, SPAN)] == [f"span {number}" for number in range(4, 9)]


def test_spans_that_are_a_circle_are_shown_once() -> None:
    kept = ReceivedSpans()
    document = export(span(1, f"{2:016x}"), span(2, f"{1:016x}"), span(3, SPAN), span(4, f"{3:016x}"))
    kept.add(read_json(json.dumps(document).encode()))
    assert [(depth, each.name) for depth, each in kept.below(TRACE, f"{1:016x}")] == [(0, "span 2")]
    assert [(depth, each.name) for depth, each in kept.below(TRACE, SPAN)] == [(0, "span 3"), (1, "span 4")]


@with_emulator(trace="inject")
async def test_spans_are_found_below_the_delivery_that_caused_them(emulator: InProcess) -> None:
    """D-732."""
    with receiver(lambda received: 500 if len(app.requests) == 1 else 200) as app:
        message_id = await emulator.publish(f"{app.url}/hook")
        await emulator.advance("1h")
        for body, headers in (
            (lambda document: document, JSON),
            (in_protobuf, PROTOBUF),
        ):
            causes = [read_traceparent(each.headers["traceparent"]) for each in app.requests]
            for number, cause in enumerate(causes, 1):
                assert cause is not None
                child = span(10 * number + 1, f"{10 * number:016x}", trace=cause.trace_id)
                own = export(span(10 * number, cause.span_id, trace=cause.trace_id), child)
                answer = await emulator.control("POST", TARGET, body(own), headers)
                assert answer.status == 200
    found = (await emulator.control("GET", f"/messages/{message_id}/spans")).json["deliveries"]
    assert [(each["attempt"], each["is_shared"]) for each in found] == [(1, False), (2, False)]
    assert [[(one["name"], one["depth"], one["offset_ms"]) for one in each["spans"]] for each in found] == [
        [("span 10", 0, 0), ("span 11", 1, 1)],
        [("span 20", 0, 0), ("span 21", 1, 1)],
    ]
    assert (await emulator.control("GET", "/messages/msg_none/spans")).status == 404


@pytest.mark.slow
@with_emulator(trace="inject")
async def test_spans_of_every_attempt_are_found_however_long_its_body_is(emulator: InProcess) -> None:
    """D-795."""
    with receiver(lambda received: 500) as app:
        message_id = await emulator.publish(f"{app.url}/hook", {"Svc-Retries": "4"}, b"x" * 4_000_000)
        await emulator.advance("1d")
        found = (await emulator.control("GET", f"/messages/{message_id}/spans")).json["deliveries"]
    assert [each["attempt"] for each in found] == [1, 2, 3, 4, 5]


@with_emulator()
async def test_a_forwarded_traceparent_is_that_of_all_attempts(emulator: InProcess) -> None:
    with receiver(lambda received: 500 if len(app.requests) == 1 else 200) as app:
        message_id = await emulator.publish(app.url, [("Svc-Forward-Traceparent", f"00-{TRACE}-{SPAN}-01")])
        await emulator.advance("1h")
    await emulator.control("POST", TARGET, export(span(1, SPAN)), JSON)
    # The emulator's own, of an exporter that sends to itself.
    await emulator.control("POST", TARGET, export(span(2, SPAN), scope="svc-emulator"), JSON)
    found = (await emulator.control("GET", f"/messages/{message_id}/spans")).json["deliveries"]
    assert [(each["is_shared"], [one["name"] for one in each["spans"]]) for each in found] == [(True, ["span 1"])] * 2


def packed(text: bytes) -> bytes:
    """The same bytes in every process that collects the tests: usually the time is in them."""
    return gzip.compress(text, mtime=0)


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"{}", [], 400, "content-type: expected application/json or application/x-protobuf"),
        (b"{", JSON, 400, "body: expected JSON: Input data was truncated"),
        (b'{"resourceSpans":1}', JSON, 400, "resourceSpans: expected a list, got a number"),
        (export(span(1, spanId="xyz")), JSON, 400, "spanId: expected 16 hexadecimal digits"),
        (export(span(1, startTimeUnixNano="9" * 50)), JSON, 400, "expected a time in nanoseconds"),
        (export(span(1, startTimeUnixNano="9" * 9_999)), JSON, 400, "body: expected OTLP in JSON"),
        (b"\xff\xff", PROTOBUF, 400, "body: expected OTLP in protobuf"),
        (b"{}", [*JSON, ("Content-Encoding", "br")], 400, "content-encoding: expected gzip or identity"),
        (b"{}", [*JSON, ("Content-Encoding", "gzip")], 400, "body: is not gzip"),
        (packed(b"{}")[:-9], [*JSON, ("Content-Encoding", "gzip")], 400, "body: is not gzip: it breaks off"),
        (b" " * (MOST_BYTES + 1), JSON, 413, "the body exceeds 4194304 bytes"),
        (packed(b" " * (MOST_BYTES + 1)), [*JSON, ("Content-Encoding", "gzip")], 413, "exceeds 4194304 bytes"),
        (b'{"resourceSpans":' + b"[" * 50_000, JSON, 400, "body: expected JSON: too many nested values"),
        (packed(json.dumps(export(span(1))).encode()), [*JSON, ("Content-Encoding", "gzip")], 200, ""),
    ],
)
@with_emulator()
async def test_what_is_no_otlp_is_refused(
    emulator: InProcess, body: object, headers: list[tuple[str, str]], status: int, said: str
) -> None:
    answer = await emulator.control("POST", TARGET, body, headers)
    assert (answer.status, said in answer.body.decode()) == (status, True), answer.body[:300]
