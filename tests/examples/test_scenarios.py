"""The scenarios for coding agents stay solvable, and none of them is solved by doing nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from emulator import AsyncEmulator
from emulator.cli import main
from tests.examples.workplaces import EXAMPLES


def _loaded() -> Any:
    specification = importlib.util.spec_from_file_location("scenario_play", EXAMPLES / "scenarios" / "play.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["scenario_play"] = module
    specification.loader.exec_module(module)
    return module


play = _loaded()
SCENARIOS, CHECKS, SOLUTIONS = (play.read(name) for name in ("scenarios", "checks", "solutions"))


async def played(name: str, by: str | None) -> list[str]:
    """What the hidden checks find after the solution by the shell or by the tools, or after none."""
    scenario, solution = SCENARIOS[name], SOLUTIONS[name] if by else {}
    app = scenario.get("app", "")
    async with AsyncEmulator(epoch="2026-01-01T00:00:00Z", handler_errors="report") as emulator:
        running = play.Scenario(emulator, scenario, lambda: app)
        await running.begin()
        app = solution.get("app", app)
        said = ""
        for step in solution.get(by, ()) if by else ():
            said += await (running.step(step) if by == "tools" else _in_shell(running, step))
        assert solution.get("finds", "") in said
        found: list[str] = await running.failures(CHECKS[name], solution.get("answer"))
        return found


async def _in_shell(running: Any, line: str) -> str:
    if "/v2/" in line:
        return str(await running.call(*line.split(" ", 1), {}))
    environment = {"EMULATOR_URL": running.emulator.url}
    result = await asyncio.to_thread(CliRunner().invoke, main, line.split(), env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("by", ["shell", "tools"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_can_be_solved(name: str, by: str) -> None:
    assert asyncio.run(played(name, by)) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_not_solved_by_doing_nothing(name: str) -> None:
    assert asyncio.run(played(name, None)) != []


def test_there_are_ten_with_checks_and_solutions() -> None:
    assert len(SCENARIOS) == 10
    assert SCENARIOS.keys() == CHECKS.keys() == SOLUTIONS.keys()
