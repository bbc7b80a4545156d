"""Worlds in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_a_world_is_made_shown_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h"})
    with opened(emulator, "#/worlds") as page:
        expect(row(page, "default")).to_contain_text("shown here")
        expect(row(page, "default").get_by_role("button", name="Delete")).to_have_count(0)
        page.get_by_label("Id").fill("ci-42")
        page.get_by_label("Its clock begins").fill("2030-05-01T00:00:00Z")
        page.get_by_role("button", name="Create").click()
        row(page, "ci-42").get_by_role("link", name="switch to it").click()
        page.get_by_role("link", name="Messages").click()
        expect(page.get_by_text("No message yet.")).to_be_visible()
        assert "world=ci-42" in page.url
        page.get_by_role("link", name="Worlds").click()
        expect(row(page, "ci-42")).to_contain_text("shown here")
        row(page, "ci-42").get_by_role("button", name="Delete").click()
        row(page, "ci-42").get_by_role("button", name="Really delete?").click()
        expect(row(page, "default")).to_contain_text("shown here")
        expect(row(page, "ci-42")).to_have_count(0)
    assert [each["id"] for each in control(emulator, "GET", "/worlds")["worlds"]] == ["default"]


@in_browser
def test_a_world_that_is_not_shown_is_reset(emulator: Server) -> None:
    token = control(emulator, "POST", "/worlds", {"id": "other"})["credentials"]["queue"]["token"]
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h"})
    service(emulator, "POST", "/v2/publish/https://app.test/", {"Svc-Delay": "1h", "Authorization": f"Bearer {token}"})
    with opened(emulator, "#/worlds") as page:
        row(page, "other").get_by_role("button", name="Reset").click()
        row(page, "other").get_by_role("button", name="Really start over?").click()
        expect(page.get_by_text("Reset other: done.")).to_be_visible()
    assert control(emulator, "GET", "/clock", world="other")["pending"] == 0
    assert control(emulator, "GET", "/clock")["pending"] == 1
