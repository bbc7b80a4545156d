"""The list of schedules in a browser: firings, pause, resume, delete, and the calls of all that."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import Look, copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

NEW_YORK = {"Svc-Cron": "CRON_TZ=America/New_York 0 9 * * *", "Svc-Schedule-Id": "daily"}


@in_browser
def test_ten_firings_are_shown_in_the_schedules_zone_and_in_that_of_the_page(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules", Look(time_zone="Asia/Tokyo")) as page:
        page.get_by_role("button", name="daily", exact=True).click()
        firings = page.get_by_role("complementary").locator("ol").first.locator("li")
        expect(firings).to_have_count(10)
        expect(firings.first).to_have_text("2026-01-01 09:00 -05:00 · Thu 1 Jan 2026 23:00:00 · in 14 h")
        expect(firings.nth(9)).to_contain_text("2026-01-10 09:00 -05:00")


@in_browser
def test_a_schedule_is_paused_resumed_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules") as page:
        here = row(page, "daily")
        page.get_by_role("button", name="Pause daily").click()
        expect(here).to_contain_text("paused")
        assert service(emulator, "GET", "/v2/schedules/daily")["isPaused"] is True
        page.get_by_role("button", name="Resume daily").click()
        expect(here).to_contain_text("active")
        here.get_by_role("button", name="Delete").click()
        assert service(emulator, "GET", "/v2/schedules") != []
        here.get_by_role("button", name="Really delete?").click()
        expect(page.get_by_text("No schedule yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/schedules") == []


@in_browser
def test_an_action_can_be_copied_as_the_call_that_it_made(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/report", NEW_YORK)
    with opened(emulator, "#/schedules") as page:
        page.get_by_role("button", name="Pause daily").click()
        done = page.locator(".notice").filter(has_text="Pause daily")
        done.get_by_role("button", name="copy as curl").click()
        expect(page.get_by_text("Copied: curl command")).to_be_visible()
        assert copied(page).startswith("curl")
        assert f"'{emulator.url}/v2/schedules/daily/pause'" in copied(page)
        done.get_by_role("button", name="Python").click()
        expect(page.get_by_text("Copied: Python")).to_be_visible()
        service(emulator, "POST", "/v2/schedules/daily/resume")
        exec(copied(page))
        assert service(emulator, "GET", "/v2/schedules/daily")["isPaused"] is True


@in_browser
def test_what_came_of_the_last_firing_is_shown(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": "https://app.test/*"}, "respond": {"latency": "1h"}})
    service(
        emulator, "POST", "/v2/schedules/https://app.test/report", {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": "often"}
    )
    with opened(emulator, "#/schedules?select=often") as page:
        expect(row(page, "often")).to_contain_text("active")
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(row(page, "often")).to_contain_text("1 in progress")
        expect(page.get_by_role("complementary")).to_contain_text("Messages of the last firing")
