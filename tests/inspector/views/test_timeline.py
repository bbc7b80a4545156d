"""The timeline in a browser: past and future on one axis, live, filtered and grouped."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.harness.browsers import copied, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

URL, DOWN = "https://app.test/orders", "https://down.test/hook"


def rows(page: Page, kind: str = "past") -> Locator:
    return page.locator(f".row.{kind}")


def publish(emulator: Server, url: str = URL, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message_id: str = service(emulator, "POST", f"/v2/publish/{url}", named)["messageId"]
    return message_id


def break_down(emulator: Server) -> None:
    answer = {"status": 503, "headers": {"Retry-After": "22"}, "body": '{"detail": "db locked"}'}
    control(emulator, "POST", "/destinations", {"match": {"url": DOWN}, "respond": answer})


@in_browser
def test_without_a_message_it_teaches_how_to_publish_one(emulator: Server) -> None:
    with opened(emulator) as page:
        teaching = page.get_by_text("Nothing has happened yet.")
        expect(teaching).to_be_visible()
        page.get_by_role("button", name="Copy", exact=True).click()
        lines = copied(page)
        assert f"{emulator.url}/v2/publish/" in lines
        assert emulator.token in lines
        publish(emulator)
        expect(rows(page)).to_have_count(1)
        expect(teaching).to_be_hidden()


@in_browser
def test_past_and_future_stand_on_both_sides_of_now(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator, Svc_Label="nightly")
    publish(emulator, DOWN, Svc_Retries="3")
    service(
        emulator, "POST", "/v2/schedules/https://app.test/poll", {"Svc-Cron": "*/15 * * * *", "Svc-Schedule-Id": "poll"}
    )
    publish(emulator, Svc_Delay="2h")
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(2)
        expect(rows(page, "due")).to_have_count(3)
        texts = page.locator(".row").all_text_contents()
        assert [text.startswith("now Thu 1 Jan 2026 01:00:00") for text in texts].index(True) == 2
        expect(rows(page).first).to_contain_text("1/6● 200published nightly")
        expect(rows(page).last).to_contain_text('503: {"detail": "db locked"} · retried: Retry-After: 22 -> 22s')
        expect(rows(page, "due").nth(0)).to_contain_text("in 22 s")
        expect(rows(page, "due").nth(0)).to_contain_text("2/4◐ retryretry 1 of 3: Retry-After: 22 -> 22s")
        expect(rows(page, "due").nth(1)).to_contain_text("the schedule fires at")
        control(emulator, "POST", "/clock/advance", {"by": "22s"})
        expect(rows(page).last).to_contain_text("2/4")
        rows(page, "due").filter(has_text="the schedule fires at").click()
        expect(page).to_have_url(f"{emulator.url}/_emulator/inspector#/schedules?select=poll")


@in_browser
def test_a_delivery_appears_by_itself(emulator: Server) -> None:
    publish(emulator)
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(1)
        page.evaluate("window.same = true")
        publish(emulator, "https://live.test/")
        expect(rows(page).filter(has_text="live.test")).to_be_visible()
        assert page.evaluate("window.same")


@in_browser
def test_a_filter_is_in_the_address_and_narrows_both_sides(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator, Svc_Label="nightly")
    publish(emulator, DOWN)
    publish(emulator, Svc_Delay="1h", Svc_Label="nightly")
    with opened(emulator, "#/timeline?filter=label%3Anightly") as page:
        expect(rows(page)).to_have_count(1)
        expect(rows(page, "due")).to_have_count(1)
        filter_box = page.get_by_label("Filter")
        expect(filter_box).to_have_value("label:nightly")
        page.locator("main").press("/")
        expect(filter_box).to_be_focused()
        filter_box.fill("status:failed url:*/hook")
        expect(rows(page)).to_have_count(1)
        expect(rows(page, "due")).to_have_count(0)
        assert "filter=status%3Afailed+url%3A*%2Fhook" in page.url
        filter_box.fill("status:brocken")
        expect(page.get_by_role("alert")).to_contain_text("status:brocken is none of failed, ok")


@in_browser
def test_groups_are_by_message_schedule_or_destination(emulator: Server) -> None:
    break_down(emulator)
    publish(emulator)
    publish(emulator)
    publish(emulator, DOWN, Svc_Retries="1")
    control(emulator, "POST", "/clock/advance", {"by": "22s"})
    with opened(emulator) as page:
        page.get_by_label("Group").select_option("by destination")
        heads = rows(page, "group")
        expect(heads).to_have_count(2)
        expect(heads.first).to_contain_text("2 deliveriesdown.test/hook2/2▲ 5032 failed")
        heads.first.click()
        expect(rows(page)).to_have_count(2)
        page.locator("main").press("b")
        expect(page.get_by_label("Group")).to_have_value("")
        page.get_by_label("Group").select_option("by message")
        expect(heads).to_have_count(3)
        page.reload()
        expect(heads).to_have_count(3)


@in_browser
def test_keys_go_from_row_to_row_and_open_them(emulator: Server) -> None:
    first, second = publish(emulator), publish(emulator, "https://two.test/")
    with opened(emulator) as page:
        expect(rows(page)).to_have_count(2)
        page.locator("main").press("j")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary").get_by_role("heading").first).to_contain_text(first[-6:])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary").get_by_role("heading").first).to_contain_text(second[-6:])
        assert f"select={second}" in page.url
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_be_hidden()


@in_browser
def test_the_order_can_be_turned_and_now_is_found_again(emulator: Server) -> None:
    for number in range(60):
        publish(emulator, f"https://app.test/{number}")
    publish(emulator, Svc_Delay="1h")
    with opened(emulator) as page:
        line = rows(page, "now")
        expect(page.get_by_role("status").filter(has_text="60 deliveries")).to_be_visible()
        expect(line).to_be_in_viewport()
        page.locator("[data-scroller]").evaluate("box => { box.scrollTop = 0 }")
        page.get_by_role("button", name="↓ now").click()
        expect(line).to_be_in_viewport()
        page.evaluate("location.hash = '#/settings'")
        page.get_by_label("Order of the timeline").select_option("future above, past below")
        page.evaluate("location.hash = '#/timeline'")
        expect(page.locator(".row").first).to_contain_text("the first attempt, 1h")


@in_browser
def test_after_a_reset_nothing_of_before_is_shown(emulator: Server) -> None:
    publish(emulator)
    # A list that is just being read while the world is exchanged is refused, and read again.
    with opened(emulator, expected=["409 (Conflict)"]) as page:
        expect(rows(page)).to_have_count(1)
        control(emulator, "POST", "/reset")
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()


@in_browser
def test_the_timeline_and_the_message_mark_what_chaos_did(emulator: Server) -> None:
    """D-439."""
    for rule in ({"respond": {"status": 503}, "chance": 1, "times": 1}, {"duplicate": "1h"}):
        control(emulator, "POST", "/destinations", {"match": {"url": "https://app.test/*"}, **rule})
    service(emulator, "POST", "/v2/publish/https://app.test/a", {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    service(emulator, "POST", "/v2/publish/https://calm.test/b")
    with opened(emulator) as page:
        rows = page.get_by_role("option")
        expect(rows.filter(has_text="⚡ chaos: 503 instead of a delivery")).to_have_count(1)
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(rows.filter(has_text="⚡ chaos: duplicate of attempt 2")).to_have_count(1)
        page.get_by_label("Filter").fill("status:chaos")
        expect(page.get_by_text("1 delivery of 3")).to_be_visible()
        rows.filter(has_text="503 instead").click()
        detail = page.get_by_role("complementary")
        expect(detail.locator("summary").first).to_contain_text("⚡ chaos: 503 instead of a delivery")
        detail.locator("summary").first.click()
        expect(detail).to_contain_text('A rule spares this attempt with "except": ["1.1"].')
