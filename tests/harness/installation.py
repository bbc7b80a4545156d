"""The wheel of this checkout, installed in a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A virtual environment that holds the wheel, and an empty directory to run it from."""

    environment: Path
    elsewhere: Path
    # Built as of 1980, as the image does it, so that another build of the same files is the same file.
    wheel: Path

    def run(self, command: str, *arguments: str) -> str:
        """What the environment's command prints when it succeeds."""
        completed = self.attempt(command, *arguments)
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    def attempt(self, command: str, *arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the environment's command; no variable leads it back to the checkout, or into another test run."""
        ours = ("PYTHON", "PYTEST_", "EMULATOR_")
        # In CI, pytest's own summary repeats the whole message of a failure.
        ci = ("CI", "BUILD_NUMBER")
        return subprocess.run(
            [installed("scripts", self.environment) / command, *arguments],
            cwd=directory or self.elsewhere,
            env={name: value for name, value in os.environ.items() if not name.startswith(ours) and name not in ci},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )


# How long an installation from the package index may take.
_PATIENCE_S = 600


def installed(kind: str, environment: Path) -> Path:
    """The directory of that kind, such as `scripts`, in a virtual environment."""
    return Path(sysconfig.get_path(kind, "venv", {"base": str(environment)}))


def pip(*arguments: str | Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr


def installation(folder: Path) -> Installation:
    """What `install` has made in a folder."""
    [wheel] = (folder / "wheels").glob("*.whl")
    return Installation(environment=folder / "environment", elsewhere=folder / "elsewhere", wheel=wheel)


def build(source: Path, folder: Path) -> Path:
    """The wheel of a checkout, with the book in it, which is built with warnings as errors."""
    pip("wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def install(folder: Path) -> None:
    """Build the wheel and install it by itself; its dependencies are those the tests run with."""
    build(ROOT, folder / "wheels")
    made = installation(folder)
    made.elsewhere.mkdir()
    venv.create(made.environment, symlinks=os.name != "nt")
    python = installed("scripts", made.environment) / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", made.wheel)
    running = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # A .pth file adds to the end of sys.path, so an `emulator` installed there stays behind the wheel's.
    (installed("purelib", made.environment) / "dependencies.pth").write_text("\n".join(sorted(running)), "utf-8")
