"""Worlds and their users, for the tests of the registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from emulator.engine.limits import Limits
from emulator.queries.reports import AdvanceRequest
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, asgi_call

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
HOOK = "https://api.example.com/hook"
# Fast enough that no test waits for a clock.
FAST = 100_000
# No call waits for receivers that answer only when a test lets them.
HASTY = Limits(settle_s=0.001)


async def create(worlds: Worlds, world_id: str = "", **wanted: Any) -> World:
    return await worlds.create(
        replace(worlds.new_setup(), **{"id": world_id, "epoch_ms": EPOCH_MS, "epoch_is_given": True, **wanted})
    )


def by(duration_ms: int) -> AdvanceRequest:
    return AdvanceRequest(by_ms=duration_ms, to_ms=None)


class Caller:
    """A user of one world, through the application."""

    def __init__(self, emulator: InProcess, world: World) -> None:
        self._app = emulator.emulation.app
        self.world = world

    async def call(self, method: str, target: str, headers: dict[str, str] | None = None, body: Any = b"") -> Answer:
        pairs = {"Host": "127.0.0.1", "Authorization": f"Bearer {self.world.account().token}", **(headers or {})}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await asgi_call(self._app, method, target.encode(), list(pairs.items()), content, "127.0.0.1")

    async def publish(self, url: str = HOOK, headers: dict[str, str] | None = None) -> str:
        answer = await self.call("POST", f"/v2/publish/{url}", headers)
        assert answer.status == 200, answer.body
        message_id: str = answer.json["messageId"]
        return message_id

    async def schedule(self, cron: str, url: str = HOOK) -> None:
        answer = await self.call("POST", f"/v2/schedules/{url}", {"Svc-Cron": cron})
        assert answer.status in (200, 201), answer.body

    async def control(self, method: str, target: str, body: Any = b"") -> Any:
        separator = "&" if "?" in target else "?"
        answer = await self.call(method, f"/_emulator{target}{separator}world={self.world.id}", None, body)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    async def deliveries(self) -> list[Any]:
        found: list[Any] = (await self.control("GET", "/deliveries?limit=1000"))["deliveries"]
        return found

    async def trace(self) -> bytes:
        answer = await self.call("GET", f"/_emulator/trace?world={self.world.id}")
        return answer.body


async def delivered(emulator: InProcess, count: int, world: World | None = None) -> list[Any]:
    """The deliveries of a world, once there are so many; the clock runs by itself meanwhile."""
    arrived = asyncio.Event()
    wanted = emulator.world if world is None else world

    def observe(of: World, *_: object) -> None:
        if of is wanted:
            arrived.set()

    worlds = emulator.emulation.worlds
    worlds.observers.append(observe)
    caller = Caller(emulator, wanted)
    try:
        while True:
            # Before looking: what comes meanwhile is seen, or wakes us.
            arrived.clear()
            if len(found := await caller.deliveries()) >= count:
                return found
            await arrived.wait()
    finally:
        worlds.observers.remove(observe)


class Gate:
    """A handler for `receiver` that notes who came, and answers 200 once it is opened."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, path: str, _body: bytes) -> int:
        self.paths.append(path)
        self.entered.set()
        await self.opened.wait()
        return 200


@asynccontextmanager
async def receiver(handle: Any) -> AsyncIterator[str]:
    """A real receiver on this event loop; `handle` is awaited for every request before it is answered."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode().split("\r\n")
                length = next(
                    (int(v) for n, _, v in (x.partition(":") for x in lines) if n.lower() == "content-length"), 0
                )
                body = await reader.readexactly(length)
                status = await handle(lines[0].split(" ")[1], body)
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
