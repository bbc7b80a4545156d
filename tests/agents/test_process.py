"""`svc-emulator mcp` as a process that an agent starts."""

from __future__ import annotations

import os
import sys

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client

from emulator import Emulator
from emulator.cli import main
from tests.agents.clients import Agent


def _program(*arguments: str, **variables: str) -> StdioServerParameters:
    command = ["-m", "emulator", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=command, env={**os.environ, **variables})


@pytest.mark.slow
def test_it_speaks_over_stdin_and_stdout_with_an_emulator_of_its_own() -> None:
    async def main() -> None:
        async with Client(stdio_client(_program("--start"))) as client:
            agent = Agent(client)
            assert len((await client.list_tools()).tools) == 12
            assert "(frozen)" in await agent.ask("status")
            await agent.ask("publish", to="https://app.test/hook", options={"delay": "1h"})
            assert "1 delivery: 1 succeeded" in await agent.ask("advance", by="1d")
            # A refused publish is logged, and the log must not be in the way.
            assert "topic nowhere not found" in await agent.refused("publish", to="nowhere")
            assert await agent.ask("verify", url="https://app.test/hook", at=["1h"])

    anyio.run(main)


@pytest.mark.slow
def test_it_talks_to_a_running_server() -> None:
    async def main() -> None:
        async with Client(stdio_client(_program(EMULATOR_URL=emulator.url))) as client:
            assert emulator.url in await Agent(client).ask("status")

    with Emulator() as emulator:
        anyio.run(main)


def test_it_says_what_to_do_where_no_server_answers() -> None:
    """D-712."""
    ran = CliRunner().invoke(main, ["mcp", "--url", "http://127.0.0.1:9"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no emulator answers at http://127.0.0.1:9" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "next: svc-emulator serve, or svc-emulator mcp --start"
