"""Waiting for what a running clock brings."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from emulator import Emulator, EmulatorError
from tests.harness import emulators, loops

URL = "https://app.test/hook"


@pytest.fixture
def running(server: Emulator) -> Iterator[Emulator]:
    with server.new_world(epoch=emulators.EPOCH, rate=1) as world:
        yield world


def test_what_has_come_already_counts(running: Emulator) -> None:
    running.destinations.respond("https://other.test/*", 404)
    running.publish(URL)
    running.publish("https://other.test/", headers={"Svc-Retries": "0"})
    running.clock.advance(0)
    [delivery] = running.wait_for(URL)
    assert delivery.url == URL
    [failed] = running.wait_for(status=404, outcome="failed")
    assert failed.url == "https://other.test/"
    assert len(running.wait_for("https://*", count=2)) == 2


def test_what_comes_later_is_waited_for(running: Emulator) -> None:
    gate = threading.Event()

    def hook(request: object) -> int:
        gate.wait(loops.PATIENCE_S)
        return 200

    running.mount("https://app.test", hook)
    running.publish(URL)
    running.publish(URL)
    threading.Thread(target=gate.set).start()
    first, second = running.wait_for(URL, count=2, timeout=loops.PATIENCE_S)
    assert first.message_id != second.message_id


def test_a_retry_is_waited_for_on_the_running_clock(running: Emulator) -> None:
    running.clock.rate(1000)
    running.destinations.respond(URL, 503, times=2)
    message_id = running.publish(URL, headers={"Svc-Retry-Delay": "10000"})
    [delivery] = running.wait_for(message_id=message_id, outcome="succeeded", timeout=loops.PATIENCE_S)
    assert delivery.attempt == 3


def test_what_does_not_come_fails_with_the_timeline(server: Emulator) -> None:
    with server.new_world(epoch=emulators.EPOCH) as frozen:
        frozen.publish(URL, headers={"Svc-Delay": "1h"})
        frozen.publish("https://other.test/")
        with pytest.raises(AssertionError) as failed:
            frozen.wait_for(URL, status=200, count=2, timeout=0.05)
    text = str(failed.value)
    assert text.splitlines()[:2] == [
        f"waited 0.05 s for 2 deliveries to {URL} answered 200, and none came",
        "The clock is frozen: what is due later needs clock.advance(...), not waiting.",
    ]
    assert "https://other.test/" in text


def test_a_world_that_ends_is_not_waited_for(server: Emulator) -> None:
    doomed = server.new_world(id="doomed", rate=1).start()
    with Emulator.connect(server.url, world="doomed") as other:
        ending = threading.Thread(target=doomed.close)
        ending.start()
        with pytest.raises(EmulatorError):
            other.wait_for(URL, timeout=loops.PATIENCE_S)
        ending.join()


def test_a_count_that_is_none_is_refused(running: Emulator) -> None:
    with pytest.raises(ValueError, match="count: expected at least 1, got 0"):
        running.wait_for(URL, count=0)
