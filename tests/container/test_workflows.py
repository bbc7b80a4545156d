"""The project's own workflows: what they use is pinned, what they may do is little, and a linter finds nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
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


def test_a_tag_is_all_that_a_release_needs() -> None:
    """The steps of the workflow that look at tag, version and change log, as they are, and the notes that they make."""
    workflow = yaml.safe_load(RELEASE.read_text("utf-8"))
    steps = {step["name"]: step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "name" in step}
    check = steps["The tag is the version of the code, and the changelog has it"]
    notes = steps["With the changelog's part of this version, the files and the book"].partition("gh release")[0]

    def run(script: str, tag: str, folder: Path = ROOT) -> int:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        environment = {**os.environ, "GITHUB_REF_NAME": tag, "PATH": path}
        return subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, timeout=60, check=False).returncode

    assert run(check, f"v{VERSION}") == 0
    assert run(check, "v9.9.9") != 0
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "CHANGELOG.md").write_text(f"{changelog}\n## [0.0.1]\n\nOlder.\n", "utf-8")
        assert run(notes, f"v{VERSION}", Path(folder)) == 0
        made = Path(folder, "notes.md").read_text("utf-8")
    assert made.strip() == changelog.partition(f"## [{VERSION}]\n")[2].partition("\n## [")[0].strip() != ""
