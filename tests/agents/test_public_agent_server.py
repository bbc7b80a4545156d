"""The public service's own agent server (npm `@upstash/mcp-server`) reads an emulator with the region `local`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.agents.clients import Agent
from tests.harness.emulators import Server, control, server, service

# Before it starts, it asks the account API of the service at its fixed address for databases, in the region `local`
# too; nothing else is asked there. This stands for the service, which no test contacts.
ACCOUNT_API = """
const ask = globalThis.fetch;
globalThis.fetch = (url, options) =>
  String(url).startsWith("https://api.upstash.com/") ? Promise.resolve(Response.json([])) : ask(url, options);
"""

NODE, NPM = shutil.which("node"), shutil.which("npm")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (NODE and NPM), reason="needs Node.js and npm")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm")
    options = ("--no-package-lock", "--no-save", "--no-audit", "--no-fund")
    command = [str(NPM), "install", *options, "@upstash/mcp-server@^0.3"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=240)
    return folder / "node_modules/@upstash/mcp-server/dist/index.js"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server(dialect="upstash", epoch="2026-01-01T00:00:00Z", clock="frozen") as running:
        yield running


async def read(agent: Agent, tool: str, port: int, **arguments: Any) -> str:
    return await agent.ask(tool, region="local", local_mode_port=port, **arguments)


def test_it_lists_logs_dead_letters_runs_and_schedules(program: Path, emulator: Server) -> None:
    rule = {"match": {"url": "https://down.test/*"}, "respond": {"status": 500, "body": "no database"}}
    control(emulator, "POST", "/destinations", rule)
    headers = {"Upstash-Retries": "0"}
    delivered = service(emulator, "POST", "/v2/publish/https://app.test/hook")["messageId"]
    service(emulator, "POST", "/v2/publish/https://down.test/hook", headers)
    schedule = service(emulator, "POST", "/v2/schedules/https://app.test/cron", {"Upstash-Cron": "0 9 * * *"})
    run = service(emulator, "POST", "/v2/trigger/https://down.test/flow", headers)["workflowRunId"]
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    port = int(emulator.url.rpartition(":")[2])
    environment = {**os.environ, "UPSTASH_EMAIL": "a@example.com", "UPSTASH_API_KEY": "none"}
    preload = f"data:text/javascript,{quote(ACCOUNT_API)}"
    parameters = StdioServerParameters(
        command=str(NODE), args=["--import", preload, str(program), "--disable-telemetry"], env=environment
    )

    async def main() -> None:
        async with Client(parameters) as client:
            agent = Agent(client)
            assert delivered in await read(agent, "qstash_logs_list", port)
            assert "https://down.test/hook" in await read(agent, "qstash_dlq_list", port)
            assert schedule["scheduleId"] in await read(agent, "qstash_schedules_list", port)
            assert run in await read(agent, "workflow_logs_list", port)
            assert run in await read(agent, "workflow_dlq_list", port)

    anyio.run(main)
    assert json.dumps(control(emulator, "GET", "/refused")["refused"]) == "[]"
