"""The two commands of the README, run from a fresh clone without a package index; `.ci/fresh-clone` has one."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.book.test_readme import INSTALL, TESTS
from tests.harness.installation import installed
from tests.harness.processes import PATIENCE_S, ROOT, environment


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git has of this checkout, the changes that are not committed too."""
    clone = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    return clone


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the checkout's git")
def test_both_commands_of_the_readme_run_from_a_fresh_clone(clone: Path, tmp_path: Path) -> None:
    """Without a package index: what they install beside the package is what runs here. The suite cannot run itself, so
    the second one only collects it, which imports all of it from the clone."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=os.name != "nt", with_pip=True)
    (installed("purelib", home) / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    scripts = installed("scripts", home)
    own = {name: value for name, value in environment().items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    # The second one is how pip's documentation switches isolation off.
    pip = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    own |= {**pip, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTEST_ADDOPTS": "--collect-only -q -n0"}
    printed = []
    for command in (INSTALL, TESTS):
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env=own, capture_output=True, text=True, timeout=5 * PATIENCE_S
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        printed.append(done.stdout)
    demo, collected = printed
    assert "signatures verified" in demo
    assert "tests collected" in collected
