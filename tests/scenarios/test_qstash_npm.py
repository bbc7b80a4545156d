"""The public JavaScript client, configured by its environment and in its own development mode."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.emulators import EPOCH_MS, Server, control, server

SCRIPT = Path(__file__).with_name("qstash_client.mjs")
NODE, NPM = shutil.which("node"), shutil.which("npm")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (NODE and NPM), reason="needs Node.js and npm")]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script beside an installed client, outside the project."""
    folder = tmp_path_factory.mktemp("npm")
    command = [
        str(NPM),
        "install",
        "--no-package-lock",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "@upstash/qstash@^2.12",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=240)
    shutil.copy(SCRIPT, folder)
    return folder / SCRIPT.name


def run(script: Path, emulator: Server, **environment: str) -> str:
    control(emulator, "POST", "/reset")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("QSTASH_", "UPSTASH_"))}
    given = {"EMULATOR_URL": emulator.url, "EPOCH_MS": str(EPOCH_MS), **environment}
    done = subprocess.run(
        [str(NODE), str(script)],
        cwd=script.parent,
        env={**inherited, **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_drives_every_resource(script: Path, http_server: str) -> None:
    with server(dialect="upstash", server=http_server) as emulator:
        output = run(
            script,
            emulator,
            QSTASH_URL=emulator.url,
            QSTASH_TOKEN=emulator.token,
            QSTASH_CURRENT_SIGNING_KEY=emulator.current_signing_key,
            QSTASH_NEXT_SIGNING_KEY=emulator.next_signing_key,
        )
    assert output.splitlines()[-1] == "done: 10 parts"


def test_the_clients_development_mode_finds_the_emulator(script: Path, http_server: str) -> None:
    """It takes a server that knows its published account for its own, and starts nothing (D-052)."""
    with server(dialect="upstash", server=http_server) as emulator:
        output = run(script, emulator, QSTASH_DEV="true", QSTASH_DEV_PORT=str(emulator.port))
    assert f"Server already running at {emulator.url}" in output
    assert output.splitlines()[-1] == "done: 10 parts"
