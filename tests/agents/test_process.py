"""`svc-emulator mcp` as a process that an agent starts, and what it costs those who do not."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.agents.clients import Agent
from tests.harness.emulators import Server

PROGRAM = "import sys; from emulator.cli import main; sys.exit(main())"


def _parameters(*arguments: str, **variables: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-c", PROGRAM, "mcp", *arguments], env={**os.environ, **variables}
    )


@pytest.mark.slow
def test_it_speaks_over_stdin_and_stdout_with_an_emulator_of_its_own() -> None:
    async def main() -> None:
        async with Client(stdio_client(_parameters("--start"))) as client:
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
def test_it_talks_to_a_running_server(shell_server: Server) -> None:
    async def main() -> None:
        async with Client(stdio_client(_parameters(EMULATOR_URL=shell_server.url))) as client:
            assert shell_server.url in await Agent(client).ask("status")

    anyio.run(main)


@pytest.mark.slow
def test_it_says_what_to_do_where_no_server_answers() -> None:
    """D-712."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "mcp", "--url", "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no emulator answers at http://127.0.0.1:9" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "next: svc-emulator serve, or svc-emulator mcp --start"


def test_a_server_imports_neither_the_tools_nor_the_package_mcp() -> None:
    program = (
        "import sys, emulator.cli.serve, emulator.server.bootstrap, emulator; "
        "print([name for name in sys.modules if name.split('.')[0] == 'mcp' or name.startswith('emulator.agents')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
