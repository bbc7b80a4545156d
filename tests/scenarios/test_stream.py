"""The stream behind real servers: it comes as it happens, and ends as soon as either side goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from emulator.server import bootstrap, serving
from emulator.server.settings import Settings
from emulator.wire.control.event_stream import StreamEvent, StreamReader
from emulator.worlds.setup import DEFAULT
from emulator.worlds.world import World
from tests.harness.emulators import EPOCH
from tests.harness.loops import PATIENCE_S, on_loop

pytestmark = pytest.mark.slow

each_server = pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server on this event loop, a client of it, and what ends it."""

    world: World
    client: httpx.AsyncClient
    stop: asyncio.Event
    serving: asyncio.Task[None]

    async def publish(self) -> None:
        token = self.world.account().token
        answer = await self.client.post(
            "/v2/publish/https://api.test/hook", headers={"Authorization": f"Bearer {token}"}, content=b"hi"
        )
        assert answer.status_code == 200


@asynccontextmanager
async def running(server: str) -> AsyncIterator[Running]:
    emulation = await bootstrap.start(Settings(clock="frozen", epoch=EPOCH))
    listener = serving.listen("127.0.0.1", 0)
    url = serving.url_of(listener)
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(serving.serve(emulation.app, listener, server=server, stop=stop))
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
            yield Running(world=emulation.worlds.get(DEFAULT), client=client, stop=stop, serving=task)
    finally:
        stop.set()
        await task
        await emulation.close()


async def events(answer: httpx.Response) -> AsyncIterator[StreamEvent]:
    reader = StreamReader()
    async for line in answer.aiter_lines():
        if (event := reader.take(line)) is not None:
            yield event


@each_server
def test_events_come_one_by_one_and_nobody_watches_once_the_client_has_gone(server: str) -> None:
    @on_loop
    async def test() -> None:
        async with running(server) as emulator:
            async with emulator.client.stream("GET", "/_emulator/stream") as answer:
                told = events(answer)
                kinds = [(await anext(told)).kind]
                await emulator.publish()
                kinds += [(await anext(told)).kind for _ in range(4)]
                assert kinds == ["clock", "event", "event", "attempt", "event"]
                assert len(emulator.world.watches) == 1
            # The connection is closed, not kept: the answer had no end.
            while emulator.world.watches:  # noqa: ASYNC110  # nobody is told when the last one goes
                await asyncio.sleep(0)

    test()


@each_server
def test_a_server_that_stops_ends_its_streams_at_once_and_in_order(server: str) -> None:
    @on_loop
    async def test() -> None:
        async with running(server) as emulator, emulator.client.stream("GET", "/_emulator/stream") as answer:
            told = events(answer)
            await anext(told)
            emulator.stop.set()
            # Raises if the answer was cut off instead, as it is when it does not end in time.
            assert [event async for event in told] == []
            await emulator.serving
            assert not emulator.world.watches

    test()


@each_server
def test_a_stream_far_behind_is_read_to_its_end(server: str) -> None:
    @on_loop
    async def test() -> None:
        async with running(server) as emulator:
            body = {"by": "2d"}
            headers = {"Authorization": f"Bearer {emulator.world.account().token}", "Svc-Cron": "* * * * *"}
            await emulator.client.post("/v2/schedules/https://api.test/hook", headers=headers)
            async with emulator.client.stream("GET", "/_emulator/stream") as answer:
                told = events(answer)
                await anext(told)
                report = (await emulator.client.post("/_emulator/clock/advance", json=body)).json()
                numbers = []
                async for event in told:
                    data = json.loads(json.dumps(event.data))
                    if event.kind != "clock":
                        numbers.append(data["seq"])
                    elif data["now_ms"] == report["to_ms"]:
                        break
                assert numbers == list(range(1, 4 * report["deliveries"] + 1))

    test()
