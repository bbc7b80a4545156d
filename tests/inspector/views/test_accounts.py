"""Accounts in a browser: limits that hold at once, and charts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, server, service

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_a_limit_is_changed_and_a_wrong_one_refused(emulator: Server) -> None:
    with opened(emulator, "#/accounts", expected=["400"]) as page:
        limit = page.get_by_label("max retries").first
        limit.fill("7")
        limit.press("Enter")
        expect(page.get_by_text("max_retries = 7: done.")).to_be_visible()
        limit = page.get_by_label("max retries").first
        expect(limit).to_have_value("7")
        limit.fill("-1")
        limit.press("Enter")
        expect(page.locator(".notice.bad")).to_contain_text("max_retries")
        expect(page.get_by_label("max retries").first).to_have_value("7")
    assert control(emulator, "GET", "/accounts")["accounts"][0]["max_retries"] == 7


@in_browser
def test_charts_show_what_was_used_in_a_period(emulator: Server) -> None:
    for _ in range(3):
        service(emulator, "POST", "/v2/publish/https://app.test/")
    control(emulator, "POST", "/clock/advance", {"by": "2m"})
    with opened(emulator, "#/accounts") as page:
        page.get_by_label("Period").first.select_option("1h")
        month = page.get_by_role("img", name="Requests by day of the month: 3 in all").first
        expect(month).to_be_visible()
        expect(month.locator("rect")).to_have_count(1)
        page.get_by_label("Period").first.select_option("30d")
        expect(page.get_by_role("img", name="Requests: ").first).to_be_visible()
        assert "period=30d" in page.url


@in_browser
def test_a_dialect_with_other_names_has_the_same_charts() -> None:
    with server(dialect="upstash") as emulator, opened(emulator, "#/accounts") as page:
        expect(page.get_by_role("img", name="Messages: delivered").first).to_be_visible()
