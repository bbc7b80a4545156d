"""The workflow of thirty days: its tests in Python and in Node.js, each of which takes less than three seconds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.examples.workplaces import Workplace, free_port, missing, workplace
from tests.harness.emulators import control, server

pytestmark = pytest.mark.slow

needs_node = pytest.mark.skipif(missing("node", "npm"), reason="needs Node.js and npm")
ALLOWED_S = 3.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = workplace("workflow", tmp_path_factory.mktemp("workflow"))
    place.run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", timeout_s=240)
    return place


def test_its_tests_in_python_pass(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "emulator.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--durations=1",
    ]
    output = workplace("workflow", tmp_path).run(*command, timeout_s=120, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "3 passed" in output.splitlines()[-1]
    longest = re.search(r"([0-9.]+)s (?:call|setup)", output)
    assert longest is None or float(longest[1]) < ALLOWED_S


@needs_node
def test_its_tests_in_node_pass(installed: Workplace) -> None:
    with server(dialect="upstash", clock="realtime") as emulator:
        command = ["npm", "test", "--", "--test-reporter=tap"]
        output = installed.run(*command, timeout_s=120, QSTASH_DEV_PORT=str(emulator.port))
    assert [line for line in output.splitlines() if line in ("# tests 4", "# pass 4")] == ["# tests 4", "# pass 4"]
    assert max(float(each) for each in re.findall(r"duration_ms: ([0-9.]+)", output)) < 1000 * ALLOWED_S


@needs_node
def test_it_can_be_played_with(installed: Workplace) -> None:
    port = free_port()
    with server(dialect="upstash", clock="realtime") as emulator:
        variables = {"QSTASH_DEV_PORT": str(emulator.port), "PORT": str(port)}
        with installed.running("npm", "start", **variables) as program:
            program.line_with(f"listening on http://localhost:{port}")
            httpx.post(f"http://127.0.0.1:{port}/users", json={"email": "ada@example.com"}, trust_env=False)
            program.line_with("ada@example.com Welcome!")
            control(emulator, "POST", "/clock/advance", {"by": "30d"})
            program.line_with("ada@example.com We miss you.")
            program.line_with("ada@example.com Your trial ends. We offer nothing.")
