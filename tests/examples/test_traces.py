"""One trace of a workflow, with one root: spans of the emulator and of an application with stock instrumentation."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.examples.npm import needs_npm, npm_workplace
from tests.examples.workplaces import Workplace, free_port, workplace
from tests.harness.emulators import Server, control, server, service
from tests.telemetry.collectors import Collected, Collector, collector

pytestmark = pytest.mark.slow

_PATIENCE_S = 30


def play(app: Workplace, command: Sequence[str], ready: str, found: Collector, emulator: Server) -> list[Collected]:
    """The spans of one order, from the publish to the last step."""
    port = free_port()
    queue = control(emulator, "GET", "/credentials")["queue"]
    variables = {
        "PORT": str(port),
        "QSTASH_URL": emulator.url,
        "QSTASH_TOKEN": queue["token"],
        "QSTASH_CURRENT_SIGNING_KEY": queue["current_signing_key"],
        "QSTASH_NEXT_SIGNING_KEY": queue["next_signing_key"],
        "OTEL_EXPORTER_OTLP_ENDPOINT": found.url,
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    with app.running(*command, **variables) as program:
        program.line_with(ready)
        service(
            emulator, "POST", f"/v2/publish/http://127.0.0.1:{port}/order", {"Content-Type": "application/json"}, b"{}"
        )
        control(emulator, "POST", "/clock/advance", {"by": "2h"})
        program.line_with("shipped")
        control(emulator, "POST", "/clock/advance", {"by": "1h"})
        spans = found.spans
        # Both ends export in the background: all is there when every parent is, and nothing more comes.
        for _ in range(_PATIENCE_S * 2):
            time.sleep(0.5)
            before, spans = spans, found.spans
            if len(before) == len(spans) and not missing_parents(spans):
                break
    return spans


def missing_parents(spans: Sequence[Collected]) -> list[str]:
    known = {span.span_id for span in spans}
    return [span.name for span in spans if span.parent_id and span.parent_id not in known]


def check(spans: Sequence[Collected], found: Collector, emulator: Server) -> None:
    assert {span.trace_id for span in spans} == {spans[0].trace_id}, [span.name for span in spans]
    assert missing_parents(spans) == []
    [root] = [span for span in spans if not span.parent_id]
    assert root.name == f"publish {root.attributes['messaging.destination.name']}"
    attempts = [span for span in spans if span.attributes.get("svc_emulator.attempt") == 1]
    assert len(attempts) >= 4
    assert found.services == {"svc-emulator", "shop"}
    # The emulator takes the same spans, and finds them inside the deliveries that caused them.
    for body, kind in zip(found.bodies, found.kinds, strict=True):
        httpx.post(
            f"{emulator.url}/_emulator/otlp/v1/traces", content=body, headers={"Content-Type": kind}, trust_env=False
        ).raise_for_status()
    for attempt in attempts:
        message_id = attempt.attributes["messaging.message.id"]
        [delivery] = control(emulator, "GET", f"/messages/{message_id}/spans")["deliveries"]
        assert (delivery["span_id"], delivery["is_shared"]) == (attempt.span_id, False)
        assert [span["kind"] for span in delivery["spans"] if span["depth"] == 0] == ["server"]
        assert {span["service"] for span in delivery["spans"]} == {"shop"}


def test_a_workflow_in_fastapi_is_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with server(dialect="upstash", trace="inject") as emulator:
            app = workplace("traces", tmp_path)
            spans = play(app, [sys.executable, "order.py"], "Uvicorn running", found, emulator)
            check(spans, found, emulator)


@needs_npm
def test_a_workflow_in_express_is_one_trace(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = npm_workplace(tmp_path_factory, "traces", "traces-of-node")
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with server(dialect="upstash", trace="inject") as emulator:
            spans = play(app, ["npm", "start"], "listening on", found, emulator)
            check(spans, found, emulator)
