"""A real application that publishes to itself without end, and right tests that publish very much at one instant."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.shell import printed
from tests.harness.emulators import Receiver, Server, control, receiver, server, service
from tests.harness.loops import PATIENCE_S

pytestmark = pytest.mark.slow

CAPTURED, ELSEWHERE = "https://captured.test/work", "https://other.test/hook"
HOUR, DAY = "1h", "1d"


class Application:
    """It publishes from its handler: work whose callback is the handler again. `is_mended` ends that."""

    def __init__(self) -> None:
        self.emulator: Server | None = None
        self.url = ""
        self.is_mended = False

    def work(self) -> None:
        assert self.emulator is not None
        headers = {"Svc-Callback": f"{self.url}/done"}
        service(self.emulator, "POST", f"/v2/publish/{CAPTURED}", headers)


@contextlib.contextmanager
def application() -> Iterator[tuple[Application, Receiver]]:
    app = Application()

    def respond(_: object) -> int:
        if not app.is_mended:
            app.work()
        return 200

    with receiver(respond) as received:
        app.url = received.url
        yield app, received


def test_a_loop_of_an_application_is_held_and_everything_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """D-785, D-786, D-787: over advances, of a few deliveries each."""
    with application() as (app, received), server() as emulator:
        app.emulator = emulator
        service(emulator, "POST", f"/v2/publish/{CAPTURED}", {"Svc-Callback": f"{app.url}/done", "Svc-Delay": HOUR})
        service(emulator, "POST", f"/v2/publish/{ELSEWHERE}", {"Svc-Delay": HOUR})
        with caplog.at_level(logging.WARNING):
            report = control(emulator, "POST", "/clock/advance", {"by": HOUR, "max_deliveries": 700})
            assert report["stopped"] == "max_deliveries"
            assert "held" not in report
            report = control(emulator, "POST", "/clock/advance", {"by": DAY})

        why = f"held: {app.url} published to itself more than 1,000 times at this instant, 2026-01-01T01:00:00Z"
        [held] = report["held"]
        assert (held["why"], held["limit"], held["cause"]) == (why, 1_000, "published")
        assert report["to"] == "2026-01-02T01:00:00.000Z"
        # Between the two advances attempts left beside each other.
        assert 1_001 <= len(received.requests) <= 1_200
        assert [each["url"] for each in control(emulator, "GET", "/deliveries", url=ELSEWHERE)["deliveries"]] == [
            ELSEWHERE
        ]

        message_id = held["message_id"]
        assert control(emulator, "GET", "/clock")["held"] == [held]
        health = control(emulator, "GET", "/health")
        assert (health["status"], health["held"]) == ("ok", [{"id": "default", "held": [held]}])
        [record] = [each for each in caplog.records if each.name == "emulator.worlds.world"]
        assert record.getMessage().startswith(f"the world default: {why}; until message {message_id} is deleted")
        until = f"{why}; until this message is deleted, or the world is reset"
        assert control(emulator, "GET", f"/messages/{message_id}/explain")["summary"].endswith(f"{until}.")
        [wait] = control(emulator, "GET", "/upcoming")["waiting"]
        assert (wait["kind"], wait["name"], wait["reason"], wait["why"]) == ("destination", app.url, "loop", until)
        [row] = control(emulator, "GET", "/messages", id=message_id)["messages"]
        assert (row["state"], row["waits"]) == ("HELD", why)

        app.is_mended = True
        count = len(received.requests)
        service(emulator, "POST", f"/v2/publish/{app.url}/monday")
        assert len(received.requests) == count
        service(emulator, "DELETE", f"/v2/messages/{message_id}")
        assert [each.path for each in received.wait_for(count + 1)[count:]] == ["/monday"]
        assert "held" not in control(emulator, "GET", "/clock")
        assert "held" not in control(emulator, "GET", "/health")


def test_a_hold_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"db": str(tmp_path / "world.db"), "max_attempts_per_instant": 20}
    with application() as (app, received):
        with server(**settings) as emulator:
            app.emulator = emulator
            service(emulator, "POST", f"/v2/publish/{CAPTURED}", {"Svc-Callback": f"{app.url}/done"})
            [held] = control(emulator, "POST", "/clock/advance", {"by": HOUR})["held"]
        count = len(received.requests)
        with server(**settings) as emulator:
            app.emulator = emulator
            assert control(emulator, "POST", "/clock/advance", {"by": HOUR})["held"] == [held]
            assert len(received.requests) == count
            service(emulator, "DELETE", f"/v2/messages/{held['message_id']}")
            assert "held" not in control(emulator, "POST", "/clock/advance", {"by": HOUR})
            # A reset frees it as well.
            service(emulator, "POST", f"/v2/publish/{CAPTURED}", {"Svc-Callback": f"{app.url}/done"})
            assert control(emulator, "POST", "/clock/advance", {"by": HOUR})["held"]
            control(emulator, "POST", "/reset")
            assert "held" not in control(emulator, "GET", "/clock")


def test_health_and_clock_name_a_held_destination() -> None:
    """D-787."""
    with application() as (app, _), server(max_attempts_per_instant=20) as emulator:
        app.emulator = emulator
        service(emulator, "POST", f"/v2/publish/{CAPTURED}", {"Svc-Callback": f"{app.url}/done", "Svc-Delay": HOUR})
        why = f"held: {app.url} published to itself more than 20 times at this instant, 2026-01-01T01:00:00Z"

        advanced = printed(emulator, "clock", "advance", DAY).splitlines()
        shown = printed(emulator, "clock", "show").splitlines()
        upcoming = printed(emulator, "upcoming")

        assert advanced[-1].startswith(f"{why} (svc-emulator explain msg_")
        assert shown[-1] == advanced[-1]
        assert printed(emulator, "health", "--url", emulator.url) == f"ok\n{why} (world default)\n"
        assert f"{why}; until this message is deleted, or the world is reset" in upcoming
        assert f" {why}\n" in printed(emulator, "tail", "--events", "--no-follow")


# -- what is no loop --------------------------------------------------------------------------

COUNT = 2_000


def one_after_another(emulator: Server, url: str, client: httpx.Client) -> None:
    for _ in range(COUNT):
        client.post(f"/v2/publish/{url}").raise_for_status()


def side_by_side(emulator: Server, url: str, client: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as threads:
        for answer in [threads.submit(client.post, f"/v2/publish/{url}") for _ in range(COUNT)]:
            answer.result().raise_for_status()


def in_batches(emulator: Server, url: str, client: httpx.Client) -> None:
    for _ in range(COUNT // 100):
        client.post("/v2/batch", json=[{"destination": url}] * 100).raise_for_status()


def to_a_group(emulator: Server, url: str, client: httpx.Client) -> None:
    endpoints = [{"name": f"e{number}", "url": f"{url}/{number}"} for number in range(100)]
    client.post("/v2/topics/all/endpoints", json={"endpoints": endpoints}).raise_for_status()
    for _ in range(COUNT // 100):
        client.post("/v2/publish/all").raise_for_status()


def through_a_queue(emulator: Server, url: str, client: httpx.Client) -> None:
    client.post("/v2/queues", json={"queueName": "line", "parallelism": 5}).raise_for_status()
    with ThreadPoolExecutor(4) as threads:
        for answer in [threads.submit(client.post, f"/v2/enqueue/line/{url}") for _ in range(COUNT)]:
            answer.result().raise_for_status()


@pytest.mark.parametrize("clock", ["frozen", "realtime"])
@pytest.mark.parametrize("publish_all", [one_after_another, side_by_side, in_batches, to_a_group, through_a_queue])
def test_a_right_test_publishes_very_much_at_one_instant(
    publish_all: Callable[[Server, str, httpx.Client], None], clock: str
) -> None:
    with receiver() as received, server(clock=clock) as emulator:
        headers = {"Authorization": f"Bearer {emulator.token}"}
        with httpx.Client(base_url=emulator.url, headers=headers, timeout=PATIENCE_S, trust_env=False) as client:
            publish_all(emulator, f"{received.url}/hook", client)

        received.wait_for(COUNT)
        assert "held" not in control(emulator, "GET", "/clock")
