"""The page's files: their markup, and units in its texts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import emulator.inspector

# -- scripts of the page have no way to read markup from what they received ------------------------


FILES = sorted(Path(emulator.inspector.__file__).parent.rglob("*.*"))


def test_nothing_is_made_of_markup() -> None:
    found = [
        f"{path.name}: {word}"
        for path in FILES
        if path.suffix == ".js"
        for word in (
            "innerHTML =",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "new Function",
        )
        if word in path.read_text("utf-8")
    ]
    assert FILES
    assert not found


# -- the parts of the page that need no browser, run by Node.js without any package ----------------


NODE = shutil.which("node")


ROOT = Path(__file__).resolve().parents[2]


PAGE, UNITS = ROOT / "emulator" / "inspector", ROOT / "tests" / "inspector" / "units"


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_filters_rows_store_and_formats_hold(tmp_path: Path) -> None:
    # Node.js takes a `.js` for a module where a package says so, and the project is none.
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for folder in (PAGE, UNITS):
        shutil.copytree(folder, tmp_path / folder.relative_to(ROOT))
    files = sorted(map(str, (tmp_path / UNITS.relative_to(ROOT)).glob("*.test.mjs")))
    assert len(files) == 2
    run = subprocess.run([str(NODE), "--test", *files], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "fail 0" in run.stdout
