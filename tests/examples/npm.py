"""The npm packages of the JavaScript examples and of other tests, installed once for all workers of a run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.examples.workplaces import EXAMPLES, missing

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
