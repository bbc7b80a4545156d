"""Worlds with clocks that run."""

from __future__ import annotations

import itertools
from typing import Any

from emulator.core.model.messages import Response, Via
from emulator.delivery.mounts import MountedRequest
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.worlds.registry.callers import DAY, FAST, HOOK, HOUR, MINUTE, SECOND, Caller, delivered


@on_loop
async def test_delays_retries_schedules_and_latencies_pass_by_themselves() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        await emulator.rule("https://down.test/", respond={"status": 503})
        await emulator.rule("https://slow.test/", respond={"status": 200, "latency": "5s"})
        before_ms = (await emulator.world.clock.status()).now_ms
        await emulator.publish(HOOK, {"Svc-Delay": "20s"})
        await emulator.publish("https://down.test/", {"Svc-Retries": "2", "Svc-Retry-Delay": "10000"})
        await emulator.publish("https://slow.test/")
        await Caller(emulator, emulator.world).schedule("* * * * *", "https://cron.test/")
        found: dict[str, list[Any]] = {}
        while len(found.get("https://cron.test/", ())) < 3 or len(found) < 4 or len(found["https://down.test/"]) < 3:
            found = {}
            for each in await delivered(emulator, 8):
                found.setdefault(each["url"], []).append(each)

        (delayed,) = found[HOOK]
        assert delayed["via"] == Via.CAPTURE
        assert before_ms + 20 * SECOND <= delayed["at_ms"] <= (await emulator.world.clock.status()).now_ms
        retried = [each["at_ms"] for each in found["https://down.test/"]]
        assert all(later - earlier >= 10 * SECOND for earlier, later in itertools.pairwise(retried))
        assert [each["duration_ms"] for each in found["https://slow.test/"]] == [5 * SECOND]
        first, second, third, *_ = [each["at_ms"] for each in found["https://cron.test/"]]
        assert first % MINUTE == 0
        assert (second - first, third - second) == (MINUTE, MINUTE)


@with_emulator()
async def test_clock_can_be_unfrozen_and_frozen_again(emulator: InProcess) -> None:
    await emulator.publish(HOOK, {"Svc-Delay": "10s"})
    await emulator.control("PUT", "/clock", {"rate": FAST})
    await delivered(emulator, 1)

    frozen = (await emulator.control("PUT", "/clock", {"rate": 0})).json
    await emulator.publish(HOOK, {"Svc-Delay": "1s"})

    assert frozen["rate"] == 0
    assert frozen["now_ms"] >= EPOCH_MS + 10 * SECOND
    assert (await emulator.control("GET", "/clock")).json["now_ms"] == frozen["now_ms"]
    assert len(await emulator.deliveries()) == 1
    await emulator.advance("1s")
    assert len(await emulator.deliveries()) == 2


@on_loop
async def test_running_clock_can_be_set_back_and_runs_on_or_set_and_frozen() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        back = (await emulator.control("PUT", "/clock", {"now": EPOCH_MS - 30 * DAY})).json
        assert EPOCH_MS - 30 * DAY <= back["now_ms"] < EPOCH_MS
        frozen = (await emulator.control("PUT", "/clock", {"rate": 0, "now": EPOCH_MS + 365 * DAY})).json
        assert frozen["now_ms"] == EPOCH_MS + 365 * DAY


@with_emulator(clock="realtime")
async def test_advance_of_a_running_clock_does_the_work_on_the_way(emulator: InProcess) -> None:
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})

    report = await emulator.advance("2h")
    nothing = await emulator.advance(0)

    assert report["deliveries"] == 1
    assert report["to_ms"] - report["from_ms"] == 2 * HOUR
    assert nothing["from_ms"] == nothing["to_ms"] >= report["to_ms"]


@with_emulator(max_attempts_per_instant=50)
async def test_message_that_is_retried_without_delay_or_end_is_held_by_its_account(emulator: InProcess) -> None:
    """No plan allows that, but the record of an account can be changed."""
    account = emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account}", {"max_retries": 1_000_000})
    await emulator.rule("https://down.test/", fault="refused")
    endless = {"Svc-Retries": "1000000", "Svc-Retry-Delay": "0"}
    await emulator.publish("https://down.test/", endless)

    report = await emulator.advance("1h")

    assert report["to_ms"] == EPOCH_MS + HOUR
    assert "was retried without a delay more than 50 times" in report["held"][0]["why"]
    deliveries = (await emulator.control("GET", "/deliveries?limit=1&count=true")).json["count"]["attempts"]
    assert deliveries == 1_050
    # It is cancelled like any other, and everything continues.
    [message] = emulator.world.state.messages
    assert (await emulator.delete(f"/v2/messages/{message}")).status == 200
    assert "held" not in await emulator.advance("1h")


@with_emulator(max_attempts_per_instant=3)
async def test_a_message_whose_attempt_was_withdrawn_is_explained_with_the_attempt_that_left(
    emulator: InProcess,
) -> None:
    is_mended = False

    async def receive(_: MountedRequest) -> Response:
        for _time in range(0 if is_mended else 3):
            await emulator.publish(HOOK)
        return Response(status=200, headers=(), body=b"")

    emulator.world.transport.mount(HOOK.rpartition("/")[0], receive)
    await emulator.publish(HOOK, {"Svc-Delay": "1s"})
    [held] = (await emulator.advance("1m"))["held"]
    events = (await emulator.get("/v2/events?state=ACTIVE&count=1000")).json["events"]
    live = set(emulator.world.state.messages)
    withdrawn = [each["messageId"] for each in events if each["messageId"] in live - {held["message_id"]}]
    waits = (await emulator.control("GET", f"/messages/{withdrawn[0]}/explain")).json
    assert [each["kind"] for each in waits["reasons"]] == ["created", "held"]
    assert waits["summary"].endswith(f"until message {held['message_id']} is deleted, or the world is reset.")

    is_mended = True
    assert (await emulator.delete(f"/v2/messages/{held['message_id']}")).status == 200
    await emulator.world.driver.settle()

    explained = (await emulator.control("GET", f"/messages/{withdrawn[0]}/explain")).json
    assert [each["kind"] for each in explained["reasons"]] == ["created", "held", "attempt", "delivered"]
    assert explained["reasons"][1]["text"].startswith("held by destination https://api.example.com (loop) until ")
