"""The previews: what is due later, and why a message is where it is, as the control API answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.emulators import EPOCH_MS, InProcess, in_process, receiver
from tests.harness.loops import on_loop

URL, DOWN = "https://api.test/hook", "https://down.test/hook"
HOUR = 3_600_000


async def upcoming(emulator: InProcess, query: str = "") -> Any:
    answer = await emulator.control("GET", f"/upcoming{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def explain(emulator: InProcess, message_id: str, query: str = "") -> Any:
    answer = await emulator.control("GET", f"/messages/{message_id}/explain{query}")
    assert answer.status == 200, answer.body
    return answer.json


def lines(explanation: Any) -> list[tuple[str, str]]:
    return [(reason["kind"], reason["text"]) for reason in explanation["reasons"]]


# -- what is due later ------------------------------------------------------------------------


@on_loop
async def test_everything_due_is_listed_and_nothing_of_it_done() -> None:
    async with in_process() as emulator:
        await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}})
        await emulator.rule("https://slow.test/*", respond={"latency": "5s"})
        await emulator.publish(DOWN, {"Svc-Retries": "3"})
        await emulator.publish("https://slow.test/", {"Svc-Deduplication-Id": "order-1"})
        await emulator.publish(URL, {"Svc-Delay": "1h"})
        for _ in range(3):
            await emulator.publish(URL, {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=2, period=1m"})
        await emulator.post(
            f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Europe/Berlin 30 9 * * *", "Svc-Schedule-Id": "daily"}
        )
        before = emulator.image()

        found = await upcoming(emulator)

        assert emulator.image() == before
        assert [(item["kind"], item["at_ms"] - EPOCH_MS) for item in found["items"]] == [
            ("answer", 5_000),
            ("retry", 10_000),
            ("rate_window", 60_000),
            ("message_expiry", 60_000),
            ("message_expiry", 60_000),
            ("deduplication_expiry", 600_000),
            ("delivery", HOUR),
            ("schedule", 8 * HOUR + HOUR // 2),
        ]
        assert found["items"][1]["why"] == "retry 1 of 3: Retry-After: 10 -> 10s"
        assert found["items"][-1]["local"] == "2026-01-01T09:30:00+01:00"
        assert [(wait["kind"], wait["name"], wait["earliest_ms"]) for wait in found["waiting"]] == [
            ("flow_control", "k", EPOCH_MS + 60_000)
        ]
        assert (found["now_ms"], found["until"], found["truncated"]) == (EPOCH_MS, None, False)


@on_loop
async def test_until_lists_every_firing_and_the_limit_says_that_there_are_more() -> None:
    """D-210."""
    async with in_process() as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "0 * * * *"})
        assert len((await upcoming(emulator))["items"]) == 1
        day = await upcoming(emulator, "?until=2026-01-02T00:00:00Z")
        assert [item["at_ms"] for item in day["items"]] == [EPOCH_MS + hour * HOUR for hour in range(1, 25)]
        assert (await upcoming(emulator, f"?until={EPOCH_MS + 2 * HOUR}"))["items"] == day["items"][:2]
        cut = await upcoming(emulator, "?until=2026-01-02&limit=3")
        assert (cut["items"], cut["truncated"]) == (day["items"][:3], True)


@on_loop
async def test_a_retry_shows_what_set_its_delay_whatever_that_was() -> None:
    async with in_process() as emulator:
        await emulator.rule(DOWN, respond={"status": 500})
        await emulator.publish(DOWN, {"Svc-Retry-Delay": "pow(2, retried) * 1000"})
        await emulator.publish(DOWN)
        await emulator.advance("1s")
        assert [
            (item["set_by"], item["arithmetic"], item["delay_ms"]) for item in (await upcoming(emulator))["items"]
        ] == [
            ("expression", "pow(2, retried) * 1000 with retried = 1 is 2000 ms -> 2s", 2_000),
            ("default", "default backoff min(86400, e^(2.5 * 1)) s -> 12s", 12_000),
        ]


@on_loop
async def test_a_clock_at_the_end_of_the_calendar_is_no_trouble() -> None:
    async with in_process(epoch="9999-12-31T12:00:00Z") as emulator:
        await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "CRON_TZ=Pacific/Kiritimati * * * * *"})
        await emulator.publish(URL, {"Svc-Delay": "1d"})
        found = await upcoming(emulator, "?until=9999-12-31T23:59:59Z")
        assert found["items"] == []


@pytest.mark.parametrize("query", ["?until=tomorrow", "?limit=0", "?untill=1", "?until=1&until=2"])
@on_loop
async def test_a_query_that_is_wrong_is_refused(query: str) -> None:
    async with in_process() as emulator:
        answer = await emulator.control("GET", f"/upcoming{query}")
        assert answer.status == 400
        assert answer.json["field"] == query[1:].partition("=")[0]


# -- why a message is where it is -------------------------------------------------------------


@on_loop
async def test_a_message_is_explained_from_its_publish_to_its_dead_letter() -> None:
    async with in_process() as emulator:
        busy = await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}}, times=1)
        down = await emulator.rule(DOWN, fault="refused")
        message_id = await emulator.publish(
            DOWN, {"Svc-Retries": "1", "Svc-Delay": "1m", "Svc-Failure-Callback": "https://cb.test/"}
        )
        await emulator.advance("1h")
        await emulator.control("DELETE", "/destinations")

        found = await explain(emulator, message_id)

        letter = (await emulator.get("/v2/dlq")).json["messages"][0]["dlqId"]
        callback = found["reasons"][-1]["message_id"]
        assert lines(found) == [
            ("created", f"published by 203.0.113.7 to {DOWN}"),
            ("delayed", "no attempt before 2026-01-01T00:01:00.000Z, a delay of 1m"),
            ("attempt", f"attempt 1 was answered 503 by {busy} ({DOWN})"),
            ("backoff", "retry 1 of 1 at 2026-01-01T00:01:10.000Z: Retry-After: 10 -> 10s"),
            ("attempt", f"attempt 2 failed: connection refused, as {down} ({DOWN}, fault refused) says"),
            ("failed", f"failed after 2 attempts: its retry is made; it is dead letter {letter}"),
            ("callback", f"the failure callback was published as {callback}"),
        ]
        assert (found["state"], found["message_id"]) == ("FAILED", message_id)
        assert found["summary"].startswith("Failed at 2026-01-01T00:01:10.000Z: attempt 2 failed: connection refused")
        assert lines(await explain(emulator, callback))[0] == (
            "created",
            f"published as the failure callback of {message_id} to https://cb.test/",
        )

        again = (await emulator.post(f"/v2/dlq/retry/{letter}")).json["messageId"]
        assert lines(await explain(emulator, message_id))[-1] == (
            "dead_letter_removed",
            f"the dead letter was published again as {again}",
        )
        assert (await explain(emulator, again))["reasons"][0]["dead_letter_id"] == letter


@on_loop
async def test_what_a_queue_does_not_apply_is_explained_in_the_dialects_words() -> None:
    """D-021."""
    async with in_process(dialect="upstash") as emulator:
        headers = {
            "Upstash-Delay": "1h",
            "Upstash-Flow-Control-Key": "k",
            "Upstash-Flow-Control-Value": "rate=1",
        }
        answer = await emulator.post(f"/v2/enqueue/q/{URL}", headers)
        assert lines(await explain(emulator, answer.json["messageId"]))[1] == (
            "not_applied",
            "Upstash-Delay, Upstash-Flow-Control-Key are not applied to a queued message",
        )


@on_loop
async def test_a_held_message_says_what_it_waits_for_and_later_how_long_it_did() -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
        await emulator.post("/v2/queues/q/pause")
        message_id = (await emulator.post(f"/v2/enqueue/q/{URL}")).json["messageId"]
        await emulator.advance("1m")

        waits = await explain(emulator, message_id)
        await emulator.post("/v2/queues/q/resume")
        ended = await explain(emulator, message_id)

        assert waits["state"] == "HELD"
        assert (
            waits["summary"]
            == "Is due and waits since 2026-01-01T00:00:00.000Z: queue q is paused; it is next in line."
        )
        assert ended["state"] == "DELIVERED"
        assert lines(ended)[1] == ("held", "held by queue q (paused) until 2026-01-01T00:01:00.000Z, for 1m")


@on_loop
async def test_a_deduplicated_publish_is_told_by_the_message_that_stands_for_it() -> None:
    """D-213."""
    async with in_process() as emulator:
        message_id = await emulator.publish(URL, {"Svc-Deduplication-Id": "order-1"})
        await emulator.advance("1m")
        assert (await emulator.post(f"/v2/publish/{URL}", {"Svc-Deduplication-Id": "order-1"})).status == 202
        assert lines(await explain(emulator, message_id))[1] == (
            "deduplication",
            "publishes with the key id:order-1 are answered with this message until 2026-01-01T00:10:00.000Z; "
            "1 was so far, last at 2026-01-01T00:01:00.000Z",
        )


@on_loop
async def test_who_answered_is_told_for_a_batch_a_group_and_a_schedule() -> None:
    async with in_process() as emulator:
        with receiver() as destination:
            await emulator.rule("https://front.test/*", forward_to=destination.url)
            await emulator.post("/v2/topics/g/endpoints", (), {"endpoints": [{"url": f"{destination.url}/hook"}]})
            await emulator.post(f"/v2/schedules/{URL}", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"})
            batch = [{"destination": "g"}, {"destination": "https://front.test/x"}]
            answers = (await emulator.post("/v2/batch", (), batch)).json
            await emulator.advance("1h")
            (scheduled,) = await emulator.deliveries(URL)
            explained = [
                lines(await explain(emulator, message_id))
                for message_id in (answers[0][0]["messageId"], answers[1]["messageId"], scheduled["message_id"])
            ]
        assert [each[:2] for each in explained] == [
            [
                (
                    "created",
                    f"published in a batch by 203.0.113.7 to URL group g, for its endpoint {destination.url}/hook",
                ),
                ("attempt", "attempt 1 was answered 200 by the destination"),
            ],
            [
                ("created", "published in a batch by 203.0.113.7 to https://front.test/x"),
                (
                    "attempt",
                    f"attempt 1 was answered 200 by rule_1 (https://front.test/*, forwarded to {destination.url})",
                ),
            ],
            [
                ("created", f"published by schedule hourly to {URL}"),
                (
                    "attempt",
                    "attempt 1 was answered 200 by the emulator, which captured it because the destination is external",
                ),
            ],
        ]


@on_loop
async def test_an_explanation_lasts_though_the_message_is_forgotten_by_the_service() -> None:
    """D-212."""
    async with in_process() as emulator:
        message_id = await emulator.publish(URL)
        await emulator.advance("400d")
        await emulator.control("DELETE", "/deliveries")
        assert (await emulator.get(f"/v2/messages/{message_id}")).status == 404
        assert (await explain(emulator, message_id))["state"] == "DELIVERED"


@on_loop
async def test_an_unknown_message_is_not_found_and_neither_is_one_of_another_world() -> None:
    async with in_process() as emulator:
        await emulator.control("POST", "/worlds", {"id": "w", "epoch": EPOCH_MS, "seed": 9})
        message_id = await emulator.publish(URL)
        for target in ("/messages/msg_nobody/explain", f"/messages/{message_id}/explain?world=w"):
            answer = await emulator.control("GET", target)
            assert (answer.status, answer.json["error"]) == (
                404,
                f"message {target.split('/')[2]} not found",
            )
        assert (await explain(emulator, message_id, "?world=default"))["state"] == "DELIVERED"
        await emulator.control("POST", "/reset")
        assert (await emulator.control("GET", f"/messages/{message_id}/explain")).status == 404


@on_loop
async def test_a_restored_world_explains_as_the_one_that_was_saved() -> None:
    async with in_process() as emulator:
        await emulator.rule(DOWN, respond={"status": 503})
        await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
        await emulator.post("/v2/queues/q/pause")
        failing = await emulator.publish(DOWN, {"Svc-Retries": "1"})
        held = (await emulator.post(f"/v2/enqueue/q/{URL}")).json["messageId"]
        before = [await explain(emulator, each) for each in (failing, held)]
        await emulator.control("POST", "/snapshots", {"name": "s"})
        await emulator.advance("1d")
        await emulator.control("POST", "/snapshots/s/restore")
        assert [await explain(emulator, each) for each in (failing, held)] == before


# -- schedules --------------------------------------------------------------------------------


@on_loop
async def test_a_schedule_is_explained() -> None:
    """D-263."""
    async with in_process() as emulator:
        await emulator.post("/v2/schedules/https://a.test/", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "s"})

        async def explained() -> Any:
            return (await emulator.control("GET", "/schedules/s/explain")).json

        async def limit(most: int) -> None:
            account_id = emulator.world.account().id
            await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_day_hard": most})

        assert (await explained())["summary"] == "Has not fired yet. It fires next at 2026-01-01T01:00:00.000Z."
        await emulator.advance("1h")
        fired = await explained()
        assert fired["summary"] == (
            "Fired last at 2026-01-01T01:00:00.000Z: it made 1 message. It fires next at 2026-01-01T02:00:00.000Z."
        )
        assert list(fired["reasons"][1]["messages"].values()) == ["SUCCESS"]
        await limit(0)
        await emulator.advance("1h")
        refusal = "quota maxRequestsPerDay exceeded, current limit: 0"
        refused = await explained()
        assert refused["summary"] == (
            f"Fired last at 2026-01-01T02:00:00.000Z: it made no message, {refusal}. It fires next at "
            f"2026-01-01T03:00:00.000Z. As things are, that would make no message: {refusal}."
        )
        assert lines(refused) == [
            ("created", "written by 203.0.113.7, to https://a.test/ at 0 * * * *"),
            ("refused", f"it made no message, {refusal}"),
            ("due", "it fires next"),
            ("would_be_refused", f"a firing now would make no message: {refusal}"),
        ]
        await limit(9)
        await emulator.post("/v2/schedules/s/pause")
        paused = await explained()
        assert (paused["paused"], paused["reasons"][-1]["kind"]) == (True, "paused")
        unknown = await emulator.control("GET", "/schedules/nobody/explain")
        assert (unknown.status, unknown.json) == (404, {"error": "schedule nobody not found"})
