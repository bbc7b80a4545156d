"""Statistics of a running emulator: what is done to it appears in the point of its minute, and nowhere else."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from emulator.core.commands import CreateSearchIndex
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.model.resources import IndexType
from emulator.core.record import AccountId, IndexId
from emulator.journal.meters import weight_of_answer, weight_of_request
from emulator.queries.history import DeliveryQuery
from emulator.wire.dialect import SVC
from emulator.wire.statistics import index_statistics_view, index_summary_view, queue_statistics_view, throughput_view
from emulator.worlds.world import World
from tests.harness.emulators import EPOCH_MS, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.workflow_runs import ANSWER, FLOW, Flow

MINUTE_MS = 60_000
DAY_MS = 86_400_000

URL = "https://api.example.com/hook"
SERIES = ("created", "active", "delivered", "error", "retry", "failed", "canceled")
# Noon on Saturday, 31 January 2026: a month's last day, with invented usage before and recorded after.
NOON_MS = EPOCH_MS + 30 * DAY_MS + DAY_MS // 2


async def statistics(emulator: InProcess, period: str | None = None) -> Any:
    return await queue_statistics(emulator.world, period)


async def queue_statistics(world: World, period: str | None) -> Any:
    """As the management API shows them."""
    await world.current_state()
    account_id = world.account().id
    workflows = await world.statistics.workflows(account_id, period)
    return queue_statistics_view(await world.statistics.queue_account(account_id, period), workflows, SVC)


def vector_statistics(world: World, index_id: IndexId, period: str | None) -> Any:
    return index_statistics_view(world.statistics.vector_index(index_id, period))


def search_statistics(world: World, index_id: IndexId, period: str | None) -> Any:
    return index_statistics_view(world.statistics.search_index(index_id, period))


def ys(points: Any) -> list[Any]:
    return [point["y"] for point in points]


def series(found: Any, name: str) -> list[Any]:
    [points] = [each["data_points"] for each in found["daily_queue_messages"] if each["id"] == name]
    return ys(points)


def changes(before: list[Any], after: list[Any]) -> dict[int, Any]:
    """By how much each point has changed, those that have not left out."""
    assert len(before) == len(after)
    return {place: new - old for place, (old, new) in enumerate(zip(before, after, strict=True)) if new != old}


async def publish(emulator: InProcess, count: int, delay: str = "0s") -> list[str]:
    return [await emulator.publish(URL, {"Svc-Delay": delay}, b"12345") for _ in range(count)]


# -- publishing 7 and cancelling 2 ------------------------------------------------------------


@on_loop
async def test_publishing_7_and_cancelling_2_changes_exactly_these_points() -> None:
    """Published at 12:00, two cancelled at 12:02, the other five delivered at 12:05; looked at at 12:07.

    The hour shows the minutes 11:08 to 12:07, so 12:00 is point 52, 12:02 is 54 and 12:05 is 57.
    """
    async with in_process(epoch=str(NOON_MS)) as emulator:
        await emulator.rule("*", respond={"status": 200, "body": "ok"})
        before_hour = await statistics(emulator)
        messages = await publish(emulator, 7, "5m")
        await emulator.advance("2m")
        for message_id in messages[:2]:
            assert (await emulator.delete(f"/v2/messages/{message_id}")).json == {"cancelled": 1}
        await emulator.advance("5m")
        hour, day = await statistics(emulator), await statistics(emulator, "1d")
        deliveries = (await emulator.world.history.deliveries(DeliveryQuery())).items
        await emulator.control("POST", "/reset")
        assert await statistics(emulator) == before_hour != hour

    # The hour before the epoch is invented, and it has moved on by seven minutes.
    expected: dict[str, dict[int, int]] = {
        "created": {52: 7},
        "canceled": {54: 2},
        "active": {57: 5},
        "delivered": {57: 5},
    }
    for name in SERIES:
        shifted = [*series(before_hour, name)[7:], *[0] * 7]
        assert changes(shifted, series(hour, name)) == expected.get(name, {}), name
    assert changes([*ys(before_hour["daily_used"])[7:], *[0] * 7], ys(hour["daily_used"])) == {52: 7}

    # What an attempt carries: its body, and the exchange (D-192).
    carried = sum(
        len(each.message.body) + weight_of_request(each.message) + weight_of_answer(each.outcome) for each in deliveries
    )
    bandwidth = [*ys(before_hour["daily_bandwidth_used"])[7:], *[0] * 7]
    assert changes(bandwidth, ys(hour["daily_bandwidth_used"])) == {57: carried}

    # In the month it is all the 31st; nothing else of the month has changed.
    assert changes(ys(before_hour["daily_requests"]), ys(hour["daily_requests"])) == {30: 7}
    assert changes(ys(before_hour["daily_bandwidths"]), ys(hour["daily_bandwidths"])) == {30: carried}
    assert ys(before_hour["daily_billings"]) == ys(hour["daily_billings"])
    assert hour["dlq_message_count"] == 0

    # In points of 24 minutes all of it is in the last, which began at 11:44.
    assert ys(day["daily_used"])[-1] == sum(series(before_hour, "created")[43:]) + 7
    assert series(day, "canceled")[-1] == sum(series(before_hour, "canceled")[43:]) + 2


@with_emulator()
async def test_a_failure_is_errors_a_retry_and_a_dead_letter(emulator: InProcess) -> None:
    await emulator.rule("*", respond={"status": 500})
    await emulator.publish(URL, {"Svc-Retries": "1", "Svc-Retry-Delay": "120000"})
    await emulator.advance("5m")
    found = await statistics(emulator)
    letters = (await emulator.get("/v2/dlq")).json["messages"]
    await emulator.delete(f"/v2/dlq/{letters[0]['dlqId']}")
    later = await statistics(emulator)

    # The epoch is five minutes ago: point 54; the second attempt was at 56.
    by_name = {name: {place: y for place, y in enumerate(series(found, name)) if y and place >= 54} for name in SERIES}
    assert by_name == {
        "created": {54: 1},
        "active": {54: 1, 56: 1},
        "delivered": {},
        "error": {54: 1, 56: 1},
        "retry": {54: 1},
        "failed": {56: 1},
        "canceled": {},
    }
    assert (found["dlq_message_count"], later["dlq_message_count"]) == (1, 0)
    assert series(later, "failed") == series(found, "failed")


# -- midnight and the end of the month --------------------------------------------------------


@on_loop
async def test_a_clock_that_crosses_midnight_and_the_months_end_rolls_the_days() -> None:
    async with in_process(epoch=str(NOON_MS)) as emulator:
        await emulator.rule("*", respond={"status": 200})
        january = await statistics(emulator)
        await publish(emulator, 3)
        last_minute = NOON_MS + DAY_MS // 2 - 1
        await emulator.control("PUT", "/clock", {"now": last_minute})
        before_midnight = await statistics(emulator)
        await emulator.advance(1)
        february = await statistics(emulator)
        await publish(emulator, 2)
        await emulator.advance("1d")
        second = await statistics(emulator)

    assert len(january["days"]) == len(january["daily_requests"]) == 31
    assert changes(ys(january["daily_requests"]), ys(before_midnight["daily_requests"])) == {30: 3}
    assert before_midnight["daily_requests"][30]["x"] == "2026-01-31 23:59:59.999000000 +0000 UTC"

    # At midnight every daily array is that of February, and empty so far.
    for name in ("days", "daily_requests", "daily_billings", "daily_bandwidths"):
        assert len(february[name]) == 28, name
    assert february["days"][0] == "Sunday"
    assert february["daily_requests"][0]["x"] == "2026-02-01 00:00:00.000000000 +0000 UTC"
    assert set(ys(february["daily_requests"])) == {0}
    assert ys(february["daily_billings"]) == [6.429, *[0] * 27]
    assert february["total_monthly_billing"] == 6.429
    # The minutes continue across midnight.
    assert ys(february["daily_used"])[:-1] == ys(before_midnight["daily_used"])[1:]

    assert ys(second["daily_requests"])[:3] == [2, 0, 0]
    assert second["daily_requests"][1]["x"] == "2026-02-02 00:00:00.000000000 +0000 UTC"
    assert second["total_monthly_billing"] == 12.857


@on_loop
async def test_the_days_of_indexes_roll_at_midnight() -> None:
    async with in_process(epoch=str(EPOCH_MS - 1)) as emulator:
        [index_id, *_] = emulator.world.state.vector_indexes
        before: Any = vector_statistics(emulator.world, index_id, None)
        await emulator.advance(1)
        after: Any = vector_statistics(emulator.world, index_id, None)

    assert before["days"] == ["Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
    assert after["days"] == ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday"]
    assert ys(after["daily_query_requests"])[:4] == ys(before["daily_query_requests"])[1:]
    assert after["daily_query_count"] == after["monthly_query_count"] < before["daily_query_count"]
    assert after["monthly_query_count"] == ys(after["daily_query_requests"])[-1]


# -- restarts, resets, the same again ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("period", ["1h", "1d", "30d"])
@on_loop
async def test_a_restart_in_the_middle_changes_nothing(tmp_path: Path, period: str) -> None:
    async def first_half(emulator: InProcess) -> None:
        await emulator.rule("*", respond={"status": 200})
        await publish(emulator, 5, "3m")
        await publish(emulator, 2)
        await emulator.advance("90s")

    async def second_half(emulator: InProcess) -> Any:
        await publish(emulator, 1)
        await emulator.advance("3m")
        indexes = [vector_statistics(emulator.world, each, period) for each in emulator.world.state.vector_indexes]
        return await statistics(emulator, period), indexes

    async with in_process(epoch=str(NOON_MS)) as through:
        await first_half(through)
        expected = await second_half(through)
    database = str(tmp_path / "w.db")
    async with in_process(epoch=str(NOON_MS), db=database) as emulator:
        await first_half(emulator)
        await statistics(emulator, period)
    async with in_process(db=database) as again:
        assert await second_half(again) == expected


@pytest.mark.slow
@on_loop
async def test_the_same_seed_gives_the_same_bytes_in_every_world() -> None:
    answers = []
    for seed in (7, 7, 8):
        async with in_process(epoch=str(NOON_MS), seed=seed) as emulator:
            answers.append(await answer_of(emulator, "30d"))
            created = await emulator.control("POST", "/worlds", {"seed": seed, "epoch": NOON_MS})
            twin = emulator.emulation.worlds.get(created.json["id"])
            assert await queue_statistics(twin, "30d") == await statistics(emulator, "30d")
    assert answers[0] == answers[1] != answers[2]


async def answer_of(emulator: InProcess, period: str) -> bytes:
    """The bytes over HTTP, of an account and of an index."""
    username, password = emulator.world.login
    headers = {"Authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}
    account = await emulator.get(f"/v2/queue/stats/{emulator.world.account().id}?period={period}", headers, token=None)
    [index_id, *_] = emulator.world.state.vector_indexes
    index = await emulator.get(f"/v2/vector/index/{index_id}/stats?period={period}", headers, token=None)
    assert account.status == index.status == 200
    return account.body + index.body


@on_loop
async def test_a_clock_that_is_set_back_before_use_takes_the_invented_past_with_it() -> None:
    """What is invented ends where the clock was set back to; what comes after is recorded."""
    async with in_process(epoch=str(NOON_MS)) as emulator:
        await emulator.control("PUT", "/clock", {"now": NOON_MS - 2 * DAY_MS})
        await emulator.rule("*", respond={"status": 200})
        await emulator.advance("10m")
        await publish(emulator, 4)
        found = await statistics(emulator)
        await emulator.advance("2d")
        later = await statistics(emulator, "3d")

    used = ys(found["daily_used"])
    assert min(used[:40]) > 0
    assert used[49:] == [0] * 10 + [4]
    # Nothing is made up for the two days that passed since.
    assert sum(ys(later["daily_used"])[20:]) < sum(used) * 24


# -- what the world answers -------------------------------------------------------------------


@with_emulator()
async def test_unknown_periods_and_ids_are_refused(emulator: InProcess) -> None:
    world, state = emulator.world, emulator.world.state
    [index_id, *_], [search_id, *_] = state.vector_indexes, state.search_indexes
    account_id, nobodys = world.account().id, IndexId("nobody's")
    found = world.statistics
    for unknown in (
        lambda: found.vector_index(nobodys, None),
        lambda: found.search_index(nobodys, None),
        lambda: found.search_throughput(nobodys),
    ):
        with pytest.raises(NotFound):
            unknown()
    with pytest.raises(NotFound):
        await found.queue_account(AccountId("nobody's"), None)
    for index, own_id in ((found.vector_index, index_id), (found.search_index, search_id)):
        with pytest.raises(InvalidInput, match="period"):
            index(own_id, "2h")
    with pytest.raises(InvalidInput, match="period"):
        await found.queue_account(account_id, "2h")


@on_loop
async def test_totals_of_the_answer_agree() -> None:
    async with in_process(epoch=str(NOON_MS)) as emulator:
        world = emulator.world
        account: Any = await statistics(emulator, "1d")
        index: Any = vector_statistics(world, next(iter(world.state.vector_indexes)), "12h")
        searches: list[Any] = [search_statistics(world, each, "1h") for each in world.state.search_indexes]
        throughputs: list[Any] = [
            throughput_view(world.statistics.search_throughput(each)) for each in world.state.search_indexes
        ]
        summary: Any = index_summary_view(world.statistics.search_summary())
        vectors: Any = index_summary_view(world.statistics.vector_summary())

    assert account["total_monthly_billing"] == pytest.approx(sum(ys(account["daily_billings"])))
    assert index["current_vector_count"] == ys(index["vector_count"])[-1]
    assert index["storage_usage"] == ys(index["data_size"])[-1]
    for kind in ("query", "update", "rerank"):
        assert index[f"daily_{kind}_count"] == ys(index[f"daily_{kind}_requests"])[-1]
    assert summary["record_count"] == sum(each["current_vector_count"] for each in searches)
    assert summary["billing"] == pytest.approx(sum(each["monthly_cost"] for each in searches))
    assert vectors["record_count"] >= index["current_vector_count"]
    for search, throughput in zip(searches, throughputs, strict=True):
        both = zip(ys(search["query_throughput"]), ys(search["update_throughput"]), strict=True)
        assert ys(throughput) == [queries + updates for queries, updates in both]


@with_emulator()
async def test_a_search_index_of_the_users_own_is_empty(emulator: InProcess) -> None:
    """D-193: nothing passes through the emulator to it."""
    command = CreateSearchIndex(customer_id="me@example.com", name="mine", region="eu-west-1", type=IndexType.PAYG)
    index = await emulator.world.submit(command)
    await emulator.advance("3d")
    found: Any = search_statistics(emulator.world, index.id, "30d")

    assert found["current_vector_count"] == found["monthly_query_count"] == found["storage_usage"] == 0
    assert set(ys(found["query_latency_99"])) == {0}


# -- workflow runs ----------------------------------------------------------------------------


@on_loop
async def test_workflow_figures_are_those_of_real_runs() -> None:
    """D-391. Four runs of 8 messages at 12:00, ended at 12:02 and looked at at 12:07."""
    async with in_process(epoch=str(NOON_MS)) as emulator:
        flows = [Flow(emulator, f"wfr_{number}") for number in range(4)]
        await emulator.rule(FLOW, respond=ANSWER, times=3)
        await emulator.rule(FLOW, respond={"status": 500}, times=1)
        for flow in flows:
            await flow.start(Svc_Retries="0")
        for flow in flows[:2]:
            await flow.step(1, "one")
            await flow.step(2, "two")
        await emulator.advance("2m")
        await flows[0].finish()
        await flows[1].cancel()
        await emulator.advance("5m")
        hour = await statistics(emulator)
        restarted = await statistics(emulator, "1d")

    def points(found: Any, name: str) -> dict[int, Any]:
        [series] = [each["data_points"] for each in found["daily_workflow_messages"] if each["id"] == name]
        return {place: y for place, y in enumerate(ys(series)) if y}

    assert {place: y for place, y in enumerate(ys(hour["daily_used_workflow"])) if y} == {52: 8}
    assert points(hour, "started") == {52: 4}
    assert points(hour, "failed") == {52: 1}
    assert points(hour, "success") == points(hour, "canceled") == {54: 1}
    today = hour["daily_requests"][30]
    assert (today["workflow_message"], today["workflow_run"]) == (8, 4)
    assert sum(ys(restarted["daily_used_workflow"])) == 8
