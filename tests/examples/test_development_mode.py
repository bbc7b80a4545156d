"""The emulator in the place of the program that the npm client starts by itself, as the README says (D-665)."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.npm import folder_with_packages, needs_npm
from tests.examples.workplaces import Workplace, free_port
from tests.harness.loops import PATIENCE_S
from tests.harness.processes import ROOT, serving

PLACE = ".cache/upstash/qstash-dev/qstash"
BLOCK = re.compile(r"```console\n(\$ mkdir -p ~/\.cache/upstash/qstash-dev.*?)```", re.DOTALL)
# The client asks the network for the newest version of its program, unless there is none.
OFFLINE = """
import dns from "node:dns";
dns.lookup = (name, options, callback) => callback(new Error(`no network: ${name}`));
"""
PUBLISH = """
import { Client } from "@upstash/qstash";
const client = new Client();
const { messageId } = await client.publishJSON({ url: "https://app.example.com/hook", body: { user: 7 }, delay: "1d" });
console.log(`published ${messageId}`);
console.log(`is waiting: ${(await client.messages.get(messageId)).notBefore > Date.now()}`);
// As with Ctrl-C.
process.exit(0);
"""


@pytest.mark.slow
@needs_npm
@pytest.mark.skipif(sys.platform != "linux", reason="the client looks in another folder there")
def test_the_client_starts_the_emulator_where_it_looks_for_its_own_program(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    found = BLOCK.search((ROOT / "docs" / "howto" / "express-nextjs.md").read_text())
    assert found is not None
    lines = "\n".join(line.removeprefix("$ ") for line in found[1].splitlines())
    variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-ec", lines], env=variables, check=True, timeout=PATIENCE_S)
    assert (tmp_path / PLACE).exists()

    place = Workplace(folder_with_packages(tmp_path_factory))
    (place.folder / "offline.mjs").write_text(OFFLINE)
    (place.folder / "publish.mjs").write_text(PUBLISH)
    port = free_port()
    output = place.run(
        "node",
        "--import",
        "./offline.mjs",
        "publish.mjs",
        QSTASH_DEV="true",
        QSTASH_DEV_PORT=str(port),
        HOME=str(tmp_path),
    )
    assert f"development server is running at http://127.0.0.1:{port}" in output
    assert "published msg_" in output
    assert "is waiting: true" in output
    # It ends with the program that has started it, soon after.
    with socket.socket() as caller, contextlib.suppress(ConnectionResetError):
        caller.settimeout(PATIENCE_S)
        assert caller.connect_ex(("127.0.0.1", port)) != 0 or caller.recv(1) == b""


@pytest.mark.slow
@needs_npm
@pytest.mark.skipif(sys.platform != "linux", reason="the client looks in another folder there")
def test_the_client_says_that_the_port_is_taken(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    program = tmp_path / PLACE
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nexec svc-emulator "$@"\n')
    program.chmod(0o755)
    place = Workplace(folder_with_packages(tmp_path_factory))
    (place.folder / "offline.mjs").write_text(OFFLINE)
    (place.folder / "taken.mjs").write_text('import { startDevServer } from "@upstash/qstash"; await startDevServer();')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        variables = {"QSTASH_DEV": "true", "QSTASH_DEV_PORT": str(port), "HOME": str(tmp_path)}
        with place.running("node", "--import", "./offline.mjs", "taken.mjs", **variables) as program_of_client:
            program_of_client.line_with("address already in use: another program is listening there")


@pytest.mark.slow
@needs_npm
def test_the_client_and_the_server_meet_at_the_port_of_one_variable(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """D-800: both read `QSTASH_DEV_PORT`, and nothing else says where the server is."""
    place = Workplace(folder_with_packages(tmp_path_factory))
    (place.folder / "publish.mjs").write_text(PUBLISH)
    port = str(free_port())
    with serving("dev", folder=tmp_path, command="qstash", port=(), extra={"QSTASH_DEV_PORT": port}) as server:
        assert server.url == f"http://127.0.0.1:{port}"
        output = place.run("node", "publish.mjs", QSTASH_DEV="true", QSTASH_DEV_PORT=port, HOME=str(tmp_path))
    assert f"Server already running at http://127.0.0.1:{port}" in output
    assert "is waiting: true" in output
