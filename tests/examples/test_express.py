"""The Express application, its client in its own development mode, which finds the emulator on its port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.examples.workplaces import Workplace, free_port, missing, workplace
from tests.harness.emulators import Server, control, server

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing("node", "npm"), reason="needs Node.js and npm")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = workplace("express", tmp_path_factory.mktemp("express"))
    place.run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", timeout_s=240)
    return place


@pytest.fixture
def emulator() -> Iterator[Server]:
    """One that knows the time, as `serve` starts it."""
    with server(dialect="upstash", clock="realtime") as running:
        yield running


@pytest.fixture
def express(installed: Workplace, emulator: Server) -> Workplace:
    return replace(installed, variables={"QSTASH_DEV_PORT": str(emulator.port)})


def test_its_tests_pass(express: Workplace, emulator: Server) -> None:
    output = express.run("npm", "test", "--", "--test-reporter=tap", timeout_s=120)
    assert f"Server already running at {emulator.url}" in output
    assert [line for line in output.splitlines() if line in ("# tests 4", "# pass 4")] == ["# tests 4", "# pass 4"]


def test_it_can_be_played_with(express: Workplace, emulator: Server) -> None:
    port = free_port()
    with express.running("npm", "start", PORT=str(port)) as program:
        program.line_with(f"listening on http://localhost:{port}")
        answer = httpx.post(f"http://127.0.0.1:{port}/signups", json={"email": "ada@example.com"}, trust_env=False)
        assert answer.status_code == 202
        assert control(emulator, "POST", "/clock/advance", {"by": "1d"})["succeeded"] == 1
        program.line_with("Welcome, ada@example.com!")
