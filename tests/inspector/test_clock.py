"""The clock bar in a browser: moving, watching, stopping and undoing; its pace and its counts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import in_browser, needs_browser, opened
from tests.harness.emulators import EPOCH_MS, Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

URL = "https://app.test/orders"
MINUTE, DAY = 60_000, 86_400_000
# While the world is exchanged, a list that is just being read is refused, and read again.
EXCHANGED = ("409 (Conflict)",)


def now_ms(emulator: Server) -> int:
    found: int = control(emulator, "GET", "/clock")["now_ms"]
    return found


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


@in_browser
def test_the_clock_stands_in_utc_and_in_the_chosen_zone(emulator: Server) -> None:
    with opened(emulator) as page:
        bar = page.locator(".clock")
        expect(bar).to_contain_text("Thu 1 Jan 2026 00:00:00 UTC")
        expect(bar).to_contain_text("01:00:00 Berlin")
        expect(page.get_by_label("Pace of the clock")).to_have_value("0")


@in_browser
def test_buttons_and_keys_move_the_clock_and_undo_goes_back(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "30s"})
    with opened(emulator, expected=EXCHANGED) as page:
        undo = page.get_by_role("button", name="undo")
        page.get_by_role("button", name="+1m").click()
        expect(page.get_by_text("Moved 1 min, 1 delivery.")).to_be_visible()
        expect(page.locator(".clock")).to_contain_text("00:01:00 UTC")
        press(page, "c h")
        expect(page.locator(".clock")).to_contain_text("01:01:00 UTC")
        press(page, "u")
        expect(page.locator(".clock")).to_contain_text("00:01:00 UTC")
        assert now_ms(emulator) == EPOCH_MS + MINUTE
        undo.click()
        expect(page.locator(".clock")).to_contain_text("00:00:00 UTC")
        assert control(emulator, "GET", "/deliveries")["deliveries"] == []
        expect(page.get_by_role("listbox")).not_to_contain_text("● 200")
        undo.click()
        expect(page.locator(".notice.bad")).to_contain_text("Undo: there is no advance to take back")


@in_browser
def test_a_move_to_what_is_next_is_taken_back_after_the_page_was_opened_again(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "30s"})
    with opened(emulator, "#/snapshots", expected=EXCHANGED) as page:
        page.get_by_role("button", name="next").click()
        expect(page.locator(".clock")).to_contain_text("00:00:30 UTC")
        page.reload()
        expect(page.get_by_text("No snapshot yet.")).to_be_visible()
        page.get_by_role("button", name="undo").click()
        expect(page.locator(".clock")).to_contain_text("00:00:00 UTC")


@in_browser
def test_the_clock_goes_to_an_instant_to_what_is_next_and_to_the_end(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "3h"})
    with opened(emulator, expected=["400 (Bad Request)"]) as page:
        target = page.get_by_label("Move the clock to")
        press(page, "c t")
        expect(target).to_be_focused()
        target.fill("2026-01-01T01:30")
        target.press("Enter")
        expect(page.locator(".clock")).to_contain_text("01:30:00 UTC")
        target.fill("+15m")
        target.press("Enter")
        expect(page.locator(".clock")).to_contain_text("01:45:00 UTC")
        page.get_by_role("button", name="next").click()
        expect(page.locator(".clock")).to_contain_text("03:00:00 UTC")
        service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "2h"})
        page.get_by_role("button", name="drain").click()
        expect(page.locator(".clock")).to_contain_text("05:00:00 UTC")
        target.fill("soon")
        target.press("Enter")
        expect(page.locator(".notice.bad")).to_contain_text("to: expected")


@in_browser
def test_a_long_move_counts_its_deliveries_and_is_stopped_by_escape(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *"})
    with opened(emulator, expected=EXCHANGED) as page:
        target = page.get_by_label("Move the clock to")
        target.fill("+3650d")
        target.press("Enter")
        expect(page.locator(".progress")).to_contain_text(re.compile(r"\+3650d: .+ on, [1-9][0-9,]* deliver"))
        page.locator("body").press("Escape")
        page.keyboard.press("Escape")
        expect(page.locator(".notice").filter(has_text="Stopped at")).to_be_visible()
        expect(page.locator(".progress")).to_be_empty()
        stands = now_ms(emulator)
        assert EPOCH_MS < stands < EPOCH_MS + 3650 * DAY
        assert now_ms(emulator) == stands
        page.get_by_role("button", name="undo").click()
        expect(page.locator(".clock")).to_contain_text("Thu 1 Jan 2026 00:00:00 UTC")


@in_browser
def test_the_pace_is_changed_in_words(emulator: Server) -> None:
    with opened(emulator) as page:
        page.get_by_label("Pace of the clock").select_option("1 hour a second")
        expect(page.get_by_text("Pace: done.")).to_be_visible()
        assert control(emulator, "GET", "/clock")["rate"] == 3600
        expect(page.locator(".clock")).not_to_contain_text("00:00:00 UTC")
        page.get_by_label("Pace of the clock").select_option("frozen")
        expect(page.get_by_text("Pace: done.")).to_have_count(2)
        assert control(emulator, "GET", "/clock")["rate"] == 0


@in_browser
def test_counts_lead_to_what_they_count(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": "https://down.test/*"}, "respond": {"status": 500}})
    service(emulator, "POST", "/v2/publish/https://down.test/a", {"Svc-Retries": "0"})
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "2h"})
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "30h"})
    with opened(emulator) as page:
        counts = page.locator(".counts")
        expect(counts).to_contain_text("1 due in 24 h · 1 failed")
        counts.get_by_text("1 failed").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        counts.get_by_text("1 due").click()
        expect(page.get_by_label("Filter")).to_have_value("status:due")


@in_browser
def test_failed_messages_are_counted_once_and_further_ones_added(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", {"match": {"url": "https://down.test/*"}, "respond": {"status": 500}})

    def fail() -> None:
        service(emulator, "POST", "/v2/publish/https://down.test/a", {"Svc-Retries": "0"})

    fail()
    with opened(emulator, "#/when", expected=EXCHANGED) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        counts = page.locator(".counts")
        expect(counts).to_contain_text("1 failed")
        asked.clear()
        for number in (2, 3):
            fail()
            expect(counts).to_contain_text(f"{number} failed")
        assert any("/refused" in url for url in asked)
        assert not any("/messages" in url for url in asked)
        control(emulator, "POST", "/reset")
        expect(counts).to_contain_text("0 failed")


@in_browser
def test_a_running_clock_goes_on_by_itself(emulator: Server) -> None:
    control(emulator, "PUT", "/clock", {"rate": 60})
    with opened(emulator) as page:
        first = page.locator(".clock").text_content()
        assert first is not None
        expect(page.locator(".clock")).not_to_have_text(first)
    control(emulator, "PUT", "/clock", {"rate": 0})
