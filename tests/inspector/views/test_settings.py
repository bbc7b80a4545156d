"""Settings in a browser: they hold in all views, and after a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, service

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_the_zone_is_chosen_and_kept(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/hook")
    with opened(emulator, "#/settings") as page:
        zone = page.get_by_label("Time zone shown beside UTC")
        expect(zone).to_have_value("Europe/Berlin")
        zone.fill("Nowhere/City")
        zone.press("Enter")
        assert zone.evaluate("input => input.validationMessage").startswith("There is no such time zone")
        zone.fill("Asia/Kolkata")
        zone.press("Enter")
        page.get_by_role("link", name="Messages").click()
        expect(row(page, "app.test/hook")).to_contain_text("05:30:00")
        page.reload()
        expect(row(page, "app.test/hook")).to_contain_text("05:30:00")


@in_browser
def test_the_theme_is_chosen(emulator: Server) -> None:
    with opened(emulator, "#/settings") as page:
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_label("Theme").select_option("dark")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
