"""The Flask application, its tests and the server that one plays with."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from tests.examples.workplaces import free_port, workplace
from tests.harness.emulators import control, server

pytestmark = pytest.mark.slow


def test_its_tests_pass(tmp_path: Path) -> None:
    output = workplace("flask", tmp_path).run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", timeout_s=120)
    assert "7 passed" in output


def test_it_can_be_played_with(tmp_path: Path) -> None:
    port = free_port()
    app_url = f"http://127.0.0.1:{port}"
    with server(clock="realtime") as emulator:
        flask = workplace("flask", tmp_path, EMULATOR_URL=emulator.url, APP_URL=app_url)
        command = f'eval "$(svc-emulator env)"; exec flask --app shop run --port {port}'
        with flask.running("bash", "-c", command) as program:
            program.line_with(f"Running on {app_url}")
            invoice = {"number": "17", "email": "ada@example.com"}
            assert httpx.post(f"{app_url}/invoices", json=invoice, trust_env=False, verify=False).status_code == 201
            assert control(emulator, "POST", "/clock/advance", {"by": "3d"})["succeeded"] == 1
            program.line_with("ada@example.com Invoice 17 is due.")
