"""`emulator.django` in a Django project, with its own test runner (D-352)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.processes import environment

PROJECT = Path(__file__).parent / "users" / "django_project"


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
def test_deliveries_use_the_connections_of_a_django_test(is_file: bool, tmp_path: Path) -> None:
    """D-749."""
    database = {"DATABASE": str(tmp_path / "test.db")} if is_file else {}
    completed = subprocess.run(
        [sys.executable, "-Werror::ResourceWarning", "-m", "django", "test", "cases", "--shuffle"],
        cwd=PROJECT,
        env={**environment(), "DJANGO_SETTINGS_MODULE": "project", **database},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    assert "Ran 20 tests" in completed.stderr


def test_without_django_the_error_says_so() -> None:
    code = "import sys; sys.modules['django.db'] = None; import emulator.django"
    completed = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert "ImportError: emulator.django is for projects that use Django" in completed.stderr
