"""Refused calls in a browser."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server

pytestmark = [pytest.mark.slow, needs_browser]


@in_browser
def test_a_refused_call_appears_with_its_reason_and_field(emulator: Server) -> None:
    with opened(emulator, "#/refused") as page:
        expect(page.get_by_text("No call was refused.")).to_be_visible()
        headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Delay": "5x"}
        assert (
            httpx.post(f"{emulator.url}/v2/publish/https://app.test/", headers=headers, trust_env=False).status_code
            == 400
        )
        here = row(page, "/v2/publish/https://app.test/")
        expect(here).to_contain_text("Svc-Delay")
        expect(here).to_contain_text("400")
        expect(here).to_contain_text("127.0.0.1")
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Really forget them?").click()
        expect(page.get_by_text("No call was refused.")).to_be_visible()
