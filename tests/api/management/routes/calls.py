"""Calls of the management API, for its tests."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.harness.emulators import Answer, Headers, InProcess

GOOD = {"name": "mySearchIndex", "region": "eu-west-1", "type": "payg"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
POINT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3,9} \+0000 UTC")

# Every operation: route, methods, and a target whose subject does not exist where it names one.
OPERATIONS = {
    "/v2/search": (("GET", "POST"), "/v2/search"),
    "/v2/search/stats": (("GET",), "/v2/search/stats"),
    "/v2/search/{name}": (("GET", "DELETE"), "/v2/search/nope"),
    "/v2/search/{name}/stats": (("GET",), "/v2/search/nope/stats"),
    "/v2/search/{name}/reset-password": (("POST",), "/v2/search/nope/reset-password"),
    "/v2/search/{name}/transfer": (("POST",), "/v2/search/nope/transfer"),
    "/v2/search/{name}/rename": (("POST",), "/v2/search/nope/rename"),
    "/v2/vector/index/stats": (("GET",), "/v2/vector/index/stats"),
    "/v2/vector/index/{name}/stats": (("GET",), "/v2/vector/index/nope/stats"),
    "/v2/queue/user": (("GET",), "/v2/queue/user"),
    "/v2/queue/users": (("GET",), "/v2/queue/users"),
    "/v2/queue/user/{name}": (("GET",), "/v2/queue/user/nope"),
    "/v2/queue/stats/{name}": (("GET",), "/v2/queue/stats/nope"),
    "/v2/queue/rotate-token/{name}": (("POST",), "/v2/queue/rotate-token/nope"),
    "/v2/queue/set-plan/{name}": (("POST",), "/v2/queue/set-plan/nope"),
    "/v2/queue/update-budget/{name}": (("PATCH",), "/v2/queue/update-budget/nope"),
    "/v2/queue/move-to-team": (("POST",), "/v2/queue/move-to-team"),
    "/v2/queue/enable-prodpack/{name}": (("POST",), "/v2/queue/enable-prodpack/nope"),
    "/v2/queue/disable-prodpack/{name}": (("POST",), "/v2/queue/disable-prodpack/nope"),
}
CALLS = [(method, target) for methods, target in OPERATIONS.values() for method in methods]
# A body that is right for every operation at once.
BODY = {**GOOD, "target_account": "x", "plan_name": "paid", "budget": 20, "queue_id": "nope", "target_team_id": "t"}


def basic(login: tuple[str, str]) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())


async def manage(
    emulator: InProcess, method: str, target: str, body: object = b"", headers: Headers = (), *, world: str = "default"
) -> Answer:
    """A management call of the owner of a world."""
    login = emulator.emulation.worlds.get(world).login
    pairs = [*(headers.items() if isinstance(headers, dict) else headers), basic(login)]
    return await emulator.call(method, target, pairs, body, token=None)


async def get(emulator: InProcess, target: str) -> Any:
    answer = await manage(emulator, "GET", target)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return answer.json


async def post(emulator: InProcess, target: str, body: object = b"") -> Any:
    answer = await manage(emulator, "POST", target, body)
    assert answer.status == 200, answer.body
    return answer.json
