"""A clock advance in steps: the work of one call, and where it ends when it is interrupted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from emulator.cli.advancing import INTERRUPTED, Report, Steps
from emulator.cli.control import Control
from tests.cli.shell import DOWN, URL, publish, rule, service
from tests.harness import emulators

pytestmark = pytest.mark.slow

_SAME = ("from_ms", "to_ms", "deliveries", "succeeded", "failed", "schedules_fired", "messages_created")


def control(server: emulators.Server) -> Control:
    return Control(url=server.url, world="default", token=None)


def fill(server: emulators.Server) -> None:
    emulators.control(server, "POST", "/reset")
    rule(server, DOWN, respond={"status": 503})
    service(server, "POST", f"schedules/{URL}", Svc_Cron="*/7 * * * *")
    publish(server, DOWN, Svc_Retries="5", Svc_Retry_Delay="1000 * 60 * (1 + retried)")
    publish(server, URL, Svc_Delay="5h")


def trace(server: emulators.Server) -> Any:
    return emulators.control(server, "GET", "/messages", limit="1000")


def test_an_advance_in_steps_does_the_work_of_one(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    whole = emulators.control(server, "POST", "/clock/advance", {"by": "1d"})
    found = trace(server)
    fill(server)
    shown: list[Report] = []

    report = Steps(shown.append).advance(control(server), 86_400_000)

    assert len(shown) > 3
    assert {name: report[name] for name in _SAME} == {name: whole[name] for name in _SAME}
    assert (report["from"], report["to"], "stopped" in report) == (whole["from"], whole["to"], False)
    assert trace(server) == found


def test_an_interrupted_advance_says_where_the_clock_stands(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    shown: list[Report] = []

    def show(report: Report) -> None:
        shown.append(report)
        if len(shown) == 2:
            steps.interrupt()

    steps = Steps(show)
    report = steps.advance(control(server), 86_400_000)

    assert (len(shown), report["stopped"]) == (2, INTERRUPTED)
    assert report["to_ms"] == emulators.control(server, "GET", "/clock")["now_ms"]
    assert 0 < report["to_ms"] - report["from_ms"] < 86_400_000


def test_an_advance_in_steps_keeps_the_most_deliveries(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    report = Steps().advance(control(server), 86_400_000, 20)
    assert (report["deliveries"], report["stopped"]) == (20, "max_deliveries")


def test_parts_grow_and_shrink_with_the_time_that_they_take(server: emulators.Server) -> None:
    fill(server)
    ends: list[int] = []
    ticks = iter(range(0, 1_000_000, 10))

    Steps(lambda report: ends.append(report["to_ms"])).advance(control(server), 86_400_000)
    fill(server)
    slow: list[int] = []

    def show(report: Report) -> None:
        slow.append(report["to_ms"])
        if len(slow) == 4:
            steps.interrupt()

    # Every step takes ten seconds.
    steps = Steps(show, clock=lambda: next(ticks))
    steps.advance(control(server), 86_400_000)

    grown = [after - before for before, after in pairwise(ends)]
    assert grown[0] < grown[1] < grown[2]
    shrunk = [after - before for before, after in pairwise(slow)]
    assert shrunk[0] > shrunk[1]
