"""Snapshots: saved and restored, in one world and in others."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulator.core.errors import Conflict, NotFound
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process, with_emulator
from tests.harness.loops import on_loop
from tests.harness.snapshots import (
    DAY,
    DOWN,
    HOOK,
    HOUR,
    SLOW,
    and_so_on,
    db_of,
    each_store,
    export,
    import_snapshot,
    much_of_everything,
    names,
    pieces,
    restore,
    save,
    state_of,
    told,
)
from tests.worlds.registry.callers import FAST, HASTY, Caller, Gate, by, create, delivered, receiver

# -- going on (D-201, D-202) ------------------------------------------------------------------


@pytest.mark.slow
@each_store
@on_loop
async def test_restored_world_goes_on_exactly_as_the_original(tmp_path: Path, is_file: bool) -> None:
    async with in_process(db=db_of(tmp_path, is_file=is_file)) as emulator:
        await much_of_everything(emulator)
        await save(emulator)
        before = await told(emulator), state_of(emulator)
        first = await and_so_on(emulator), state_of(emulator)

        await restore(emulator)
        assert (await told(emulator), state_of(emulator)) == before
        assert (await and_so_on(emulator), state_of(emulator)) == first
        # As often as one likes.
        await restore(emulator)
        assert (await and_so_on(emulator), state_of(emulator)) == first
        assert before[0][0].count(b'"kind":"attempt"') > 5
        assert first[0][-13] != before[0][0]


Step = Callable[[InProcess, random.Random], Awaitable[Answer | None]]


async def _publish(emulator: InProcess, chance: random.Random) -> Answer:
    headers = {
        "Svc-Retries": str(chance.randrange(4)),
        "Svc-Delay": f"{chance.choice((0, 0, 1, 90, 4000))}s",
        "Svc-Callback": chance.choice(("", f"{HOOK}/back", DOWN)),
        "Svc-Failure-Callback": chance.choice(("", f"{HOOK}/failed")),
        "Svc-Deduplication-Id": chance.choice(("", "", "one", "two")),
    }
    return await emulator.post(f"/v2/publish/{chance.choice((HOOK, DOWN, SLOW))}", headers, b"body")


async def _enqueue(emulator: InProcess, chance: random.Random) -> Answer:
    return await emulator.post(f"/v2/enqueue/{chance.choice('ab')}/{chance.choice((HOOK, DOWN, SLOW))}")


async def _limited(emulator: InProcess, chance: random.Random) -> Answer:
    value = chance.choice(("rate=1,period=5m", "parallelism=1", "rate=2,period=1h,parallelism=1"))
    headers = {"Svc-Flow-Control-Key": chance.choice("kl"), "Svc-Flow-Control-Value": value}
    return await emulator.post(f"/v2/publish/{chance.choice((HOOK, SLOW))}", headers)


async def _schedule(emulator: InProcess, chance: random.Random) -> Answer:
    cron = chance.choice(("*/7 * * * *", "0 * * * *", "CRON_TZ=Asia/Kathmandu 30 * * * *"))
    headers = {"Svc-Cron": cron, "Svc-Schedule-Id": chance.choice("xyz")}
    return await emulator.post(f"/v2/schedules/{chance.choice((HOOK, DOWN))}", headers)


async def _pause(emulator: InProcess, chance: random.Random) -> Answer:
    return await emulator.post(f"/v2/queues/{chance.choice('ab')}/{chance.choice(('pause', 'resume'))}")


async def _cancel(emulator: InProcess, chance: random.Random) -> Answer | None:
    pending = list(emulator.world.state.messages)
    return await emulator.delete(f"/v2/messages/{chance.choice(pending)}") if pending else None


async def _letters(emulator: InProcess, chance: random.Random) -> Answer:
    return await emulator.call(chance.choice(("DELETE", "GET")), "/v2/dlq")


async def _advance(emulator: InProcess, chance: random.Random) -> None:
    await emulator.advance(chance.choice((0, 1_000, 61_000, 600_000, HOUR)))


STEPS: tuple[Step, ...] = (_publish, _publish, _enqueue, _limited, _schedule, _pause, _cancel, _letters, _advance)


async def _walk(emulator: InProcess, chance: random.Random, steps: int) -> list[bytes]:
    answers = [await chance.choice(STEPS)(emulator, chance) for _ in range(steps)]
    return [answer.body for answer in answers if answer is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@on_loop
async def test_any_world_goes_on_exactly(tmp_path: Path, seed: int) -> None:
    async with in_process(db=db_of(tmp_path, is_file=seed % 2 == 1), seed=seed) as emulator:
        await emulator.rule(DOWN, sequence=[{"status": 500}, {"status": 503}, {"status": 200}, {"status": 500}])
        await emulator.rule(SLOW, respond={"status": 200, "latency": "3m"})
        await _walk(emulator, random.Random(seed), 25)
        await save(emulator)
        first = await _walk(emulator, random.Random(-seed), 25), await told(emulator), state_of(emulator)

        await restore(emulator)
        again = await _walk(emulator, random.Random(-seed), 25), await told(emulator), state_of(emulator)

        assert again == first


@with_emulator()
async def test_deliveries_that_were_cleared_stay_cleared_and_history_is_another_one(emulator: InProcess) -> None:
    await emulator.publish(HOOK)
    await emulator.control("DELETE", "/deliveries")
    await save(emulator)
    generation = await emulator.world.history.generation()
    await emulator.publish(HOOK)

    await restore(emulator)

    assert await emulator.world.history.generation() != generation
    assert await emulator.deliveries() == []
    await emulator.publish(HOOK)
    assert len(await emulator.deliveries()) == 1


# -- what is under way ------------------------------------------------------------------------


@pytest.mark.slow
@each_store
@on_loop
async def test_attempt_under_way_at_the_save_is_made_again(tmp_path: Path, is_file: bool) -> None:
    gate, db = Gate(), db_of(tmp_path, is_file=is_file)
    async with in_process(limits=HASTY, db=db) as emulator, receiver(gate) as url:
        await emulator.publish(f"{url}/slow")
        await gate.entered.wait()
        saved = await save(emulator)
        gate.opened.set()
        await emulator.world.driver.settle()
        first = (await emulator.control("GET", "/trace")).body

        await restore(emulator)
        await emulator.world.driver.settle()

        assert saved["pending"] == 1
        assert gate.paths == ["/slow", "/slow"]
        assert (await emulator.control("GET", "/trace")).body == first
        assert len(await emulator.deliveries()) == 1


@on_loop
async def test_no_snapshot_is_saved_or_restored_during_an_advance() -> None:
    gate = Gate()

    async with in_process() as emulator, receiver(gate) as url:
        await save(emulator)
        await emulator.publish(f"{url}/slow", {"Svc-Delay": "1h"})
        advance = asyncio.get_running_loop().create_task(emulator.world.clock.advance(by(DAY)))
        await gate.entered.wait()

        refused = [
            await emulator.control("POST", "/snapshots", {"name": "t"}),
            await emulator.control("POST", "/snapshots/s/restore"),
        ]
        gate.opened.set()

        assert [answer.status for answer in refused] == [409, 409]
        assert all("being advanced" in answer.json["error"] for answer in refused)
        assert (await advance).deliveries == 1
        assert await names(emulator) == ["s"]


# -- the clock --------------------------------------------------------------------------------


@with_emulator()
async def test_frozen_clock_stands_at_the_instant_of_the_snapshot_and_a_reset_at_the_beginning(
    emulator: InProcess,
) -> None:
    first = emulator.image()
    await emulator.advance("1h")
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})
    saved = await save(emulator)
    await emulator.advance("1d")

    restored = await restore(emulator)

    assert saved["created_ms"] == restored["clock"]["now_ms"] == EPOCH_MS + HOUR
    assert saved["created"] == "2026-01-01T01:00:00.000Z"
    assert emulator.world.pace.anchor.virtual_ms == EPOCH_MS + HOUR
    await emulator.control("POST", "/reset")
    assert emulator.image() == first
    assert await names(emulator) == ["s"]


@with_emulator(clock="realtime")
async def test_running_clock_goes_on_from_the_instant_of_the_snapshot(emulator: InProcess) -> None:
    saved = await save(emulator)
    await emulator.advance("30d")
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})

    restored = await restore(emulator)

    assert restored["clock"]["rate"] == 1
    assert 0 <= restored["clock"]["now_ms"] - saved["created_ms"] < DAY
    assert restored["clock"]["pending"] == 0


@on_loop
async def test_pending_work_of_a_restored_running_world_is_done_by_itself() -> None:
    async with in_process(clock=str(FAST)) as emulator:
        await emulator.control("PUT", "/clock", {"rate": 0})
        await emulator.publish(HOOK, {"Svc-Delay": "20s"})
        await save(emulator)
        await emulator.control("PUT", "/clock", {"rate": FAST})
        await delivered(emulator, 1)

        await restore(emulator)

        assert len(await delivered(emulator, 1)) == 1


@with_emulator(clock="realtime")
async def test_rate_is_that_of_the_world_and_not_of_the_snapshot(emulator: InProcess) -> None:
    await save(emulator)
    await emulator.control("PUT", "/clock", {"rate": 0})

    assert (await restore(emulator))["clock"]["rate"] == 0
    # What a reset restores is the world's own as well.
    assert (await emulator.control("POST", "/reset")).json["clock"]["rate"] == 1


# -- other worlds (D-203) ---------------------------------------------------------------------


@with_emulator()
async def test_own_snapshot_brings_back_the_tokens_of_the_save(emulator: InProcess) -> None:
    account = emulator.world.account()
    await save(emulator)
    await emulator.control("PUT", f"/accounts/{account.id}", {"token": "another"})
    assert emulator.emulation.worlds.by_token(account.token) is None

    restored = await restore(emulator)

    assert restored["credentials"]["queue"]["token"] == account.token
    assert emulator.emulation.worlds.by_token("another") is None
    await emulator.publish(HOOK)


@with_emulator()
async def test_token_that_another_world_has_by_now_is_a_conflict(emulator: InProcess) -> None:
    other = await create(emulator.emulation.worlds, "other")
    account = emulator.world.account()
    await save(emulator)
    assert (await names(emulator), await names(emulator, "other")) == (["s"], [])
    assert (await emulator.control("POST", "/snapshots/s/restore?world=other")).status == 404
    await emulator.control("PUT", f"/accounts/{account.id}", {"token": "mine"})
    await emulator.control("PUT", f"/accounts/{other.account().id}?world=other", {"token": account.token})
    before = emulator.image()

    refused = await emulator.control("POST", "/snapshots/s/restore")

    assert refused.status == 409
    assert "the world other has a token of the snapshot" in refused.json["error"]
    assert account.token not in refused.json["error"]
    assert emulator.image() == before
    found = emulator.emulation.worlds.by_token(account.token)
    assert found is not None
    assert found.world is other


async def _seeded(emulator: InProcess) -> bytes:
    """The file of a world that is a day old and has something to do."""
    await emulator.publish(HOOK, {"Svc-Delay": "2d"}, b"from afar")
    await emulator.advance("1d")
    await save(emulator, "seeded")
    return await export(emulator, "seeded")


@pytest.mark.slow
@pytest.mark.parametrize("is_same_server", [True, False], ids=["same server", "another server"])
@on_loop
async def test_snapshot_of_another_world_leaves_this_one_its_credentials(is_same_server: bool) -> None:
    async with in_process(seed=7) as origin:
        file = await _seeded(origin)
        expected = (await origin.control("GET", "/trace")).body
        async with contextlib.AsyncExitStack() as stack:
            host = origin if is_same_server else await stack.enter_async_context(in_process())
            callers = [Caller(host, await create(host.emulation.worlds, name, seed=3)) for name in ("a", "b")]
            for caller in callers:
                world, before = caller.world, caller.world.credentials()
                assert (await import_snapshot(host, file, "x", world.id)).status == 201
                restored = await restore(host, "x", world.id)

                after = world.credentials()
                assert restored["credentials"]["queue"]["token"] == before.token == after.token
                assert (after.read_only_token, after.current_signing_key, after.next_signing_key) == (
                    before.read_only_token,
                    before.current_signing_key,
                    before.next_signing_key,
                )
                assert (after.username, after.password) == (before.username, before.password)
                assert after.account_id == origin.world.account().id
                assert restored["clock"]["now_ms"] == EPOCH_MS + DAY
                assert await caller.trace() == expected
            for caller in callers:
                # Each continues by itself, and its token finds it.
                await caller.publish()
                await caller.world.clock.advance(by(DAY))
                assert [each["body"] for each in await caller.deliveries()] == ["", "from afar"]
            assert await origin.deliveries() == []

            token = callers[0].world.account().token
            await callers[0].world.reset()
            assert callers[0].world.account().token == token
            assert (await callers[0].world.clock.status()).now_ms == EPOCH_MS


@on_loop
async def test_reset_of_a_world_restored_from_anothers_snapshot_returns_to_that_ones_beginning() -> None:
    async with in_process(seed=7, epoch="2027-01-01", clock="realtime") as origin:
        await save(origin)
        file = await export(origin)
    async with in_process() as emulator:
        await import_snapshot(emulator, file)
        await restore(emulator)
        reset = (await emulator.control("POST", "/reset")).json

        # The rate is the world's own.
        assert (reset["clock"]["now"], reset["clock"]["rate"]) == ("2027-01-01T00:00:00.000Z", 0)
        assert reset["credentials"]["queue"]["token"] == emulator.token


@pytest.mark.slow
@on_loop
async def test_world_restored_from_anothers_snapshot_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with in_process(seed=7) as origin:
        file = await _seeded(origin)
    db = str(tmp_path / "w.db")
    async with in_process(db=db) as emulator:
        await import_snapshot(emulator, file)
        await restore(emulator)
        expected = emulator.image(), emulator.world.credentials(), emulator.world.setup
    async with in_process(db=db) as again:
        assert (again.image(), again.world.credentials(), again.world.setup) == expected
        await again.publish(HOOK)
        again_id = (await again.deliveries())[0]["message_id"]
        await again.control("POST", "/snapshots/s/restore")
        await again.publish(HOOK)
        assert (await again.deliveries())[0]["message_id"] == again_id


# -- names ------------------------------------------------------------------------------------


@with_emulator()
async def test_name_that_is_taken_is_a_conflict(emulator: InProcess) -> None:
    await emulator.publish(HOOK, {"Svc-Delay": "1h"})
    await save(emulator)
    await emulator.advance("1d")

    refused = await emulator.control("POST", "/snapshots", {"name": "s"})

    assert (refused.status, refused.json["error"]) == (
        409,
        "the snapshot s exists already; delete it first, or take another name",
    )
    assert (await restore(emulator))["clock"]["pending"] == 1
    assert (await emulator.control("DELETE", "/snapshots/s")).status == 204
    await save(emulator)


@with_emulator()
async def test_saves_of_one_name_at_once_are_one_save(emulator: InProcess) -> None:
    answers = await asyncio.gather(
        *(emulator.control("POST", "/snapshots", {"name": name}) for name in ("a", "a", "b", "a"))
    )

    assert sorted(answer.status for answer in answers) == [201, 201, 409, 409]
    assert await names(emulator) == ["a", "b"]


@pytest.mark.parametrize("name", ["..", ".hidden", "%2e%2e%2fw", "a%20b", "a" * 65])
@with_emulator()
async def test_name_never_leads_out_of_the_folder(emulator: InProcess, name: str) -> None:
    await save(emulator)
    for method, tail in (("DELETE", ""), ("POST", "/restore"), ("GET", "/file"), ("PUT", "/file")):
        answer = await emulator.control(method, f"/snapshots/{name}{tail}", b"x")
        assert answer.status in (400, 404)
    assert await names(emulator) == ["s"]


# -- without HTTP -----------------------------------------------------------------------------


@with_emulator()
async def test_there_are_no_snapshots_of_a_world_that_was_removed_and_none_that_were_not_saved(
    emulator: InProcess,
) -> None:
    worlds = emulator.emulation.worlds
    world = await create(worlds, "a")
    for look in (world.restore_snapshot("s"), world.snapshots.remove("s")):
        with pytest.raises(NotFound):
            await look
    await worlds.delete("a")
    for change in (world.save_snapshot("s"), world.restore_snapshot("s"), world.import_snapshot("s", pieces(b"x"))):
        with pytest.raises(Conflict):
            await change
