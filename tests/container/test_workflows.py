"""The project's own workflows: what they use is pinned, what they may do is little, and a linter finds nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from emulator.version import VERSION
from tests.harness.processes import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = next(path for path in WORKFLOWS if path.name == "release.yml")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_digest_and_says_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text("utf-8"))
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/.-]+@[0-9a-f]{40} # v[\d.]+", each)] == []


@pytest.mark.slow
def test_the_linter_finds_nothing() -> None:
    """`.ci/lint-workflows` runs actionlint too, which fetches a program when it is installed."""
    linter = shutil.which("zizmor", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if linter is None:
        pytest.skip("needs zizmor, of the test extra")
    command = [linter, "--offline", "--no-progress", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_what_publishes_may_write() -> None:
    workflow = yaml.safe_load(RELEASE.read_text("utf-8"))
    assert workflow["permissions"] == {}
    assert {
        name: sorted(scope for scope, access in job["permissions"].items() if access == "write")
        for name, job in workflow["jobs"].items()
    } == {
        "build": [],
        "test": [],
        "publish": ["id-token"],
        "image": ["attestations", "id-token", "packages"],
        "release": ["contents"],
    }
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert matrix["python-version"] == ["3.11", "3.12", "3.13", "3.14"]


def test_the_changelog_has_the_version_of_the_code_once_it_is_released() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{VERSION}]" in changelog or VERSION.startswith("0.")
