"""The control API: who may call it, the clock, destinations, deliveries, worlds and the trace."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from emulator.version import VERSION
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, asgi_call, with_emulator
from tests.harness.loops import spawn

URL = "https://api.test/hook"

OPERATIONS = {
    "/_emulator/health": ("GET",),
    "/_emulator/clock": ("GET", "PUT"),
    "/_emulator/clock/advance": ("POST",),
    "/_emulator/clock/next": ("POST",),
    "/_emulator/clock/drain": ("POST",),
    "/_emulator/deliveries": ("GET", "DELETE"),
    "/_emulator/destinations": ("GET", "POST", "PUT", "DELETE"),
    "/_emulator/destinations/{name}": ("DELETE",),
    "/_emulator/credentials": ("GET",),
    "/_emulator/worlds": ("GET", "POST"),
    "/_emulator/worlds/{name}": ("GET", "DELETE"),
    "/_emulator/reset": ("POST",),
    "/_emulator/trace": ("GET",),
    "/_emulator/metrics": ("GET",),
    "/_emulator/otlp/v1/traces": ("POST",),
    "/_emulator/messages/{name}/spans": ("GET",),
}
CALLS = [(method, path.format(name="nope")) for path, methods in OPERATIONS.items() for method in methods]


# -- who may call -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080",
        "10.1.2.3",
        "8.8.8.8:80",
        "[::1]:8080",
        "localhost",
        "LocalHost:1",
        "app.localhost:8080",
        "emulator:8080",
        "host.docker.internal",
        "box.local",
        "box.local.",
        "dev.example.com:8080",
    ],
)
@with_emulator(allow_control_host=("Dev.Example.com",))
async def test_hosts_that_no_web_page_can_have_are_served(emulator: InProcess, host: str) -> None:
    answer = await asgi_call(emulator.emulation.app, "GET", b"/_emulator/clock", [("Host", host)], b"", "127.0.0.1")
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "localhost.evil.com", "evil.local.com", "127.0.0.1.nip.io", "x.internal.com", "[::1", "[x]"],
)
@with_emulator()
async def test_a_host_that_could_be_a_web_pages_is_refused_by_every_operation(emulator: InProcess, host: str) -> None:
    """D-150."""
    await emulator.publish(URL, {"Svc-Delay": "1h"})
    before = emulator.image()
    for method, path in CALLS:
        answer = await asgi_call(
            emulator.emulation.app, method, path.encode(), [("Host", host)], b'{"by": "2h"}', "127.0.0.1"
        )
        assert answer.status == 403, (method, path)
        assert answer.json.keys() == {"error", "next"}
    assert emulator.image() == before


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8080", 200),
        ("http://127.0.0.1:3000", 403),
        ("https://evil.example.com", 403),
        ("http://localhost:8080", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
@with_emulator()
async def test_only_pages_of_the_emulator_itself_may_call(emulator: InProcess, origin: str, status: int) -> None:
    """D-150."""
    answer = await emulator.control("GET", "/health", headers={"Origin": origin})
    assert answer.status == status


@with_emulator(control_token="s3cret")
async def test_with_a_control_token_every_operation_needs_it(emulator: InProcess) -> None:
    """D-150, D-276."""
    for method, path in CALLS:
        for token in (None, "wrong", emulator.token):
            answer = await emulator.call(method, path, token=token)
            assert answer.status == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
    assert (await emulator.get("/_emulator/health", token="s3cret")).status == 200
    # The messaging API has tokens of its own.
    assert (await emulator.get("/v2/events")).status == 200
    assert (await emulator.get("/v2/events", token="s3cret")).status == 401


@with_emulator()
async def test_a_wrong_method_is_405_and_a_path_may_end_in_a_slash(emulator: InProcess) -> None:
    found = {route.path for route in emulator.emulation.app.routes}  # type: ignore[attr-defined]
    assert found >= OPERATIONS.keys()
    for path, methods in OPERATIONS.items():
        answer = await emulator.call("TRACE", path.format(name="nope"), token=None)
        assert answer.status == 405
        assert sorted(answer.headers["allow"].split(", ")) == sorted(methods)
    assert (await emulator.control("GET", "/Health/")).json == {"status": "ok", "version": VERSION, "worlds": 1}
    assert (await emulator.control("GET", "/nothing")).status == 404


# -- the clock --------------------------------------------------------------------------------


@with_emulator()
async def test_the_clock_tells_where_it_stands_and_what_waits(emulator: InProcess) -> None:
    await emulator.publish(URL, {"Svc-Delay": "1m"})
    await emulator.rule("https://slow.test/", respond={"latency": "30s"})
    await emulator.publish("https://slow.test/")
    assert (await emulator.control("GET", "/clock")).json == {
        **{"now": "2026-01-01T00:00:00.000Z", "now_ms": EPOCH_MS, "rate": 0, "next_due_ms": EPOCH_MS + 30_000},
        **{"pending": 2, "in_flight": 0, "slipped_ms": 0},
    }


@with_emulator()
async def test_an_advance_does_the_work_on_the_way_and_reports_it(emulator: InProcess) -> None:
    await emulator.rule("https://down.test/", respond={"status": 500})
    await emulator.publish(URL, {"Svc-Delay": "1m"})
    await emulator.publish("https://down.test/", {"Svc-Retries": "1", "Svc-Retry-Delay": "60000"})
    report = await emulator.advance("1h")
    assert report.pop("wall_ms") >= 0
    assert report == {
        "from": "2026-01-01T00:00:00.000Z",
        "from_ms": EPOCH_MS,
        "to": "2026-01-01T01:00:00.000Z",
        "to_ms": EPOCH_MS + 3_600_000,
        "deliveries": 2,
        "succeeded": 1,
        "failed": 1,
        "schedules_fired": 0,
        "messages_created": 0,
    }
    assert [each["at_ms"] - EPOCH_MS for each in await emulator.deliveries()] == [0, 60_000, 60_000]


@with_emulator()
async def test_next_and_drain(emulator: InProcess) -> None:
    await emulator.publish(f"{URL}/a", {"Svc-Delay": "1m"})
    await emulator.publish(f"{URL}/b", {"Svc-Delay": "2m"})
    await emulator.publish(f"{URL}/c", {"Svc-Delay": "40d"})
    await emulator.post(f"/v2/schedules/{URL}/s", {"Svc-Cron": "0 0 * * *"})
    assert (await emulator.control("POST", "/clock/next")).json["to_ms"] == EPOCH_MS + 60_000
    drained = (await emulator.control("POST", "/clock/drain")).json
    assert (drained["idle"], drained["to_ms"]) == (False, EPOCH_MS + 60_000 + 30 * 86_400_000)
    rest = (await emulator.control("POST", "/clock/drain", {"horizon": "10d"})).json
    assert (rest["idle"], rest["to_ms"]) == (True, EPOCH_MS + 40 * 86_400_000)
    assert rest["schedules_fired"] == 10


@with_emulator()
async def test_an_advance_stops_at_max_deliveries(emulator: InProcess) -> None:
    for number in range(5):
        await emulator.publish(URL, {"Svc-Delay": f"{number + 1}m"})
    answer = await emulator.control("POST", "/clock/advance", {"by": "1h", "max_deliveries": 2})
    assert (answer.json["deliveries"], answer.json["stopped"]) == (2, "max_deliveries")
    assert answer.json["to_ms"] == EPOCH_MS + 120_000


@with_emulator()
async def test_setting_the_clock(emulator: InProcess) -> None:
    back = await emulator.control("PUT", "/clock", {"now": "2025-01-01"})
    assert (back.status, back.json["now"]) == (200, "2025-01-01T00:00:00.000Z")
    await emulator.publish(URL, {"Svc-Delay": "1h"})
    forward = await emulator.control("PUT", "/clock", {"now": "2025-01-01T02:00:00Z", "rate": 0})
    assert (forward.status, forward.json["now_ms"], forward.json["pending"]) == (200, 1_735_696_800_000, 0)
    again = await emulator.control("PUT", "/clock", {"now": "2025-01-01T01:00:00Z"})
    assert again.status == 409
    assert (await emulator.control("GET", "/clock")).json == forward.json
    running = await emulator.control("PUT", "/clock", {"rate": 60})
    # A whole rate is an integer.
    assert b'"rate":60,' in running.body
    assert b'"rate":0.5,' in (await emulator.control("PUT", "/clock", {"rate": 0.5})).body
    assert (await emulator.control("PUT", "/clock", {"rate": 0})).json["rate"] == 0


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "field"),
    [
        ("PUT", "/clock", {}, 400, "rate"),
        ("PUT", "/clock", b"", 400, "body"),
        ("POST", "/clock/advance", {"by": 2**53 - 1}, 400, "by"),
        ("POST", "/clock/advance", {"to": "10000-01-01"}, 400, "to"),
        ("POST", "/clock/advance", {"to": 0}, 409, None),
        ("POST", "/clock/drain", {"horizon": "soon"}, 400, "horizon"),
        ("POST", "/destinations", b"[" * 100_000, 400, "body"),
        ("PUT", "/destinations", {"ids": ["rule_9"]}, 400, "ids"),
        ("DELETE", "/destinations/rule_9", b"", 404, None),
        ("GET", "/deliveries?cursor=x", b"", 400, "cursor"),
        ("GET", "/clock?world=none", b"", 404, None),
        ("POST", "/worlds", {"id": "default"}, 409, None),
        ("POST", "/worlds", {"id": "../x"}, 400, "id"),
        ("GET", "/worlds/none", b"", 404, None),
        ("DELETE", "/worlds/none", b"", 404, None),
        ("DELETE", "/worlds/default", b"", 409, None),
        ("POST", "/reset", {"x": 1}, 400, "x"),
    ],
)
@with_emulator()
async def test_what_is_wrong_is_refused_by_name_and_changes_nothing(
    emulator: InProcess, method: str, target: str, body: object, status: int, field: str | None
) -> None:
    await emulator.publish(URL, {"Svc-Delay": "1h"})
    before = emulator.image()
    answer = await emulator.control(method, target, body)
    assert (answer.status, answer.json.get("field")) == (status, field), answer.body
    assert emulator.image() == before
    assert len(emulator.emulation.worlds) == 1


@with_emulator(epoch="9999-12-31T23:00:00Z")
async def test_a_clock_at_the_end_of_the_calendar_stays_readable(emulator: InProcess) -> None:
    await emulator.publish(URL, {"Svc-Delay": "2h"})
    assert (await emulator.control("POST", "/clock/next")).status == 409
    drained = await emulator.control("POST", "/clock/drain")
    assert (drained.status, drained.json["idle"]) == (200, False)
    assert drained.json["to"] == "9999-12-31T23:59:59.999Z"
    assert (await emulator.control("GET", "/clock")).status == 200


# -- destinations and deliveries --------------------------------------------------------------


@with_emulator()
async def test_rules_are_listed_as_given_and_the_first_that_matches_decides(emulator: InProcess) -> None:
    first = await emulator.rule(URL, respond={"status": 503, "headers": {"Retry-After": "10"}}, times=2)
    second = await emulator.rule("https://api.test/*", respond={"status": 200, "body": "ok", "latency": "2s"})
    await emulator.publish(URL)
    listed = (await emulator.control("GET", "/destinations")).json["destinations"]
    assert listed == [
        {
            "id": first,
            "match": {"url": URL},
            "respond": {"status": 503, "headers": {"Retry-After": "10"}},
            "times": 2,
            "used": 1,
        },
        {
            "id": second,
            "match": {"url": "https://api.test/*"},
            "respond": {"status": 200, "body": "ok", "latency": "2s"},
            "used": 0,
        },
    ]
    await emulator.advance("1m")
    deliveries = await emulator.deliveries()
    assert [each["response"]["status"] for each in deliveries] == [503, 503, 200]
    assert [each["at_ms"] - EPOCH_MS for each in deliveries] == [0, 10_000, 20_000]
    assert (deliveries[2]["duration_ms"], deliveries[2]["via"]) == (2_000, "rule")
    ordered = await emulator.control("PUT", "/destinations", {"ids": [second, first]})
    assert [(each["id"], each["used"]) for each in ordered.json["destinations"]] == [(second, 1), (first, 2)]
    assert (await emulator.control("DELETE", f"/destinations/{first}")).status == 204
    assert (await emulator.control("DELETE", "/destinations")).status == 204
    assert (await emulator.control("GET", "/destinations")).json == {"destinations": []}


@with_emulator()
async def test_a_rule_of_many_stars_is_matched_at_once(emulator: InProcess) -> None:
    await emulator.rule("*a" * 300 + "b", respond={"status": 201})
    await emulator.publish("https://api.test/" + "a" * 8_000)
    (delivery,) = await emulator.deliveries()
    assert delivery["via"] == "capture"


# -- worlds -----------------------------------------------------------------------------------


@with_emulator()
async def test_a_world_of_ones_own(emulator: InProcess) -> None:
    made = await emulator.control("POST", "/worlds", {"id": "w.1", "epoch": "2020-02-02", "plan": "free"})
    assert made.status == 201
    world = made.json
    assert world.keys() == {"id", "credentials", "clock"}
    assert (world["id"], world["clock"]["now"]) == ("w.1", "2020-02-02T00:00:00.000Z")
    token = world["credentials"]["queue"]["token"]
    # The token alone finds the world.
    answer = await emulator.post(f"/v2/publish/{URL}", {"Svc-Delay": "1h"}, token=token)
    record = (await emulator.get(f"/v2/messages/{answer.json['messageId']}", token=token)).json
    assert (record["maxRetries"], record["createdAt"]) == (3, 1_580_601_600_000)
    await emulator.control("POST", "/clock/advance?world=w.1", {"by": "1h"})
    assert len((await emulator.control("GET", "/deliveries?world=w.1")).json["deliveries"]) == 1
    assert await emulator.deliveries() == []
    assert [each["id"] for each in (await emulator.control("GET", "/worlds")).json["worlds"]] == ["default", "w.1"]
    credentials = (await emulator.control("GET", "/credentials?world=w.1")).json
    environment, dialect = credentials.pop("environment"), credentials.pop("dialect")
    assert credentials == world["credentials"]
    assert environment.keys() == {"url", "token", "current_signing_key", "next_signing_key"}
    assert dialect == {"name": "svc", "header_prefix": "Svc-", "issuer": "Svc", "queue_segment": "queue"}
    assert (await emulator.control("DELETE", "/worlds/w.1")).status == 204
    assert (await emulator.get("/v2/events", token=token)).status == 401
    assert (await emulator.control("POST", "/worlds")).json["id"] == "world-1"


# -- the trace --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/clock?wrld=x"),
        ("POST", "/reset?worlds=x"),
        ("DELETE", "/destinations?World=x"),
        ("GET", "/deliveries?messageid=x"),
    ],
)
@with_emulator()
async def test_a_misspelt_parameter_is_refused_rather_than_meant_for_the_default_world(
    emulator: InProcess, method: str, target: str
) -> None:
    """D-127."""
    answer = await emulator.control(method, target)
    assert answer.status == 400
    assert answer.json["field"] == target.partition("?")[2].partition("=")[0]


@with_emulator(keep_history="40")
async def test_what_was_dropped_is_said_where_somebody_asks_for_it(emulator: InProcess) -> None:
    """D-281."""
    first = await emulator.publish(URL)
    for _ in range(30):
        await emulator.publish(URL)

    page = (await emulator.control("GET", "/deliveries")).json
    trace = await emulator.control("GET", "/trace")
    assert trace.headers["content-type"].startswith("application/x-ndjson")
    lines = trace.body.splitlines()
    dropped = {"entries": 80, "until": "2026-01-01T00:00:00.000Z", "until_ms": EPOCH_MS}
    assert page["dropped"] == dropped
    assert len(page["deliveries"]) == 11
    assert json.loads(lines[0]) == {"dropped": dropped}
    assert json.loads(lines[-1]) == {"sha256": hashlib.sha256(b"".join(b"%s\n" % x for x in lines[:-1])).hexdigest()}
    explained = await emulator.control("GET", f"/messages/{first}/explain")
    assert explained.status == 404
    assert "history up to 2026-01-01T00:00:00.000Z is not kept any more (--keep-history)" in explained.json["error"]


@with_emulator()
async def test_trace_whose_world_is_reset_while_it_is_read_is_a_409(emulator: InProcess) -> None:
    """D-286."""
    await emulator.publish(URL)
    rows = emulator.world._store.first_rows
    resetting: list[asyncio.Task[Answer]] = []

    async def reset_before(*arguments: Any) -> Any:
        found = await rows(*arguments)
        if not resetting:
            resetting.append(spawn(emulator.control("POST", "/reset")))
            await resetting[0]
        return found

    emulator.world._store.first_rows = reset_before  # type: ignore[method-assign, assignment]  # a reset between two reads
    answer = await emulator.control("GET", "/trace")
    assert answer.status == 409
    assert resetting[0].result().status == 200
