"""The npm packages of the JavaScript examples and of other tests, installed once for all workers of a run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.examples.workplaces import EXAMPLES, Workplace, missing, workplace
from tests.harness.emulators import control, server

EXAMPLES_OF_NODE = ("express", "traces", "workflow", "vitest")
# The other runners that the helper of `vitest` is for.
RUNNERS = {
    "jest": "^30.0.0",
    "@jest/globals": "^30.0.0",
    "@babel/preset-typescript": "^7.27.0",
    "@babel/plugin-transform-modules-commonjs": "^7.27.0",
    "expect": "^30.0.0",
    "tsx": "^4.20.0",
}
# The public service's own server for agents.
AGENT_SERVER = {"@upstash/mcp-server": "^0.3"}

needs_npm = pytest.mark.skipif(missing("node", "npm"), reason="needs Node.js and npm")


def packages_of(example: str) -> dict[str, str]:
    """The packages that an example asks for, with their versions."""
    document = json.loads((EXAMPLES / example / "package.json").read_text())
    return {**document["dependencies"], **document.get("devDependencies", {})}


def folder_with_packages(factory: pytest.TempPathFactory) -> Path:
    """A folder that has the packages of all examples: Node.js finds them from every folder below it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "npm"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            wanted: dict[str, str] = {}
            for packages in (*map(packages_of, EXAMPLES_OF_NODE), RUNNERS, AGENT_SERVER):
                assert all(wanted.get(name, version) == version for name, version in packages.items()), packages
                wanted |= packages
            (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
            options = "--no-package-lock --no-audit --no-fund --prefer-offline --loglevel=error"
            command = ["npm", "install", *options.split()]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
            (folder / "installed").touch()
    return folder


def npm_workplace(factory: pytest.TempPathFactory, example: str, name: str) -> Workplace:
    """A copy of an example by that name, with its packages."""
    folder = folder_with_packages(factory) / name
    folder.mkdir()
    return workplace(example, folder)


def passed_side_by_side(factory: pytest.TempPathFactory, example: str) -> list[str]:
    """How many tests two copies of an example have, and how many passed, which ran at once against one emulator."""
    copies = [npm_workplace(factory, example, f"{example}-{number}") for number in (1, 2)]

    def run(copy: Workplace) -> str:
        return copy.run("npm", "test", "--", "--test-reporter=tap", timeout_s=120, EMULATOR_URL=emulator.url)

    # Its clock runs, as `dev` starts it.
    with server(dialect="upstash", clock="realtime") as emulator, ThreadPoolExecutor() as pool:
        outputs = list(pool.map(run, copies))
        assert [world["id"] for world in control(emulator, "GET", "/worlds")["worlds"]] == ["default"]
    return [line for output in outputs for line in output.splitlines() if line.startswith(("# tests ", "# pass "))]
