"""The clock bar in a browser: moving, watching, stopping and undoing; its pace and its counts."""

from __future__ import annotations

import re
from secrets import token_hex

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import in_browser, needs_browser, opened
from tests.harness.emulators import EPOCH_MS, Server, control, receiver, service

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
def test_buttons_and_keys_move_the_clock_and_undo_goes_back(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "30s"})
    with opened(emulator, expected=EXCHANGED) as page:
        undo = page.get_by_role("button", name="undo")
        expect(page.locator(".clock")).to_contain_text("Thu 1 Jan 2026 00:00:00 UTC")
        expect(page.locator(".clock")).to_contain_text("01:00:00 Berlin")
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
        # The controls of the clock wait for the first answer.
        expect(target).to_be_enabled()
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
        expect(page.get_by_label("Pace of the clock")).to_have_value("0")
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
def test_a_click_before_the_first_answer_is_not_lost_for_good(emulator: Server) -> None:
    """The controls of the clock are disabled until the page knows where it stands."""
    with opened(emulator, "#/settings") as page:
        page.route("**/_emulator/clock", lambda route: None)
        page.reload()
        expect(page.get_by_label("Theme")).to_be_visible()
        controls = [page.get_by_role("button", name=name) for name in ("undo", "next", "+1m", "+1h", "+1d", "drain")]
        controls += [page.get_by_label("Move the clock to"), page.get_by_label("Pace of the clock")]
        for control_ in controls:
            expect(control_).to_be_disabled()
        press(page, "c m")
        # Some engines fire a handler of a control that has just been disabled.
        controls[2].dispatch_event("click")
        page.unroute("**/_emulator/clock")
        for control_ in controls:
            expect(control_).to_be_enabled()
        controls[2].click()
        expect(page.get_by_text("Moved 1 min, 0 deliveries.")).to_be_visible()
    assert now_ms(emulator) == EPOCH_MS + MINUTE


@in_browser
def test_what_is_due_is_counted_beside_any_number_of_ended_messages(emulator: Server) -> None:
    for _ in range(11):
        batch = [{"destination": URL, "headers": {"Svc-Deduplication-Id": token_hex(8)}} for _ in range(100)]
        service(emulator, "POST", "/v2/batch", {}, batch)
    service(emulator, "POST", f"/v2/publish/{URL}", {"Svc-Delay": "2h"})
    with opened(emulator) as page:
        expect(page.locator(".counts")).to_contain_text("1 due in 24 h")
        expect(page.locator(".row.due")).to_have_count(1)
        expect(page.locator(".row.due")).to_contain_text("in 2 h")


@in_browser
def test_a_count_that_a_limit_cuts_has_a_plus(emulator: Server) -> None:
    service(emulator, "POST", f"/v2/schedules/{URL}", {"Svc-Cron": "* * * * *"})
    with opened(emulator) as page:
        expect(page.locator(".counts")).to_contain_text("1000+ due in 24 h")


@in_browser
def test_a_world_that_is_not_there_says_so_and_offers_the_others(emulator: Server) -> None:
    control(emulator, "POST", "/worlds", {"id": "other"})
    with opened(emulator, "#/messages?world=gone", expected=("404 (Not Found)",)) as page:
        bar = page.get_by_role("banner")
        expect(page.get_by_role("heading", name="There is no world gone")).to_be_visible()
        expect(bar).to_contain_text("there is no world gone")
        expect(bar).not_to_contain_text("connection lost")
        expect(page.get_by_role("button", name="+1m")).to_be_disabled()
        page.get_by_role("main").get_by_role("link", name="other").click()
        expect(page.get_by_text("No message yet.")).to_be_visible()
        expect(bar).not_to_contain_text("there is no world")
        assert page.url.endswith("#/messages?world=other")
        control(emulator, "DELETE", "/worlds/other")
        expect(page.get_by_role("heading", name="There is no world other")).to_be_visible()
        control(emulator, "POST", "/worlds", {"id": "other"})
        expect(page.get_by_text("No message yet.")).to_be_visible()


@in_browser
def test_the_bar_names_a_destination_that_is_held_until_it_is_free(emulator: Server) -> None:
    """D-787."""
    with receiver(lambda _: 200 if service(emulator, "POST", f"/v2/publish/{app.url}") else 500) as app:
        service(emulator, "POST", f"/v2/publish/{app.url}", {"Svc-Delay": "1h"})
        with opened(emulator) as page:
            bar = page.get_by_role("banner")
            expect(bar).not_to_contain_text("held")
            [held] = control(emulator, "POST", "/clock/advance", {"by": "1d"})["held"]
            expect(bar).to_contain_text(f"▲ held: {app.url} published to itself more than 1,000 times at this instant")
            service(emulator, "DELETE", f"/v2/messages/{held['message_id']}")
            expect(bar).not_to_contain_text("held")


@in_browser
def test_a_connection_is_lost_when_the_server_does_not_answer(emulator: Server) -> None:
    with opened(emulator, "#/settings", expected=("ERR_",)) as page:
        expect(page.get_by_role("button", name="+1m")).to_be_enabled()
        page.route("**/_emulator/**", lambda route: route.abort())
        # What is under way ends with the world that is left.
        page.evaluate("location.hash = '#/settings?world=default'")
        control(emulator, "POST", "/worlds", {"id": "other"})
        page.evaluate("location.hash = '#/settings?world=other'")
        expect(page.get_by_role("banner")).to_contain_text("▲ connection lost")
        page.unroute("**/_emulator/**")
        expect(page.get_by_role("banner")).not_to_contain_text("connection lost")
        expect(page.get_by_role("button", name="+1m")).to_be_enabled()
