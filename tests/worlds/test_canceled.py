"""Messages canceled while their attempt is in flight: however the world continues, they are not sent again (D-780)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from emulator.core.model.messages import OUTCOME_UNKNOWN
from emulator.worlds.setup import DEFAULT
from tests.harness import emulators, processes
from tests.harness.emulators import InProcess, Received, in_process
from tests.harness.loops import on_loop, spawn
from tests.harness.snapshots import export, import_snapshot, restore, save
from tests.harness.stores import connection_of
from tests.harness.workflow_runs import run_headers
from tests.worlds.registry.callers import HASTY, Caller, Gate, create, receiver

RUN = "wfr_one"
Cancel = Callable[[InProcess, str], Awaitable[int]]

# -- how a message is canceled ----------------------------------------------------------------


async def single(emulator: InProcess, message_id: str) -> int:
    return (await emulator.delete(f"/v2/messages/{message_id}")).status


async def bulk(emulator: InProcess, message_id: str) -> int:
    answer = await emulator.delete("/v2/messages")
    assert answer.json == {"cancelled": 1}
    return answer.status


async def by_queue(emulator: InProcess, message_id: str) -> int:
    return (await emulator.delete("/v2/queues/q")).status


async def by_run(emulator: InProcess, message_id: str) -> int:
    return (await emulator.delete(f"/v2/workflows/runs/{RUN}?cancel=true")).status


async def by_runs(emulator: InProcess, message_id: str) -> int:
    answer = await emulator.delete(f"/v2/workflows/runs?workflowRunIds={RUN}")
    assert answer.json == {"cancelled": 1}
    return answer.status


async def by_end_of_run(emulator: InProcess, message_id: str) -> int:
    return (await emulator.delete(f"/v2/workflows/runs/{RUN}?cancel=false", body=b'"done"')).status


async def publish(emulator: InProcess, url: str, cancel: Cancel) -> str:
    """A message that `cancel` ends, with retries left and both callbacks."""
    asked = {"Svc-Retries": "3", "Svc-Callback": f"{url}/callback", "Svc-Failure-Callback": f"{url}/failure"}
    if cancel in (by_run, by_runs, by_end_of_run):
        started = {**run_headers(RUN, init=True), "Svc-Workflow-Url": f"{url}/slow"}
        return await emulator.publish(f"{url}/slow", {**asked, **started})
    if cancel is by_queue:
        answer = await emulator.post(f"/v2/enqueue/q/{url}/slow", asked)
        message_id: str = answer.json["messageId"]
        return message_id
    return await emulator.publish(f"{url}/slow", asked)


# -- how the world continues ------------------------------------------------------------------

Continued = Caller
Continue = Callable[[InProcess, AsyncExitStack, Path], Awaitable[Continued]]


async def stopped(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    """From the checkpoint of its end."""
    await emulator.world.driver.close(grace_s=0)
    await emulator.emulation.close()
    return await _opened(stack, folder / "w.db")


async def killed(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    """From the facts after the first checkpoint."""
    with contextlib.closing(sqlite3.connect(folder / "killed.db")) as copied:
        (await connection_of(emulator.world._store)).backup(copied)
    return await _opened(stack, folder / "killed.db")


async def killed_after_a_checkpoint(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    await emulator.world._store.writer.between_writes(lambda: asyncio.sleep(0), after_checkpoint=True)
    return await killed(emulator, stack, folder)


async def _opened(stack: AsyncExitStack, db: Path) -> Continued:
    again = await stack.enter_async_context(in_process(db=str(db), limits=HASTY))
    return Caller(again, again.world)


async def restored(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    await save(emulator)
    await restore(emulator)
    return Caller(emulator, emulator.world)


async def imported(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    """In another world, from the file of a snapshot."""
    await save(emulator)
    other = await create(emulator.emulation.worlds, "other")
    assert (await import_snapshot(emulator, await export(emulator), world="other")).status == 201
    await restore(emulator, world="other")
    return Caller(emulator, other)


async def forked(emulator: InProcess, stack: AsyncExitStack, folder: Path) -> Continued:
    assert (await emulator.control("POST", f"/worlds/{DEFAULT}/fork", {"id": "forked"})).status == 201
    return Caller(emulator, emulator.emulation.worlds.get("forked"))


async def log_of(world: Continued, message_id: str) -> list[Any]:
    lines = [json.loads(line) for line in (await world.trace()).splitlines()]
    return [line for line in lines if line.get("kind") == "event" and line["message"] == message_id]


@pytest.mark.parametrize("cancel", [single, bulk, by_queue, by_run, by_runs, by_end_of_run])
@pytest.mark.parametrize("resume", [stopped, killed, killed_after_a_checkpoint, restored, imported, forked])
@on_loop
async def test_canceled_message_is_not_sent_again(tmp_path: Path, resume: Continue, cancel: Cancel) -> None:
    gate = Gate()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(receiver(gate))
        emulator = await stack.enter_async_context(in_process(db=str(tmp_path / "w.db"), limits=HASTY))
        message_id = await publish(emulator, url, cancel)
        await gate.entered.wait()
        assert await cancel(emulator, message_id) == 200

        world = await resume(emulator, stack, tmp_path)
        gate.opened.set()
        await world.world.driver.settle()
        await world.control("POST", "/clock/advance", {"by": "7d"})

        assert [path for path in gate.paths if path == "/slow"] == ["/slow"]
        log = await log_of(world, message_id)
        assert [each["state"] for each in log] == ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "CANCELED"]
        assert log[-1]["error"] == OUTCOME_UNKNOWN
        explained = await world.control("GET", f"/messages/{message_id}/explain")
        assert explained["state"] == "CANCELED"
        assert OUTCOME_UNKNOWN in explained["summary"]
        assert [each["kind"] for each in explained["reasons"]][-3:] == ["attempt", "cancel_requested", "canceled"]
        # No callback either.
        (delivery,) = await world.deliveries()
        assert (delivery["attempt"], delivery["error"], delivery["response"]) == (1, OUTCOME_UNKNOWN, None)
        assert (await world.control("GET", "/clock"))["pending"] == 0
        assert (await world.call("GET", "/v2/dlq")).json["messages"] == []


@pytest.mark.parametrize("resume", [stopped, killed, killed_after_a_checkpoint, restored, imported, forked])
@on_loop
async def test_redelivery_of_a_canceled_message_is_not_sent_again(tmp_path: Path, resume: Continue) -> None:
    gate = Gate()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(receiver(gate))
        emulator = await stack.enter_async_context(in_process(db=str(tmp_path / "w.db"), limits=HASTY))
        refusing = await emulator.rule(f"{url}/slow", respond={"status": 500})
        message_id = await emulator.publish(f"{url}/slow", {"Svc-Retries": "3", "Svc-Retry-Delay": str(3_600_000)})
        [first] = await emulator.deliveries()
        assert (await emulator.control("DELETE", f"/destinations/{refusing}")).status == 204
        redelivering = spawn(emulator.control("POST", f"/deliveries/{first['seq']}/redeliver"))
        await gate.entered.wait()
        assert await bulk(emulator, message_id) == 200

        world = await resume(emulator, stack, tmp_path)
        gate.opened.set()
        await world.world.driver.settle()
        await world.control("POST", "/clock/advance", {"by": "7d"})

        assert gate.paths == ["/slow"]
        [_, delivery] = await world.deliveries()
        assert (delivery["redelivery"], delivery["error"], delivery["response"]) == (1, OUTCOME_UNKNOWN, None)
        explained = await world.control("GET", f"/messages/{message_id}/explain")
        assert explained["state"] == "CANCELED"
        [text] = [each["text"] for each in explained["reasons"] if each["kind"] == "redelivery"]
        assert text == f"attempt 1 was sent again by a call and was abandoned: {OUTCOME_UNKNOWN}, which changes nothing"
        # Where the world that it was about still runs, it has its answer by now.
        redelivering.cancel()
        await asyncio.wait([redelivering])


@on_loop
async def test_fork_ends_its_copy_and_the_original_gets_its_outcome(tmp_path: Path) -> None:
    gate = Gate()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(receiver(gate))
        emulator = await stack.enter_async_context(in_process(limits=HASTY))
        message_id = await emulator.publish(f"{url}/slow")
        await gate.entered.wait()
        await single(emulator, message_id)
        fork = await forked(emulator, stack, tmp_path)
        gate.opened.set()
        await emulator.world.driver.settle()
        ends = [(await log_of(each, message_id))[-1]["state"] for each in (Caller(emulator, emulator.world), fork)]
        assert ends == ["DELIVERED", "CANCELED"]


@on_loop
async def test_undone_advance_does_not_send_a_canceled_message_again() -> None:
    """It was kept with the attempt in flight, which came back before the clock moved."""
    gate = Gate()
    async with receiver(gate) as url, in_process(limits=HASTY) as emulator:
        message_id = await emulator.publish(f"{url}/slow")
        await gate.entered.wait()
        await single(emulator, message_id)
        kept = asyncio.Event()
        keep = emulator.world._undoable.keep

        async def notify(store: Any) -> str:
            name = await keep(store)
            kept.set()
            return name

        emulator.world._undoable.keep = notify  # type: ignore[method-assign]  # to know when it was kept
        advance = spawn(emulator.control("POST", "/clock/advance", {"by": "1h", "undoable": True}))
        await kept.wait()
        gate.opened.set()
        assert (await advance).status == 200
        world = Caller(emulator, emulator.world)
        assert (await log_of(world, message_id))[-1]["state"] == "DELIVERED"

        assert (await emulator.control("POST", "/clock/undo")).status == 200
        await emulator.world.driver.settle()

        log = await log_of(world, message_id)
        assert (log[-1]["state"], log[-1]["error"]) == ("CANCELED", OUTCOME_UNKNOWN)
        assert gate.paths == ["/slow"]


# -- processes --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["frozen", "realtime"])
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_canceled_message_does_not_outlive_its_process(tmp_path: Path, how: str, clock: str) -> None:
    opened = threading.Event()

    def answer(_: Received) -> int:
        opened.wait(processes.PATIENCE_S)
        return 200

    with emulators.receiver(answer) as hook:
        options = ("--db", "w.db", "--clock", clock)
        with processes.serving(*options, folder=tmp_path) as server:
            ids = [
                _call(server, "POST", f"/v2/publish/{hook.url}/{name}")["messageId"] for name in ("kept", "canceled")
            ]
            for _ in range(2):
                _call(server, "POST", f"/v2/enqueue/q/{hook.url}/queued")
            # The second of the queue waits for the first.
            hook.wait_for(3)
            assert _call(server, "DELETE", f"/v2/messages/{ids[1]}") == {"cancelled": 1}
            _call(server, "DELETE", "/v2/queues/q")
            if how == "SIGKILL":
                server.kill()
            else:
                server.stop(signal.SIGTERM)
                assert server.exit_code == 0
        opened.set()
        with processes.serving(*options, folder=tmp_path) as server:
            assert sorted(request.path for request in hook.wait_for(4))[-1] == "/queued"
            explained = _call(server, "GET", f"/_emulator/messages/{ids[1]}/explain")
            assert (explained["state"], OUTCOME_UNKNOWN in explained["summary"]) == ("CANCELED", True)
            _call(server, "POST", "/_emulator/clock/advance", {"by": "7d"})
            server.stop(signal.SIGTERM)
        assert sorted(request.path for request in hook.requests) == ["/canceled", "/kept", "/kept", "/queued"]


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["frozen", "realtime"])
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_redelivery_of_a_canceled_message_does_not_outlive_its_process(tmp_path: Path, how: str, clock: str) -> None:
    opened = threading.Event()

    def answer(request: Received) -> int:
        if request.path == "/kept" or len(hook.requests) > 2:
            opened.wait(processes.PATIENCE_S)
        return 500

    with emulators.receiver(answer) as hook:
        options = ("--db", "w.db", "--clock", clock)
        retries = {"Svc-Retries": "3", "Svc-Retry-Delay": "3600000"}
        with processes.serving(*options, folder=tmp_path) as server:
            message_id = _call(server, "POST", f"/v2/publish/{hook.url}/canceled", headers=retries)["messageId"]
            _call(server, "POST", f"/v2/publish/{hook.url}/kept", headers=retries)
            hook.wait_for(2)
            recorded: list[Any] = []
            while not recorded:
                recorded = _call(server, "GET", f"/_emulator/deliveries?message_id={message_id}")["deliveries"]
            assert _call(server, "POST", f"/_emulator/deliveries/{recorded[0]['seq']}/redeliver")["delivery"] is None
            hook.wait_for(3)
            assert _call(server, "DELETE", "/v2/messages", {"messageIds": [message_id]}) == {"cancelled": 1}
            if how == "SIGKILL":
                server.kill()
            else:
                server.stop(signal.SIGTERM)
                assert server.exit_code == 0
        opened.set()
        with processes.serving(*options, folder=tmp_path) as server:
            hook.wait_for(4)
            explained = _call(server, "GET", f"/_emulator/messages/{message_id}/explain")
            assert explained["state"] == "CANCELED"
            assert [
                OUTCOME_UNKNOWN in each["text"] for each in explained["reasons"] if each["kind"] == "redelivery"
            ] == [True]
            server.stop(signal.SIGTERM)
        assert sorted(request.path for request in hook.requests) == ["/canceled"] * 2 + ["/kept"] * 2


def _call(
    server: processes.ServerProcess, method: str, path: str, body: object = None, headers: Mapping[str, str] = {}
) -> Any:
    token = next(value for name, value in server.variables.items() if name.endswith("_TOKEN"))
    headers = {"Authorization": f"Bearer {token}", **headers} | (
        {} if body is None else {"Content-Type": "application/json"}
    )
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(server.url + path, data, headers, method=method), timeout=processes.PATIENCE_S) as answer:
        content = answer.read()
    return json.loads(content) if content else None
