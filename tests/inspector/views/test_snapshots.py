"""Snapshots in a browser: saved, restored, exported, imported, deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import EPOCH_MS, Server, control

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_a_snapshot_is_saved_restored_and_deleted(emulator: Server) -> None:
    with opened(emulator, "#/snapshots") as page:
        page.get_by_label("Name").fill("before")
        page.get_by_role("button", name="Save the world").click()
        expect(row(page, "before")).to_be_visible()
        control(emulator, "POST", "/clock/advance", {"by": "1h"})
        row(page, "before").get_by_role("button", name="Restore").click()
        row(page, "before").get_by_role("button", name="Really go back to it?").click()
        expect(page.get_by_text("Restore before: done.")).to_be_visible()
        assert control(emulator, "GET", "/clock")["now_ms"] == EPOCH_MS
        row(page, "before").get_by_role("button", name="Delete").click()
        row(page, "before").get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No snapshot yet.")).to_be_visible()


@in_browser
def test_a_snapshot_is_carried_away_and_brought_back(emulator: Server, tmp_path: Path) -> None:
    control(emulator, "POST", "/snapshots", {"name": "mine"})
    with opened(emulator, "#/snapshots") as page:
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Export mine").click()
        assert downloading.value.suggested_filename == "mine.db"
        file = tmp_path / "again.db"
        downloading.value.save_as(file)
        assert file.read_bytes().startswith(b"SQLite format 3")
        with page.expect_file_chooser() as choosing:
            page.get_by_role("button", name="Import a file…").click()
        choosing.value.set_files(file)
        expect(row(page, "again")).to_be_visible()
    assert [each["name"] for each in control(emulator, "GET", "/snapshots")["snapshots"]] == ["again", "mine"]
