"""The Express application: its tests, and by hand, its client in its own development mode."""

from __future__ import annotations

import httpx
import pytest

from tests.examples.npm import needs_npm, npm_workplace, passed_side_by_side
from tests.examples.workplaces import free_port
from tests.harness.emulators import control, server

pytestmark = [pytest.mark.slow, needs_npm]


def test_its_tests_pass_in_two_copies_side_by_side(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert passed_side_by_side(tmp_path_factory, "express") == ["# tests 7", "# pass 7"] * 2


def test_a_call_that_fails_unexpectedly_fails_its_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    broken = npm_workplace(tmp_path_factory, "express", "express-broken")
    app = broken.folder / "app.js"
    # It works at the second attempt, after some mails.
    app.write_text(
        app.read_text().replace("response.json({ welcomed: email });", "if (!app.done++) throw new Error('oops');")
    )
    with server(dialect="upstash") as emulator:
        output = broken.run("node", "--test", "--test-reporter=tap", expect=1, EMULATOR_URL=emulator.url)
    assert "https://app.example.com/jobs/welcome failed: 500" in output


def test_it_can_be_played_with(tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    made = npm_workplace(tmp_path_factory, "express", "express-by-hand")
    with server(dialect="upstash", clock="realtime") as emulator:
        variables = {"PORT": str(port), "QSTASH_DEV_PORT": str(emulator.port)}
        with made.running("npm", "start", **variables) as program:
            program.line_with(f"listening on http://localhost:{port}")
            program.line_with(f"Server already running at {emulator.url}")
            answer = httpx.post(
                f"http://127.0.0.1:{port}/signups", json={"email": "ada@example.com"}, trust_env=False, verify=False
            )
            assert answer.status_code == 202
            assert control(emulator, "POST", "/clock/advance", {"by": "1d"})["succeeded"] == 1
            program.line_with("Welcome, ada@example.com!")
