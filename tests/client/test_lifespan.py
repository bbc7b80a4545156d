"""Applications that know nothing of a lifespan, or end theirs early."""

from __future__ import annotations

from typing import Any

import pytest

from emulator import Emulator


async def respond(send: Any) -> None:
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def takes_everything_for_a_request(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await respond(send)


async def answers_at_once(scope: Any, receive: Any, send: Any) -> None:
    await respond(send)


async def passes_over_others(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await respond(send)


async def wants_requests(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await respond(send)


async def returns_after_its_start(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return
    await respond(send)


@pytest.mark.parametrize(
    "app",
    [
        takes_everything_for_a_request,
        answers_at_once,
        passes_over_others,
        wants_requests,
        returns_after_its_start,
    ],
)
def test_an_application_without_a_lifespan_is_mounted_and_not_waited_for(emu: Emulator, app: Any) -> None:
    emu.mount("https://app.test", app)
    emu.publish("https://app.test/hook")
    [delivery] = emu.deliveries()
    emu.unmount("https://app.test")
    assert (delivery.via, delivery.response and delivery.response.status) == ("mount", 201)


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


def test_an_application_that_tells_of_its_failure_is_not_mounted(emu: Emulator) -> None:
    with pytest.raises(RuntimeError, match="the application did not start: no database"):
        emu.mount("https://app.test", fails_to_start)
