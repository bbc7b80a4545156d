"""Scenarios in which operations answer, each answer held against the contracts."""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from tests.contracts.conformance import check_response
from tests.contracts.documents import Operation, all_operations, operations
from tests.harness.emulators import Answer, Headers, InProcess, in_process

URL = "https://api.test/hook"
DOWN = "https://down.test/hook"
UUID = "99a4c327-31f0-490f-a594-043ade84085a"
TOO_LARGE = str(100 * 1024 * 1024 + 1)

Met = set[tuple[str, int]]


class Checked:
    """An emulator whose responses are checked; `met` collects which operations answered with which status."""

    def __init__(self, emulator: InProcess) -> None:
        self.emulator = emulator
        self.met: Met = set()

    async def call(
        self, method: str, target: str, headers: Headers = (), body: object = b"", *, token: str | None = ""
    ) -> Answer:
        """A call of the messaging API, or with `token` None of any."""
        answer = await self.emulator.call(method, target, headers, body, token=token)
        self.met.add((check_response(method, target, answer.status, answer.headers, answer.body), answer.status))
        return answer

    async def ask(self, api: str, method: str, target: str, headers: Headers = (), body: object = b"") -> Answer:
        """A call of any API with the world's own credentials."""
        given = dict(headers)
        if api == "management":
            given = {"Authorization": basic(*self.emulator.world.login), **given}
        return await self.call(method, target, given, body, token="" if api == "messaging" else None)

    async def manage(self, method: str, target: str, body: object = b"") -> Answer:
        return await self.ask("management", method, target, (), body)

    async def control(self, method: str, target: str, body: object = b"", headers: Headers = ()) -> Answer:
        return await self.ask("control", method, f"/_emulator{target}", headers, body)

    async def of(self, operation: Operation, headers: Headers = (), query: str = "") -> Answer:
        """A call of an operation with good credentials, with the contract's own examples as parameters."""
        target = operation.path
        for parameter in operation.parameters:
            if parameter["in"] == "path":
                examples = parameter.get("examples", {})
                example = parameter["example"] if "example" in parameter else next(iter(examples.values()))["value"]
                target = target.replace(f"{{{parameter['name']}}}", str(example))
        return await self.ask(operation.api, operation.method, target + query, headers)


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


# What each scenario meets, found out once, whichever test asks first.
SCENARIOS: dict[str, Callable[[], Met]] = {}


def scenario(**settings: Any) -> Callable[[Callable[[Checked], Awaitable[None]]], None]:
    """A scenario of an emulator with these settings."""

    def register(run: Callable[[Checked], Awaitable[None]]) -> None:
        async def main() -> Met:
            async with asyncio.timeout(60), in_process(**settings) as emulator:
                checked = Checked(emulator)
                await run(checked)
                return checked.met

        SCENARIOS[run.__name__] = functools.cache(lambda: asyncio.run(main()))

    return register


def documented(status: int, api: str = "") -> list[Operation]:
    """The operations that can answer so, of one API or of all."""
    of_api = operations(api) if api else all_operations()
    return [operation for operation in of_api if str(status) in operation.responses]
