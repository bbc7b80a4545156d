"""The metrics: what they count, for whom, and that they are as Prometheus wants them."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from shutil import which

import pytest

from emulator.telemetry.counts import Labels
from tests.harness.emulators import InProcess, with_emulator

DASHBOARD = Path(__file__).parents[2] / "examples/metrics/dashboard.json"
DOWN, UP = "https://down.test/hook", "https://up.test/hook?id=7"


async def lines(emulator: InProcess, query: str = "") -> list[str]:
    answer = await emulator.control("GET", f"/metrics{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return [line.removeprefix("svc_emulator_") for line in answer.body.decode().splitlines() if line[0] != "#"]


async def everything(emulator: InProcess) -> None:
    """Something of each kind."""
    await emulator.rule(DOWN, respond={"status": 503})
    await emulator.publish(UP, [("Svc-Deduplication-Id", "a")])
    await emulator.post(f"/v2/publish/{UP}", [("Svc-Deduplication-Id", "a")])
    await emulator.post(f"/v2/publish/{UP}", [("Svc-Retries", "many")])
    await emulator.post("/v2/batch", (), [{"destination": UP}, {"destination": "nowhere"}])
    await emulator.publish(DOWN, [("Svc-Retries", "1")])
    await emulator.post(f"/v2/enqueue/mail/{UP}")
    await emulator.post(f"/v2/schedules/{UP}", [("Svc-Cron", "0 * * * *"), ("Svc-Schedule-Id", "hourly")])
    await emulator.post(
        f"/v2/publish/{UP}", [("Svc-Delay", "30d"), ("Svc-Flow-Control-Key", "k"), ("Svc-Flow-Control-Value", "rate=1")]
    )
    await emulator.advance("2h")


@with_emulator()
async def test_metrics_show_what_happened(emulator: InProcess) -> None:
    """D-726."""
    await everything(emulator)
    found = await lines(emulator)
    counted = [
        line for line in found if re.match(r"(published|attempts|retries|dead|schedule|messages|queue|flow)", line)
    ]
    assert counted == [
        'published_total{api="batch",outcome="accepted"} 1.0',
        'published_total{api="batch",outcome="refused"} 1.0',
        'published_total{api="publish",outcome="accepted"} 4.0',
        'published_total{api="publish",outcome="deduplicated"} 1.0',
        'published_total{api="publish",outcome="refused"} 1.0',
        'published_total{api="schedule",outcome="accepted"} 2.0',
        'attempts_total{destination="https://down.test",outcome="failed",status_class="5xx"} 2.0',
        'attempts_total{destination="https://up.test",outcome="succeeded",status_class="2xx"} 4.0',
        'attempts_total{destination="mail",outcome="succeeded",status_class="2xx"} 1.0',
        'retries_total{destination="https://down.test"} 1.0',
        'dead_letters_total{destination="https://down.test",reason="retries_exhausted"} 1.0',
        'schedule_firings_total{outcome="published",schedule="hourly"} 2.0',
        'messages{state="pending"} 1.0',
        'messages{state="held"} 0.0',
        'messages{state="active"} 0.0',
        'messages{state="retrying"} 0.0',
        'queue_waiting{queue="mail"} 0.0',
        'flow_control_waiting{key="k"} 0.0',
        'flow_control_active{key="k"} 0.0',
    ]
    assert 'api_requests_total{route="/v2/publish/{destination:path}",status="400"} 1.0' in found
    assert "delivery_lag_seconds_count 7.0" in found
    assert "clock_rate 0.0" in found


@with_emulator()
async def test_a_slot_that_is_awaited_is_a_gauge(emulator: InProcess) -> None:
    await emulator.post("/v2/queues", (), {"queueName": "mail", "parallelism": 1})
    await emulator.post("/v2/queues/mail/pause")
    await emulator.post(f"/v2/enqueue/mail/{UP}")
    assert {'queue_waiting{queue="mail"} 1.0', 'messages{state="held"} 1.0'} <= set(await lines(emulator))


@with_emulator()
async def test_deliveries_that_are_made_again_count_as_attempts(emulator: InProcess) -> None:
    await emulator.rule(UP, duplicate="1s")
    await emulator.publish(UP)
    await emulator.advance("1m")
    assert (await emulator.control("POST", "/deliveries/3/redeliver")).status == 200
    counted = 'attempts_total{destination="https://up.test",outcome="succeeded",status_class="2xx"} 3.0'
    assert counted in await lines(emulator)


@with_emulator()
async def test_metrics_of_one_world(emulator: InProcess) -> None:
    """D-727."""
    await emulator.publish(UP)
    await emulator.control("POST", "/worlds", {"id": "other", "epoch": "2030-01-01T00:00:00Z"})
    all_of_them, other = await lines(emulator), await lines(emulator, "?world=other")
    assert {'published_total{api="publish",outcome="accepted"} 1.0', "worlds 2.0"} <= set(all_of_them)
    assert "clock_seconds 1.893456e+09" in other
    assert not [line for line in other if line.startswith(("published", "attempts", "api_", "process_", "build"))]
    assert (await emulator.control("GET", "/metrics?world=none")).status == 404
    assert (await emulator.control("GET", "/metrics?word=x")).json["field"] == "word"


@with_emulator()
async def test_counters_of_the_server_never_go_back(emulator: InProcess) -> None:
    """D-725."""
    counted = 'published_total{api="publish",outcome="accepted"} %d.0'
    await emulator.publish(UP)
    await emulator.control("POST", "/reset")
    assert counted % 1 in await lines(emulator)
    assert counted % 1 not in await lines(emulator, "?world=default")
    made = (await emulator.control("POST", "/worlds", {"id": "w"})).json
    token = [("Authorization", f"Bearer {made['credentials']['queue']['token']}")]
    assert (await emulator.post(f"/v2/publish/{UP}", token, token=None)).status == 200
    await emulator.control("DELETE", "/worlds/w")
    gc.collect()
    assert counted % 2 in await lines(emulator)


def test_a_label_has_a_hundred_values_and_other() -> None:
    """D-726."""
    labels = Labels()
    given = [labels.of(f"https://{number}.test") for number in range(102)]
    assert given[99:] == ["https://99.test", "other", "other"]
    assert labels.of("https://3.test") == "https://3.test"


@with_emulator()
async def test_metrics_without_their_library_say_what_to_install(
    emulator: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "emulator.telemetry.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = await emulator.control("GET", "/metrics")
    assert answer.status == 404
    assert "pip install prometheus-client" in answer.json["error"]


@with_emulator()
async def test_every_metric_of_the_dashboard_is_there_and_promtool_is_content(emulator: InProcess) -> None:
    await everything(emulator)
    text = (await emulator.control("GET", "/metrics")).body.decode()
    there = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    dashboard = DASHBOARD.read_text("utf-8")
    named = set(re.findall(r"\b(?:svc_emulator|process)_\w+", dashboard)) - {"svc_emulator"}
    assert {re.sub(r"_bucket$", "", name) for name in named} <= there
    own = {name for name in there if name.startswith("svc_emulator")}
    assert own <= {re.sub(r"_bucket$", "", name) for name in named}
    assert json.loads(dashboard)["panels"]
    promtool = which("promtool")
    if promtool is not None:
        command = partial(subprocess.run, [promtool, "check", "metrics"], input=text, text=True, capture_output=True)
        checked = await asyncio.to_thread(command)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
