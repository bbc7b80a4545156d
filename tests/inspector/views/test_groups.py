"""URL groups in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, service

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_endpoints_are_added_and_removed_and_a_group_deleted(emulator: Server) -> None:
    with opened(emulator, "#/groups") as page:
        expect(page.get_by_text("No URL group yet.")).to_be_visible()
        for url, name in (("https://a.test/hook", "billing"), ("https://b.test/hook", "")):
            page.get_by_label("Group", exact=True).fill("receivers")
            page.get_by_label("Endpoint", exact=True).fill(url)
            page.get_by_label("Its name").fill(name)
            page.get_by_role("button", name="Add endpoint").click()
            expect(row(page, "receivers")).to_contain_text(url.removeprefix("https://"))
        assert service(emulator, "GET", "/v2/topics/receivers")["endpoints"] == [
            {"url": "https://a.test/hook", "name": "billing"},
            {"url": "https://b.test/hook"},
        ]
        page.get_by_role("button", name="Remove https://b.test/hook from receivers").click()
        expect(row(page, "receivers")).not_to_contain_text("b.test")
        row(page, "receivers").get_by_role("button", name="Delete").click()
        row(page, "receivers").get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No URL group yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/topics") == []


@in_browser
def test_a_groups_default_headers_are_shown(emulator: Server) -> None:
    service(emulator, "POST", "/v2/topics/receivers/endpoints", (), {"endpoints": [{"url": "https://a.test"}]})
    service(emulator, "PATCH", "/v2/topics/receivers", (), {"headers": {"Svc-Retries": "2"}})
    with opened(emulator, "#/groups") as page:
        expect(row(page, "receivers")).to_contain_text("Svc-Retries: 2")
        row(page, "receivers").get_by_role("link", name="publish to it").click()
        expect(page.get_by_label("Destination")).to_have_value("receivers")
