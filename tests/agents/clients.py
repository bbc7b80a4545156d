"""A client of the MCP server, as an agent is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec

import anyio
from mcp import Client
from mcp_types import TextContent

from emulator import AsyncEmulator
from emulator.agents.server import AgentServer
from emulator.agents.tool import Connection

P = ParamSpec("P")


class Agent:
    """Calls tools and reads their answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, tool: str, /, **arguments: Any) -> str:
        """The answer of a call that works."""
        text, is_error = await self.call(tool, **arguments)
        assert not is_error, text
        return text

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        text, is_error = await self.call(tool, **arguments)
        assert is_error, text
        return text

    async def call(self, tool: str, /, **arguments: Any) -> tuple[str, bool]:
        result = await self.client.call_tool(tool, arguments)
        return "\n".join(each.text for each in result.content if isinstance(each, TextContent)), result.is_error


@asynccontextmanager
async def agent(emulator: AsyncEmulator) -> AsyncIterator[Agent]:
    """An agent of an emulator that runs in this process."""
    async with Client(AgentServer(Connection(emulator)).server()) as client:
        yield Agent(client)


def as_agent(test: Callable[[Agent, AsyncEmulator], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs a test with an agent of an emulator of its own."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator, agent(emulator) as caller:
                await test(caller, emulator)

        anyio.run(main)

    # Pytest would take the arguments for fixtures.
    del run.__wrapped__
    return run
