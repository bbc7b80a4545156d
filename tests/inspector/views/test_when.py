"""What expressions come to, in a browser: firings with changes of the clock, attempts, and what is wrong with them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import Look, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"
GAP = "02:30 does not exist on 2026-03-29: it fires at the first minute after the gap"


@in_browser
def test_firings_with_their_changes_of_the_clock_are_shown(emulator: Server) -> None:
    """D-437."""
    with opened(emulator, "#/timeline", Look(time_zone="Asia/Tokyo")) as page:
        page.keyboard.press("g")
        page.keyboard.press("c")
        page.get_by_label("From").fill("2026-03-28")
        page.get_by_label("Cron expression").fill(BERLIN)
        page.get_by_label("How many").fill("3")
        firings = page.locator("ol li")
        expect(firings).to_have_count(3)
        expect(firings.nth(0)).to_contain_text("2026-03-28 02:30 +01:00 · Sat 28 Mar 2026 10:30:00")
        expect(firings.nth(1)).to_contain_text("2026-03-29 03:00 +02:00")
        expect(firings.nth(1)).to_contain_text(GAP)
        expect(page.get_by_text("After Sat 28 Mar 2026 00:00:00 UTC, in Europe/Berlin:")).to_be_visible()
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(firings).to_have_count(3)
        expect(page.get_by_label("Cron expression")).to_have_value(BERLIN)


@in_browser
def test_firings_begin_at_the_present_of_the_world(emulator: Server) -> None:
    with opened(emulator, f"#/when?expression={BERLIN}".replace(" ", "%20")) as page:
        first = page.locator("ol li").first
        expect(first).to_contain_text("2026-01-01 02:30 +01:00")
        control(emulator, "POST", "/clock/advance", {"by": "31d"})
        expect(first).to_contain_text("2026-02-01 02:30 +01:00")


@in_browser
def test_the_ladder_of_attempts_is_shown(emulator: Server) -> None:
    with opened(emulator, "#/when") as page:
        rows = page.locator("dl.facts dd")
        expect(rows).to_have_count(4)
        expect(rows.nth(1)).to_contain_text("default backoff")
        page.get_by_label("Retry delay").fill("pow(2, retried) * 1000")
        page.get_by_label("Retries").fill("5")
        expect(rows).to_have_count(6)
        expect(rows.nth(5)).to_contain_text("+31 s")


@in_browser
def test_what_is_wrong_stands_beside_its_field(emulator: Server) -> None:
    with opened(emulator, "#/when", expected=["status of 400"]) as page:
        expression = page.get_by_label("Cron expression")
        expression.fill("61 * * * *")
        wrong = page.get_by_role("alert")
        expect(wrong.filter(has_text="expected 0-59 in the minute field")).to_have_count(1)
        expect(expression).to_have_attribute("aria-invalid", "true")
        expect(page.locator("label", has=expression)).to_contain_text("expected 0-59")
        page.get_by_label("Retry delay").fill("pow(2")
        expect(page.locator("label").filter(has_text="Retry delay").get_by_role("alert")).not_to_be_empty()
        expect(page.locator("dl.facts dd")).to_have_count(0)
        expression.fill("1 * * * *")
        expect(page.locator("ol li")).to_have_count(10)
        expect(expression).to_have_attribute("aria-invalid", "false")


@in_browser
def test_a_schedule_and_the_publish_form_lead_to_it(emulator: Server) -> None:
    service(emulator, "POST", "/v2/schedules/https://app.test/a", {"Svc-Cron": BERLIN, "Svc-Schedule-Id": "nightly"})
    with opened(emulator, "#/schedules?select=nightly") as page:
        page.get_by_role("link", name="more").click()
        expect(page.get_by_label("Cron expression")).to_have_value(BERLIN)
        expect(page.locator("ol li")).to_have_count(10)
        page.goto(f"{emulator.url}/_emulator/inspector#/publish")
        page.locator("[name=Retry-Delay]").fill("1000")
        page.locator("[name=Retries]").fill("1")
        with page.expect_popup() as opening:
            page.get_by_role("link", name="When would that be?").click()
        expect(opening.value.locator("dl.facts dd")).to_have_count(2)
