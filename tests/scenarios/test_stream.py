"""The stream behind real servers: it comes as it happens, and ends as soon as either side goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from emulator.engine.limits import Limits
from emulator.server import bootstrap, serving
from emulator.server.settings import Settings
from emulator.wire.event_stream import StreamEvent, StreamReader
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
async def running(server: str, limits: Limits | None = None) -> AsyncIterator[Running]:
    emulation = await bootstrap.start(Settings(clock="frozen", epoch=EPOCH), limits=limits)
    listener = serving.listen("127.0.0.1", 0)
    url = serving.url_of(listener)
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(serving.serve(emulation.app, listener, server=server, stop=stop))
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=PATIENCE_S) as client:
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
            while emulator.world.watches:  # noqa: ASYNC110  # nothing signals the last one
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
            body = {"by": "1d"}
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


# -- followers that do not read ---------------------------------------------------------------


def _idle_follower(port: int) -> socket.socket:
    """A client that asks for the stream and takes hardly anything of it."""
    follower = socket.socket()
    follower.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    follower.connect(("127.0.0.1", port))
    follower.sendall(b"GET /_emulator/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return follower


async def _watched_by(emulator: Running, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(emulator.world.watches) != count:  # noqa: ASYNC110  # nothing signals it
            await asyncio.sleep(0.01)


async def _publish_much(emulator: Running) -> None:
    """More than the buffers of the operating system hold for one connection."""
    headers = {"Authorization": f"Bearer {emulator.world.account().token}"}
    for _ in range(24):
        answer = await emulator.client.post(
            "/v2/publish/https://api.test/hook", headers=headers, content=b"x" * 1_000_000
        )
        assert answer.status_code == 200


@each_server
def test_a_follower_that_takes_nothing_is_cut_off(server: str) -> None:
    """D-563: the others get everything, and the client that was cut off finds the rest behind its last id."""

    @on_loop
    async def test() -> None:
        async with running(server, Limits(stalled_s=1.0)) as emulator:
            port = emulator.client.base_url.port
            assert port is not None
            with contextlib.closing(_idle_follower(port)):
                await _watched_by(emulator, 1)
                await _publish_much(emulator)
                await _watched_by(emulator, 0)
            async with emulator.client.stream("GET", "/_emulator/stream?from=start&follow=false") as answer:
                kinds = [event.kind async for event in events(answer)]
            assert kinds.count("attempt") == 24

    test()


@each_server
def test_a_server_with_followers_that_take_nothing_ends_without_a_word(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    @on_loop
    async def test() -> None:
        with contextlib.ExitStack() as followers:
            async with running(server) as emulator:
                port = emulator.client.base_url.port
                assert port is not None
                for _ in range(3):
                    followers.enter_context(contextlib.closing(_idle_follower(port)))
                await _watched_by(emulator, 3)
                await _publish_much(emulator)
                emulator.stop.set()
                await emulator.serving

    test()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
