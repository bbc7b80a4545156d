"""The page stays small: less than 140 kB of scripts and styles, as they are written."""

from __future__ import annotations

from pathlib import Path

import emulator.inspector

FILES = sorted(Path(emulator.inspector.__file__).parent.rglob("*.*"))
BUDGET = 140_000


def test_scripts_and_styles_are_within_the_budget() -> None:
    sizes = {path.name: path.stat().st_size for path in FILES if path.suffix in (".js", ".css")}
    assert "main.js" in sizes
    assert sum(sizes.values()) < BUDGET, sizes


def test_nothing_is_made_of_markup() -> None:
    """Everything received is text: no script has a way to read markup from one."""
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
    assert not found
