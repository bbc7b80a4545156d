"""The page of a server that has a control token, and one that may change nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened
from tests.harness.emulators import server

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_the_control_token_is_asked_for_and_kept_in_the_tab() -> None:
    with server(control_token="secret") as emulator, opened(emulator, expected=["401 (Unauthorized)"]) as page:
        dialog = page.get_by_role("dialog", name="Control token")
        for token in ("wrong", "secret"):
            dialog.get_by_label("Control token").fill(token)
            dialog.get_by_role("button", name="Open").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        expect(dialog).to_have_count(0)


@in_browser
def test_a_read_only_page_has_nothing_that_acts() -> None:
    with server(inspector="read-only") as emulator, opened(emulator) as page:
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        expect(page.get_by_role("button", name="+1m")).to_have_count(0)
        for name in ("rules", "worlds", "publish", "when"):
            page.goto(f"{emulator.url}/_emulator/inspector#/{name}")
            expect(page.locator("main h1")).to_have_text(name.capitalize())
            expect(page.get_by_role("main").locator("button.main")).to_have_count(0)
        page.get_by_label("Cron expression").fill("0 9 * * *")
        expect(page.locator("ol li")).to_have_count(10)
