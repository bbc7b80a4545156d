"""The public service's own agent server (npm `@upstash/mcp-server`) reads an emulator with the region `local`."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.agents.clients import Agent
from tests.examples.npm import folder_with_packages, needs_npm
from tests.harness.emulators import EPOCH_MS, Server, control, server, service

# Before it starts, it asks the account API of the service at its fixed address for databases, in the region `local`
# too; nothing else is asked there. This stands for the service, which no test contacts.
ACCOUNT_API = """
const ask = globalThis.fetch;
globalThis.fetch = (url, options) =>
  String(url).startsWith("https://api.upstash.com/") ? Promise.resolve(Response.json([])) : ask(url, options);
"""

pytestmark = [pytest.mark.slow, needs_npm]


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_with_packages(tmp_path_factory) / "node_modules/@upstash/mcp-server/dist/index.js"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server(dialect="upstash", epoch="2026-01-01T00:00:00Z", clock="frozen") as running:
        yield running


class Asked:
    """The agent server of the service; each call says where the emulator is."""

    def __init__(self, agent: Agent, emulator: Server) -> None:
        self._agent = agent
        self._place = {"region": "local", "local_mode_port": emulator.port}

    async def ask(self, tool: str, **arguments: Any) -> str:
        return await self._agent.ask(tool, **self._place, **arguments)

    async def refused(self, tool: str, **arguments: Any) -> str:
        return await self._agent.refused(tool, **self._place, **arguments)


def asked(program: Path, emulator: Server, talk: Callable[[Asked], Coroutine[Any, Any, None]]) -> None:
    """Talk with the agent server as an agent does."""
    environment = {**os.environ, "UPSTASH_EMAIL": "a@example.com", "UPSTASH_API_KEY": "none"}
    preload = f"data:text/javascript,{quote(ACCOUNT_API)}"
    parameters = StdioServerParameters(
        command="node", args=["--import", preload, str(program), "--disable-telemetry"], env=environment
    )

    async def main() -> None:
        with anyio.fail_after(120):
            async with Client(parameters) as client:
                await talk(Asked(Agent(client), emulator))

    anyio.run(main)


def refused_calls(emulator: Server) -> Any:
    return control(emulator, "GET", "/refused")["refused"]


def fail_what_is_down(emulator: Server) -> None:
    control(emulator, "POST", "/reset", {})
    rule = {"match": {"url": "https://down.test/*"}, "respond": {"status": 500, "body": "no database"}}
    control(emulator, "POST", "/destinations", rule)


def test_it_lists_logs_dead_letters_runs_and_schedules(program: Path, emulator: Server) -> None:
    fail_what_is_down(emulator)
    headers = {"Upstash-Retries": "0"}
    delivered = service(emulator, "POST", "/v2/publish/https://app.test/hook")["messageId"]
    service(emulator, "POST", "/v2/publish/https://down.test/hook", headers)
    schedule = service(emulator, "POST", "/v2/schedules/https://app.test/cron", {"Upstash-Cron": "0 9 * * *"})
    run = service(emulator, "POST", "/v2/trigger/https://down.test/flow", headers)["workflowRunId"]
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    letters = {
        each["kind"]: each["dead_letter_id"] for each in control(emulator, "GET", "/dead-letters")["dead_letters"]
    }

    async def talk(server: Asked) -> None:
        assert delivered in await server.ask("qstash_logs_list")
        failed = await server.ask("qstash_logs_list", state="FAILED", url="https://down.test/hook", fromDate=1, count=5)
        assert "Found 1 log entries" in failed
        assert "https://down.test/hook" in await server.ask("qstash_dlq_list", responseStatus=500)
        assert "no database" in await server.ask("qstash_dlq_get", dlqId=letters["message"])
        assert schedule["scheduleId"] in await server.ask("qstash_schedules_list")
        assert run in await server.ask("workflow_logs_list", state="RUN_FAILED", workflowUrl="https://down.test/flow")
        assert "no database" in await server.ask("workflow_logs_get", workflowRunId=run)
        assert run in await server.ask("workflow_dlq_list", workflowRunId=run)
        assert "no database" in await server.ask("workflow_dlq_get", dlqId=letters["run"])
        # It asks for the log without `groupBy`, and reads what the service documents with `groupBy` only (D-525).
        assert "undefined" in await server.refused("qstash_logs_get", messageId=delivered)

    asked(program, emulator, talk)
    assert refused_calls(emulator) == []


def test_it_publishes(program: Path, emulator: Server) -> None:
    fail_what_is_down(emulator)

    async def talk(server: Asked) -> None:
        options = {"delay": "1m", "retries": 1, "timeout": "30s", "callback": "https://app.test/done"}
        flow = {"key": "slow", "parallelism": 1, "rate": 2, "period": "1s"}
        label = {"Upstash-Label": "by-hand"}
        await server.ask(
            "qstash_publish_message",
            **{"destination": "https://app.test/hook", "body": "hello", "flow_control": flow, "extraHeaders": label},
            **options,
        )
        await server.ask("qstash_publish_message", destination="https://app.test/queued", queueName="mail")
        assert "Found 1 log entries" in await server.ask("qstash_logs_list", queueName="mail")

    asked(program, emulator, talk)
    [keys] = control(emulator, "GET", "/flow-control")["keys"]
    assert (keys["key"], keys["parallelism"], keys["rate"]) == ("slow", 1, 2)
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    made = [(each["at_ms"] - EPOCH_MS, each["url"]) for each in control(emulator, "GET", "/deliveries")["deliveries"]]
    assert made == [
        (0, "https://app.test/queued"),
        (60_000, "https://app.test/hook"),
        (60_000, "https://app.test/done"),
    ]
    labelled = control(emulator, "GET", "/messages?label=by-hand")["messages"]
    assert ("https://app.test/hook", "DELIVERED") in [(each["url"], each["state"]) for each in labelled]
    assert refused_calls(emulator) == []


def test_it_manages_schedules_and_failed_runs(program: Path, emulator: Server) -> None:
    """D-748."""
    fail_what_is_down(emulator)
    for _ in range(3):
        service(emulator, "POST", "/v2/trigger/https://down.test/flow", {"Upstash-Retries": "0"})
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    letters = [each["dead_letter_id"] for each in control(emulator, "GET", "/dead-letters")["dead_letters"]]

    def schedules() -> list[tuple[Any, ...]]:
        found = control(emulator, "GET", "/schedules")["schedules"]
        return [(each["schedule_id"], each["cron"], each["paused"]) for each in found]

    async def talk(server: Asked) -> None:
        manage = partial(server.ask, "qstash_schedules_manage")
        await manage(operation="create", destination="https://app.test/cron", cron="0 9 * * *", retries=1)
        [(schedule, cron, paused)] = schedules()
        assert (cron, paused) == ("0 9 * * *", False)
        given = {"scheduleId": schedule, "destination": "https://app.test/cron", "cron": "0 10 * * *"}
        await manage(operation="update", **given)
        assert schedules() == [(schedule, "0 10 * * *", False)]
        await manage(operation="pause", scheduleId=schedule)
        assert schedules() == [(schedule, "0 10 * * *", True)]
        await manage(operation="resume", scheduleId=schedule)
        assert schedules() == [(schedule, "0 10 * * *", False)]
        await manage(operation="delete", scheduleId=schedule)
        assert schedules() == []
        for letter, action in zip(letters, ("delete", "restart", "resume"), strict=True):
            await server.ask("workflow_dlq_manage", dlqId=letter, action=action)

    asked(program, emulator, talk)
    # Two began again, and failed again.
    assert len(control(emulator, "GET", "/runs")["runs"]) == 5
    left = [each["dead_letter_id"] for each in control(emulator, "GET", "/dead-letters")["dead_letters"]]
    assert set(left).isdisjoint(letters)
    assert refused_calls(emulator) == []
