"""The FastAPI application, its tests with the pytest plugin, and the server that one plays with."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from tests.examples.workplaces import Workplace, free_port, workplace
from tests.harness.emulators import control, server

pytestmark = pytest.mark.slow


@pytest.fixture
def fastapi(tmp_path: Path) -> Workplace:
    return workplace("fastapi", tmp_path)


def run_tests(fastapi: Workplace, *arguments: str, expect: int = 0) -> str:
    """Runs them with the plugin alone, whatever else is installed here."""
    command = [sys.executable, "-m", "pytest", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider", *arguments]
    return fastapi.run(*command, timeout_s=120, expect=expect, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_its_tests_pass(fastapi: Workplace) -> None:
    assert "5 passed" in run_tests(fastapi, "-W", "error").splitlines()[-1]


def test_a_test_of_it_that_fails_tells_what_happened(fastapi: Workplace) -> None:
    """As the README says: the nearest message, what differs, and the timeline."""
    tests = fastapi.folder / "test_trials.py"
    tests.write_text(tests.read_text().replace('"14d10m"', '"14d5m"'))
    output = run_tests(fastapi, "-k", "mail_server", expect=1)
    assert "14d10m" in output
    assert "https://app.test/jobs/trial-ends" in output
    assert "svc-emulator timeline" in output


def test_it_can_be_played_with(fastapi: Workplace) -> None:
    port = free_port()
    app_url = f"http://127.0.0.1:{port}"
    with server(dialect="upstash", clock="realtime") as emulator:
        command = f'eval "$(svc-emulator env)"; exec uvicorn --factory trials:create_app --port {port}'
        with fastapi.running("bash", "-c", command, EMULATOR_URL=emulator.url, APP_URL=app_url) as program:
            program.line_with(f"Uvicorn running on {app_url}")
            trial = {"email": "ada@example.com"}
            assert httpx.post(f"{app_url}/trials", json=trial, trust_env=False, verify=False).status_code == 201
            report = control(emulator, "POST", "/clock/advance", {"by": "14d"})
            assert (report["schedules_fired"], report["failed"]) == (14, 0)
            program.line_with("ada@example.com Your trial ends today.")
