"""The README's picture can be made, is there, and is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.browsers import in_browser, needs_browser
from tests.harness.emulators import Server
from tests.inspector.screenshot import FILE, take

MOST_BYTES = 200_000


def test_the_readme_shows_a_picture_that_is_there_and_small() -> None:
    root = FILE.parent.parent
    assert f"]({FILE.relative_to(root).as_posix()})" in (root / "README.md").read_text("utf-8")
    assert 10_000 < FILE.stat().st_size < MOST_BYTES


@pytest.mark.slow
@needs_browser
@in_browser
def test_the_picture_is_made_of_a_busy_world(emulator: Server, tmp_path: Path) -> None:
    take(emulator, tmp_path / "inspector.png")
    content = (tmp_path / "inspector.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert 10_000 < len(content) < MOST_BYTES
