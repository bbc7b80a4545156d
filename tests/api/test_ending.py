"""The answer to a call that the end of the server cuts off: D-291."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from starlette.responses import Response

from emulator.api.ending import Ending
from tests.harness.emulators import http_scope, in_process
from tests.harness.loops import on_loop


def body_of(answer: Response) -> Any:
    return json.loads(bytes(answer.body))


@pytest.mark.parametrize(
    ("target", "header", "where"),
    [
        pytest.param("/_emulator/clock", "", ", the clock stands at 2026-01-01T00:00:00.000Z", id="default world"),
        pytest.param("/_emulator/clock?world=b", "", ", the clock stands at 2027-01-01T00:00:00.000Z", id="named"),
        pytest.param("/_emulator/clock?world=c", "", "", id="no world"),
        pytest.param("/v2/logs", "Bearer {token}", ", the clock stands at 2027-01-01T00:00:00.000Z", id="token"),
        pytest.param("/v2/logs?queue_token={token}", "", ", the clock stands at 2027-01-01T00:00:00.000Z", id="query"),
        pytest.param("/v2/search", "Basic {login}", ", the clock stands at 2027-01-01T00:00:00.000Z", id="login"),
        pytest.param("/v2/logs", "Bearer nobody", "", id="token of nobody"),
        pytest.param("/v2/logs?queue_token=a&queue_token=b", "", "", id="two tokens"),
        pytest.param("/v2/logs", "", "", id="no token"),
    ],
)
@on_loop
async def test_it_says_where_the_clock_of_the_callers_world_stands(target: str, header: str, where: str) -> None:
    async with in_process() as emulator:
        await emulator.control("POST", "/worlds", {"id": "b", "epoch": "2027-01-01"})
        world = emulator.emulation.worlds.get("b")
        token, login = world.account().token, base64.b64encode(":".join(world.login).encode()).decode()
        names = {"token": token, "login": login}
        headers = [("Authorization", header.format(**names))] if header else []
        scope = http_scope("GET", target.format(**names).encode(), headers, "127.0.0.1")

        answer = Ending(emulator.emulation.worlds).answer(scope)

        assert (answer.status_code, body_of(answer)) == (503, {"error": f"the server is stopping{where}"})
