"""Counts of usage: right to the minute, summed up as they are written, exact through restarts and crashes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.core.language.calendar import DAY_MINUTES, DAY_MS, MINUTE_MS
from emulator.core.model.messages import AttemptOutcome, Response, Via
from emulator.core.record import AccountId, MessageId
from emulator.journal.meters import weight_of_answer, weight_of_request
from emulator.journal.usage import UsageHistory
from emulator.statistics.series import DEFAULT_PERIOD, PERIODS, Period, Recorded, Usage, Window
from emulator.wire.messaging.outgoing import request_headers, sign
from tests.delivery.samples import SVC, attempt
from tests.harness.loops import on_loop
from tests.harness.simulations import (
    ACCOUNT_ID,
    DAY,
    EPOCH_MS,
    HOUR,
    MINUTE,
    SECOND,
    by_url,
    callback,
    unreachable,
)
from tests.harness.stores import KeptWorld, crash, kept

DOWN = "https://down.example.com/"
ANSWERS = by_url({DOWN: unreachable()})
TODAY = EPOCH_MS // DAY_MS


async def usage_of(world: KeptWorld, period: Period = DEFAULT_PERIOD, account_id: str = ACCOUNT_ID) -> Recorded[Usage]:
    window = Window(now_ms=world._state.now_ms, period=period)
    return await UsageHistory(world.store).recorded(AccountId(account_id), window)


def some_of_everything(world: KeptWorld) -> None:
    world.publish("https://a.example.com/")
    world.publish(DOWN, max_retries=1, retry_delay="90000", failure_callback=callback("https://back.example.com/"))
    world.cancel(world.publish("https://a.example.com/", delay_ms=HOUR))
    world.run_for(10 * MINUTE)
    world.write_schedule("*/2 * * * *", "https://a.example.com/cron")
    world.run_for(HOUR)


async def recounted(world: KeptWorld) -> dict[int, Counter[str]]:
    """What the event log says happened in each minute: slow, and certainly right."""
    found: dict[int, Counter[str]] = {}
    for event in await world.events():
        found.setdefault(event.at_ms // MINUTE_MS, Counter())[event.state.value.lower()] += 1
    return found


def summed_up(by_minute: dict[int, Counter[str]], first: int, step: int) -> dict[int, Counter[str]]:
    """What happened in each of the parts of `step` minutes from the minute `first` on."""
    found: dict[int, Counter[str]] = {}
    for minute, counts in by_minute.items():
        if minute >= first:
            found.setdefault((minute - first) // step, Counter()).update(counts)
    for counts in found.values():
        counts.pop("cancel_requested", None)
    return found


def without_bytes(usage: Usage) -> dict[str, int]:
    names = ("created", "active", "delivered", "error", "retry", "failed", "canceled")
    return {name: count for name in names if (count := getattr(usage, name))}


@on_loop
async def test_every_row_counts_from_the_beginning_on() -> None:
    """D-401: what happened in a stretch of time is the difference of two rows, however long it is."""
    async with kept(answering=ANSWERS) as world:
        some_of_everything(world)
        by_minute = await recounted(world)
        rows = await world.store.rows("SELECT minute, created, delivered FROM usage_minutes ORDER BY minute", ())

    so_far: Counter[str] = Counter()
    expected = []
    for minute, counts in by_minute.items():
        so_far.update(counts)
        expected.append((minute, so_far["created"], so_far["delivered"]))
    assert [tuple(row) for row in rows] == expected


@on_loop
async def test_points_of_every_length_add_up_to_what_happened_in_them() -> None:
    """And days to what happened on them."""
    async with kept(answering=ANSWERS) as world:
        some_of_everything(world)
        # The boundaries lie at other minutes than the hour's.
        world.run_for(3 * DAY + 17 * MINUTE)
        by_minute = await recounted(world)
        for period in PERIODS.values():
            first = Window(now_ms=world._state.now_ms, period=period).first_minute
            found = await usage_of(world, period)
            points = summed_up(by_minute, first, period.step)
            assert points
            assert {index: without_bytes(usage) for index, usage in found.points.items()} == points
            days = summed_up(by_minute, 0, DAY_MINUTES)
            assert list(days) == [TODAY, TODAY + 1, TODAY + 2, TODAY + 3]
            assert {day: without_bytes(usage) for day, usage in found.days.items()} == days


@on_loop
async def test_every_attempt_carries_its_body_and_the_exchange() -> None:
    """D-192: the exchange to a few bytes, whatever of it took how long."""
    async with kept(answering=ANSWERS) as world:
        world.publish(DOWN, body=b"12345", max_retries=2, retry_delay="0")
        world.run_for(SECOND)
        found = await usage_of(world)
        world.publish("https://a.example.com/", body=b"1" * 10_000)
        world.run_for(SECOND)
        later = await usage_of(world)
        assert await usage_of(world, account_id="another") == Recorded(points={}, days={})

    assert found.points[59].bytes == 3 * 606
    assert later.points[59].bytes == 3 * 606 + 10_000 + 599


def test_an_exchange_weighs_what_http_would_send() -> None:
    headers = tuple((f"Header-{number}", "value " * number) for number in range(12))
    outcome = AttemptOutcome(
        response=Response(status=200, headers=headers, body=b"x" * 5_000),
        error=None,
        via=Via.NETWORK,
        request_headers=headers,
    )
    sent = sum(len(f"{name}: {value}\r\n") for name, value in headers)
    assert weight_of_answer(outcome) == 20 + sent + 5_000


@pytest.mark.parametrize("url", ["https://a.example.com/", "https://api.example.com/" + "a/long/path/" * 20])
def test_a_request_that_was_answered_inside_weighs_what_it_would_have(url: str) -> None:
    """D-192: its headers are made when they are read, and counted without being made."""
    headers = tuple((f"Header-{number}", "value " * number) for number in range(12))
    made = attempt(url, headers=headers)
    made = replace(made, message=replace(made.message, message_id=MessageId("msg_" + "x" * 53)))
    sent = request_headers(made, dialect=SVC, signature=sign(made, issuer="Svc", wall_ms=made.at_ms))
    weight = sum(len(f"{name}: {value}\r\n") for name, value in sent)
    assert weight * 0.97 <= weight_of_request(made.message) <= weight * 1.03


# -- restarts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closed", "killed", "killed after a checkpoint", "killed before history"])
@on_loop
async def test_a_restart_changes_no_count(tmp_path: Path, how: str) -> None:
    async with kept(answering=ANSWERS) as reference:
        some_of_everything(reference)
        reference.publish(DOWN, max_retries=3, retry_delay="60000")
        reference.run_for(HOUR)
        expected = await usage_of(reference, PERIODS["12h"])

    path = tmp_path / "w.db"
    async with kept(path, ANSWERS) as world:
        some_of_everything(world)
        if how == "killed":
            await world.store.writer.flush_history()
        if how == "killed after a checkpoint":
            await world.store.writer.checkpoint()
        # In the middle of a minute that has counts already, with a message under way.
        world.publish(DOWN, max_retries=3, retry_delay="60000")
        await world.store.writer.commit()
        if how != "closed":
            path = crash(path, tmp_path / "copy")

    async with kept(path, ANSWERS) as again:
        again.run_for(HOUR)
        assert await usage_of(again, PERIODS["12h"]) == expected


@on_loop
async def test_minutes_that_are_written_in_pieces_add_up() -> None:
    """History is written whenever somebody reads it, here after every step."""

    async def run(*, reading: bool) -> Recorded[Usage]:
        async with kept(answering=ANSWERS) as world:
            for _ in range(3):
                world.publish(DOWN, max_retries=1, retry_delay="1000")
                world.publish("https://a.example.com/")
                world.cancel(world.publish("https://a.example.com/", delay_ms=HOUR))
                world.run_for(5 * SECOND)
                if reading:
                    await usage_of(world)
            return await usage_of(world)

    found = await run(reading=True)
    assert found == await run(reading=False)
    assert without_bytes(found.points[59]) == {
        "created": 9,
        "active": 9,
        "delivered": 3,
        "error": 6,
        "retry": 3,
        "failed": 3,
        "canceled": 3,
    }


@on_loop
async def test_starting_over_forgets_all_counts() -> None:
    async with kept(answering=ANSWERS) as world:
        some_of_everything(world)
        assert (await usage_of(world)).days
        await UsageHistory(world.store).set_back(EPOCH_MS - DAY)
        store, state = await world.store.start_over({})
        world.store = store
        world._state = state
        assert await usage_of(world) == Recorded(points={}, days={})
        assert (await UsageHistory(store).beginning()).at_ms == EPOCH_MS


# -- where recording begins -------------------------------------------------------------------


@on_loop
async def test_recording_begins_at_the_epoch_or_where_the_clock_was_set_back_to(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    async with kept(path) as world:
        world.change_account(max_requests_per_day=5)
        world.run_for(DAY)
    async with kept(path) as again:
        usage = UsageHistory(again.store)
        assert (await usage.beginning()).at_ms == EPOCH_MS
        assert (await usage.beginning()).accounts[ACCOUNT_ID].max_requests_per_day == 1_000_000
        await usage.set_back(EPOCH_MS - 2 * DAY)
        await usage.set_back(EPOCH_MS - DAY)
        assert (await usage.beginning()).at_ms == EPOCH_MS - 2 * DAY
    async with kept(path) as again:
        assert (await UsageHistory(again.store).beginning()).at_ms == EPOCH_MS - 2 * DAY
