"""The workflow of thirty days: its tests in Python and in Node.js, each of which takes less than three seconds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.examples.npm import needs_npm, npm_workplace, passed_side_by_side
from tests.examples.workplaces import free_port, workplace
from tests.harness.emulators import control, server

pytestmark = pytest.mark.slow

# Days of virtual time; beside other load too.
ALLOWED_S = 20.0


def test_its_tests_in_python_pass(tmp_path: Path) -> None:
    options = "-p emulator.pytest_plugin -p no:cacheprovider --durations=1"
    command = [sys.executable, "-m", "pytest", *options.split()]
    output = workplace("workflow", tmp_path).run(*command, timeout_s=120, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "3 passed" in output.splitlines()[-1]
    longest = re.search(r"([0-9.]+)s (?:call|setup)", output)
    assert longest is None or float(longest[1]) < ALLOWED_S


@needs_npm
def test_its_tests_in_node_pass_in_two_copies_side_by_side(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert passed_side_by_side(tmp_path_factory, "workflow") == ["# tests 4", "# pass 4"] * 2


@needs_npm
def test_it_can_be_played_with(tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    made = npm_workplace(tmp_path_factory, "workflow", "workflow-by-hand")
    with server(dialect="upstash", clock="realtime") as emulator:
        variables = {"QSTASH_DEV_PORT": str(emulator.port), "PORT": str(port)}
        with made.running("npm", "start", **variables) as program:
            program.line_with(f"listening on http://localhost:{port}")
            httpx.post(
                f"http://127.0.0.1:{port}/users", json={"email": "ada@example.com"}, trust_env=False, verify=False
            )
            program.line_with("ada@example.com Welcome!")
            control(emulator, "POST", "/clock/advance", {"by": "30d"})
            program.line_with("ada@example.com We miss you.")
            program.line_with("ada@example.com Your trial ends. We offer nothing.")
