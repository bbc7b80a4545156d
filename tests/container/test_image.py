"""What the image is made of. That it can be built, runs and stops is shown by `.ci/image`, with a real builder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.container import constraints
from tests.harness.installation import Installation, build

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"


def copied_into_the_image() -> list[Path]:
    """The files that the build stage copies, relative to the checkout, without what `.dockerignore` leaves out."""
    sources = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    found = []
    for source in " ".join(sources).split():
        path = ROOT / source
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        found += [each.relative_to(ROOT) for each in files if "__pycache__" not in each.parts]
    return sorted(found)


def test_what_is_copied_is_sent_to_the_builder_and_nothing_else_is() -> None:
    """A checkout holds more than a commit: state, secrets, environments."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert sent == {path.parts[0] for path in copied_into_the_image()}


@pytest.mark.slow
def test_linter_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert linter is not None, "hadolint has a wheel for Linux on x86-64 alone"
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")


# -- versions ---------------------------------------------------------------------------------


def test_every_package_that_is_needed_has_a_version_that_fits_and_no_other_has() -> None:
    pinned, needed = constraints.pinned(), constraints.needed()
    assert sorted(pinned) == sorted(needed), "python -m tests.container.constraints > constraints.txt"
    misfits = {
        name: str(requirement)
        for name, asked in needed.items()
        for requirement in asked
        if not requirement.specifier.contains(pinned[name], prereleases=True)
    }
    assert misfits == {}


@pytest.mark.slow
def test_a_build_of_what_is_copied_is_the_same_file_as_one_of_the_checkout(
    tmp_path: Path, installation: Installation
) -> None:
    source = tmp_path / "source"
    for name in copied_into_the_image():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
        os.utime(source / name, (1_000_000_000, 1_000_000_000))
    wheel = build(source, tmp_path / "wheels")
    assert (wheel.name, wheel.read_bytes() == installation.wheel.read_bytes()) == (installation.wheel.name, True)
