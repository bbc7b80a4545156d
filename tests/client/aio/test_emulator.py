"""The asynchronous Python API, on asyncio and on trio."""

from __future__ import annotations

import asyncio

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from emulator import AsyncEmulator, Emulator, Refused, Request, Unreachable
from tests.harness import emulators

URL = "https://app.test/hook"


pytestmark = pytest.mark.anyio


async def test_it_does_what_the_blocking_one_does() -> None:
    async with AsyncEmulator(epoch=emulators.EPOCH) as emu:
        await emu.destinations.respond(URL, 503, times=1)
        message_id = await emu.publish(URL, json={"user": 7}, headers={"Svc-Retry-Delay": "60000"})
        report = await emu.clock.advance("1h")
        assert (report.deliveries, report.succeeded) == (1, 1)
        deliveries = await emu.deliveries(message_id=message_id)
        assert [each.response and each.response.status for each in deliveries] == [503, 200]
        with pytest.raises(Refused):
            await emu.clock.advance("soon")
        async with emu.new_world(epoch=emulators.EPOCH) as world:
            assert await world.deliveries() == []
            assert (await world.clock.now()).isoformat() == "2026-01-01T00:00:00+00:00"
    with pytest.raises(Unreachable, match="not running"):
        await emu.deliveries()


async def test_a_mounted_application_runs_on_the_loop_of_the_test() -> None:
    here = anyio.lowlevel.current_token()
    seen: list[bool] = []

    async def hook(request: StarletteRequest) -> PlainTextResponse:
        seen.append(anyio.lowlevel.current_token() == here)
        return PlainTextResponse(await request.body())

    async def function(request: Request) -> str:
        seen.append(anyio.lowlevel.current_token() == here)
        return "done"

    async with AsyncEmulator() as emu:
        await emu.mount("https://app.test", Starlette(routes=[Route("/hook", hook, methods=["POST"])]))
        await emu.mount("https://function.test", function)
        await emu.mount("https://thread.test", lambda request: 201)
        for name in ("app", "function", "thread"):
            await emu.publish(f"https://{name}.test/hook", "hello")
        answers = [each.response for each in await emu.deliveries()]
        assert [(answer.status, answer.text) for answer in answers if answer] == [
            (200, "hello"),
            (200, "done"),
            (201, ""),
        ]
        await emu.unmount("https://app.test")
    assert seen == [True, True]


async def test_an_application_may_publish_while_it_answers() -> None:
    async with AsyncEmulator(epoch=emulators.EPOCH) as emu:

        async def function(request: Request) -> None:
            await emu.publish("https://other.example.com", headers={"Svc-Delay": "1m"})

        await emu.mount("https://app.test", function)
        await emu.publish(URL)
        await emu.clock.advance("1h")
        assert [each.url for each in await emu.deliveries()] == [URL, "https://other.example.com"]


async def test_the_world_of_a_blocking_emulator_can_be_awaited() -> None:
    with Emulator() as blocking:
        async with AsyncEmulator.sharing(blocking) as emu:
            await emu.publish(URL)
        # The block above did not end it.
        assert len(blocking.deliveries()) == 1


async def test_the_application_itself_can_be_called_from_any_loop() -> None:
    async with AsyncEmulator(epoch=emulators.EPOCH) as emu:
        transport = httpx.ASGITransport(emu.asgi)
        async with httpx.AsyncClient(transport=transport, base_url=emu.url) as client:
            answer = await client.post(
                f"/v2/publish/{URL}?a=1", content=b"hello", headers={"Authorization": f"Bearer {emu.token}"}
            )
            assert answer.status_code == 200
            trace = await client.get("/_emulator/trace")
            assert trace.text.count("\n") >= 4
        [delivery] = await emu.deliveries()
        assert (delivery.url, delivery.body) == (f"{URL}?a=1", b"hello")


async def test_a_caller_who_gives_up_ends_what_it_asked_for() -> None:
    async with AsyncEmulator(epoch=emulators.EPOCH) as emu:
        began, free = anyio.Event(), anyio.Event()

        async def hold(request: Request) -> None:
            began.set()
            await free.wait()

        await emu.mount("https://app.test", hold)
        await emu.publish(URL, headers={"Svc-Delay": "1m"})
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(emu.clock.advance, "1h")
                await began.wait()
                scope.cancel()
        free.set()
        # The advance is over: another one is not refused, and finishes what the first began.
        await emu.clock.advance("1h")
        assert len(await emu.deliveries()) >= 1


def test_a_mount_whose_event_loop_has_ended_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> int:
        return 200

    emu = AsyncEmulator()

    async def mount() -> None:
        await emu.start()
        await emu.mount("https://app.test", answer)

    async def publish() -> None:
        await emu.publish("https://app.test/", headers={"Svc-Retries": "0"})
        await emu.close()

    asyncio.run(mount())
    asyncio.run(publish())

    assert "could not be called: the event loop of the mounted application has ended" in caplog.text
