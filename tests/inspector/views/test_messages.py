"""The list of messages in a browser: what it shows, filters, live arrival, cancelling."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

DOWN = {"match": {"url": "https://down.test/*"}, "respond": {"status": 503, "body": "db locked"}}


def publish(emulator: Server, url: str, **headers: str) -> str:
    made = service(
        emulator, "POST", f"/v2/publish/{url}", {name.replace("_", "-"): each for name, each in headers.items()}
    )
    message_id: str = made["messageId"]
    return message_id


@in_browser
def test_an_empty_list_teaches_how_to_publish(emulator: Server) -> None:
    with opened(emulator, "#/messages") as page:
        lines = page.locator(".empty pre")
        expect(lines).to_contain_text(f"{emulator.url}/v2/publish/")
        expect(lines).to_contain_text(emulator.token)
        page.get_by_role("button", name="Copy").click()
        assert copied(page) == lines.text_content()


@in_browser
def test_a_message_appears_and_moves_on_without_a_reload(emulator: Server) -> None:
    with opened(emulator, "#/messages") as page:
        expect(page.locator(".empty")).to_be_visible()
        publish(emulator, "https://app.test/orders", Svc_Delay="1m", Svc_Label="nightly")
        here = row(page, "app.test/orders")
        expect(here).to_contain_text("delayed next 01:01:00 · in 1 min")
        expect(here).to_contain_text("nightly")
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(here).to_contain_text("delivered")
        expect(here).to_contain_text("1/6")


@in_browser
def test_a_failure_says_why_in_words(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", DOWN)
    publish(emulator, "https://down.test/hook", Svc_Retries="0")
    with opened(emulator, "#/messages") as page:
        expect(row(page, "down.test/hook")).to_contain_text("was answered 503 by rule_1")


@in_browser
def test_filters_are_typed_and_stay_in_the_address(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", DOWN)
    publish(emulator, "https://app.test/orders")
    publish(emulator, "https://down.test/hook", Svc_Retries="0", Svc_Label="billing")
    with opened(emulator, "#/messages") as page:
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("State").select_option("failed")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Label").fill("billing")
        page.wait_for_url("**state=failed&label=billing**")
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_label("Label")).to_have_value("billing")
        page.get_by_label("Text").fill("nowhere")
        expect(page.get_by_text("Nothing matches the filter.")).to_be_visible()


@in_browser
def test_a_message_is_cancelled(emulator: Server) -> None:
    message_id = publish(emulator, "https://app.test/later", Svc_Delay="1h")
    with opened(emulator, "#/messages") as page:
        page.get_by_role("button", name=f"Cancel {message_id}").click()
        expect(row(page, "app.test/later")).to_contain_text("canceled")
    assert control(emulator, "GET", "/messages")["messages"][0]["state"] == "CANCELED"


@in_browser
def test_rows_are_opened_by_keys_alone(emulator: Server) -> None:
    first, second = publish(emulator, "https://app.test/1"), publish(emulator, "https://app.test/2")
    with opened(emulator, "#/timeline") as page:
        page.keyboard.press("g")
        page.keyboard.press("m")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary")).to_contain_text("app.test/1")
        assert f"select={first}" in page.url
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**select={second}**")
        page.keyboard.press("/")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_be_hidden()


@in_browser
def test_a_row_that_changes_keeps_the_focus(emulator: Server) -> None:
    message_id = publish(emulator, "https://app.test/later", Svc_Delay="1m")
    with opened(emulator, "#/messages") as page:
        row(page, "app.test/later").get_by_role("button").first.focus()
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(row(page, "app.test/later")).to_contain_text("delivered")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**select={message_id}**")
