"""An installed wheel is complete: the package, its command, and the data that lies outside the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = [path.relative_to(ROOT) for name in ("contracts", "fixtures") for path in sorted((ROOT / name).rglob("*.*"))]

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A virtual environment that holds the wheel, and an empty directory to run it from."""

    environment: Path
    elsewhere: Path

    def run(self, command: str, *arguments: str) -> str:
        """What the environment's command prints; no variable leads it back to the checkout."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EMULATOR_"))}
        completed = subprocess.run(
            [installed("scripts", self.environment) / command, *arguments],
            cwd=self.elsewhere,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stdout


def installed(kind: str, environment: Path) -> Path:
    """The directory of that kind, such as `scripts`, in a virtual environment."""
    return Path(sysconfig.get_path(kind, "venv", {"base": str(environment)}))


def pip(*arguments: str | Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel of this checkout, installed by itself; its dependencies are those the tests run with."""
    wheels, environment, elsewhere = (tmp_path_factory.mktemp(name) for name in ("wheels", "environment", "elsewhere"))
    pip("wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    venv.create(environment, symlinks=os.name != "nt")
    pip(
        "--python",
        installed("scripts", environment) / "python",
        "install",
        "--no-deps",
        "--no-index",
        *wheels.glob("*.whl"),
    )
    running = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # A .pth file adds to the end of sys.path, so an `emulator` installed there stays behind the wheel's.
    (installed("purelib", environment) / "dependencies.pth").write_text("\n".join(sorted(running)), "utf-8")
    return Installation(environment=environment, elsewhere=elsewhere)


def test_installed_package_is_imported_from_the_wheel(installation: Installation) -> None:
    printed = installation.run("python", "-c", "import emulator; print(emulator.__file__)")

    assert installation.environment in Path(printed.strip()).parents


def test_installed_package_finds_every_data_file(installation: Installation) -> None:
    script = """
import json, sys
from emulator import data_files
print(json.dumps([data_files.path(*parts).read_text("utf-8") for parts in json.loads(sys.argv[1])]))
"""
    printed = installation.run("python", "-c", script, json.dumps([path.parts for path in DATA]))

    assert json.loads(printed) == [(ROOT / path).read_text("utf-8") for path in DATA]
    assert Path("fixtures", "dialects", "svc.toml") in DATA


def test_installed_command_tells_its_version(installation: Installation) -> None:
    assert "0.1.0" in installation.run("svc-emulator", "--version")
