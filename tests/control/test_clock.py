"""Moving the clock by a call: going away meanwhile, and taking a move back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.control.clock import read_advance, read_clock_change, read_drain
from emulator.core.errors import InvalidInput
from emulator.queries.reports import (
    AdvanceRequest,
    ClockChange,
    DrainRequest,
    Until,
    UntilCondition,
)
from emulator.wire.json_reader import Json
from emulator.wire.times import parse_control_duration_ms
from tests.harness.emulators import EPOCH_MS, InProcess, http_scope, in_process, with_emulator
from tests.harness.loops import on_loop

URL = "https://api.test/hook"
CENTURY = 36_500 * 86_400_000


async def given_up(emulator: InProcess, path: str, body: dict[str, str]) -> Any:
    """The answer, which nobody reads, to a move whose client goes away as soon as the clock has moved."""
    incoming: list[Any] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        while (await emulator.control("GET", "/clock")).json["now_ms"] == EPOCH_MS:
            pass
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = http_scope("POST", f"/_emulator/clock/{path}".encode(), [("Host", "127.0.0.1:8080")], "127.0.0.1")
    await emulator.emulation.app(scope, receive, send)
    return json.loads(b"".join(each.get("body", b"") for each in sent))


@pytest.mark.parametrize("path", ["advance", "drain"])
@with_emulator()
async def test_a_move_ends_with_its_client_where_it_has_come_to(emulator: InProcess, path: str) -> None:
    """D-323."""
    await emulator.rule(URL, respond={"status": 500})
    await emulator.post(
        f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *", "Svc-Retries": "20", "Svc-Retry-Delay": "86400000"}
    )

    body = {"by": "36500d"} if path == "advance" else {"horizon": "36500d"}
    await emulator.publish(URL, {"Svc-Retries": "20", "Svc-Retry-Delay": "86400000"})
    answer = await given_up(emulator, path, body)

    clock = (await emulator.control("GET", "/clock")).json
    assert EPOCH_MS < clock["now_ms"] < EPOCH_MS + CENTURY
    assert answer["error"] == f"the move was given up, the clock stands at {clock['now']}"
    told = await emulator.control("GET", "/stream?follow=false")
    assert f'"now_ms":{clock["now_ms"]}' in told.body.decode()
    further = await emulator.control("POST", "/clock/advance", {"by": "1m"})
    assert further.json["to_ms"] == clock["now_ms"] + 60_000


# -- undoable advances -------------------------------------------------------------------------

HOOK = "https://api.example.com/hook"
HOUR = 3_600_000


async def now(emulator: InProcess) -> int:
    return int((await emulator.control("GET", "/clock")).json["now_ms"]) - EPOCH_MS


@pytest.mark.parametrize("keeps", [False, True])
@on_loop
async def test_undoable_advances_are_taken_back_one_after_the_other(keeps: bool, tmp_path: Path) -> None:
    """D-435: with all that has happened since, and from there on all comes again as it was."""
    async with in_process(db=str(tmp_path / "state.db") if keeps else ":memory:") as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await emulator.publish(HOOK, {"Svc-Delay": "3h"})
        for undoable in (True, False, True):
            moved = await emulator.control("POST", "/clock/advance", {"by": "2h", "undoable": undoable})
            assert moved.status == 200, moved.body
        await emulator.publish(HOOK)
        trace = (await emulator.control("GET", "/trace")).body

        undone = await emulator.control("POST", "/clock/undo")
        assert (undone.status, undone.json["clock"]["now_ms"]) == (200, EPOCH_MS + 4 * HOUR)
        assert len(await emulator.deliveries()) == 2
        await emulator.control("POST", "/clock/undo")
        assert (await now(emulator), await emulator.deliveries()) == (0, [])
        assert (await emulator.control("POST", "/clock/undo")).status == 409

        await emulator.advance("6h")
        await emulator.publish(HOOK)
        assert (await emulator.control("GET", "/trace")).body == trace


@with_emulator()
async def test_jumps_and_drains_are_taken_back_like_advances(emulator: InProcess) -> None:
    """D-435."""
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})
    await emulator.publish(HOOK, {"Svc-Delay": "3h"})
    for move, after in (("next", HOUR), ("drain", 3 * HOUR)):
        assert (await emulator.control("POST", f"/clock/{move}", {"undoable": True})).status == 200
        assert await now(emulator) == after
    for before in (HOUR, 0):
        assert (await emulator.control("POST", "/clock/undo")).status == 200
        assert await now(emulator) == before
    assert await emulator.deliveries() == []


@with_emulator()
async def test_an_advance_that_was_refused_and_those_before_a_reset_are_not_taken_back(emulator: InProcess) -> None:
    for wrong in ({"by": "soon"}, {"by": "1h", "undoable": 1}, {"by": "1h", "undoable": None}):
        refused = await emulator.control("POST", "/clock/advance", {"undoable": True, **wrong})
        assert refused.status == 400
    refused = await emulator.control("POST", "/clock/advance", {"by": "9000000d", "undoable": True})
    assert (refused.status, refused.json["field"]) == (400, "by")
    refused = await emulator.control("POST", "/clock/advance", {"to": "2025-01-01", "undoable": True})
    assert refused.status == 409
    assert (await emulator.control("POST", "/clock/undo")).status == 409

    for path in ("/reset", "/snapshots/first/restore"):
        await emulator.control("POST", "/snapshots", {"name": "first"})
        await emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
        assert (await emulator.control("POST", path)).status == 200
        undone = await emulator.control("POST", "/clock/undo")
        assert (undone.status, await now(emulator)) == (409, 0)


# -- advancing until something is so -----------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "more", "moved", "reached", "stopped", "deliveries"),
    [
        pytest.param("next", {}, "10s", True, None, 1, id="next"),
        pytest.param("idle", {}, "3h", True, None, 3, id="idle"),
        pytest.param("idle", {"horizon": "2h"}, "2h", False, "horizon", 2, id="idle-past-the-horizon"),
        pytest.param("dead-letters", {}, "10s", True, None, 1, id="dead-letters"),
        pytest.param("message {late}", {}, "3h", True, None, 3, id="message"),
        pytest.param("message {ended}", {}, "0s", True, None, 0, id="message-that-has-ended"),
        pytest.param("deliveries 2", {}, "1h", True, None, 2, id="deliveries"),
        pytest.param("deliveries 9", {}, "3h", False, "nothing_due", 3, id="deliveries-that-never-come"),
        pytest.param("deliveries 9", {"max_deliveries": 2}, "1h", False, "max_deliveries", 2, id="at-most"),
        pytest.param("2026-01-01T02:00:00Z", {}, "2h", True, None, 2, id="instant"),
    ],
)
@with_emulator()
async def test_an_advance_ends_at_the_first_instant_at_which_its_condition_is_so(
    emulator: InProcess,
    until: str,
    more: dict[str, Json],
    moved: str,
    reached: bool,
    stopped: str | None,
    deliveries: int,
) -> None:
    """D-708."""
    await emulator.rule("https://dead.test/*", respond={"status": 500})
    names = {"ended": await emulator.publish(HOOK)}
    await emulator.publish("https://dead.test/a", {"Svc-Retries": "1", "Svc-Retry-Delay": "10000"})
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})
    names["late"] = await emulator.publish(HOOK, {"Svc-Delay": "3h"})
    answer = await emulator.control("POST", "/clock/advance", {"until": until.format_map(names), **more})
    report = answer.json
    found = (report["to_ms"] - report["from_ms"], report["reached"], report.get("stopped"), report["deliveries"])
    assert found == (parse_control_duration_ms(moved), reached, stopped, deliveries)


@with_emulator()
async def test_an_advance_until_a_run_has_ended_and_until_what_never_was(emulator: InProcess) -> None:
    """D-708."""
    for until in ("message msg_none", "run wfr_none"):
        assert (await emulator.control("POST", "/clock/advance", {"until": until})).status == 404
    headers = {"Svc-Workflow-RunId": "wfr_1", "Svc-Workflow-Init": "true", "Svc-Workflow-Url": HOOK}
    await emulator.rule(HOOK, respond={"status": 500})
    await emulator.post(f"/v2/trigger/{HOOK}", {**headers, "Svc-Retries": "1", "Svc-Retry-Delay": "5000"})
    [run] = (await emulator.control("GET", "/runs")).json["runs"]
    report = (await emulator.control("POST", "/clock/advance", {"until": f"run {run['id']}"})).json
    assert (report["to_ms"] - report["from_ms"], report["reached"]) == (5000, True)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"rate": 0}, ClockChange(rate=0.0, now_ms=None), id="freeze"),
        pytest.param({"rate": 0.5, "now": 5}, ClockChange(rate=0.5, now_ms=5), id="both"),
        pytest.param({"now": "1970-01-02"}, ClockChange(rate=None, now_ms=86_400_000), id="now"),
    ],
)
def test_clock_change_is_read(document: Json, expected: ClockChange) -> None:
    assert read_clock_change(document) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"by": "1d2h30m"}, AdvanceRequest(by_ms=95_400_000, to_ms=None), id="by"),
        pytest.param({"by": 0}, AdvanceRequest(by_ms=0, to_ms=None), id="by-nothing"),
        pytest.param(
            {"until": " message  msg_1 ", "horizon": "1h"},
            AdvanceRequest(
                by_ms=None, to_ms=None, until=UntilCondition(kind=Until.MESSAGE, id="msg_1"), horizon_ms=3_600_000
            ),
            id="until-message",
        ),
        pytest.param(
            {"until": "deliveries 20"},
            AdvanceRequest(by_ms=None, to_ms=None, until=UntilCondition(kind=Until.DELIVERIES, number=20)),
            id="until-deliveries",
        ),
        pytest.param(
            {"until": "1970-01-01T00:00:01Z"},
            AdvanceRequest(by_ms=None, to_ms=None, until=UntilCondition(kind=Until.INSTANT, number=1000)),
            id="until-an-instant",
        ),
        pytest.param({"to": "1970-01-01T00:00:01Z"}, AdvanceRequest(by_ms=None, to_ms=1000), id="to"),
        pytest.param(
            {"by": "1s", "max_deliveries": 1}, AdvanceRequest(by_ms=1000, to_ms=None, max_deliveries=1), id="at-most"
        ),
    ],
)
def test_advance_is_read(document: Json, expected: AdvanceRequest) -> None:
    assert read_advance(document) == expected
    assert AdvanceRequest(by_ms=1, to_ms=None).max_deliveries == 1_000_000


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, DrainRequest(horizon_ms=2_592_000_000, max_deliveries=1_000_000), id="no-body"),
        pytest.param({}, DrainRequest(horizon_ms=2_592_000_000), id="empty"),
        pytest.param({"horizon": "1h"}, DrainRequest(horizon_ms=3_600_000), id="horizon"),
        pytest.param({"max_deliveries": 5}, DrainRequest(max_deliveries=5), id="at-most"),
    ],
)
def test_drain_is_read(document: Json, expected: DrainRequest) -> None:
    assert read_drain(document) == expected


@pytest.mark.parametrize(
    ("reader", "document", "field"),
    [
        pytest.param(read_clock_change, None, "body", id="clock-null"),
        pytest.param(read_clock_change, {}, "rate", id="clock-empty"),
        pytest.param(read_clock_change, {"rate": "1"}, "rate", id="rate-is-text"),
        pytest.param(read_clock_change, {"rate": True}, "rate", id="rate-true"),
        pytest.param(read_clock_change, {"rate": -1}, "rate", id="rate-negative"),
        pytest.param(read_clock_change, {"rate": float("nan")}, "rate", id="rate-nan"),
        pytest.param(read_clock_change, {"rate": 10**400}, "rate", id="rate-huge"),
        pytest.param(read_clock_change, {"rate": 1e-300}, "rate", id="rate-tiny"),
        pytest.param(read_clock_change, {"now": "today"}, "now", id="now"),
        pytest.param(read_clock_change, {"now": 1.5}, "now", id="now-fraction"),
        pytest.param(read_clock_change, {"now": True}, "now", id="now-true"),
        pytest.param(read_clock_change, {"speed": 1}, "speed", id="clock-unknown"),
        pytest.param(read_advance, {}, "by", id="advance-empty"),
        pytest.param(read_advance, {"by": "1d", "to": 5}, "to", id="by-and-to"),
        pytest.param(read_advance, {"by": "tomorrow"}, "by", id="by"),
        pytest.param(read_advance, {"by": "1d", "until": "idle"}, "until", id="by-and-until"),
        pytest.param(read_advance, {"by": "1d", "horizon": "1d"}, "horizon", id="horizon-alone"),
        pytest.param(read_advance, {"until": "soon"}, "until", id="until-unknown"),
        pytest.param(read_advance, {"until": "message"}, "until", id="until-without-an-id"),
        pytest.param(read_advance, {"until": "deliveries 0"}, "until", id="until-no-deliveries"),
        pytest.param(read_advance, {"until": "idle now"}, "until", id="until-with-more"),
        pytest.param(read_advance, {"by": -1}, "by", id="by-negative"),
        pytest.param(read_advance, {"by": None}, "by", id="by-null"),
        pytest.param(read_advance, {"to": ""}, "to", id="to"),
        pytest.param(read_advance, {"by": 1, "max_deliveries": 0}, "max_deliveries", id="at-most-0"),
        pytest.param(read_advance, {"by": 1, "max": 1}, "max", id="advance-unknown"),
        pytest.param(read_drain, {"horizon": []}, "horizon", id="horizon"),
        pytest.param(read_drain, [], "body", id="drain-list"),
    ],
)
def test_body_that_is_wrong_names_the_field(reader: object, document: Json, field: str) -> None:
    """D-127."""
    assert callable(reader)
    with pytest.raises(InvalidInput) as caught:
        reader(document)
    assert caught.value.field == field
