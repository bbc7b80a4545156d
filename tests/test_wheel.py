"""An installed wheel is complete: the package, its command, and the data that lies outside the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.installation import ROOT, Installation

DATA = [path.relative_to(ROOT) for name in ("contracts", "fixtures") for path in sorted((ROOT / name).rglob("*.*"))]

pytestmark = pytest.mark.slow


def test_installed_package_is_imported_from_the_wheel(installation: Installation) -> None:
    printed = installation.run("python", "-c", "import emulator; print(emulator.__file__)")

    assert installation.environment in Path(printed.strip()).parents


def test_installed_package_finds_every_data_file(installation: Installation) -> None:
    script = """
import json, sys
from emulator import resources
print(json.dumps([resources.path(*parts).read_text("utf-8") for parts in json.loads(sys.argv[1])]))
"""
    printed = installation.run("python", "-c", script, json.dumps([path.parts for path in DATA]))

    assert json.loads(printed) == [(ROOT / path).read_text("utf-8") for path in DATA]
    assert Path("fixtures", "dialects", "svc.toml") in DATA


def test_installed_command_tells_its_version(installation: Installation) -> None:
    assert "0.1.0" in installation.run("svc-emulator", "--version")
